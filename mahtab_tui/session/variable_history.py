"""Which cells gave a variable its value."""

from __future__ import annotations

from collections.abc import Iterable

from mahtab_tui.bus.records import Namespace, Record, RecordHandler, ReplIn, Undo
from mahtab_tui.bus.values import ChangeKind


class VariableHistory(RecordHandler):
    """Tracks which cells changed which variables."""

    kinds = (ReplIn, Undo, Namespace)

    def __init__(self, past: Iterable[Record] = ()) -> None:
        """
        Args:
            past: The records of a resumed session, the oldest first.
        """
        super().__init__()
        self.codes: dict[int, str] = {}
        """The code of each cell."""
        self._changes: dict[int, list[Namespace]] = {}
        """The records of each cell's changes."""
        self._undone_cells: set[int] = set()
        for record in past:
            self.fold(record)

    def fold(self, record: Record) -> None:
        if isinstance(record, ReplIn) and record.cell is not None:
            self.codes[record.cell] = record.text
        elif isinstance(record, Undo) and record.undone:
            self._undone_cells.update(record.cells)
        elif isinstance(record, Undo):
            self._undone_cells.difference_update(record.cells)
        elif isinstance(record, Namespace) and record.cell and not record.restored:
            self._changes.setdefault(record.cell, []).append(record)

    def code_for(self, name: str) -> str:
        """Return the code of the cells that gave a variable its last value, as one cell.

        Empty if none is known.
        """
        effective_cells = self._changes.keys() & self.codes.keys() - self._undone_cells
        value_cells: list[int] = []
        for cell in sorted(effective_cells):
            change = self._last_change(cell, name)
            # The value does not depend on cells before the variable was set again.
            if change in ("added", "rebound", "deleted"):
                value_cells.clear()
            if change not in (None, "deleted"):
                value_cells.append(cell)
        sections = [f"# cell {cell}\n{self.codes[cell].rstrip()}" for cell in value_cells]
        return "\n\n".join(sections)

    def _last_change(self, cell: int, name: str) -> ChangeKind | None:
        """Return how a cell changed a variable; None if it did not."""
        for record in reversed(self._changes[cell]):
            for change in reversed(record.changes):
                if change.name == name:
                    return change.change
        return None
