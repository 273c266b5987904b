"""Interrupts of running code: decides what becomes of a SIGINT.

A signal comes from a terminal, or from the host, which first says which cell it means (`requested`). By the time
it arrives, that cell may not have begun, may wait for the host, or may have ended.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Callable


class Interrupts:
    """Turns SIGINT into `KeyboardInterrupt` when that is safe. Used on the main thread, where Python calls
    signal handlers, except for `requested`."""

    def __init__(self) -> None:
        """Begin without a cell. The owner replaces the functions that say what goes on."""
        self.handled_at = 0.0
        """When (`time.monotonic`) a signal was handled last."""
        self.requested: int | None = None
        """The cell for which the next signal comes; None if that is not a request of the host's."""
        self._depth = 0
        """How many cells run whose code may be interrupted, each nested in the one before."""
        self._newest_cell = 0
        """The newest cell that has begun."""
        self._stopped_cells: set[int] = set()
        """Cells that end when they begin, because they were interrupted before."""
        self._is_shielded = False
        """Whether interrupts are delayed."""
        self._has_delayed = False
        """Whether a signal came while they were; reset when the next shield begins."""

        self.is_open: Callable[[int], bool] = lambda cell: True
        """Returns whether a cell has been sent and has not ended."""
        self.waits_for_host: Callable[[int], bool] = lambda cell_count: True
        """Returns whether the innermost of so many cells waits for the host, so that another can begin
        in it."""
        self.cancel_await: Callable[[], bool] = lambda: False
        """Cancels what the cell awaits; returns whether it awaits something."""
        self.idle_task_in_the_way: Callable[[], bool] = lambda: False
        """Returns whether a task of an earlier cell runs although a job waits."""

    @property
    def running(self) -> bool:
        """Whether code runs that may be interrupted."""
        return self._depth > 0

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """Handle SIGINT. The parameters are those of a signal handler.

        Raises:
            KeyboardInterrupt: It ends the code that runs.
        """
        cell = self.requested
        self.requested = None
        if cell is not None and not self.is_open(cell):
            return  # it has ended meanwhile
        if not self.running:
            self._handle_between_cells(cell)
            return

        self.handled_at = time.monotonic()
        if cell is not None and self._is_nested_cell_to_come(cell):
            self._stopped_cells.add(cell)
        elif self._is_shielded:
            self._has_delayed = True
        elif not self.cancel_await():
            raise KeyboardInterrupt

    def _handle_between_cells(self, cell: int | None) -> None:
        """Handle a signal while no cell runs.

        Args:
            cell: The cell for which it comes, which has not begun; None if the host did not send it.
        """
        if cell is not None:
            self._stopped_cells.add(cell)
        if self.idle_task_in_the_way():
            raise KeyboardInterrupt

    def _is_nested_cell_to_come(self, cell: int) -> bool:
        """Return whether a cell will begin in the one that runs, which waits for the host."""
        return cell > self._newest_cell and self.waits_for_host(self._depth)

    def forget(self, cell: int) -> None:
        """Forget a cell that has ended; another one may get its number."""
        self._stopped_cells.discard(cell)

    def install(self) -> None:
        """Handle SIGINT from now on, also if code has set another handler."""
        if signal.getsignal(signal.SIGINT) != self.handle:
            signal.signal(signal.SIGINT, self.handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    @contextmanager
    def allowed(self, cell: int | None = None) -> Iterator[None]:
        """Let interrupts end this block.

        Args:
            cell: The cell that begins with it; None if the block is not a cell.

        Raises:
            KeyboardInterrupt: The cell was interrupted before it began.
        """
        outer_depth = self._depth
        try:
            self._depth = outer_depth + 1
            if cell is not None:
                self._newest_cell = max(self._newest_cell, cell)
                if cell in self._stopped_cells:
                    self._stopped_cells.discard(cell)
                    self.handled_at = time.monotonic()
                    raise KeyboardInterrupt
            yield
        finally:
            self._depth = outer_depth

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Delay interrupts to the end of this block, so that a frame is sent completely or not at all.

        Raises:
            KeyboardInterrupt: After the block, if an interrupt came meanwhile.
        """
        if self._is_shielded:
            yield
            return
        # It may still be set from the last time: a signal that comes just after `_is_shielded` is reset
        # below ends the code at once.
        self._has_delayed = False
        self._is_shielded = True
        try:
            yield
        finally:
            self._is_shielded = False
            if self._has_delayed:
                raise KeyboardInterrupt
