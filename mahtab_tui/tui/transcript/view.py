"""The transcript's view: drawing, scrolling, selecting, marking and searching.

`Viewport` computes which rows are visible, `Marker` which entry is marked, and `TranscriptSearch` what is
found. The view draws their results, and hands them what the user does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from rich.style import Style
from textual.events import Click
from textual.geometry import Offset
from textual.reactive import var
from textual.selection import Selection
from textual.strip import Strip

from mahtab_tui.bus.entries import Cell, Entry
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.greeting import TITLE, TITLE_HEIGHT, GreetingLines
from mahtab_tui.tui.pictures.block_cache import BlockCache
from mahtab_tui.tui.pictures.picture import PicturePart, PictureWidget, SizedPicture
from mahtab_tui.tui.rows.clicked_text import line_rows, word_span
from mahtab_tui.tui.rows.markdown import FIGURE_KEY
from mahtab_tui.tui.rows.row import (
    EDGE,
    Row,
    RowsView,
    focus_words,
    highlight_matches,
    mark_selection,
    mark_strip,
    overlay_hint,
    title_strip,
    to_strip,
)
from mahtab_tui.tui.terminal_app import FRAME_S, RIGHT_BUTTON
from mahtab_tui.tui.theme import BOLD, REVERSE, Palette, get_palette
from mahtab_tui.tui.transcript.entry_window import RowPosition
from mahtab_tui.tui.transcript.finding import TranscriptSearch
from mahtab_tui.tui.transcript.marker import Marker, can_be_marked
from mahtab_tui.tui.transcript.output_lines import DisplayRows
from mahtab_tui.tui.transcript.picture_rows import MIN_CHART_ROWS, PictureSpace, mark_unreadable
from mahtab_tui.tui.transcript.selection import (
    number_to_position,
    position_to_number,
    selected_text,
)
from mahtab_tui.tui.transcript.viewport import Viewport
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.search.trees import SearchProgress

ROWS_BESIDE_PICTURE = 13
"""Rows of the screen for the header, a cell's code and changes, the editor and the footer."""


class TranscriptView(RowsView, PictureWidget, can_focus=True):
    """A transcript that can be scrolled, marked, selected and searched."""

    ALLOW_SELECT = True

    height_of_all: var[int] = var(0)
    """The number of rows with the title."""
    visible_size: var[tuple[int, int]] = var((0, 0))
    """Columns and rows for output."""
    greeting: var[GreetingLines] = var(())
    """What stands above the entries until the user begins."""
    search_progress: var[SearchProgress | None] = var(None)
    """Searches that no other pane shows."""

    def __init__(self, *, id: str | None = None, watched: bool = False) -> None:
        """
        Args:
            id: The widget's id.
            watched: See `Viewport`.
        """
        self.viewport = Viewport(watched=watched)
        super().__init__(self.viewport, id=id)
        self.marker = Marker(self.viewport)
        self.search = TranscriptSearch(self.viewport, self.marker)
        self._is_placing = False
        """Whether the view tells Textual where it is, rather than the user scrolling."""
        self._will_draw_more = False
        """Whether a timer or a thread draws the next part of an entry."""
        self._folds_soon = False
        """Whether a timer folds changes that wait."""
        self._visited_count = 0
        """Number of entries when the view last had the focus."""
        self._drawn_hint = ""
        """The hint in the last row, as it was drawn."""
        self._fetcher = Fetcher(self)
        self._drawings = BlockCache(
            self._fetcher, self._visible_pictures, self._redraw_picture, self._show_picture_text
        )

    def fold(self, records: Sequence[Record]) -> None:
        """Show what new records say."""
        if self.viewport.fold(records):
            self._update_scroll()
        self.tick_while(self.viewport.is_running)
        if self.viewport.transcript.is_behind and not self._folds_soon:
            self._folds_soon = True
            self.set_timer(FRAME_S, self._fold_more)

    def _fold_more(self) -> None:
        self._folds_soon = False
        self.fold([])

    def redraw_entry(self, entry: Entry) -> None:
        """Draw an entry again, although no record has changed it."""
        self.viewport.transcript.touch(entry)
        self.fold([])

    def watch_greeting(self) -> None:
        self.viewport.greeting = self.greeting
        self._update_scroll()

    def watch_search_progress(self) -> None:
        self.viewport.search_progress = self.search_progress
        self._update_scroll()
        self.tick_while(self.viewport.is_running)

    def clear(self) -> None:
        """Empty the transcript, but not the conversation, the namespace or running cells."""
        self.viewport.clear()
        self.search = TranscriptSearch(self.viewport, self.marker)
        self.marker.entry = None
        if self.is_attached:
            self.reload()

    @property
    def head(self) -> int:
        return self.viewport.head_height

    def refresh_view(self) -> None:
        self.viewport.height = self.size.height
        self.lay_out()
        assert self.viewport.window is not None
        self.visible_size = (self.viewport.window.width, self.viewport.page_height)
        self._update_scroll()

    def _update_scroll(self) -> None:
        """Lay out what is visible, and tell Textual where the view is."""
        viewport = self.viewport
        if viewport.window is None:
            return
        viewport.set_picture_space(self._picture_space())
        self._is_placing = True
        old_greeting = viewport.greeting_rows
        viewport.settle()
        self.height_of_all = viewport.head_height + len(viewport)
        self.set_row_count(self.height_of_all)
        self.scroll_target_y = self.scroll_y = viewport.first_row
        self._is_placing = False
        has_moved_mark = self.marker.keep_visible()
        if has_moved_mark or viewport.greeting_rows != old_greeting:
            self.refresh()
        self.refresh_changed()
        self._drawings.draw_next()
        if not self._will_draw_more and viewport.unfinished_entry() is not None:
            self._will_draw_more = True
            self.set_timer(FRAME_S, self._draw_more)

    def _draw_more(self) -> None:
        """Draw the next part of a visible entry that takes more than a frame."""
        self._will_draw_more = False
        entry = self.viewport.unfinished_entry()
        if entry is None:
            return
        output = self.viewport.slow_output(entry)
        if output is None:
            self.redraw_entry(entry)
            return

        display = output.slow_displays[0]

        def show(rows: DisplayRows | None) -> None:
            self._will_draw_more = False
            output.show_display(display, rows)
            self.redraw_entry(entry)

        self._will_draw_more = True
        draw = partial(output.draw_display, display)
        self._fetcher.run("display", draw, show, lambda _: show(None))

    def _picture_space(self) -> PictureSpace:
        """Return what pictures may fill; a terminal with graphics draws figures as they are."""
        terminal = getattr(self.app, "terminal", None)
        if terminal is not None and terminal.graphics is not None:
            return PictureSpace(draws_charts=False)
        height = max(MIN_CHART_ROWS, self.app.size.height - ROWS_BESIDE_PICTURE)
        return PictureSpace(height)

    def fit_pictures(self) -> None:
        self._update_scroll()

    def refresh_changed(self) -> None:
        super().refresh_changed()
        if self._drawn_hint != self.viewport.hint:
            self._drawn_hint = self.viewport.hint
            self.refresh()

    def on_mount(self) -> None:
        self.tick_while(self.viewport.is_running)

    def on_focus(self) -> None:
        """Mark an entry: the newest one, if the user has not seen it yet."""
        entries = self.viewport.transcript.entries
        # A new entry is what the user comes to see.
        if len(entries) > self._visited_count > 0:
            markable = (entry for entry in reversed(entries) if can_be_marked(entry))
            self.marker.entry = next(markable, None)
            self.action_scroll_end()
        self.marker.marked  # noqa: B018 (marks an entry)

    def on_blur(self) -> None:
        self._visited_count = len(self.viewport.transcript.entries)

    def render_line(self, y: int) -> Strip:
        width = self.width
        base = self.visual_style.rich_style
        # The widget is drawn before it knows its size.
        if self._laid_out_for is None:
            self.refresh_view()
        if self._laid_out_for is None:
            return Strip.blank(width, base)
        _, palette = self._laid_out_for
        if y < TITLE_HEIGHT:
            style = palette.text + BOLD if self.has_focus else palette.muted
            title = TITLE + focus_words(self.has_focus)
            return title_strip(title, base + style, base, width)
        if y < self.head:
            return to_strip(self.viewport.greeting_rows[y - TITLE_HEIGHT], None, width, base)
        strip = self._strip(self.scroll_offset.y + y - self.head, width, base, palette)
        hint = self.viewport.hint
        if hint and y == self.size.height - 1:
            return overlay_hint(strip, hint, base + palette.highlight, width)
        return strip

    def _strip(self, index: int, width: int, base: Style, palette: Palette) -> Strip:
        """Draw a row, with matches, the selection and the mark."""
        assert self.viewport.window is not None
        row = self.viewport[index]
        position = self.viewport.window.position_at(index)
        number = position_to_number(position)
        # Below the entries are the rows of what runs now.
        if position.entry >= len(self.viewport.transcript.entries):
            return to_strip(row, number, width, base)

        if self.search.pattern is not None and (self.has_focus or self.search.open):
            row = highlight_matches(row, self.search.pattern, palette.highlight + REVERSE)
        row = row._replace(spans=mark_selection(self, row.spans, number))
        strip = to_strip(row, number, width, base, self._picture_strip(row))

        entry = self.viewport.transcript.entries[position.entry]
        is_marked = self.has_focus and entry is self.marker.entry and position.row >= entry.gap
        if is_marked:
            return mark_strip(strip, base + palette.highlight)
        return strip

    def pictures(self) -> Iterator[PicturePart]:
        # A hint covers the last row, and graphics would cover a selection.
        rows = self._drawn_rows[:-1] if self._drawn_hint else self._drawn_rows
        if self.text_selection is not None:
            rows = []
        picture_rows = []
        for y, row in enumerate(rows):
            if row.picture is not None:
                picture, number = row.picture
                picture_rows.append((y, picture, number))

        # Rows of one picture have the same distance from its first row.
        for _, part in groupby(picture_rows, key=lambda row: (row[1], row[0] - row[2])):
            (y, picture, top), *other_rows = part
            if self._drawings.get(picture):
                yield PicturePart(picture, EDGE, y + self.head, top, 1 + len(other_rows))

    def _visible_pictures(self) -> Iterable[SizedPicture]:
        return dict.fromkeys(row.picture[0] for row in self._drawn_rows if row.picture)

    def _picture_strip(self, row: Row) -> Strip | None:
        """Return the row of a picture, blank until it is drawn; None if the row has none."""
        if row.picture is None:
            return None
        picture, number = row.picture
        strips = self._drawings.get(picture)
        if strips:
            return strips[number]
        return Strip.blank(picture.columns, get_palette(self.app).surface)

    def _redraw_picture(self, picture: SizedPicture) -> None:
        """Draw the visible rows of a picture that has been drawn meanwhile."""
        for y, row in enumerate(self._drawn_rows):
            row_picture = row.picture[0] if row.picture is not None else None
            if row_picture == picture:
                self.refresh_line(self.scroll_offset.y + self.head + y)

    def _show_picture_text(self, picture: SizedPicture) -> None:
        """Draw the text of a picture that cannot be drawn."""
        for entry in self.viewport.transcript.entries:
            if isinstance(entry, Cell) and mark_unreadable(entry.output, picture):
                self.redraw_entry(entry)

    # Scrolling by keys, without animation because rows are laid out only when they become visible

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._is_placing and self.viewport.window is not None:
            self.viewport.scroll_to(round(new_value), at_end=new_value >= self.max_scroll_y)
            self._update_scroll()

    def _go(self, position: RowPosition, *, following: bool) -> None:
        """Go to a position; see `Viewport.go`."""
        self.viewport.go(position, following=following)
        self._update_scroll()

    def _scroll(self, row: float) -> None:
        self.scroll_to(y=row, animate=False, immediate=True)

    def action_scroll_end(self) -> None:
        self._go(self.viewport.top, following=True)

    def action_scroll_home(self) -> None:
        self._go(RowPosition(0, 0), following=self.max_scroll_y == 0)

    def action_page_up(self) -> None:
        self._scroll(self.scroll_y - self.viewport.page_height + 1)

    def action_page_down(self) -> None:
        self._scroll(self.scroll_y + self.viewport.page_height - 1)

    def action_scroll_up(self) -> None:
        self._scroll(self.scroll_y - 1)

    def action_scroll_down(self) -> None:
        self._scroll(self.scroll_y + 1)

    def action_walk(self, step: int) -> None:
        """Scroll within the marked entry, or mark the next (1) or the previous one (-1)."""
        marked = self.marker.marked
        if marked is None:
            return
        if self.marker.scrolls_within(marked, step):
            self._scroll(self.scroll_y + step)
        elif (entry := self.marker.next(marked, step)) is not None:
            self.mark_and_show(entry)
        elif step > 0:
            self.action_scroll_end()

    def mark_and_show(self, entry: Entry) -> None:
        """Mark an entry, and scroll to it."""
        row = self.marker.mark(entry)
        if row is not None:
            self._scroll(row)
        self.refresh()

    def action_go_to_cell(self, number: int) -> None:
        cell = self.viewport.transcript.cell(number)
        if cell is not None:
            self.mark_and_show(cell)
        else:
            self.app.notify(f"Cell {number} is no longer in the transcript.")

    def begin_find(self) -> None:
        self.search.match = None
        self.search.open = True

    def find(self, query: str, step: int) -> str:
        self.refresh()
        result = self.search.find(re.escape(query.lower()), step)
        row = result.row
        if row is not None and not 0 <= row - self.scroll_offset.y < self.viewport.page_height:
            self._scroll(max(0, row - self.viewport.page_height // 2))
        return result.position

    def end_find(self) -> None:
        self.search.open = False
        self.focus()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        window = self.viewport.window
        if window is None:
            return None
        entry_count = len(self.viewport.transcript.entries)
        return selected_text(window, entry_count, selection), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def on_click(self, event: Click) -> None:
        if event.chain > 1:
            # Textual would select everything.
            event.prevent_default()
            self._select_at(event)
        elif event.button == RIGHT_BUTTON or self.text_selection:
            return
        elif FIGURE_KEY in event.style.meta:
            self.action_go_to_cell(event.style.meta[FIGURE_KEY])

    def _select_at(self, event: Click) -> None:
        """Select the word under the mouse, or at the third click the whole line."""
        window = self.viewport.window
        _, offset = self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)
        if window is None or offset is None:
            return
        position = number_to_position(offset.y)
        # Below the entries are the rows of what runs now.
        if position.entry >= len(self.viewport.transcript.entries):
            return

        rows = window.rows(position.entry)
        first_row = last_row = position.row
        if event.chain == 2:
            start, end = word_span(rows[position.row].text, offset.x)
        else:
            first_row, last_row = line_rows(rows, position.row)
            start = 0
            end = len(rows[last_row].text)
        self.screen.selections = {
            self: Selection(
                Offset(start, position_to_number(RowPosition(position.entry, first_row))),
                Offset(end, position_to_number(RowPosition(position.entry, last_row))),
            )
        }
