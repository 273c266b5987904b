"""Starts the kernel in this process."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import threading

from .former_names import install_finder
from .link.control_thread import ControlThread
from .link.descriptors import hide_descriptor
from .link.frames import TOKEN_BYTES
from .stdlib import bind_library, own_module
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
    worker = Worker(hidden_fd, token, client, witness)
    bind_library()
    install_finder()
    sys.argv = [""]
    worker.announce()
    worker.load_protection()
    # Hides these objects from the collector, and keeps their pages shared when the user forks.
    gc.freeze()
    gc.enable()
    threading.Thread(target=ControlThread(worker).run, daemon=True).start()
    worker.run()


def _restore_default_signals() -> None:
    """Let this process wait for its children: a program that ignores SIGCHLD hands that on."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _die_with_parent() -> None:
    """Let Linux kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
