"""The namespace as data: a fold of records to rows, sorted and filtered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.rows.row import with_separators

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Change, Namespace, Record


class Preview(NamedTuple):
    """The beginning of a variable's value, as lines."""

    name: str = ""
    lines: tuple[str, ...] = ()


class VariableRow(NamedTuple):
    name: str
    """The unsanitised name; draw `label` instead."""
    type: str
    summary: str
    kind: str
    party: str
    cell: int
    perhaps: bool
    """Whether a later cell may have changed it in place."""
    number: int
    """The number of the change; a higher one is more recent."""
    time: float
    """When it changed, in seconds since the epoch."""
    guest: int | None = None
    """The number of the colour of the agent who changed it."""
    sign: str = ""
    """In a list of changes: ``+``, ``~``, ``?`` or ``−``."""
    away: bool = False
    """Whether an earlier kernel had it, and this one does not, or not yet."""
    absent: bool = False
    """Whether it does not come back; `summary` says why."""

    @property
    def shown_name(self) -> str:
        return f"{self.sign} {self.label}" if self.sign else self.label

    @property
    def label(self) -> str:
        """The name, safe to draw in one line."""
        return one_line(self.name)

    @property
    def value(self) -> str:
        """The summary; the fields of an object after its type, as in ``Order(id=7)``."""
        return f"{self.type}{self.summary}" if self.has_fields else self.summary

    @property
    def has_fields(self) -> bool:
        """Whether the summary is the fields of an object."""
        return self.kind == "data" and self.summary.startswith("(")

    @property
    def by(self) -> str:
        """A mark of who created or last changed it, and in which cell; with a ``?`` if a later cell
        may have changed it."""
        if not self.cell:
            return self.party
        mark = "◇" if self.guest is not None else "❯" if self.party == "you" else "◈"
        return f"{mark} {self.cell}{'?' if self.perhaps else ''}"

    @property
    def clock(self) -> str:
        """When it changed, as ``12:34``; empty if no cell created it."""
        return time.strftime("%H:%M", time.localtime(self.time)) if self.cell else ""

    @property
    def special(self) -> bool:
        """Whether it is hidden by default: modules, functions, classes and names that begin with
        ``_``."""
        return self.kind != "data" or self.name.startswith("_")


def row_of(record: Namespace, change: Change, number: int) -> VariableRow:
    """Convert a change of a `namespace` record."""
    return VariableRow(
        name=change.name,
        type=plain(change.type or ""),
        summary=with_separators(plain(change.summary or "")),
        kind=change.kind or "data",
        party=plain(record.party or ""),
        cell=record.cell or 0,
        perhaps=change.change == "perhaps",
        number=number,
        time=record.time,
        guest=record.guest,
        away=change.change in ("restoring", "absent"),
        absent=change.change == "absent",
    )


class NamespaceChanges:
    """The rows of the variables that one cell changed, with old and new values."""

    def __init__(self) -> None:
        self.by = ""
        """The author and number of the cell; empty if there was none."""
        self.rows: list[VariableRow] = []
        self._cell: int | None = None

    def fold(self, record: Record, known: Mapping[str, VariableRow]) -> bool:
        """Add a record; returns whether the rows have changed. known: the namespace before the
        record."""
        from mahtab_tui.bus.records import AssistantReplOut, Namespace

        if isinstance(record, AssistantReplOut) and record.status is not None:
            self._cell, self.by, self.rows = (
                record.cell,
                f"{plain(record.party or '')} {record.cell or ''}".strip(),
                [],
            )
            return True
        if not isinstance(record, Namespace):
            return False
        if record.fresh:
            self._cell, self.by, self.rows = None, "", []
            return True
        if record.cell is None or record.cell != self._cell or record.restored:
            return False
        self.rows = [
            _compared(row_of(record, change, place), change, known)
            for place, change in enumerate(record.changes)
        ]
        return True


def _compared(row: VariableRow, change: Change, known: Mapping[str, VariableRow]) -> VariableRow:
    """Add the previous type and value to a row."""
    from mahtab_tui.kernel.values import CHANGE_SIGNS

    row = row._replace(perhaps=False)  # its sign shows this
    sign = CHANGE_SIGNS.get(change.change, "~")
    before = known.get(row.name)
    if sign == "−":
        return row._replace(
            sign=sign, type=before.type if before else "", summary=before.summary if before else ""
        )
    if before is None or sign == "+" or (before.type, before.summary) == (row.type, row.summary):
        return row._replace(sign=sign)
    kind = row.type if before.type == row.type else f"{before.type} → {row.type}"
    return row._replace(sign=sign, type=kind, summary=f"{before.summary} → {row.summary}")


Sort = Literal["recency", "name", "type"]
SORTS: Mapping[Sort, Callable[[VariableRow], Any]] = {
    "recency": lambda row: -row.number,
    "name": lambda row: (row.name.lower(), row.name),
    "type": lambda row: (row.type.lower(), row.name.lower()),
}


class VariableRows:
    """All variables, and those that are shown, in order. Call `arrange` after changing how they are
    shown."""

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
        self.private: set[str] = set()
        """Names of variables about which no model is told anything."""
        self.watched: set[str] = set()
        """Names that stay on top, whatever the filter."""

    def fold(self, records: Sequence[Record]) -> bool:
        """Add records; returns whether anything changed."""
        from mahtab_tui.bus.records import Namespace, Private

        changed = False
        for record in records:
            changed |= self.difference.fold(record, self._rows) and self.changes
            if isinstance(record, Private):
                changed = True
                (self.private.add if record.private else self.private.discard)(record.name)
            elif isinstance(record, Namespace):
                changed = True
                self._fold(record)
        if changed:
            self.arrange()
        return changed

    def arrange(self) -> None:
        """Choose and sort the shown variables again."""
        self._shown = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        row = self._rows.get(name)
        return row is not None and not row.away

    @property
    def made(self) -> int:
        """How many variables cells have created, without modules and names that begin with
        ``_``."""
        return sum(
            bool(row.cell) and row.kind != "module" and not row.name.startswith("_")
            for row in self._rows.values()
        )

    @property
    def hidden(self) -> int:
        """How many matching variables are hidden because they are modules, functions, classes or
        begin with ``_``."""
        if self.specials or self.changes:
            return 0
        return sum(
            row.special and self.filter.lower() in row.name.lower() for row in self._rows.values()
        )

    @property
    def shown(self) -> list[VariableRow]:
        if self._shown is None:
            wanted = self.filter.lower()
            if self.changes:
                self._shown = [row for row in self.difference.rows if wanted in row.name.lower()]
            else:
                self._shown = sorted(
                    (row for row in self._rows.values() if self._wanted(row, wanted)),
                    key=SORTS[self.sort],
                )
                # `df` typed in full means df, not pldf
                self._shown.sort(
                    key=lambda row: (row.name not in self.watched, row.name.lower() != wanted)
                )
        return self._shown

    def _wanted(self, row: VariableRow, wanted: str) -> bool:
        return row.name in self.watched or (
            (self.specials or not row.special) and wanted in row.name.lower()
        )

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
