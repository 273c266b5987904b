"""What a host has of a kernel's holder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from mahtab_tui.kernel.held.waiting import WaitingKernel, remove
from mahtab_tui.kernel.worker.holding.spool import Spool


class Held:
    """The `launch.Held` of a kernel of this machine."""

    def __init__(self, spool: Spool, lifeline: socket.socket, path: Path, kernel: WaitingKernel | None = None) -> None:
        """lifeline: closed when this host leaves the kernel. kernel: as it was when this host attached to it; None if this host has started it."""
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
