"""Starts the kernel in this process."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from .former_names import install_finder
from .link.channel import Channel
from .link.descriptors import hide_descriptor
from .link.exit_codes import EXIT_NOT_LOADED
from .link.frames import TOKEN_BYTES
from .link.interrupts import Interrupts
from .link.process_facts import ready_frame
from .stdlib import bind_library, own_module

if TYPE_CHECKING:
    from .link.control_thread import ControlThread
    from .link.holder_client import HolderClient
    from .witness.shared import WitnessLink
    from .worker import Worker

_PR_SET_PDEATHSIG = 1
"""An option of Linux's `prctl`."""


def main(host_fd: int, holder_settings: str = "", watches_files: bool = False) -> None:
    """Run a kernel in this process.

    Args:
        host_fd: The descriptor of a socket that leads to the host, which sends a token first.
        holder_settings: The fields of `HolderSettings` or `StationSettings` as JSON; empty for a kernel
            that ends with its host.
        watches_files: Whether this process becomes the witness of the kernel's files, and its child
            the kernel.
    """
    witness = None
    if watches_files and sys.platform == "linux":
        witness = own_module("witness.split").split(dies_with_parent=not holder_settings)
    _restore_default_signals()
    token = os.read(host_fd, TOKEN_BYTES)
    hidden_fd = hide_descriptor(host_fd)
    settings = {}
    client = None
    if holder_settings:
        settings = json.loads(holder_settings)
        client = own_module("link.holder_client").connect(settings)
    if witness is not None:
        _die_with_parent()
        if os.getppid() != witness.other_pid:
            os._exit(1)
    elif client is None or "control" in settings:
        _die_with_parent()
    interrupts = Interrupts()
    backlog = None if client is None else client.backlog
    channel = Channel(hidden_fd, interrupts, token=token, backlog=backlog)
    # From now on a host may interrupt, but nothing handles that before the kernel is loaded.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    _announce(channel, client, witness)
    # The host does not wait for the rest, which is loaded before the first cell could prevent that.
    try:
        worker, control_thread = _load_worker(channel, interrupts, client, witness)
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(EXIT_NOT_LOADED)
    # Hides these objects from the collector, and keeps their pages shared when the user forks.
    gc.freeze()
    gc.enable()
    threading.Thread(target=control_thread.run, daemon=True).start()
    worker.run()


def _load_worker(
    channel: Channel,
    interrupts: Interrupts,
    client: HolderClient | None,
    witness: WitnessLink | None,
) -> tuple[Worker, ControlThread]:
    """Load what runs cells, and bind the library for it."""
    worker: Worker = own_module("worker").Worker(channel, interrupts, client, witness)
    control_thread: ControlThread = own_module("link.control_thread").ControlThread(worker)
    bind_library()
    install_finder()
    sys.argv = [""]
    worker.load_protection()
    return worker, control_thread


def _announce(channel: Channel, client: HolderClient | None, witness: WitnessLink | None) -> None:
    """Tell the host, holder and witness that the kernel has started."""
    frame = ready_frame()
    if client is not None:
        client.backlog.state.set_hello(frame)
    channel.send(frame)
    if witness is not None:
        os.write(witness.control, b".")


def _restore_default_signals() -> None:
    """Let this process wait for its children: a program that ignores SIGCHLD hands that on."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _die_with_parent() -> None:
    """Let Linux kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
