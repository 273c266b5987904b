"""Draws the variables of the namespace as rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual.color import Color

from mahtab_tui.tui.panes.namespace.variable_rows import VariableRow, VariableRows
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, Span, fitted

FADE = 1.0
"""Seconds for which a changed row is highlighted, fading."""
FADE_STEPS = 5

PRIVATE = "⊘"
"""Stands before the name of a private variable."""

_EMPTY = "Variables appear here as they are made: type, size, and who made or changed them."
_OPENS = " Enter looks inside."
_NO_CHANGES = "Shows what the model's last cell added, changed and deleted."

_LOOKED_AT = 200
"""Number of rows from which the column widths are computed."""
_NAME, _VALUE, _TYPE = 20, 24, 14
"""Columns of names and types at most, and of values before types are left out for them."""
_FIELDS = 16
"""Columns of an object's fields for which types are left out."""
_LEAST = 15
"""Columns that a name leaves to the rest."""
_WIDE = 60
"""Width from which there is a column for the time."""
_TIME = len("12:34")


class Columns(NamedTuple):
    """The widths of the columns, which are one cell apart."""

    name: int
    value: int
    type: int
    """0 if the values need its room."""
    by: int
    time: int = 0
    """0 if there is no room for it."""

    @classmethod
    def of(cls, rows: Sequence[VariableRow], width: int, marks: int = 0) -> Columns:
        """Compute the widths for some rows: names as wide as needed, the rest for the value. marks:
        room before the names."""
        seen = rows[:_LOOKED_AT]
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
            fitted(text, width)
            for text, width in zip((name, value, type, by, time), self, strict=True)
            if width
        )


class NamespaceRows:
    """A `RowSource` with a row for each variable, or a sentence if there are none."""

    def __init__(self, names: VariableRows, *, opens: bool = True) -> None:
        """opens: whether Enter looks inside a variable."""
        self.ground = Color(0, 0, 0)
        """The pane's background, to which highlighted rows fade."""
        self._names = names
        self._opens = opens
        self._columns = Columns.of([], 40)
        self._sentence: list[str] = []

    def lay_out(self, width: int, palette: Palette) -> None:
        self._width, self._palette = width, palette
        self.arrange()

    def arrange(self) -> None:
        """Lay out again after other variables are shown."""
        marks = len(PRIVATE) + 1 if self._names.private else 0
        self._columns = Columns.of(self._names.shown, self._width, marks)
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
                fitted(marks + name.shown_name, columns.name) + " ",
                palette.muted if name.away else BOLD + signs.get(name.sign, Style.null()),
            ),
            (fitted(name.value, columns.value) + " ", palette.muted if name.away else Style.null()),
            *([(fitted(name.type, columns.type) + " ", palette.muted)] if columns.type else []),
            *self._author(name),
            *([(f" {name.clock}", palette.muted)] if columns.time else []),
        ]
        return Row(spans, fill=self._glow(name))

    def _author(self, name: VariableRow) -> list[Span]:
        """Draw who changed a variable last; the question mark for a possible later change is
        muted."""
        text = fitted(name.by, self._columns.by)
        if (
            not name.cell and name.party != "you"
        ):  # it came from an earlier kernel, or does not come
            return [(text, self._palette.muted)]
        who, mark, rest = text.rpartition("?") if name.perhaps else (text, "", "")
        return [
            (who, self._palette.party(name.party == "you", name.guest)),
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
        if names.filter and not names.hidden:
            return "No name contains this. Esc ends the filter."
        if names.changes:
            by = names.difference.by
            return f"{by} changed no variables." if by else _NO_CHANGES
        if names.hidden:
            return f"Only modules, functions or names with _{' contain this' if names.filter else ''}. Ctrl+T shows them."
        return _EMPTY + _OPENS * self._opens

    def title(self, filtering: bool, focused: bool) -> Row:
        """Draw the title with filter and order. filtering: whether typing filters."""
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
        if names.hidden:
            parts.append((f"{names.hidden} hidden", muted))
        between = (
            "  ·  " if cell_len("  ·  ".join(text for text, _ in parts)) < self._width else " · "
        )
        return Row([piece for part in parts for piece in (part, (between, muted))][:-1])

    def heads(self) -> Row:
        """Draw the titles of the columns, unless they are empty."""
        some = len(self._names.shown if self._names.changes else self._names)
        return Row(
            [
                (
                    self._columns.line("name", "value", "type", "by", "time") if some else "",
                    self._palette.muted,
                )
            ]
        )
