"""The changes of the last cell of the model or an agent to the namespace."""

from __future__ import annotations

from collections.abc import Mapping

from mahtab_tui.bus.records import AssistantReplOut, Change, Namespace, Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import CHANGE_SIGNS
from mahtab_tui.tui.panes.namespace.variable_row import VariableRow, row_of


class NamespaceChanges:
    """The rows of the variables that one cell changed, with old and new values."""

    def __init__(self) -> None:
        self.by = ""
        """The author and number of the cell; empty if there was none."""
        self.rows: list[VariableRow] = []
        self._cell: int | None = None

    def fold(self, record: Record, known: Mapping[str, VariableRow]) -> bool:
        """Add a record; returns whether the rows have changed. known: the namespace before the record."""
        if isinstance(record, AssistantReplOut) and record.status is not None:
            self._cell, self.by, self.rows = record.cell, f"{plain(record.party or '')} {record.cell or ''}".strip(), []
            return True
        if not isinstance(record, Namespace):
            return False
        if record.fresh:
            self._cell, self.by, self.rows = None, "", []
            return True
        if record.cell is None or record.cell != self._cell or record.restored:
            return False
        self.rows = [_compared(row_of(record, change, place), change, known) for place, change in enumerate(record.changes)]
        return True


def _compared(row: VariableRow, change: Change, known: Mapping[str, VariableRow]) -> VariableRow:
    """Add the previous type and value to a row."""
    row = row._replace(perhaps=False)  # its sign shows this
    sign = CHANGE_SIGNS.get(change.change, "~")
    before = known.get(row.name)
    if sign == "−":
        return row._replace(sign=sign, type=before.type if before else "", summary=before.summary if before else "")
    if before is None or sign == "+" or (before.type, before.summary) == (row.type, row.summary):
        return row._replace(sign=sign)
    kind = row.type if before.type == row.type else f"{before.type} → {row.type}"
    return row._replace(sign=sign, type=kind, summary=f"{before.summary} → {row.summary}")
