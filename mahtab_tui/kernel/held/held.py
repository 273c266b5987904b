"""What a host has of a kernel's holder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from mahtab_tui.kernel.held.waiting import WaitingKernel, remove
from mahtab_tui.kernel.worker.holding.spool import Spool


class Held:
    """A host's share in a kernel that has a holder."""

    def __init__(self, spool: Spool, lifeline: socket.socket, path: Path, waited: WaitingKernel | None = None) -> None:
        self.spool = spool
        self.lifeline = lifeline
        """Closed when this host leaves the kernel; the holder says over it that another host takes it."""
        self.waited = waited
        """The kernel as it was when this host attached to it; None if this host has started it."""
        self._path = path

    def leave(self) -> None:
        """Let the holder go on."""
        self.lifeline.close()
        os.close(self.spool.file)

    def ended(self) -> None:
        """The kernel has ended."""
        self.leave()
        remove(self._path)
