"""Brings records from the bus to the panes: a timer on the main thread takes what any thread has
logged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, thread_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

    from mahtab_tui.bus.display import DisplayHandler
    from mahtab_tui.bus.records import Record

RATE = 1 / 30
"""Seconds between two ticks; all records that came in between are drawn together."""
SHARE = 1 / 4
"""The share of the main thread's time above which a tick is skipped, so that keys are handled."""
LATEST = 0.2
"""Seconds after which records are passed on, however long drawing takes."""

Fold = Callable[[Sequence["Record"]], None]


class RecordPump:
    """Passes records on to everything that folds them. Main thread only, except for the handler."""

    def __init__(self) -> None:
        self.folds: list[Fold] = []
        """Set before the first tick; what comes before that waits."""
        self._handler: DisplayHandler | None = None
        self._last = 0.0
        self._worked = 0.0

    def begin(self, log: logging.Logger) -> None:
        """Take what passes the bus from now on."""
        from mahtab_tui.bus.display import DisplayHandler

        self._handler = DisplayHandler()
        log.addHandler(self._handler)

    def tick(self) -> None:
        """Pass on new records, or leave them to a later tick while the thread has much to draw."""
        passed, worked = monotonic() - self._last, thread_time() - self._worked
        if passed >= LATEST or worked <= passed * SHARE:
            self.hand_on()

    def hand_on(self) -> None:
        if self._handler is not None and (records := self._handler.take()):
            self._last, self._worked = monotonic(), thread_time()
            for fold in self.folds:
                fold(records)
