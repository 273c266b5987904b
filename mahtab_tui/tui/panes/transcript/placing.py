"""Where the transcript stands: at its tail, or where the person has scrolled to."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.reactive import var

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.panes.transcript.entries import Cell, Entry
from mahtab_tui.tui.panes.transcript.fold import Transcript
from mahtab_tui.tui.panes.transcript.layout.prose import activity_rows, greeting_rows
from mahtab_tui.tui.panes.transcript.pinned import PinnedRow, pinned_rows
from mahtab_tui.tui.panes.transcript.window import Place, Window
from mahtab_tui.tui.rows.palette import Palette
from mahtab_tui.tui.rows.redrawn import Redrawn
from mahtab_tui.tui.rows.row import LIMIT, Row
from mahtab_tui.tui.rows.strips import EDGE, RIGHT

TITLE_HEIGHT = 1
MOST_COLUMNS = 120
"""Columns of text, however wide the pane is: longer lines are hard to read."""
PINNED_SHARE = 3
"""What is pinned has at most this part of the height: a third."""
NEAR = 4
"""Pages of scrolling up within which rows are counted exactly."""


class PlacedView(Redrawn):
    """A window of rows over the entries. It follows the tail unless the person has scrolled up."""

    height_of_all: var[int] = var(0)
    """Rows of everything, the title too: watched by who shares the screen by it."""
    room: var[tuple[int, int]] = var((0, 0))
    """Columns and lines that a cell's output has; (0, 0) before the first layout."""

    greeting: var[tuple[tuple[str, str], ...]] = var(())
    """What is said as long as nothing has happened: marks and sentences."""

    def __init__(self, *, id: str | None = None, watched: bool = False) -> None:
        """watched: of a session that runs elsewhere; there is nothing to type here, and what began earlier may still run."""
        super().__init__(id=id)
        self._watched = watched
        self._transcript = Transcript(since=0.0 if watched else time.time())
        self._palette: Palette | None = None
        self._window: Window | None = None
        self._top = Place(0, 0)
        """What is at the first row below the title."""
        self._following = True
        self._read: Entry | None = None
        """The entry within which the person has scrolled: it is followed to its end."""
        self._unseen_from = 0
        """Entries that there were when the person scrolled up."""
        self._grown = False
        """Something came since."""
        self._placing = False
        self._pinned: list[PinnedRow] = []

    # What others call

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought. Main thread only."""
        doing = self._transcript.activity
        self._transcript.fold(records)
        changed = self._transcript.take_changed()
        if changed and records and not self._following:  # else only the person has changed something
            self._grown = True
        if self._window is not None and (changed or self._transcript.activity is not doing):
            self._window.take(changed)
            self._place()

    def watch_greeting(self) -> None:
        if self._window is not None:
            self._place()

    def clear(self) -> None:
        """Empty the transcript; the conversation and the namespace stay, and so does what runs."""
        self._transcript = self._transcript.renewed()
        self._following, self._grown, self._top, self._pinned = True, False, Place(0, 0), []
        self._window = None
        if self.is_attached:
            self._look_anew()

    def shows(self, code: str) -> bool:
        """Whether all of the code that waits for the person can be seen now."""
        window, entries = self._window, self._transcript.entries
        if window is None or code.count("\n") >= LIMIT:
            return False
        for position in range(len(entries) - 1, -1, -1):
            entry = entries[position]
            if isinstance(entry, Cell) and entry.approval == "waiting" and entry.code.strip("\n") == code.strip("\n"):
                first = window.row_of(Place(position, 0))
                return self._top <= Place(position, 0) and first + len(window.rows(position)) <= window.row_of(self._top) + self._page
        return False

    # Layout

    @property
    def _text_width(self) -> int:
        return max(8, min(MOST_COLUMNS, self.scrollable_content_region.width - EDGE - RIGHT))

    @property
    def _head(self) -> int:
        """Rows above those that scroll: the title, and what is pinned."""
        return TITLE_HEIGHT + len(self._pinned)

    @property
    def _page(self) -> int:
        """Rows of entries that are seen at once."""
        return max(1, self.size.height - self._head)

    def look_anew(self, palette: Palette) -> None:
        if self._window is None:
            self._window = Window(self._transcript.entries, self._text_width, palette)
            self._transcript.take_changed()
            self._window.take(range(len(self._transcript.entries)))
        elif (self._text_width, palette) != (self._window.width, self._palette):
            line = self._window.logical_line(self._top)
            self._window.redraw(self._text_width, palette)
            if not self._following:
                self._top = self._window.same_place(self._top, *line)
        self._palette = palette
        self.room = (self._text_width, self._page)
        self._place()

    def _place(self) -> None:
        """Make what is seen exact, and scroll to where the person was, or to the tail."""
        window = self._window
        if window is None:
            return
        self._placing = True
        self._pin()
        tail = len(self._tail())
        if self._following:
            window.measure_up(self._page)
        else:
            window.measure_down(self._top, self._page)
        total = self._head + window.total + tail
        self.hold(total)
        self.height_of_all = total
        if self._following:
            self._top = window.place_of(total - self._head - self._page)
            if (beginning := self._beginning(window)) is not None:
                self._top = min(self._top, beginning)
        self.scroll_target_y = self.scroll_y = window.row_of(self._top)
        self._placing = False

    def _beginning(self, window: Window) -> Place | None:
        """Where a long text that came last begins, such as help, until the person has scrolled in it. What led to it is shown, too, if short."""
        last = len(self._transcript.entries) - 1
        if last < 0 or self._transcript.entries[last] is self._read or (row := window.rows(last).reading) is None:
            return None
        return Place(last, row if row > self._page // 2 else 0)

    def _tail(self) -> list[Row]:
        """Rows behind the last entry."""
        assert self._palette is not None
        if self._transcript.activity is not None:
            return activity_rows(self._transcript.activity, self._palette)
        return [] if self._transcript.entries or self._watched else greeting_rows(self.greeting, self._text_width, self._palette)

    def _pin(self) -> None:
        """Lay out what stands at the top."""
        assert self._window is not None
        assert self._palette is not None
        rows = [(entry, self._window.rows(self._transcript.position(entry))) for entry in self._transcript.pinned if not entry.hidden]
        pinned = pinned_rows(rows, self.size.height // PINNED_SHARE, self._text_width, self._palette)
        if pinned != self._pinned:
            self._pinned = pinned
            self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._placing and self._window is not None:
            self._go(self._place_at(self._window, round(new_value)), following=new_value >= self.max_scroll_y)

    def _place_at(self, window: Window, row: int) -> Place:
        """What is to be on top when the person scrolls to a row. Near by, rows are laid out to count them; far off, a guess will do."""
        up = window.row_of(self._top) - row
        if 0 < up <= NEAR * self._page:
            return window.up(self._top, up)
        place = window.place_of(row)
        if place.entry == len(self._transcript.entries):
            return place
        below = window.row_of(Place(place.entry + 1, 0)) - row
        return Place(place.entry, max(0, len(window.rows(place.entry)) - below))

    def _go(self, place: Place, *, following: bool) -> None:
        """Show a place, or the tail."""
        if self._following and not following:
            self._unseen_from, self._grown = len(self._transcript.entries), False
        self._top, self._following = place, following
        self._read = self._transcript.entries[-1] if self._transcript.entries else None
        self._place()

    # Scrolling by keys: at once, since rows are laid out as they come into sight

    def action_scroll_end(self) -> None:
        self._go(self._top, following=True)

    def action_scroll_home(self) -> None:
        self._go(Place(0, 0), following=self.max_scroll_y == 0)

    def action_page_up(self) -> None:
        self.scroll_to(y=self.scroll_y - self._page + 1, animate=False, immediate=True)

    def action_page_down(self) -> None:
        self.scroll_to(y=self.scroll_y + self._page - 1, animate=False, immediate=True)

    def action_scroll_up(self) -> None:
        self.scroll_to(y=self.scroll_y - 1, animate=False, immediate=True)

    def action_scroll_down(self) -> None:
        self.scroll_to(y=self.scroll_y + 1, animate=False, immediate=True)
