"""What the transcript shows: a window of rows over the entries, fed by the bus."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from rich.style import Style
from textual.events import Click, Resize
from textual.geometry import Offset, Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.panes.transcript.entries import Entry
from mahtab_tui.tui.panes.transcript.fold import Transcript
from mahtab_tui.tui.panes.transcript.layout.entry import warm_up
from mahtab_tui.tui.panes.transcript.layout.prose import FRAME_RATE, activity_rows, greeting_rows
from mahtab_tui.tui.panes.transcript.layout.row import Row
from mahtab_tui.tui.panes.transcript.palette import BOLD, REVERSE, Palette
from mahtab_tui.tui.panes.transcript.pinned import PinnedRow, pinned_rows
from mahtab_tui.tui.panes.transcript.selecting import number_of_place, selected_text, word_at
from mahtab_tui.tui.panes.transcript.strips import EDGE, RIGHT, strip_of, title_strip, with_hint, with_mark, with_sought
from mahtab_tui.tui.panes.transcript.window import Place, Window

TITLE_HEIGHT = 1
PINNED_SHARE = 3
"""What is pinned has at most this part of the height: a third."""
NEAR = 4
"""Pages of scrolling up within which rows are counted exactly."""


class TranscriptView(ScrollView, can_focus=True):
    """Everything that happened, in order. It follows the tail unless the person has scrolled up."""

    ALLOW_SELECT = True

    height_of_all: var[int] = var(0)
    """Rows of everything, the title too: watched by who shares the screen by it."""

    def __init__(self, *, id: str | None = None, watched: bool = False) -> None:
        """watched: of a session that runs elsewhere; there is nothing to type here, and what began earlier may still run."""
        super().__init__(id=id)
        self._watched = watched
        self._transcript = Transcript(since=0.0 if watched else time.time())
        self._palette: Palette | None = None
        self._window: Window | None = None
        self._top = Place(0, 0)
        """What is at the first row below the title."""
        self.sought: re.Pattern[str] | None = None
        """What is marked wherever it stands, while the pane is at it."""
        self._finding = False
        """A line to search with is open."""
        self._mark: Entry | None = None
        """The entry that keys act on; seen while the pane has the focus."""
        self._following = True
        self._unseen_from = 0
        """Entries that there were when the person scrolled up."""
        self._grown = False
        """Something came since."""
        self._placing = False
        self._pinned: list[PinnedRow] = []
        self._shown: list[Row | str] = []
        """The rows of the page at the last look, and the hint on them."""
        self._ticking: Timer | None = None

    # What others call

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought. Main thread only."""
        self._transcript.fold(records)
        changed = self._transcript.take_changed()
        if changed and not self._following:
            self._grown = True
        if self._window is not None:
            self._window.take(changed)
            self._place()
        self._tick_if_needed()

    def clear(self) -> None:
        """Empty the transcript; the conversation and the namespace stay, and so does what runs."""
        self._transcript = self._transcript.renewed()
        self._following, self._grown, self._top, self._mark, self._pinned = True, False, Place(0, 0), None, []
        self._window = None
        if self.is_attached:
            self._look_anew()

    # Layout

    @property
    def _text_width(self) -> int:
        return max(8, self.scrollable_content_region.width - EDGE - RIGHT)

    @property
    def _head(self) -> int:
        """Rows above those that scroll: the title, and what is pinned."""
        return TITLE_HEIGHT + len(self._pinned)

    @property
    def _page(self) -> int:
        """Rows of entries that are seen at once."""
        return max(1, self.size.height - self._head)

    def on_mount(self) -> None:
        self._tick_if_needed()
        self.call_after_refresh(warm_up)

    def on_resize(self, event: Resize) -> None:
        self._look_anew()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_attached and self.size:
            self._look_anew()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def _look_anew(self) -> None:
        """The width or the colours may be others."""
        palette = Palette.of({**self.app.get_theme_variable_defaults(), **self.app.theme_variables})
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
        self._place()

    def _tail(self) -> list[Row]:
        """Rows behind the last entry."""
        assert self._palette is not None
        if self._transcript.activity is not None:
            return activity_rows(self._transcript.activity, self._palette)
        return [] if self._transcript.entries or self._watched else greeting_rows(self._text_width, self._palette)

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
        # Only the scrollbar depends on the height: assigned plainly, it would have the whole screen laid out anew.
        self.set_reactive(Widget.virtual_size, Size(self.scrollable_content_region.width, total))
        self.vertical_scrollbar.window_virtual_size = self.height_of_all = total
        if self._following:
            self._top = window.place_of(total - self._head - self._page)
        self.scroll_target_y = self.scroll_y = window.row_of(self._top)
        self._placing = False
        self._refresh_changed()

    def _pin(self) -> None:
        """Lay out what stands at the top."""
        assert self._window is not None
        assert self._palette is not None
        rows = [(entry, self._window.rows(self._transcript.position(entry))) for entry in self._transcript.pinned if not entry.hidden]
        pinned = pinned_rows(rows, self.size.height // PINNED_SHARE, self._text_width, self._palette)
        if pinned != self._pinned:
            self._pinned, self._shown = pinned, []

    def _refresh_changed(self) -> None:
        """Draw the rows that are not what they were at the last look: of a growing answer, its end."""
        first = self.scroll_offset.y
        shown: list[Row | str] = [self._row(first + y) for y in range(self._page)]
        before, self._shown = self._shown, [*shown, self._hint()]
        if len(before) != len(self._shown) or before[-1] != self._shown[-1]:
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, shown, strict=False)):
            if old != new:
                self.refresh_line(first + y + self._head)

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
        self._place()

    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self.visual_style.rich_style
        if self._window is None or self._palette is None:
            return Strip.blank(width, base)
        if y < TITLE_HEIGHT:
            style = self._palette.text + BOLD if self.has_focus else self._palette.muted
            return title_strip("TRANSCRIPT", base + style, base, width)
        if y < self._head:
            return strip_of(self._pinned[y - TITLE_HEIGHT].row, None, width, base, None, base)
        row = self.scroll_offset.y + y - self._head
        strip = self._strip(row, width, base)
        if y == self.size.height - 1 and (hint := self._hint()):
            return with_hint(strip, hint, base + self._palette.moon, width)
        return strip

    def _row(self, row: int) -> Row:
        """What is drawn at a row, counted from the top of all entries."""
        assert self._window is not None
        place = self._window.place_of(row)
        if place.entry < len(self._transcript.entries):
            return self._window.row(place)
        tail = self._tail()
        return tail[place.row] if place.row < len(tail) else Row()

    def _strip(self, row: int, width: int, base: Style) -> Strip:
        assert self._window is not None
        place = self._window.place_of(row)
        number = number_of_place(place)
        if place.entry >= len(self._transcript.entries):
            return strip_of(self._row(row), number, width, base, None, base)
        selection = self.text_selection
        span = None if selection is None else selection.get_span(number)
        style = self.screen.get_component_rich_style("screen--selection") if span else base
        drawn = self._window.row(place)
        if self.sought is not None and self._palette is not None and (self.has_focus or self._finding):
            drawn = with_sought(drawn, self.sought, self._palette.moon + REVERSE)
        strip = strip_of(drawn, number, width, base, span, style)
        entry = self._transcript.entries[place.entry]
        marked = self.has_focus and entry is self._mark and place.row >= entry.gap
        return with_mark(strip, base + self._palette.moon) if marked and self._palette is not None else strip

    def _hint(self) -> str:
        if self._following or not self._grown:
            return ""
        new = len(self._transcript.entries) - self._unseen_from
        return f" ↓ {new} new " if new else " ↓ more "

    # Time

    def _tick_if_needed(self) -> None:
        needed = self._transcript.activity is not None or bool(self._transcript.running)
        if needed and self._ticking is None and self.is_attached:
            self._ticking = self.set_interval(1 / FRAME_RATE, self._tick)
        elif not needed and self._ticking is not None:
            self._ticking.stop()
            self._ticking = None

    def _tick(self) -> None:
        """Time went on: draw the rows that show it."""
        window = self._window
        if window is None:
            return
        running = self._transcript.running.values()
        rows = [window.row_of(Place(self._transcript.position(cell), int(cell.gap))) for cell in running]
        if self._transcript.activity is not None:
            rows.append(window.total + 1)
        for row in rows:
            self.refresh_line(row + self._head)

    # Selecting

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        if self._window is None:
            return None
        return selected_text(self._window, len(self._transcript.entries), selection), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def on_click(self, event: Click) -> None:
        """On the hint: to the tail. Twice: the word. Three times: the line."""
        if event.y == self.size.height - 1 and self._hint() and event.x >= self.size.width - len(self._hint()) - 1:
            self.action_scroll_end()
        if event.chain not in (2, 3) or self._window is None or event.y < self._head:
            return
        event.prevent_default()
        place = self._window.place_of(self.scroll_offset.y + event.y - self._head)
        if place.entry >= len(self._transcript.entries):
            return
        text = self._window.row(place).text
        start, end = word_at(text, event.x - EDGE) if event.chain == 2 else (0, len(text))
        number = number_of_place(place)
        self.screen.selections = {self: Selection(Offset(start, number), Offset(end, number))}

    # Scrolling by keys: at once, since rows are laid out as they come into sight

    def action_scroll_end(self) -> None:
        self._go(self._top, following=True)

    def action_scroll_home(self) -> None:
        self._go(Place(0, 0), following=self.max_scroll_y == 0)

    def action_page_up(self) -> None:
        self.scroll_to(y=self.scroll_y - self._page + 1, animate=False)

    def action_page_down(self) -> None:
        self.scroll_to(y=self.scroll_y + self._page - 1, animate=False)

    def action_scroll_up(self) -> None:
        self.scroll_to(y=self.scroll_y - 1, animate=False)

    def action_scroll_down(self) -> None:
        self.scroll_to(y=self.scroll_y + 1, animate=False)
