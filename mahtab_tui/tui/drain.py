"""From the bus to the panes: one timer on the main thread takes what any thread has logged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mahtab_tui.bus.handlers import DisplayHandler
from mahtab_tui.bus.records import Record

RATE = 1 / 30
"""Seconds between two looks; what came in between is drawn at once."""

Fold = Callable[[Sequence[Record]], None]


class Drain:
    """Hands records on to everything that folds them."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self.handler = DisplayHandler()
        self._folds = folds

    def tick(self) -> None:
        """Hand on what has come since the last tick."""
        if records := self.handler.take():
            for fold in self._folds:
                fold(records)
