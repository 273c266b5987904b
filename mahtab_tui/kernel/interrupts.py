"""Stops a running cell."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.cells import RunningCell
from mahtab_tui.kernel.requests import ControlRequests

UNHEARD = 1.0
"""Seconds after which an interrupt that the kernel does not answer is sent as a signal."""


class Interrupts:
    """Asks a kernel process to interrupt cells."""

    def __init__(self, requests: ControlRequests, has_our_clock: Callable[[], bool], signal: Callable[[RunningCell], None]) -> None:
        """has_our_clock: whether `time.monotonic` means the same there. signal: sends SIGINT if the cell still runs."""
        self._requests = requests
        self._has_our_clock = has_our_clock
        self._signal = signal

    def send(self, cell: RunningCell) -> None:
        """Interrupt a cell, without waiting for it."""
        threading.Thread(target=self._send, args=(cell, time.monotonic()), name="mahtab-interrupt", daemon=True).start()

    def _send(self, cell: RunningCell, asked: float) -> None:
        try:
            self._requests.ask("interrupt", UNHEARD, cell=cell.cell, asked=asked if self._has_our_clock() else None)
        except KernelError:  # its code keeps the interpreter to itself: the control thread reads nothing, but C code may look for signals
            self._signal(cell)
        cell.interrupting = False
