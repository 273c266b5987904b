"""What the last cell of the model's, or of another agent's, did to the namespace."""

from __future__ import annotations

from collections.abc import Mapping

from mahtab_tui.bus.records import AssistantReplOut, Change, Namespace, Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import CHANGE_SIGNS
from mahtab_tui.tui.panes.namespace.row import Row, row_of


class Difference:
    """The rows of one cell: what was and what is now stand in the same column."""

    def __init__(self) -> None:
        self.by = ""
        """Whose cell it was and which; empty as long as there was none."""
        self.rows: list[Row] = []
        self._cell: int | None = None

    def fold(self, record: Record, known: Mapping[str, Row]) -> bool:
        """Take in a record; known: the namespace until then. Says whether another cell is shown now."""
        if isinstance(record, AssistantReplOut) and record.status is not None:
            self._cell, self.by, self.rows = record.cell, f"{plain(record.party or '')} {record.cell or ''}".strip(), []
            return True
        if not isinstance(record, Namespace):
            return False
        if record.fresh:
            self._cell, self.by, self.rows = None, "", []
            return True
        if record.cell is None or record.cell != self._cell:
            return False
        self.rows = [_compared(row_of(record, change, place), change, known) for place, change in enumerate(record.changes)]
        return True


def _compared(row: Row, change: Change, known: Mapping[str, Row]) -> Row:
    """A row that tells what was before, too."""
    row = row._replace(perhaps=False)  # its sign says so
    sign = CHANGE_SIGNS.get(change.change, "~")
    before = known.get(row.name)
    if sign == "−":
        return row._replace(sign=sign, type=before.type if before else "", summary=before.summary if before else "")
    if before is None or sign == "+" or (before.type, before.summary) == (row.type, row.summary):
        return row._replace(sign=sign)
    kind = row.type if before.type == row.type else f"{before.type} → {row.type}"
    return row._replace(sign=sign, type=kind, summary=f"{before.summary} → {row.summary}")
