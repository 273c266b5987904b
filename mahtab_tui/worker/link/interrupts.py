"""Interrupts of running code."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Callable


class Interrupts:
    """Turns SIGINT into `KeyboardInterrupt` when that is safe."""

    def __init__(self) -> None:
        self._depth = 0
        """How many cells run whose code may be interrupted, each nested in the one before."""
        self._shielded = False
        self._pending = False
        """Whether a signal came while `_shielded`; reset when the next shield begins."""
        self.handled_at = 0.0
        """When (`time.monotonic`) a signal was handled last."""
        self.requested: int | None = None
        """The cell for which the next signal comes; None if that is not a request of the host's."""
        self._newest_cell = 0
        """The newest cell that has begun."""
        self._stopped_cells: set[int] = set()
        """Cells that end when they begin, because they were interrupted before."""
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
        """Handle SIGINT. The parameters are those of a signal handler."""
        cell = self.requested
        self.requested = None
        if cell is not None and not self.is_open(cell):
            return  # it has ended meanwhile
        if not self.running:
            if cell is not None:
                self._stopped_cells.add(cell)
            if self.idle_task_in_the_way():
                raise KeyboardInterrupt
            return
        self.handled_at = time.monotonic()
        if cell is not None and cell > self._newest_cell and self.waits_for_host(self._depth):
            # The signal is not for the cell that waits.
            self._stopped_cells.add(cell)
            return
        if self._shielded:
            self._pending = True
            return
        if not self.cancel_await():
            raise KeyboardInterrupt

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

        Raises `KeyboardInterrupt` if it was interrupted before.

        Args:
            cell: The cell that begins with it.
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
        """Delay interrupts, so that a frame is sent completely or not at all."""
        if self._shielded:
            yield
            return
        # Left by a signal just after `_shielded` was reset below, which ended the code at once.
        self._pending = False
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
            if self._pending:
                raise KeyboardInterrupt
