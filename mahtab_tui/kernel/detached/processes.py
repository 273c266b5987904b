"""Kernel processes beside which there is a holder: started here, or attached to."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mahtab_tui.kernel.detached.waiting import Connections, WaitingKernel, listen, remove
from mahtab_tui.kernel.launch import LocalProcess, spawn
from mahtab_tui.kernel.seekable_output import SpooledOutput
from mahtab_tui.kernel.worker.holding.holder_client import HolderSettings
from mahtab_tui.kernel.worker.holding.spool import Spool

UNKNOWN_END = 0
"""The exit code of a kernel that another program has started: only that one is told."""


class Held:
    """The `launch.Held` of a kernel of this machine."""

    def __init__(
        self, spool: Spool, lifeline: socket.socket, path: Path, kernel: WaitingKernel | None = None
    ) -> None:
        """lifeline: closed when this host leaves the kernel. kernel: as it was when this host
        attached to it; None if this host has started it."""
        self.lifeline = lifeline
        self.waited = kernel is not None
        self.ready = None if kernel is None else kernel.ready
        self._spool = spool
        self._path = path

    def leave(self) -> None:
        """Let the holder go on."""
        self.lifeline.close()
        os.close(self._spool.file)

    def ended(self) -> None:
        """The kernel has ended."""
        self.leave()
        remove(self._path)


class AttachedProcess:
    """A `launch.Process` that another host has started."""

    has_our_clock = True

    def __init__(self, connections: Connections) -> None:
        self.channel, self.output, self.token = (
            connections.channel,
            connections.output,
            connections.token,
        )
        kernel = connections.kernel
        spool = Spool(connections.output, connections.spool)
        self.reader = SpooledOutput(spool)
        self.held = Held(spool, connections.lifeline, kernel.path, kernel)
        self._pid = kernel.pid
        self._watched = os.pidfd_open(kernel.pid)

    def signal(self, number: int) -> None:
        """Not sent once it has ended, as its number may be another's."""
        with suppress(ProcessLookupError):
            if number != signal.SIGKILL and select.select([self._watched], [], [], 0)[0]:
                return
            os.killpg(self._pid, number)

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._watched], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("kernel", timeout or 0.0)
        return UNKNOWN_END


def start_held(
    executable: str, cwd: str, env: Mapping[str, str], session: str, hours: float
) -> tuple[LocalProcess, str]:
    """Start a session's kernel; returns it, and a sentence if it has no holder. hours: how long it
    waits for a host when idle. Raises `OSError`."""
    try:
        listener, path = listen(session)
    except OSError as error:
        why = f"{error.filename or 'the folder run'} cannot be used ({error.strerror})"
        return spawn(executable, cwd, env), f"This kernel ends with its screen: {why}."
    spool = os.memfd_create("mahtab-output")
    lifeline, theirs = socket.socketpair()
    read_end, write_end = os.pipe()
    settings = HolderSettings(listener.fileno(), read_end, spool, theirs.fileno(), str(path), hours)
    try:
        process = spawn(executable, cwd, env, pipe=(read_end, write_end), holder=settings)
    except BaseException:
        lifeline.close()
        os.close(spool)
        remove(path)
        raise
    finally:
        listener.close()
        theirs.close()
    kept = Spool(read_end, spool)
    return replace(process, reader=SpooledOutput(kept), held=Held(kept, lifeline, path)), ""
