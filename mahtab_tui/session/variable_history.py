"""Finds the cells that made a variable, so that one that was not kept can be made again."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from mahtab_tui.bus.records import Namespace, Record, ReplIn, Undo, record_of


class Rebuilding(logging.Handler):
    """Folds the records of cells and of what they changed."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self._codes: dict[int, str] = {}
        self._changes: dict[int, dict[str, str]] = {}
        """How each cell changed names."""
        self._undone: set[int] = set()
        for record in past:
            self._take(record)

    def emit(self, record: logging.LogRecord) -> None:
        self._take(record_of(record))

    def _take(self, record: Record) -> None:
        if isinstance(record, ReplIn) and record.cell is not None:
            self._codes[record.cell] = record.text
        elif isinstance(record, Undo):
            (self._undone.update if record.undone else self._undone.difference_update)(record.cells)
        elif isinstance(record, Namespace) and record.cell and not record.restored:
            self._changes.setdefault(record.cell, {}).update(
                (change.name, change.change) for change in record.changes
            )

    def code_for(self, name: str, missing: Collection[str]) -> str:
        """Return the cells that made a variable, in order, as one cell, with those that made what
        they need; empty if they are not known.

        missing: the variables that are not there.
        """
        from mahtab_tui.bus.slicing import Step, steps_for

        cells = sorted(self._changes.keys() & self._codes.keys() - self._undone)
        steps = [Step(cell, self._codes[cell], self._changes[cell]) for cell in cells]
        chosen = steps_for(name, steps, missing.__contains__)
        return "\n\n".join(f"# cell {step.cell}\n{step.code.rstrip()}" for step in chosen)
