"""Finds the cells that made a variable, so that one that was not kept can be made again."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable

from mahtab_tui.bus.records import Namespace, Record, ReplIn, Undo, record_of

_WORD = re.compile(r"\w+")
_SETS = frozenset(("added", "rebound"))
"""Changes after which the earlier ones no longer matter."""
_CHANGES = frozenset(("changed", "perhaps"))


class Rebuilding(logging.Handler):
    """Folds the records of cells and of what they changed."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self._codes: dict[int, str] = {}
        self._changes: dict[str, list[tuple[int, str]]] = {}
        """The cells that changed each name, in order, and how."""
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
            for change in record.changes:
                self._changes.setdefault(change.name, []).append((record.cell, change.change))

    def code_for(self, name: str, missing: Collection[str]) -> str:
        """Return the cells that made a variable, in order, as one cell, with those that made what they need; empty if they are not known.

        missing: the variables that are not there.
        """
        cells: set[int] = set()
        wanted, seen = [name], {name}
        while wanted:
            new = self._cells_of(wanted.pop()) - cells
            cells |= new
            for word in {word for cell in new for word in _WORD.findall(self._codes[cell])}.intersection(missing) - seen:
                seen.add(word)
                wanted.append(word)
        return "\n\n".join(f"# cell {cell}\n{self._codes[cell].rstrip()}" for cell in sorted(cells))

    def _cells_of(self, name: str) -> set[int]:
        """The cell that set a name last, and the later ones that changed its object."""
        found: set[int] = set()
        for cell, change in self._changes.get(name, []):
            if cell in self._undone or cell not in self._codes:
                continue
            if change in _SETS:
                found = {cell}
            elif change in _CHANGES:
                found.add(cell)
            elif change == "deleted":
                found = set()
        return found
