"""The visible part of the transcript: its tail, or where the user has scrolled to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.panes.transcript.entries import Cell, Entry, Note
from mahtab_tui.tui.panes.transcript.fold import Transcript
from mahtab_tui.tui.panes.transcript.greeting import (
    TITLE_HEIGHT,
    GreetingLines,
    columns_of,
    greeting_rows,
)
from mahtab_tui.tui.panes.transcript.layout.prose import activity_rows, search_rows
from mahtab_tui.tui.panes.transcript.pinned import PinnedRow, pinned_rows
from mahtab_tui.tui.panes.transcript.window import RowPosition, Window
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.row import LIMIT, Row

if TYPE_CHECKING:
    from mahtab_tui.search.trees import SearchProgress

PINNED_SHARE = 3
"""Pinned entries have at most this part of the height: a third."""
NEAR = 4
"""When scrolling up by at most so many pages, rows are counted exactly."""


class Viewport:
    """Computes the visible rows. It follows the tail unless the user has scrolled up.

    Call `lay_out` before accessing rows, and `settle` after changes.
    """

    def __init__(self, *, watched: bool = False) -> None:
        """watched: the session runs in another program; there is no input, and cells that started
        earlier may still run."""
        self.transcript = Transcript(since=0.0 if watched else time.time())
        self.greeting: GreetingLines = ()
        """Stands above the entries until the user, a model or an agent begins."""
        self.loads = 0
        """How many cells load files at the start of the session."""
        self.search_progress: SearchProgress | None = None
        """The searches that run, while no other pane shows them."""
        self.window: Window | None = None
        """None before the first layout."""
        self.top = RowPosition(0, 0)
        """The first row below the title and the pinned entries."""
        self.following = True
        self.pinned: list[PinnedRow] = []
        """The rows of the greeting and of the pinned entries."""
        self.height = 0
        """Lines of the pane."""
        self._read: Entry | None = None
        """The entry in which the user has scrolled: it is followed to its end."""
        self._unseen_from = 0
        """The number of entries when the user scrolled up."""
        self._grown = False
        """Whether the transcript has grown since."""

    def fold(self, records: Sequence[Record]) -> bool:
        """Add records; returns whether visible rows may have changed."""
        doing = self.transcript.activity
        self.transcript.fold(records)
        changed = self.transcript.take_changed()
        if (
            changed and records and not self.following
        ):  # without records, only the user has changed something
            self._grown = True
        if self.window is None or not (changed or self.transcript.activity is not doing):
            return False
        self.window.take(changed)
        return True

    def clear(self) -> None:
        """Forget the entries, except running cells."""
        self.transcript = self.transcript.renewed()
        self.following, self._grown, self.top, self.pinned = True, False, RowPosition(0, 0), []
        self.window = None

    # Layout

    def lay_out(self, width: int, palette: Palette) -> None:
        """Lay out for a width and palette; the top line stays."""
        columns = columns_of(width)
        if self.window is None:
            self.window = Window(self.transcript.entries, columns, palette)
            self.transcript.take_changed()
            self.window.take(range(len(self.transcript.entries)))
        elif (columns, palette) != (self.window.width, self.window.palette):
            line = self.window.logical_line(self.top)
            self.window.redraw(columns, palette)
            if not self.following:
                self.top = self.window.same_place(self.top, *line)

    @property
    def head(self) -> int:
        """Rows that do not scroll: the title, the greeting and the pinned entries."""
        return TITLE_HEIGHT + len(self.pinned)

    @property
    def page(self) -> int:
        """The number of visible rows of entries."""
        return max(1, self.height - self.head)

    @property
    def first(self) -> int:
        """The number of the top row."""
        return 0 if self.window is None else self.window.row_of(self.top)

    def settle(self) -> None:
        """Lay out the visible rows, at the scroll position or the tail."""
        window = self.window
        assert window is not None
        pinned = [
            (entry, window.rows(self.transcript.positions[entry]))
            for entry in self.transcript.pinned
            if not entry.hidden
        ]
        self.pinned = self._greeting_rows(window) + pinned_rows(
            pinned, self.height // PINNED_SHARE, window.width, window.palette
        )
        if not self.following:
            window.measure_down(self.top, self.page)
            return
        window.measure_up(self.page)
        self.top = window.place_of(len(self) - self.page)
        if (beginning := self._beginning(window)) is not None:
            self.top = min(self.top, beginning)
            window.measure_down(self.top, self.page)

    def _greeting_rows(self, window: Window) -> list[PinnedRow]:
        """Return the rows of the greeting; notices and loaded files below it have at most half of
        the height."""
        if not self.greeting or not all(
            map(self._precedes_the_first_cell, self.transcript.entries)
        ):
            return []
        rows, room = (
            greeting_rows(self.greeting, window.width, window.palette),
            self.height - TITLE_HEIGHT,
        )
        if self.transcript.entries:
            rows.append(Row())
            room = max(room // 2, room - window.total)
        if len(rows) > room:  # the blank row above goes first
            rows = [*rows[1:room], Row()] if self.transcript.entries else rows[1:]
        return [PinnedRow(row, None) for row in rows[:room]]

    def _precedes_the_first_cell(self, entry: Entry) -> bool:
        loads = (
            isinstance(entry, Cell)
            and entry.person
            and entry.number is not None
            and entry.number <= self.loads
        )
        return isinstance(entry, Note) or loads

    def _beginning(self, window: Window) -> RowPosition | None:
        """Return the start of a notebook or of a long text at the end, such as help, until the user
        has scrolled in it.

        Include the code before a text if it is short.
        """
        last = len(self.transcript.entries) - 1
        if last < 0 or self.transcript.entries[last] is self._read:
            return None
        if self.transcript.opened is not None:
            return RowPosition(self.transcript.positions[self.transcript.opened], 0)
        if (row := window.rows(last).reading) is None:
            return None
        return RowPosition(last, row if row > self.page // 2 else 0)

    # Scrolling

    def scroll_to(self, row: int, *, at_end: bool) -> None:
        """Scroll to a row, or follow the tail. Nearby rows are laid out and counted; distant ones
        are estimated."""
        window = self.window
        assert window is not None
        self.go(self._place_at(window, row), following=at_end)

    def _place_at(self, window: Window, row: int) -> RowPosition:
        up = window.row_of(self.top) - row
        if 0 < up <= NEAR * self.page:
            return window.up(self.top, up)
        place = window.place_of(row)
        if place.entry == len(self.transcript.entries):
            return place
        below = window.row_of(RowPosition(place.entry + 1, 0)) - row
        return RowPosition(place.entry, max(0, len(window.rows(place.entry)) - below))

    def go(self, place: RowPosition, *, following: bool) -> None:
        """Scroll to a position, or follow the tail."""
        if self.following and not following:
            self._unseen_from, self._grown = len(self.transcript.entries), False
        self.top, self.following, self.transcript.opened = place, following, None
        self._read = self.transcript.entries[-1] if self.transcript.entries else None

    # Visible rows

    def __len__(self) -> int:
        return 0 if self.window is None else self.window.total + len(self._tail())

    def __getitem__(self, row: int) -> Row:
        assert self.window is not None
        place = self.window.place_of(row)
        if place.entry < len(self.transcript.entries):
            return self.window.row(place)
        tail = self._tail()
        return tail[place.row] if place.row < len(tail) else Row()

    def _tail(self) -> list[Row]:
        """Return the rows after the last entry."""
        assert self.window is not None
        palette = self.window.palette
        search = (
            []
            if self.search_progress is None
            else search_rows(self.search_progress, self.window.width, palette)
        )
        activity = self.transcript.activity
        return search if activity is None else search + activity_rows(activity, palette)

    def entries(self) -> list[Entry]:
        """Return the visible entries, in order."""
        if self.window is None:
            return []
        first, last = (
            self.window.place_of(row).entry for row in (self.first, self.first + self.page - 1)
        )
        return self.transcript.entries[first : last + 1]

    def place(self, row: int) -> RowPosition | None:
        """Return the position of a row; None after the last entry."""
        place = self.window.place_of(row) if self.window is not None else None
        return place if place is not None and place.entry < len(self.transcript.entries) else None

    def entry_at(self, y: int) -> Entry | None:
        """Return the entry at a line of the pane."""
        if y < TITLE_HEIGHT:
            return None
        if y < self.head:
            return self.pinned[y - TITLE_HEIGHT].entry
        place = self.place(self.first + y - self.head)
        return None if place is None else self.transcript.entries[place.entry]

    def span(self, entry: Entry) -> tuple[int, int]:
        """Return an entry's first row, without the gap, and the row after its last."""
        assert self.window is not None
        position = self.transcript.positions[entry]
        height = len(self.window.rows(position))
        top = self.window.row_of(RowPosition(position, 0))
        return top + entry.gap, top + height

    @property
    def goes_on(self) -> bool:
        """Whether anything runs whose time is shown."""
        return (
            self.transcript.activity is not None
            or self.search_progress is not None
            or bool(self.transcript.running)
        )

    def rows_of_time(self) -> list[int]:
        """Return the rows that show a running time."""
        if (window := self.window) is None:
            return []
        rows = [
            window.row_of(RowPosition(self.transcript.positions[cell], int(cell.gap)))
            for cell in self.transcript.running.values()
        ]
        return [*rows, *range(window.total, window.total + len(self._tail()))]

    def shows(self, code: str) -> bool:
        """Return whether all of the waiting code is visible."""
        if self.window is None or code.count("\n") >= LIMIT:
            return False
        for entry in reversed(self.transcript.entries):
            if (
                isinstance(entry, Cell)
                and entry.approval == "waiting"
                and entry.code.strip("\n") == code.strip("\n")
            ):
                top, end = self.span(entry)
                return self.first <= top - entry.gap and end <= self.first + self.page
        return False

    @property
    def hint(self) -> str:
        """The hint at the lower right if there is more below."""
        if self.following:
            return " ↓ more " if len(self) > self.first + self.page else ""
        if not self._grown:
            return ""
        new = len(self.transcript.entries) - self._unseen_from
        return f" ↓ {new} new " if new else " ↓ more "
