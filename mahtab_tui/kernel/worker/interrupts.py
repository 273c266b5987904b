"""Decides when an interrupt (SIGINT) may stop code: only while a cell's own code runs, and never
within a frame."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """Turns SIGINT into `KeyboardInterrupt` when that is safe. Only the main thread uses it."""

    def __init__(self) -> None:
        self.running = False
        """Whether a cell's code (or a `__repr__` of the user's) runs."""
        self._shielded = False
        self._pending = False
        self.handled_at = 0.0
        """When an interrupt last reached the user's code, by `now`."""
        self.requested: int | None = None
        """The cell to stop, kept because the signal may come before the cell starts."""
        self.cancel_await: Callable[[], bool] = lambda: False
        """Stops a top-level `await` that only waits; returns False if there is none."""
        self.idle_task_in_the_way: Callable[[], bool] = lambda: False
        """Tells whether a background task keeps the next cell from running."""

    now = staticmethod(time.monotonic)
    """Seconds by a clock that the host can read too."""

    def handle(self, signum: int, frame: FrameType | None) -> None:
        if not self.running:
            if self.idle_task_in_the_way():
                raise KeyboardInterrupt
            return
        self.handled_at = self.now()
        if self._shielded:
            self._pending = True
            return
        self.requested = None
        if not self.cancel_await():
            raise KeyboardInterrupt

    def install(self) -> None:
        """Install our handler, again if needed, and unblock SIGINT."""
        if signal.getsignal(signal.SIGINT) != self.handle:
            signal.signal(signal.SIGINT, self.handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    @contextmanager
    def allowed(self, cell: int | None = None) -> Iterator[None]:
        """Allow interrupts to raise inside. Can be nested, because a cell may run while another
        waits for the host."""
        before = self.running
        try:
            self.running = True
            if cell is not None and self.requested == cell:
                self.handled_at = self.now()
                raise KeyboardInterrupt
            yield
        finally:
            self.running = before

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Delay interrupts to the end, so that a frame is sent completely or not at all."""
        if self._shielded:
            yield
            return
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt
