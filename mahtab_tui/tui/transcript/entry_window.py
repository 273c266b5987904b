"""Lays out the entries of a transcript as rows, as far as somebody looks at them.

A session may have a hundred thousand entries, of which a screen shows a few. So the heights of entries
are estimated, from which the scroll bar follows, and exact only once an entry is laid out. The rows of
few entries are kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import NamedTuple

from mahtab_tui.bus.entries import Entry
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.transcript.layout import EntryRows, estimate_rows
from mahtab_tui.tui.transcript.output import OutputRows
from mahtab_tui.tui.transcript.picture_rows import DEFAULT_SPACE, PictureSpace

MAX_CACHED_ENTRIES = 64
"""Entries whose rows are kept."""


class RowPosition(NamedTuple):
    """A row of an entry, both counted from 0."""

    entry: int
    row: int


class EntryWindow:
    """Lays out entries in one width; those that were not laid out have estimated heights."""

    def __init__(
        self,
        entries: Sequence[Entry],
        width: int,
        palette: Palette,
        space: PictureSpace = DEFAULT_SPACE,
    ) -> None:
        """
        Args:
            entries: All entries of the transcript, to which more are added.
            width: In columns.
            palette: The colours of the theme.
            space: How large pictures may be.
        """
        self._entries = entries
        self.width = width
        self.palette = palette
        self.space = space
        self._heights = Heights()
        self._cached_rows: dict[int, EntryRows] = {}
        """Entries that are laid out, by their positions; the least recently used one first."""

    @property
    def total(self) -> int:
        """The number of rows of all entries, of which some are estimated."""
        return self._heights.total

    def update_heights(self, changed: Sequence[int]) -> None:
        """Estimate the heights of entries that are new or have changed."""
        for position in changed:
            height = estimate_rows(self._entries[position], self.width)
            if position == len(self._heights):
                self._heights.append(height)
            else:
                self._heights.set(position, height)

    def redraw(self, width: int, palette: Palette, space: PictureSpace) -> None:
        """Lay out anew what is asked for from now on. Heights stay estimates until then."""
        self.width = width
        self.palette = palette
        self.space = space
        self._cached_rows.clear()

    def redraw_from(
        self, top: RowPosition, width: int, palette: Palette, space: PictureSpace
    ) -> RowPosition:
        """Lay out anew, so that the view stays at the same line of text.

        A line that was wrapped into three rows may have two in the new width, so the row's number
        alone does not say where it is.

        Args:
            top: The position of the first visible row.

        Returns:
            The position of the same line in the new layout.
        """
        starts = self._line_starts(top.entry)
        line = max(0, bisect_right(starts, top.row) - 1)
        row_in_line = top.row - starts[line] if starts else 0

        self.redraw(width, palette, space)
        starts = self._line_starts(top.entry)
        if not starts:
            return RowPosition(top.entry, 0)
        row = starts[min(line, len(starts) - 1)] + row_in_line
        return RowPosition(top.entry, min(row, len(self.rows(top.entry)) - 1))

    def _line_starts(self, entry: int) -> list[int]:
        """Return the rows at which unwrapped lines begin."""
        rows = self.rows(entry) if entry < len(self._heights) else ()
        return [number for number in range(len(rows)) if not rows[number].soft]

    # The rows of an entry

    def rows(self, position: int) -> EntryRows:
        """Lay out an entry, which makes its height exact.

        The rows that were asked for last stay in memory.
        """
        # Taken out and put in again, so that the least recently used entry stands first.
        rows = self._cached_rows.pop(position, None)
        if rows is None:
            rows = EntryRows(self._entries[position], self.width, self.palette, self.space)
            if len(self._cached_rows) >= MAX_CACHED_ENTRIES:
                least_recent = next(iter(self._cached_rows))
                del self._cached_rows[least_recent]
        self._cached_rows[position] = rows
        rows.update()
        self._heights.set(position, len(rows))
        return rows

    def row(self, position: RowPosition) -> Row:
        """Return a row; an empty one past the end of the entry, which may have become shorter."""
        rows = self.rows(position.entry)
        if position.row < len(rows):
            return rows[position.row]
        return Row()

    def measure(self, positions: range, height: int) -> None:
        """Lay out entries, one after the other, until they fill a height."""
        for position in positions:
            if height <= 0:
                return
            height -= len(self.rows(position))

    def is_complete(self, position: int) -> bool:
        """Return whether an entry is drawn completely, if it is laid out."""
        rows = self._cached_rows.get(position)
        return rows is None or rows.is_complete

    def slow_output(self, position: int) -> OutputRows | None:
        """Return an output of an entry that takes too long to be drawn in a frame.

        None if there is no such output, or if the entry is not laid out.
        """
        rows = self._cached_rows.get(position)
        return None if rows is None else rows.slow_output

    # Where a row is

    def row_number(self, position: RowPosition) -> int:
        """Return the number of a row among those of all entries."""
        return self._heights.rows_before(position.entry) + position.row

    def position_at(self, row: int) -> RowPosition:
        """Return a row's position; past the end, that after the last entry."""
        return RowPosition(*self._heights.find(max(0, row)))

    def up(self, position: RowPosition, row_count: int) -> RowPosition:
        """Return the position a number of rows above, laying out what lies between."""
        entry = position.entry
        row = position.row - row_count
        while row < 0 and entry > 0:
            entry -= 1
            row += len(self.rows(entry))
        return RowPosition(entry, max(0, row))


class Heights:
    """The heights of all entries in rows, with sums that are computed when they are needed.

    Entries are added at the end and looked at there, so most changes leave most sums as they are.
    """

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._ends: list[int] = []
        """For each entry, the number of rows up to its end; only for those of which it is known."""

    def __len__(self) -> int:
        return len(self._heights)

    @property
    def total(self) -> int:
        return self.rows_before(len(self._heights))

    def append(self, height: int) -> None:
        self._heights.append(height)

    def set(self, index: int, height: int) -> None:
        """Change the height of an entry. The sums of all entries below are computed again."""
        if height != self._heights[index]:
            self._heights[index] = height
            del self._ends[index:]

    def rows_before(self, index: int) -> int:
        """Return the number of rows above an entry."""
        if index == 0:
            return 0
        ends = self._ends
        if len(ends) < index:
            last_end = ends[-1] if ends else 0
            added_heights = islice(self._heights, len(ends), None)
            # The first sum is `last_end`, which is already there.
            sums = accumulate(added_heights, initial=last_end)
            ends += islice(sums, 1, None)
        return ends[index - 1]

    def find(self, row: int) -> tuple[int, int]:
        """Return the entry and the row within it; past the end, `len(self)`."""
        index = bisect_right(self._ends, row) if row < self.total else len(self)
        return index, row - self.rows_before(index)
