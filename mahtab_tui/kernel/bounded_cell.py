"""Limits the time of a cell: a thread interrupts it, and kills the kernel if that does not help."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mahtab_tui.kernel.base import Kernel
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.system import start_thread

INTERRUPT_GRACE_S = 2.0
"""Seconds that a cell may take to end after its interrupt."""
INTERRUPT_RETRY_S = 0.01
"""Seconds between attempts to interrupt a cell that has not started."""


class BoundedCell:
    """Runs a cell that ends when its time is over, or when it is stopped."""

    def __init__(
        self,
        kernel: Kernel,
        timeout: float | None,
        *,
        may_kill: bool,
        grace: float = INTERRUPT_GRACE_S,
        on_unresponsive: Callable[[], None] = lambda: None,
    ) -> None:
        """Bound a cell.

        Args:
            kernel: The kernel that runs it.
            timeout: Seconds until it is interrupted; None for no limit.
            may_kill: Whether the kernel is killed if the cell does not end after its interrupt.
            grace: Seconds that it may take for that.
            on_unresponsive: Called then instead, if `may_kill` is False.
        """
        self._kernel = kernel
        self._timeout = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        self._may_kill = may_kill
        self._grace = grace
        self._lock = threading.Lock()
        """Guards the fields below, so that no cell is interrupted after its end."""
        self._has_begun = False
        self._cell: int | None = None
        """The number of the cell; None if the kernel runs no other."""
        self._ended = threading.Event()
        self._stop = threading.Event()
        """Set when the cell is to be stopped, and when it has ended."""
        self._limiter: threading.Thread | None = None
        """Ends the cell when its time is over; None before it is needed."""
        self.timed_out = False
        """Whether it was interrupted because its time was over."""
        self._on_unresponsive = on_unresponsive

    def run(self, execute: Callable[[], CellResult], cell: int | None = None) -> CellResult:
        """Run the cell.

        Args:
            execute: Runs it, and returns its result.
            cell: Its number, without which the kernel may run no other cell.
        """
        with self._lock:
            self._has_begun = True
            self._cell = cell
            # Without a limit, a thread is needed only once the cell is stopped.
            if self._timeout is not None or self._stop.is_set():
                self._start_limiter()
        try:
            return execute()
        finally:
            with self._lock:
                self._ended.set()
            self._stop.set()

    def stop(self) -> None:
        """Interrupt the cell and return immediately.

        A cell that has not started is interrupted when it does.
        """
        with self._lock:
            self._stop.set()
            if self._has_begun:
                self._start_limiter()

    def _start_limiter(self) -> None:
        """Start the thread that ends the cell, unless it runs already or the cell has ended."""
        if self._limiter is None and not self._ended.is_set():
            self._limiter = start_thread("cell-limit", self._bound)

    def _bound(self) -> None:
        """End the cell once its time is over. Runs on a thread."""
        timed_out = not self._stop.wait(self._timeout)
        if not self._interrupt(timed_out) or self._ended.wait(self._grace):
            return
        if self._may_kill:
            self._kernel.kill()
        else:
            self._on_unresponsive()

    def _interrupt(self, timed_out: bool) -> bool:
        """Interrupt the cell, also one that has not started; returns False if it has ended."""
        while True:
            with self._lock:
                if self._ended.is_set():
                    return False
                if self._kernel.interrupt(self._cell):
                    self.timed_out = timed_out
                    return True
            self._ended.wait(INTERRUPT_RETRY_S)
