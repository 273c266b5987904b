"""Maps rows to entries. Entries are laid out when they become visible; until then their heights are
estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.tui.panes.transcript.entries import Entry
from mahtab_tui.tui.panes.transcript.layout.entry import EntryRows, guess
from mahtab_tui.tui.rows.heights import Heights
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row

KEPT = 64
"""Number of entries whose rows are cached."""


class RowPosition(NamedTuple):
    entry: int
    row: int


class Window:
    """The rows of a growing list of entries, for a width and palette."""

    def __init__(self, entries: Sequence[Entry], width: int, palette: Palette) -> None:
        self._entries = entries
        self.width = width
        self.palette = palette
        self._heights = Heights()
        self._drawn: dict[int, EntryRows] = {}

    @property
    def total(self) -> int:
        return self._heights.total

    def take(self, changed: Sequence[int]) -> None:
        """Estimate the heights of new and changed entries."""
        for position in changed:
            height = guess(self._entries[position], self.width)
            if position == len(self._heights):
                self._heights.append(height)
            else:
                self._heights.set(position, height)

    def redraw(self, width: int, palette: Palette) -> None:
        """Change width and palette; old heights stay as estimates."""
        self.width, self.palette = width, palette
        self._drawn.clear()

    def rows(self, position: int) -> EntryRows:
        """Lay out an entry and return its rows; its height is then exact."""
        drawn = self._drawn.pop(position, None)
        if drawn is None:
            drawn = EntryRows(self._entries[position], self.width, self.palette)
            if len(self._drawn) >= KEPT:
                del self._drawn[next(iter(self._drawn))]
        self._drawn[position] = drawn
        drawn.update()
        self._heights.set(position, len(drawn))
        return drawn

    def row_of(self, place: RowPosition) -> int:
        """Return the number of the row at a position."""
        return self._heights.above(place.entry) + place.row

    def place_of(self, row: int) -> RowPosition:
        """Return the position of a row; past the end, the position after the last entry."""
        return RowPosition(*self._heights.find(max(0, row)))

    def up(self, place: RowPosition, rows: int) -> RowPosition:
        """Return the position `rows` rows above another, laying out all between."""
        entry, row = place.entry, place.row - rows
        while row < 0 and entry > 0:
            entry -= 1
            row += len(self.rows(entry))
        return RowPosition(entry, max(0, row))

    def row(self, place: RowPosition) -> Row:
        """Return the row at a position; an empty one if it existed only by an estimate."""
        rows = self.rows(place.entry)
        return rows[place.row] if place.row < len(rows) else Row()

    def measure_down(self, place: RowPosition, height: int) -> None:
        """Lay out a page of this height from a position on."""
        self._measure(range(place.entry, len(self._heights)), place.row + height)

    def measure_up(self, height: int) -> None:
        """Lay out a page of this height at the end."""
        self._measure(range(len(self._heights) - 1, -1, -1), height)

    def _measure(self, positions: range, height: int) -> None:
        for position in positions:
            if height <= 0:
                return
            height -= len(self.rows(position))

    def same_place(self, place: RowPosition, logical: int, inner: int) -> RowPosition:
        """Return the position in newly wrapped rows that shows the same line (see
        `logical_line`)."""
        if place.entry >= len(self._heights):
            return place
        rows = self.rows(place.entry)
        line = -1
        for number in range(len(rows)):
            line += not rows[number].soft
            if line == logical:
                return RowPosition(place.entry, min(number + inner, len(rows) - 1))
        return RowPosition(place.entry, max(0, len(rows) - 1))

    def logical_line(self, place: RowPosition) -> tuple[int, int]:
        """Return the unwrapped line of the entry at a position, and the row within that line."""
        if place.entry >= len(self._heights):
            return 0, 0
        rows = self.rows(place.entry)
        line, inner = -1, 0
        for number in range(min(place.row + 1, len(rows))):
            inner = inner + 1 if rows[number].soft else 0
            line += not rows[number].soft
        return line, inner
