"""The visible part of the transcript: its tail, or the part that the user has scrolled to.

It knows no widget: `transcript.view` draws its rows, and tells it the size and where the user scrolls.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mahtab_tui.bus.entries import Cell, Entry, Note
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.greeting import TITLE_HEIGHT, GreetingLines, greeting_rows, text_columns
from mahtab_tui.tui.rows.code import is_drawn_whole
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.transcript.entry_window import EntryWindow, RowPosition
from mahtab_tui.tui.transcript.fold import Transcript
from mahtab_tui.tui.transcript.layout import activity_rows, search_rows
from mahtab_tui.tui.transcript.output import OutputRows
from mahtab_tui.tui.transcript.picture_rows import DEFAULT_SPACE, PictureSpace

if TYPE_CHECKING:
    from mahtab_tui.search.trees import SearchProgress

EXACT_PAGES = 4
"""Over up to this number of pages, rows are counted exactly when the user scrolls up."""


class Viewport:
    """Computes the visible rows.

    Call `lay_out` before accessing rows, and `settle` after changes.
    """

    def __init__(self, *, watched: bool = False) -> None:
        """
        Args:
            watched: Whether the session ran before, in another program or interface. What its older
                records say may then still be going on.
        """
        self.transcript = Transcript(since=0.0 if watched else time.time())
        self.greeting: GreetingLines = ()
        self.greeting_rows: list[Row] = []
        """The greeting as it is drawn; empty once the user has begun."""
        self.loading_cells = 0
        """The number of cells that load files at the start, before the user has begun."""
        self.search_progress: SearchProgress | None = None
        """The search that is running; None if there is none."""
        self.window: EntryWindow | None = None
        """None until the size is known."""
        self.top = RowPosition(0, 0)
        self.following = True
        """Whether new entries scroll the view, so that the last one is visible."""
        self.height = 0
        """In rows, with the title and the greeting."""
        self.picture_space = DEFAULT_SPACE
        self._read_entry: Entry | None = None
        """The last entry when the user scrolled. Its beginning need not be shown again."""
        self._seen_entry_count = 0
        """The number of entries when the user scrolled up."""

    def fold(self, new_records: Sequence[Record]) -> bool:
        """Fold records, and return whether something is drawn differently now."""
        old_activity = self.transcript.activity
        self.transcript.fold(new_records)
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

    # Size

    def lay_out(self, width: int, palette: Palette) -> None:
        """Lay out for a width in columns, keeping the top line."""
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
    def head_height(self) -> int:
        """The number of rows above the entries."""
        return TITLE_HEIGHT + len(self.greeting_rows)

    @property
    def page_height(self) -> int:
        """The number of rows for entries."""
        return max(1, self.height - self.head_height)

    @property
    def first_row(self) -> int:
        """The number of the first visible row."""
        if self.window is None:
            return 0
        return self.window.row_number(self.top)

    # What is visible

    def settle(self) -> None:
        """Lay out what is visible, after which the position of the top row is exact.

        Call this before drawing, after each change of the entries, the height or the position.
        """
        window = self.window
        assert window is not None
        self.greeting_rows = self._greeting_rows(window)
        count = len(self.transcript.entries)
        if self.following:
            window.measure(range(count - 1, -1, -1), self.page_height)
            self.top = window.position_at(len(self) - self.page_height)
            reading_position = self._reading_position(window)
            if reading_position is not None:
                self.top = min(self.top, reading_position)
        window.measure(range(self.top.entry, count), self.top.row + self.page_height)

    def _greeting_rows(self, window: EntryWindow) -> list[Row]:
        """Return the rows of the greeting that fit; none once the user has begun."""
        entries = self.transcript.entries
        if not self.greeting or not all(map(self._is_early, entries)):
            return []
        rows = greeting_rows(self.greeting, window.width, window.palette)
        available_rows = self.height - TITLE_HEIGHT
        if not entries:
            if len(rows) > available_rows:
                # The blank row above goes first.
                rows = rows[1:]
            return rows[:available_rows]

        # The entries get at least half of the height, if they need it.
        rows.append(Row())
        available_rows = max(available_rows // 2, available_rows - window.total)
        if len(rows) > available_rows:
            rows = [*rows[1:available_rows], Row()]
        return rows[:available_rows]

    def _is_early(self, entry: Entry) -> bool:
        """Return whether an entry comes before anything that the user does."""
        match entry:
            case Cell(person=True, number=int(number)):
                return number <= self.loading_cells
        return isinstance(entry, Note)

    def _reading_position(self, window: EntryWindow) -> RowPosition | None:
        """Return where to start reading; None for the end.

        This is the start of an opened notebook, or of a long text that came last, until the user
        scrolls. A view at the end of a long answer would make the user scroll up to read it.
        """
        last_index = len(self.transcript.entries) - 1
        if self._last_entry in (None, self._read_entry):
            return None
        if self.transcript.opened is not None:
            return RowPosition(self.transcript.positions[self.transcript.opened], 0)
        row = window.rows(last_index).reading_start
        if row is None:
            return None
        # The beginning of the entry is shown as well, if it is near.
        if row <= self.page_height // 2:
            row = 0
        return RowPosition(last_index, row)

    # Scrolling

    def scroll_to(self, row: int, *, at_end: bool) -> None:
        """Make a row the first visible one.

        Args:
            row: Its number among all rows. Of distant rows, it is an estimate.
            at_end: Whether the view follows new entries from now on.
        """
        window = self.window
        assert window is not None
        rows_up = window.row_number(self.top) - row
        if 0 < rows_up <= EXACT_PAGES * self.page_height:
            position = window.up(self.top, rows_up)
        else:
            position = self._lay_out_at(window, row)
        self.go(position, following=at_end)

    def _lay_out_at(self, window: EntryWindow, row: int) -> RowPosition:
        """Lay out the entry at a row, and return the row's position.

        Laying the entry out may change its height. Its end stays where it was, so that the entries
        below do not jump.
        """
        position = window.position_at(row)
        if position.entry >= len(self.transcript.entries):
            return position
        entry_end = window.row_number(RowPosition(position.entry + 1, 0))
        rows_to_end = entry_end - row
        height = len(window.rows(position.entry))
        return RowPosition(position.entry, max(0, height - rows_to_end))

    def go(self, position: RowPosition, *, following: bool) -> None:
        """Make a position the top.

        Args:
            position: The position of the first visible row.
            following: Whether new entries scroll the view from now on.
        """
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

    # Rows

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

    @property
    def hint(self) -> str:
        """What the view says if there is something new below what is visible; empty if not."""
        has_new = self.following or len(self.transcript.entries) > self._seen_entry_count
        has_rows_below = len(self) > self.first_row + self.page_height
        if has_new and has_rows_below:
            return " ↓ more "
        return ""

    @property
    def is_running(self) -> bool:
        """Whether something is drawn that changes with time."""
        if self.transcript.activity is not None or self.search_progress is not None:
            return True
        return bool(self.transcript.running)

    # Entries

    def entries(self) -> list[Entry]:
        """Return the visible entries."""
        if self.window is None:
            return []
        first_entry = self.window.position_at(self.first_row).entry
        last_entry = self.window.position_at(self.first_row + self.page_height - 1).entry
        return self.transcript.entries[first_entry : last_entry + 1]

    def unfinished_entry(self) -> Entry | None:
        """Return a visible entry that is not wholly drawn yet; None if there is none."""
        for entry in self.entries():
            position = self.transcript.positions[entry]
            if self.window is not None and not self.window.is_complete(position):
                return entry
        return None

    def slow_output(self, entry: Entry) -> OutputRows | None:
        """Return an output of an entry that takes too long to be drawn in a frame; None without one."""
        if self.window is None:
            return None
        return self.window.slow_output(self.transcript.positions[entry])

    def entry_at(self, y: int) -> Entry | None:
        """Return the entry on a line of the widget; None if there is none."""
        if self.window is None or y < self.head_height:
            return None
        index = self.window.position_at(self.first_row + y - self.head_height).entry
        entries = self.transcript.entries
        if index < len(entries):
            return entries[index]
        return None

    def span(self, entry: Entry) -> tuple[int, int]:
        """Return the first row of an entry, without the gap above, and the row after its last."""
        assert self.window is not None
        position = self.transcript.positions[entry]
        height = len(self.window.rows(position))
        top = self.window.row_number(RowPosition(position, 0))
        return top + entry.gap, top + height

    def shows(self, code: str) -> bool:
        """Return whether all of the code that waits for the user's approval is visible."""
        if self.window is None or not is_drawn_whole(code):
            return False
        for entry in reversed(self.transcript.entries):
            if not isinstance(entry, Cell) or entry.approval != "waiting":
                continue
            if entry.code.strip("\n") == code.strip("\n"):
                top, end = self.span(entry)
                return (
                    self.first_row <= top - entry.gap and end <= self.first_row + self.page_height
                )
        return False
