"""Which rows of which entries are where: entries are laid out when they are seen, and guessed before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.tui.panes.transcript.entries import Entry
from mahtab_tui.tui.panes.transcript.layout.entry import EntryRows, guess
from mahtab_tui.tui.rows.heights import Heights
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import Row

KEPT = 64
"""Entries whose rows are kept, the last used."""


class Place(NamedTuple):
    """A row of an entry."""

    entry: int
    row: int


class Window:
    """Rows of a growing list of entries, at one width and in one palette."""

    def __init__(self, entries: Sequence[Entry], width: int, palette: Palette) -> None:
        self._entries = entries
        self.width = width
        self._palette = palette
        self._heights = Heights()
        self._drawn: dict[int, EntryRows] = {}

    @property
    def total(self) -> int:
        """Rows of all entries."""
        return self._heights.total

    def take(self, changed: Sequence[int]) -> None:
        """Take in entries that are new or were changed; what is not seen is only guessed."""
        for position in changed:
            height = guess(self._entries[position], self.width)
            if position == len(self._heights):
                self._heights.append(height)
            else:
                self._heights.set(position, height)

    def redraw(self, width: int, palette: Palette) -> None:
        """Another width or palette: heights stay as guesses until they are seen."""
        self.width, self._palette = width, palette
        self._drawn.clear()

    def rows(self, position: int) -> EntryRows:
        """The rows of an entry, up to date; its height is exact from then on."""
        drawn = self._drawn.pop(position, None)
        if drawn is None:
            drawn = EntryRows(self._entries[position], self.width, self._palette)
            if len(self._drawn) >= KEPT:
                del self._drawn[next(iter(self._drawn))]
        self._drawn[position] = drawn
        drawn.update()
        self._heights.set(position, len(drawn))
        return drawn

    def row_of(self, place: Place) -> int:
        """Where a place is, counted from the top."""
        return self._heights.above(place.entry) + place.row

    def place_of(self, row: int) -> Place:
        """What is at a row; past the end, the place behind the last entry."""
        return Place(*self._heights.find(max(0, row)))

    def up(self, place: Place, rows: int) -> Place:
        """The place so many rows above another, all between laid out."""
        entry, row = place.entry, place.row - rows
        while row < 0 and entry > 0:
            entry -= 1
            row += len(self.rows(entry))
        return Place(entry, max(0, row))

    def row(self, place: Place) -> Row:
        """What is drawn at a place; nothing at one that there was only by a guess."""
        rows = self.rows(place.entry)
        return rows[place.row] if place.row < len(rows) else Row()

    def measure_down(self, place: Place, height: int) -> None:
        """Make exact what is seen in a window of this height that begins at a place."""
        seen = -place.row
        for position in range(place.entry, len(self._heights)):
            if seen >= height:
                return
            seen += len(self.rows(position))

    def measure_up(self, height: int) -> None:
        """Make exact what is seen in a window of this height at the very end."""
        seen = 0
        for position in range(len(self._heights) - 1, -1, -1):
            if seen >= height:
                return
            seen += len(self.rows(position))

    def same_place(self, place: Place, logical: int, inner: int) -> Place:
        """The place in newly wrapped rows that shows the same line (see `logical_line`)."""
        if place.entry >= len(self._heights):
            return place
        rows = self.rows(place.entry)
        line = -1
        for number in range(len(rows)):
            line += not rows[number].soft
            if line == logical:
                return Place(place.entry, min(number + inner, len(rows) - 1))
        return Place(place.entry, max(0, len(rows) - 1))

    def logical_line(self, place: Place) -> tuple[int, int]:
        """Which line of its entry a place shows, wrapped rows not counted, and which row of that line."""
        if place.entry >= len(self._heights):
            return 0, 0
        rows = self.rows(place.entry)
        line, inner = -1, 0
        for number in range(min(place.row + 1, len(rows))):
            inner = inner + 1 if rows[number].soft else 0
            line += not rows[number].soft
        return line, inner
