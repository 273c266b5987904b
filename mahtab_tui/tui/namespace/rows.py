"""The variables of the namespace as rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual.color import Color

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.tui.rows.row import Row, Span, add_separators, fit_text
from mahtab_tui.tui.theme import BOLD, Palette

if TYPE_CHECKING:
    from mahtab_tui.bus.records import Change, Namespace, Record


class Preview(NamedTuple):
    """The start of a variable's value, as lines."""

    name: str = ""
    lines: tuple[str, ...] = ()


class VariableRow(NamedTuple):
    name: str
    """The raw name; draw `label` instead."""
    type: str
    summary: str
    kind: str
    author: str
    cell: int
    uncertain: bool
    """Whether a later cell may have changed it in place."""
    number: int
    """The sequence number of its last change; higher is more recent."""
    time: float
    """Time of its last change, in seconds since the epoch."""
    agent_index: int | None = None
    """Colour index of the agent who changed it."""
    sign: str = ""
    """In a list of changes, one of ``+``, ``~``, ``?`` and ``−``; otherwise empty."""
    not_restored: bool = False
    """Whether it belongs to an earlier kernel, and this one does not have it yet."""
    absent: bool = False
    """Whether it will not be restored; `summary` says why."""

    @property
    def shown_name(self) -> str:
        return f"{self.sign} {self.label}" if self.sign else self.label

    @property
    def label(self) -> str:
        """The name, safe to draw on one line."""
        return one_line(self.name)

    @property
    def value(self) -> str:
        """The summary; if it lists an object's fields, the type comes first, as in
        ``Order(id=7)``."""
        return f"{self.type}{self.summary}" if self.has_fields else self.summary

    @property
    def has_fields(self) -> bool:
        """Whether the summary lists an object's fields."""
        return self.kind == "data" and self.summary.startswith("(")

    @property
    def by(self) -> str:
        """Mark and cell number of the last author, with a ``?`` if a later cell may have changed
        it."""
        if not self.cell:
            return self.author
        mark = "◇" if self.agent_index is not None else "❯" if self.author == "you" else "◈"
        return f"{mark} {self.cell}{'?' if self.uncertain else ''}"

    @property
    def clock(self) -> str:
        """Time of its last change, such as ``12:34``; empty if no cell created it."""
        return time.strftime("%H:%M", time.localtime(self.time)) if self.cell else ""

    @property
    def special(self) -> bool:
        """Whether it is hidden by default, as are modules, functions, classes and names starting
        with ``_``."""
        return self.kind != "data" or self.name.startswith("_")


def to_row(record: Namespace, change: Change, number: int) -> VariableRow:
    """Convert a change from a `namespace` record."""
    return VariableRow(
        name=change.name,
        type=plain(change.type or ""),
        summary=add_separators(plain(change.summary or "")),
        kind=change.kind or "data",
        author=plain(record.party or ""),
        cell=record.cell or 0,
        uncertain=change.change == "perhaps",
        number=number,
        time=record.time,
        agent_index=record.guest,
        not_restored=change.change in ("restoring", "absent"),
        absent=change.change == "absent",
    )


class NamespaceChanges:
    """Rows for the variables that one cell changed, with old and new values."""

    def __init__(self) -> None:
        self.by = ""
        """Author and number of the cell; empty if there is none."""
        self.rows: list[VariableRow] = []
        self._cell: int | None = None

    def fold(self, record: Record, known: Mapping[str, VariableRow]) -> bool:
        """Add a record; returns whether the rows changed. known: the namespace before the
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
            _add_old_value(to_row(record, change, index), change, known)
            for index, change in enumerate(record.changes)
        ]
        return True


def _add_old_value(
    row: VariableRow, change: Change, known: Mapping[str, VariableRow]
) -> VariableRow:
    """Add the previous type and value to a row."""
    from mahtab_tui.kernel.values import CHANGE_SIGNS

    row = row._replace(uncertain=False)  # its sign already shows this
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
    """All variables, and the shown ones in order. Call `arrange` after changing what is shown."""

    def __init__(self) -> None:
        self._rows: dict[str, VariableRow] = {}
        self._number = 0
        self._shown: list[VariableRow] | None = None
        self.sort: Sort = "recency"
        self.filter = ""
        self.specials = False
        self.changes = False
        """Whether only the changes of the model's last cell are shown."""
        self.difference = NamespaceChanges()
        self.private: set[str] = set()
        """Variables hidden from models."""
        self.watched: set[str] = set()
        """Names that stay at the top, whatever the filter."""

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
        """Select and sort the shown variables again."""
        self._shown = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        row = self._rows.get(name)
        return row is not None and not row.not_restored

    @property
    def created_count(self) -> int:
        """The number of variables that cells have created, without modules and names starting with
        ``_``."""
        return sum(
            bool(row.cell) and row.kind != "module" and not row.name.startswith("_")
            for row in self._rows.values()
        )

    @property
    def hidden_count(self) -> int:
        """The number of variables that match but are hidden by default."""
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
                self._shown = [
                    row
                    for row in self._rows.values()
                    if row.name in self.watched
                    or ((self.specials or not row.special) and wanted in row.name.lower())
                ]
                self._shown.sort(key=SORTS[self.sort])
                # `df` typed in full means df, not pldf.
                self._shown.sort(
                    key=lambda row: (row.name not in self.watched, row.name.lower() != wanted)
                )
        return self._shown

    def _fold(self, record: Namespace) -> None:
        if record.fresh:
            self._rows.clear()
        for change in record.changes:
            name = change.name
            if change.change == "deleted":
                self._rows.pop(name, None)
                continue
            row = to_row(record, change, self._number + 1)
            if row.uncertain and (known := self._rows.get(name)) is not None:
                self._rows[name] = known._replace(
                    type=row.type, summary=row.summary, uncertain=True
                )
            else:
                self._number += 1
                self._rows[name] = row


FADE = 1.0
"""Seconds over which the highlight of a changed row fades."""
FADE_STEPS = 5

PRIVATE = "⊘"
"""Shown before the name of a private variable."""

_EMPTY = "Variables appear here as they are made: type, size, and who made or changed them."
_OPENS_HINT = " Enter looks inside."
_NO_CHANGES = "Shows what the model's last cell added, changed and deleted."

_MEASURED_ROWS = 200
"""Number of rows measured for the column widths."""
_NAME, _VALUE, _TYPE = 20, 24, 14
"""Columns: maximum for names, width up to which values take precedence over types, maximum for
types."""
_FIELDS = 16
"""As `_VALUE`, for values that list an object's fields."""
_LEAST = 15
"""Minimum columns next to a name."""
_WIDE = 60
"""Width from which the time has a column."""
_TIME = len("12:34")


class Columns(NamedTuple):
    """Widths of the columns, which are one cell apart."""

    name: int
    value: int
    type: int
    """0 if the column's room goes to the values."""
    by: int
    time: int = 0
    """0 if there is no room."""

    @classmethod
    def fit(cls, rows: Sequence[VariableRow], width: int, marks: int = 0) -> Columns:
        """Compute the widths for some rows: names as wide as needed, values get the rest. marks:
        columns before the names."""
        seen = rows[:_MEASURED_ROWS]
        room = max(20, width - 5)
        time = _TIME if room >= _WIDE else 0
        room -= time + 1 if time else 0
        by = max([2, *(cell_len(row.by) for row in seen)])
        name = min(
            max([4, *(marks + cell_len(row.shown_name) for row in seen)]),
            _NAME + marks,
            max(8, room - _LEAST),
        )
        value = max(
            [5, *(min(cell_len(row.value), _FIELDS if row.has_fields else _VALUE) for row in seen)]
        )
        kind = min(max([4, *(cell_len(row.type) for row in seen)]), _TYPE)
        if room - name - by - kind < value:
            kind, room = 0, room + 1
        return cls(name, max(4, room - name - kind - by), kind, by, time)

    def line(self, name: str, value: str, type: str, by: str, time: str) -> str:
        return " ".join(
            fit_text(text, width)
            for text, width in zip((name, value, type, by, time), self, strict=True)
            if width
        )


class NamespaceRows:
    """A `RowSource` with a row per variable, or a sentence if there are none."""

    def __init__(self, names: VariableRows, *, opens: bool = True) -> None:
        """opens: whether Enter opens a variable."""
        self.ground = Color(0, 0, 0)
        """The pane's background, towards which highlights fade."""
        self._names = names
        self._opens = opens
        self._columns = Columns.fit([], 40)
        self._sentence: list[str] = []

    def lay_out(self, width: int, palette: Palette) -> None:
        self._width, self._palette = width, palette
        self.arrange()

    def arrange(self) -> None:
        """Lay out again after the shown variables changed."""
        marks = len(PRIVATE) + 1 if self._names.private else 0
        self._columns = Columns.fit(self._names.shown, self._width, marks)
        self._sentence = wrap(self._why_empty(), max(10, self._width - 2))

    def __len__(self) -> int:
        return len(self._names.shown) or len(self._sentence)

    def __getitem__(self, index: int) -> Row:
        return (
            self._row(self._names.shown[index])
            if self._names.shown
            else Row([(self._sentence[index], self._palette.muted)])
        )

    def _row(self, name: VariableRow) -> Row:
        columns, palette = self._columns, self._palette
        signs = {"+": palette.good, "~": palette.moon, "?": palette.muted, "−": palette.bad}
        watched = name.name in self._names.watched and not name.sign
        marks = f"{'● ' * watched}{f'{PRIVATE} ' * (name.name in self._names.private)}"
        spans: list[Span] = [
            (
                fit_text(marks + name.shown_name, columns.name) + " ",
                palette.muted if name.not_restored else BOLD + signs.get(name.sign, Style.null()),
            ),
            (
                fit_text(name.value, columns.value) + " ",
                palette.muted if name.not_restored else Style.null(),
            ),
            *([(fit_text(name.type, columns.type) + " ", palette.muted)] if columns.type else []),
            *self._author(name),
            *([(f" {name.clock}", palette.muted)] if columns.time else []),
        ]
        return Row(spans, fill=self._glow(name))

    def _author(self, name: VariableRow) -> list[Span]:
        """Draw the last author; the question mark for a possible later change is muted."""
        text = fit_text(name.by, self._columns.by)
        # It belongs to an earlier kernel, or will not be restored.
        if not name.cell and name.author != "you":
            return [(text, self._palette.muted)]
        who, mark, rest = text.rpartition("?") if name.uncertain else (text, "", "")
        return [
            (who, self._palette.author_style(name.author == "you", name.agent_index)),
            (mark + rest, self._palette.muted),
        ]

    def _glow(self, name: VariableRow) -> Style | None:
        age = time.time() - name.time
        if age >= FADE or self._palette.panel.bgcolor is None:
            return None
        glow = Color.from_rich_color(self._palette.panel.bgcolor)
        return Style(
            bgcolor=self.ground.blend(glow, 1 - int(age * FADE_STEPS) / FADE_STEPS).rich_color
        )

    def _why_empty(self) -> str:
        names = self._names
        if names.filter and not names.hidden_count:
            return "No name contains this. Esc ends the filter."
        if names.changes:
            by = names.difference.by
            return f"{by} changed no variables." if by else _NO_CHANGES
        if names.hidden_count:
            return f"Only modules, functions or names with _{' contain this' if names.filter else ''}. Ctrl+T shows them."
        return _EMPTY + _OPENS_HINT * self._opens

    def title(self, filtering: bool, focused: bool) -> Row:
        """Draw the title with filter and sort order. filtering: whether keys edit the filter."""
        names, muted = self._names, self._palette.muted
        bright = self._palette.person + BOLD if focused else muted
        if names.changes:
            parts = [
                ("CHANGES", bright),
                *([(names.difference.by, muted)] if names.difference.by else []),
            ]
        else:
            parts = [(f"NAMESPACE  {len(names.shown)}" if len(names) else "NAMESPACE", bright)]
        if names.filter or filtering:
            parts.append((f"/ {names.filter}{'▏' if filtering else ''}", bright))
        if len(names) and not names.changes:
            parts.append((f"by {names.sort}", muted))
        if names.hidden_count:
            parts.append((f"{names.hidden_count} hidden", muted))
        between = (
            "  ·  " if cell_len("  ·  ".join(text for text, _ in parts)) < self._width else " · "
        )
        return Row([piece for part in parts for piece in (part, (between, muted))][:-1])

    def heads(self) -> Row:
        """Draw the column titles, unless they are empty."""
        some = len(self._names.shown if self._names.changes else self._names)
        return Row(
            [
                (
                    self._columns.line("name", "value", "type", "by", "time") if some else "",
                    self._palette.muted,
                )
            ]
        )
