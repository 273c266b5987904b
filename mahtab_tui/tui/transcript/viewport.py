"""The visible part of the transcript: its tail, or the part that the user has scrolled to."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.bus.conversation import Cell, Entry, Note
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.greeting import TITLE_HEIGHT, GreetingLines, greeting_rows, text_columns
from mahtab_tui.tui.rows.code import is_drawn_whole
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.transcript.fold import Transcript
from mahtab_tui.tui.transcript.layout import EntryRows, activity_rows, estimate_rows, search_rows
from mahtab_tui.tui.transcript.output import DEFAULT_SPACE, PictureSpace

if TYPE_CHECKING:
    from mahtab_tui.search.tree import SearchProgress


class Heights:
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
        ends = self._ends
        if len(ends) < index:
            new = islice(self._heights, len(ends), None)
            ends += islice(accumulate(new, initial=ends[-1] if ends else 0), 1, None)
        return ends[index - 1] if index else 0

    def find(self, row: int) -> tuple[int, int]:
        """Return the entry and the row within it; past the end, `len(self)`."""
        index = bisect_right(self._ends, row) if row < self.total else len(self)
        return index, row - self.rows_before(index)


CACHED = 64


class RowPosition(NamedTuple):
    entry: int
    row: int


class Window:
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
        self._drawn: dict[int, EntryRows] = {}

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
        self._drawn.clear()

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
        drawn = self._drawn.pop(position, None)
        if drawn is None:
            drawn = EntryRows(self._entries[position], self.width, self.palette, self.space)
            if len(self._drawn) >= CACHED:
                del self._drawn[next(iter(self._drawn))]
        self._drawn[position] = drawn
        drawn.update()
        self._heights.set(position, len(drawn))
        return drawn

    def row_number(self, position: RowPosition) -> int:
        return self._heights.rows_before(position.entry) + position.row

    def position_at(self, row: int) -> RowPosition:
        """Return a row's position; past the end, that after the last entry."""
        return RowPosition(*self._heights.find(max(0, row)))

    def up(self, position: RowPosition, rows: int) -> RowPosition:
        """Return the position so many rows above, laying out what lies between."""
        entry = position.entry
        row = position.row - rows
        while row < 0 and entry > 0:
            entry -= 1
            row += len(self.rows(entry))
        return RowPosition(entry, max(0, row))

    def row(self, position: RowPosition) -> Row:
        rows = self.rows(position.entry)
        return rows[position.row] if position.row < len(rows) else Row()

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


EXACT_PAGES = 4
"""Pages up to which rows are counted exactly."""


class Viewport:
    """Computes the visible rows. Call `lay_out` before accessing rows, and `settle` after
    changes."""

    def __init__(self, *, watched: bool = False) -> None:
        """watched: the session runs in another program."""
        self.transcript = Transcript(since=0.0 if watched else time.time())
        self.greeting: GreetingLines = ()
        self.loads = 0
        """Cells that load files at the start."""
        self.search_progress: SearchProgress | None = None
        self.window: Window | None = None
        self.top = RowPosition(0, 0)
        self.following = True
        self.greeting_rows: list[Row] = []
        self.height = 0
        self.picture_space = DEFAULT_SPACE
        self._read_entry: Entry | None = None
        self._seen = 0
        """Entries when the user scrolled up."""

    def fold(self, records: Sequence[Record]) -> bool:
        doing = self.transcript.activity
        self.transcript.fold(records)
        changed = self.transcript.pop_changed()
        if self.window is None or not (changed or self.transcript.activity is not doing):
            return False
        self.window.update_heights(changed)
        return True

    def clear(self) -> None:
        self.transcript = self.transcript.copy_running()
        self.following = True
        self.top = RowPosition(0, 0)
        self.greeting_rows = []
        self.window = None

    def lay_out(self, width: int, palette: Palette) -> None:
        """Lay out, keeping the top line."""
        columns = text_columns(width)
        if self.window is None:
            self.window = Window(self.transcript.entries, columns, palette, self.picture_space)
            self.transcript.pop_changed()
            self.window.update_heights(range(len(self.transcript.entries)))
        elif (columns, palette) != (self.window.width, self.window.palette):
            self._redraw(self.window, columns, palette)

    def set_picture_space(self, space: PictureSpace) -> None:
        """Draw pictures for this space from now on, keeping the top line."""
        self.picture_space = space
        if self.window is not None and self.window.space != space:
            self._redraw(self.window, self.window.width, self.window.palette)

    def _redraw(self, window: Window, columns: int, palette: Palette) -> None:
        if self.following:
            window.redraw(columns, palette, self.picture_space)
        else:
            self.top = window.redraw_from(self.top, columns, palette, self.picture_space)

    @property
    def head(self) -> int:
        return TITLE_HEIGHT + len(self.greeting_rows)

    @property
    def page(self) -> int:
        return max(1, self.height - self.head)

    @property
    def first(self) -> int:
        return 0 if self.window is None else self.window.row_number(self.top)

    def settle(self) -> None:
        window = self.window
        assert window is not None
        self.greeting_rows = self._greeting_rows(window)
        count = len(self.transcript.entries)
        if self.following:
            window.measure(range(count - 1, -1, -1), self.page)
            self.top = window.position_at(len(self) - self.page)
            if (beginning := self._reading_position(window)) is not None:
                self.top = min(self.top, beginning)
        window.measure(range(self.top.entry, count), self.top.row + self.page)

    def _greeting_rows(self, window: Window) -> list[Row]:
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
        if len(rows) > available_rows:  # the blank row above goes first
            rows = [*rows[1:available_rows], Row()] if entries else rows[1:]
        return rows[:available_rows]

    def _reading_position(self, window: Window) -> RowPosition | None:
        """Return the start of a notebook, or of a long text at the end, until the user scrolls."""
        last = len(self.transcript.entries) - 1
        if self._last_entry in (None, self._read_entry):
            return None
        if self.transcript.opened is not None:
            return RowPosition(self.transcript.positions[self.transcript.opened], 0)
        if (row := window.rows(last).reading_start) is None:
            return None
        return RowPosition(last, row if row > self.page // 2 else 0)

    def scroll_to(self, row: int, *, at_end: bool) -> None:
        """Distant rows are estimated."""
        window = self.window
        assert window is not None
        up = window.row_number(self.top) - row
        if 0 < up <= EXACT_PAGES * self.page:
            position = window.up(self.top, up)
        elif (position := window.position_at(row)).entry < len(self.transcript.entries):
            below = window.row_number(RowPosition(position.entry + 1, 0)) - row
            inner = max(0, len(window.rows(position.entry)) - below)
            position = RowPosition(position.entry, inner)
        self.go(position, following=at_end)

    def go(self, position: RowPosition, *, following: bool) -> None:
        if self.following and not following:
            self._seen = len(self.transcript.entries)
        self.top = position
        self.following = following
        self.transcript.opened = None
        self._read_entry = self._last_entry

    @property
    def _last_entry(self) -> Entry | None:
        return self.transcript.entries[-1] if self.transcript.entries else None

    def __len__(self) -> int:
        return 0 if self.window is None else self.window.total + len(self._tail())

    def __getitem__(self, row: int) -> Row:
        assert self.window is not None
        position = self.window.position_at(row)
        if position.entry < len(self.transcript.entries):
            return self.window.row(position)
        tail = self._tail()
        return tail[position.row] if position.row < len(tail) else Row()

    def _tail(self) -> list[Row]:
        assert self.window is not None
        palette = self.window.palette
        rows = []
        if self.search_progress is not None:
            rows += search_rows(self.search_progress, self.window.width, palette)
        if (activity := self.transcript.activity) is not None:
            rows += activity_rows(activity, palette)
        return rows

    def entries(self) -> list[Entry]:
        if self.window is None:
            return []
        first = self.window.position_at(self.first).entry
        last = self.window.position_at(self.first + self.page - 1).entry
        return self.transcript.entries[first : last + 1]

    def entry_at(self, y: int) -> Entry | None:
        if self.window is None or y < self.head:
            return None
        index = self.window.position_at(self.first + y - self.head).entry
        return next(iter(self.transcript.entries[index : index + 1]), None)

    def span(self, entry: Entry) -> tuple[int, int]:
        """Return the first row without the gap, and the row after the last."""
        assert self.window is not None
        position = self.transcript.positions[entry]
        height = len(self.window.rows(position))
        top = self.window.row_number(RowPosition(position, 0))
        return top + entry.gap, top + height

    @property
    def is_running(self) -> bool:
        waits = self.transcript.activity is not None or self.search_progress is not None
        return waits or bool(self.transcript.running)

    def shows(self, code: str) -> bool:
        if self.window is None or not is_drawn_whole(code):
            return False
        cells = (entry for entry in reversed(self.transcript.entries) if isinstance(entry, Cell))
        for entry in cells:
            if entry.approval == "waiting" and entry.code.strip("\n") == code.strip("\n"):
                top, end = self.span(entry)
                return self.first <= top - entry.gap and end <= self.first + self.page
        return False

    @property
    def hint(self) -> str:
        has_new = self.following or len(self.transcript.entries) > self._seen
        return " ↓ more " if has_new and len(self) > self.first + self.page else ""
