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
        self.running = False
        """Whether code runs that may be interrupted."""
        self._shielded = False
        self._pending = False
        """Whether a signal came while `_shielded`."""
        self.handled_at = 0.0
        """When (`time.monotonic`) a signal was handled last."""
        self.requested: int | None = None
        """The cell to interrupt, if it has not yet begun."""
        self._newest_cell = 0
        """The newest cell that has begun."""
        self.cancel_await: Callable[[], bool] = lambda: False
        """Cancels what the cell awaits; returns whether it awaits something."""
        self.idle_task_in_the_way: Callable[[], bool] = lambda: False
        """Returns whether a task of an earlier cell runs although a job waits."""

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """Handle SIGINT. The parameters are those of a signal handler."""
        if not self.running:
            if self.idle_task_in_the_way():
                raise KeyboardInterrupt
            return
        if self.requested is not None and self.requested > self._newest_cell:
            return  # it ends when it begins, and not the cell that waits for it
        self.handled_at = time.monotonic()
        if self._shielded:
            self._pending = True
            return
        self.requested = None
        if not self.cancel_await():
            raise KeyboardInterrupt

    def install(self) -> None:
        """Handle SIGINT from now on, also if code has set another handler."""
        if signal.getsignal(signal.SIGINT) != self.handle:
            signal.signal(signal.SIGINT, self.handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    @contextmanager
    def allowed(self, cell: int | None = None) -> Iterator[None]:
        """Let interrupts end this block. cell: raise at once if one was requested for this cell."""
        was_running = self.running
        try:
            self.running = True
            if cell is not None:
                self._newest_cell = max(self._newest_cell, cell)
                if self.requested == cell:
                    self.handled_at = time.monotonic()
                    raise KeyboardInterrupt
            yield
        finally:
            self.running = was_running

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Delay interrupts, so that a frame is sent completely or not at all."""
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
