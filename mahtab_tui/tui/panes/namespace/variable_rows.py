"""The namespace as data: a fold of records to rows, sorted and filtered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mahtab_tui.bus.records import Namespace, Record
from mahtab_tui.tui.panes.namespace.changes import NamespaceChanges
from mahtab_tui.tui.panes.namespace.variable_row import VariableRow, row_of

Sort = Literal["recency", "name", "type"]
SORTS: tuple[Sort, ...] = ("recency", "name", "type")


class VariableRows:
    """All variables, and those that are shown, in order."""

    def __init__(self) -> None:
        self._rows: dict[str, VariableRow] = {}
        self._number = 0
        self._shown: list[VariableRow] | None = None
        self.sort: Sort = "recency"
        self.filter = ""
        self.specials = False
        self.changes = False
        """Whether only the changes of the last cell of the model are shown."""
        self.difference = NamespaceChanges()
        self.watched: set[str] = set()
        """Names that stay on top, whatever the filter."""

    def fold(self, records: Sequence[Record]) -> bool:
        """Add records; returns whether anything changed."""
        changed = False
        for record in records:
            changed |= self.difference.fold(record, self._rows) and self.changes
            if isinstance(record, Namespace):
                changed = True
                self._fold(record)
        if changed:
            self._shown = None
        return changed

    def arrange(self, *, sort: Sort | None = None, filter: str | None = None, specials: bool | None = None, changes: bool | None = None) -> None:
        """Change what is shown. changes: only the changes of the last cell of the model."""
        self.changes = self.changes if changes is None else changes
        self.sort = self.sort if sort is None else sort
        self.filter = self.filter if filter is None else filter
        self.specials = self.specials if specials is None else specials
        self._shown = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    @property
    def made(self) -> int:
        """How many variables cells have created, without modules and private names."""
        return sum(bool(row.cell) and row.kind != "module" and not row.name.startswith("_") for row in self._rows.values())

    @property
    def hidden(self) -> int:
        """How many matching variables are hidden because they are modules, functions, classes or private."""
        if self.specials or self.changes:
            return 0
        return sum(row.special and self.filter.lower() in row.name.lower() for row in self._rows.values())

    @property
    def shown(self) -> list[VariableRow]:
        """The shown rows, in order."""
        if self._shown is None:
            wanted = self.filter.lower()
            if self.changes:
                self._shown = [row for row in self.difference.rows if wanted in row.name.lower()]
                return self._shown
            rows = [row for row in self._rows.values() if self._wanted(row, wanted)]
            if self.sort == "recency":
                rows.sort(key=lambda row: -row.number)
            elif self.sort == "name":
                rows.sort(key=lambda row: (row.name.lower(), row.name))
            else:
                rows.sort(key=lambda row: (row.type.lower(), row.name.lower()))
            rows.sort(key=lambda row: (row.name not in self.watched, row.name.lower() != wanted))  # `df` typed in full means df, not pldf
            self._shown = rows
        return self._shown

    def watch(self, name: str) -> None:
        """Keep a variable on top, or stop doing so."""
        self.watched ^= {name}
        self._shown = None

    def _wanted(self, row: VariableRow, wanted: str) -> bool:
        return row.name in self.watched or ((self.specials or not row.special) and wanted in row.name.lower())

    def _fold(self, record: Namespace) -> None:
        if record.fresh:
            self._rows.clear()
        for change in record.changes:
            name = change.name
            if change.change == "deleted":
                self._rows.pop(name, None)
                continue
            row = row_of(record, change, self._number + 1)
            if row.perhaps and (known := self._rows.get(name)) is not None:
                self._rows[name] = known._replace(type=row.type, summary=row.summary, perhaps=True)
            else:
                self._number += 1
                self._rows[name] = row
