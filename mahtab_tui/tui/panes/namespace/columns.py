"""Widths of the namespace's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from mahtab_tui.tui.panes.namespace.row import Row
from mahtab_tui.tui.rows.fitting import fitted

_LOOKED_AT = 200
"""Rows that the widths are made for."""
_WIDE = 60
"""Cells from which there is a column for the time."""
_TIME = len("12:34")


def fitted_author(text: str, width: int) -> str:
    """Who and in which cell: where it is too long, the name is cut and the cell's number stays."""
    name, space, number = text.rpartition(" ")
    room = width - cell_len(space + number)
    return text if cell_len(text) <= width or room < 3 else fitted(name, room).rstrip() + space + number


class Columns(NamedTuple):
    """Cells of each column; one cell stands between two."""

    name: int
    type: int
    value: int
    by: int
    time: int = 0
    """0 where there is no room for it."""

    @classmethod
    def of(cls, rows: Sequence[Row], width: int) -> Columns:
        """Columns for these rows in so many cells: names and authors as they need, the value gets what is left."""
        seen = rows[:_LOOKED_AT]
        room = max(20, width - 5)
        time = _TIME if room >= _WIDE else 0
        room -= time + 1 if time else 0
        by = min(max([3, *(cell_len(row.by) for row in seen)]), room // 4)
        name = min(max([6, *(cell_len(row.shown_name) for row in seen)]), max(8, room // 3))
        kind = min(max([4, *(cell_len(row.type) for row in seen)]), max(5, room * 2 // 5))
        return cls(name, kind, max(4, room - name - kind - by), by, time)

    def line(self, name: str, type: str, value: str, by: str, time: str) -> str:
        """A line of these texts."""
        return " ".join(fitted(text, width) for text, width in zip((name, type, value, by, time), self, strict=True) if width)
