"""The visible part of the transcript: its tail, or the part that the user has scrolled to."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.bus.entries import Cell, Entry, Note
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.greeting import TITLE_HEIGHT, GreetingLines, greeting_rows, text_columns
from mahtab_tui.tui.rows.code import is_drawn_whole
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.transcript.fold import Transcript
from mahtab_tui.tui.transcript.layout import EntryRows, activity_rows, estimate_rows, search_rows
from mahtab_tui.tui.transcript.output import OutputRows
from mahtab_tui.tui.transcript.picture_rows import DEFAULT_SPACE, PictureSpace

if TYPE_CHECKING:
    from mahtab_tui.search.trees import SearchProgress


MAX_CACHED_ENTRIES = 64
EXACT_PAGES = 4
"""Over up to this number of pages, rows are counted exactly when the user scrolls."""


class Heights:
    """The heights of all entries in rows, with sums that are computed when they are needed."""

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._ends: list[int] = []
        """Sums of the heights; as many as are known."""

    def __len__(self) -> int:
        return len(self._heights)

    @property
    def total(self) -> int:
        return self.rows_before(len(self._heights))

    def append(self, height: int) -> None:
        self._heights.append(height)

    def set(self, index: int, height: int) -> None:
        if height != self._heights[index]:
            self._heights[index] = height
            del self._ends[index:]

    def rows_before(self, index: int) -> int:
        """Return the number of rows above an entry."""
        ends = self._ends
        if len(ends) < index:
            last_end = ends[-1] if ends else 0
            added_heights = islice(self._heights, len(ends), None)
            # The first sum is `last_end`, which is already there.
            sums = accumulate(added_heights, initial=last_end)
            ends += islice(sums, 1, None)
        return ends[index - 1] if index else 0

    def find(self, row: int) -> tuple[int, int]:
        """Return the entry and the row within it; past the end, `len(self)`."""
        index = bisect_right(self._ends, row) if row < self.total else len(self)
        return index, row - self.rows_before(index)


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
        self.space = space
        self._entries = entries
        self.width = width
        self.palette = palette
        self._heights = Heights()
        self._cached_rows: dict[int, EntryRows] = {}

    @property
    def total(self) -> int:
        return self._heights.total

    def update_heights(self, changed: Sequence[int]) -> None:
        for position in changed:
            height = estimate_rows(self._entries[position], self.width)
            if position == len(self._heights):
                self._heights.append(height)
            else:
                self._heights.set(position, height)

    def redraw(self, width: int, palette: Palette, space: PictureSpace) -> None:
        """Lay out anew what is asked for from now on."""
        self.width = width
        self.palette = palette
        self.space = space
        self._cached_rows.clear()

    def redraw_from(
        self, top: RowPosition, width: int, palette: Palette, space: PictureSpace
    ) -> RowPosition:
        """Lay out anew; return the new position of the same line."""
        starts = self._line_starts(top.entry)
        line = max(0, bisect_right(starts, top.row) - 1)
        row_in_line = top.row - starts[line] if starts else 0

        self.redraw(width, palette, space)
        starts = self._line_starts(top.entry)
        if not starts:
            return RowPosition(top.entry, 0)
        row = starts[min(line, len(starts) - 1)] + row_in_line
        return RowPosition(top.entry, min(row, len(self.rows(top.entry)) - 1))

    def rows(self, position: int) -> EntryRows:
        """Lay out an entry, which makes its height exact."""
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

    def is_complete(self, position: int) -> bool:
        """Return whether an entry is drawn completely, if it is laid out."""
        rows = self._cached_rows.get(position)
        return rows is None or rows.is_complete

    def slow_output(self, position: int) -> OutputRows | None:
        """Return an output of an entry that takes too long to be drawn in a frame, if there is one
        and the entry is laid out."""
        rows = self._cached_rows.get(position)
        return None if rows is None else rows.slow_output

    def row_number(self, position: RowPosition) -> int:
        return self._heights.rows_before(position.entry) + position.row

    def position_at(self, row: int) -> RowPosition:
        """Return a row's position; past the end, that after the last entry."""
        return RowPosition(*self._heights.find(max(0, row)))

    def up(self, position: RowPosition, rows: int) -> RowPosition:
        """Return the position a number of rows above, laying out what lies between."""
        entry = position.entry
        row = position.row - rows
        while row < 0 and entry > 0:
            entry -= 1
            row += len(self.rows(entry))
        return RowPosition(entry, max(0, row))

    def row(self, position: RowPosition) -> Row:
        rows = self.rows(position.entry)
        if position.row < len(rows):
            return rows[position.row]
        return Row()

    def measure(self, positions: range, height: int) -> None:
        """Lay out entries up to a height."""
        for position in positions:
            if height <= 0:
                return
            height -= len(self.rows(position))

    def _line_starts(self, entry: int) -> list[int]:
        """Return the rows at which unwrapped lines begin."""
        rows = self.rows(entry) if entry < len(self._heights) else ()
        return [number for number in range(len(rows)) if not rows[number].soft]


class Viewport:
    """Computes the visible rows. Call `lay_out` before accessing rows, and `settle` after
    changes."""

    def __init__(self, *, watched: bool = False) -> None:
        """watched: the session ran before, in another program or interface."""
        self.transcript = Transcript(since=0.0 if watched else time.time())
        self.greeting: GreetingLines = ()
        self.loads = 0
        """Cells that load files at the start."""
        self.search_progress: SearchProgress | None = None
        self.window: EntryWindow | None = None
        self.top = RowPosition(0, 0)
        self.following = True
        self.greeting_rows: list[Row] = []
        self.height = 0
        self.picture_space = DEFAULT_SPACE
        self._read_entry: Entry | None = None
        self._seen_entry_count = 0
        """The number of entries when the user scrolled up."""

    def fold(self, records: Sequence[Record]) -> bool:
        """Return whether something is drawn differently now."""
        old_activity = self.transcript.activity
        self.transcript.fold(records)
        changed = self.transcript.pop_changed()
        has_changed = bool(changed) or self.transcript.activity is not old_activity
        if self.window is None or not has_changed:
            return False
        self.window.update_heights(changed)
        return True

    def clear(self) -> None:
        """Empty the transcript; running cells stay."""
        self.transcript = self.transcript.copy_running()
        self.following = True
        self.top = RowPosition(0, 0)
        self.greeting_rows = []
        self.window = None

    def lay_out(self, width: int, palette: Palette) -> None:
        """Lay out, keeping the top line."""
        columns = text_columns(width)
        if self.window is None:
            self.window = EntryWindow(self.transcript.entries, columns, palette, self.picture_space)
            self.transcript.pop_changed()
            self.window.update_heights(range(len(self.transcript.entries)))
        elif (columns, palette) != (self.window.width, self.window.palette):
            self._redraw(self.window, columns, palette)

    def set_picture_space(self, space: PictureSpace) -> None:
        """Draw pictures for this space from now on, keeping the top line."""
        self.picture_space = space
        if self.window is not None and self.window.space != space:
            self._redraw(self.window, self.window.width, self.window.palette)

    def _redraw(self, window: EntryWindow, columns: int, palette: Palette) -> None:
        if self.following:
            window.redraw(columns, palette, self.picture_space)
        else:
            self.top = window.redraw_from(self.top, columns, palette, self.picture_space)

    @property
    def head(self) -> int:
        """The number of rows above the entries."""
        return TITLE_HEIGHT + len(self.greeting_rows)

    @property
    def page(self) -> int:
        """The number of rows for entries."""
        return max(1, self.height - self.head)

    @property
    def first(self) -> int:
        """The number of the first visible row."""
        if self.window is None:
            return 0
        return self.window.row_number(self.top)

    def settle(self) -> None:
        """Lay out what is visible, after which the position of the top row is exact."""
        window = self.window
        assert window is not None
        self.greeting_rows = self._greeting_rows(window)
        count = len(self.transcript.entries)
        if self.following:
            window.measure(range(count - 1, -1, -1), self.page)
            self.top = window.position_at(len(self) - self.page)
            reading_position = self._reading_position(window)
            if reading_position is not None:
                self.top = min(self.top, reading_position)
        window.measure(range(self.top.entry, count), self.top.row + self.page)

    def _greeting_rows(self, window: EntryWindow) -> list[Row]:
        """Return the rows of the greeting that fit; none once the user has begun."""
        entries = self.transcript.entries

        def is_early(entry: Entry) -> bool:
            match entry:
                case Cell(person=True, number=int(number)):
                    return number <= self.loads
            return isinstance(entry, Note)

        if not self.greeting or not all(map(is_early, entries)):
            return []
        rows = greeting_rows(self.greeting, window.width, window.palette)
        available_rows = self.height - TITLE_HEIGHT
        if entries:
            rows.append(Row())
            available_rows = max(available_rows // 2, available_rows - window.total)
        # If they do not fit, the blank row above goes first.
        if len(rows) > available_rows:
            rows = [*rows[1:available_rows], Row()] if entries else rows[1:]
        return rows[:available_rows]

    def _reading_position(self, window: EntryWindow) -> RowPosition | None:
        """Return the start of a notebook, or of a long text at the end, until the user scrolls."""
        last_index = len(self.transcript.entries) - 1
        if self._last_entry in (None, self._read_entry):
            return None
        if self.transcript.opened is not None:
            return RowPosition(self.transcript.positions[self.transcript.opened], 0)
        row = window.rows(last_index).reading_start
        if row is None:
            return None
        # If it is near the beginning of the entry, this is shown, too.
        return RowPosition(last_index, row if row > self.page // 2 else 0)

    def scroll_to(self, row: int, *, at_end: bool) -> None:
        """Make a row the first visible one. Distant rows are estimated."""
        window = self.window
        assert window is not None
        rows_up = window.row_number(self.top) - row
        if 0 < rows_up <= EXACT_PAGES * self.page:
            position = window.up(self.top, rows_up)
        else:
            position = window.position_at(row)
            if position.entry < len(self.transcript.entries):
                # Laying the entry out may change its height; its end stays where it was.
                entry_end = window.row_number(RowPosition(position.entry + 1, 0))
                rows_to_end = entry_end - row
                entry_row = max(0, len(window.rows(position.entry)) - rows_to_end)
                position = RowPosition(position.entry, entry_row)
        self.go(position, following=at_end)

    def go(self, position: RowPosition, *, following: bool) -> None:
        """Make a position the top. following: whether new entries scroll the view from now on."""
        if self.following and not following:
            self._seen_entry_count = len(self.transcript.entries)
        self.top = position
        self.following = following
        self.transcript.opened = None
        self._read_entry = self._last_entry

    @property
    def _last_entry(self) -> Entry | None:
        if self.transcript.entries:
            return self.transcript.entries[-1]
        return None

    def __len__(self) -> int:
        if self.window is None:
            return 0
        return self.window.total + len(self._tail())

    def __getitem__(self, row: int) -> Row:
        assert self.window is not None
        position = self.window.position_at(row)
        if position.entry < len(self.transcript.entries):
            return self.window.row(position)
        tail = self._tail()
        if position.row < len(tail):
            return tail[position.row]
        return Row()

    def _tail(self) -> list[Row]:
        """Return the rows below the entries: what runs now."""
        assert self.window is not None
        palette = self.window.palette
        rows = []
        if self.search_progress is not None:
            rows += search_rows(self.search_progress, self.window.width, palette)
        activity = self.transcript.activity
        if activity is not None:
            rows += activity_rows(activity, palette)
        return rows

    def entries(self) -> list[Entry]:
        """Return the visible entries."""
        if self.window is None:
            return []
        first_entry = self.window.position_at(self.first).entry
        last_entry = self.window.position_at(self.first + self.page - 1).entry
        return self.transcript.entries[first_entry : last_entry + 1]

    def unfinished_entry(self) -> Entry | None:
        """Return a visible entry that is not wholly drawn yet; None if there is none."""
        for entry in self.entries():
            position = self.transcript.positions[entry]
            if self.window is not None and not self.window.is_complete(position):
                return entry
        return None

    def slow_output(self, entry: Entry) -> OutputRows | None:
        """Return an output of an entry that takes too long to be drawn in a frame; None without
        one."""
        if self.window is None:
            return None
        return self.window.slow_output(self.transcript.positions[entry])

    def entry_at(self, y: int) -> Entry | None:
        """Return the entry on a line of the widget; None if there is none."""
        if self.window is None or y < self.head:
            return None
        index = self.window.position_at(self.first + y - self.head).entry
        entries = self.transcript.entries
        if index < len(entries):
            return entries[index]
        return None

    def span(self, entry: Entry) -> tuple[int, int]:
        """Return the first row without the gap, and the row after the last."""
        assert self.window is not None
        position = self.transcript.positions[entry]
        height = len(self.window.rows(position))
        top = self.window.row_number(RowPosition(position, 0))
        return top + entry.gap, top + height

    @property
    def is_running(self) -> bool:
        """Whether something is drawn that changes with time."""
        if self.transcript.activity is not None or self.search_progress is not None:
            return True
        return bool(self.transcript.running)

    def shows(self, code: str) -> bool:
        """Return whether all of the waiting code is visible."""
        if self.window is None or not is_drawn_whole(code):
            return False
        for entry in reversed(self.transcript.entries):
            if not isinstance(entry, Cell) or entry.approval != "waiting":
                continue
            if entry.code.strip("\n") == code.strip("\n"):
                top, end = self.span(entry)
                return self.first <= top - entry.gap and end <= self.first + self.page
        return False

    @property
    def hint(self) -> str:
        """Tells that there is something new below what is visible."""
        has_new = self.following or len(self.transcript.entries) > self._seen_entry_count
        has_rows_below = len(self) > self.first + self.page
        if has_new and has_rows_below:
            return " ↓ more "
        return ""
