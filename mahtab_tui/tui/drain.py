"""From the bus to the panes: one timer on the main thread takes what any thread has logged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, thread_time

from mahtab_tui.bus.handlers import DisplayHandler
from mahtab_tui.bus.records import Record

RATE = 1 / 30
"""Seconds between two looks; what came in between is drawn at once."""
SHARE = 1 / 4
"""Of the main thread's time, what drawing may take before a look is left out: keys come between."""
LATEST = 0.2
"""Seconds after which records are handed on, however long drawing takes."""

Fold = Callable[[Sequence[Record]], None]


class Drain:
    """Hands records on to everything that folds them. Main thread only, but for the handler."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self.handler = DisplayHandler()
        self._folds = folds
        self._last = 0.0
        self._worked = 0.0

    def tick(self) -> None:
        """Hand on what has come since the last time, or leave it to a later tick while the thread has much to draw."""
        passed, worked = monotonic() - self._last, thread_time() - self._worked
        if passed >= LATEST or worked <= passed * SHARE:
            self.hand_on()

    def hand_on(self) -> None:
        """At once."""
        if records := self.handler.take():
            self._last, self._worked = monotonic(), thread_time()
            for fold in self._folds:
                fold(records)
