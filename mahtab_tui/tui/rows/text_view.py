"""The widget that shows a text of any length: it scrolls, selects and searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.tui.rows.row import Span, mark_selection, selection_origin, style_ranges
from mahtab_tui.tui.rows.text_source import PartMissing, TextSource, find_match
from mahtab_tui.tui.rows.text_window import TextRow, TextWindow
from mahtab_tui.tui.theme import REVERSE, get_palette
from mahtab_tui.tui.workers import Fetcher

WHEEL_ROWS = 3
"""Rows that a step of the mouse wheel scrolls."""
MAX_ROWS_ABOVE_MATCH = 3
"""Rows above a match to which the view scrolls, at most a quarter of all."""

StyledPart = tuple[int, int, Style]
"""The offsets of its start and end, and its style."""


class LongTextView(Widget, can_focus=True):
    """Scrolls a long text by `CURSOR_KEYS`, the wheel, and clicks at the right edge.

    A subclass says how wide the text is (`text_width`), what stands before each row (`row_prefix`) and
    at the right edge (`edge`), and which parts have a style (`part_styles`, `line_style`).
    """

    def __init__(self, source: TextSource) -> None:
        super().__init__()
        self.window = TextWindow(source)
        self.top = 0
        """The offset of the first visible row."""
        self.lines: list[TextRow] = []
        """The visible rows."""
        self.search_text = ""
        """What was searched for last; empty for nothing."""
        self.hit: TextSpan | None = None
        """The place that the search has found; None if it has found none."""
        self.fetcher = Fetcher(self)
        self._pending_work: list[Callable[[], None]] = []
        """What `load_then` calls once a part of the text has come."""

    @property
    def source(self) -> TextSource:
        return self.window.source

    # What a subclass says

    @property
    def text_width(self) -> int:
        """The width of a row of text, in cells."""
        raise NotImplementedError

    def row_prefix(self, row: TextRow) -> Sequence[Span]:
        """Return what stands before a row, such as its line number."""
        raise NotImplementedError

    def edge(self, y: int) -> Span:
        """Return the last cell of a line of the widget, which belongs to a scroll bar."""
        raise NotImplementedError

    def part_styles(self, row: TextRow) -> list[StyledPart]:
        """Return the styles of parts of the text; those that are not in the row do not matter."""
        if self.hit is None:
            return []
        return [(*self.hit, REVERSE)]

    def line_style(self, row: TextRow) -> Style | None:
        """Return a style for a whole line of the widget; None for none."""
        return None

    @property
    def rows_above(self) -> int:
        """How many rows stay visible above a place to which the view goes."""
        return 0

    # Drawing

    def render_line(self, y: int) -> Strip:
        base = self.visual_style.rich_style
        edge_text, edge_style = self.edge(y)
        edge = Segment(edge_text, base + edge_style)
        line_width = self.size.width - 1
        if y >= len(self.lines):
            note = " It is empty." if y == 0 and not self.source.size else ""
            empty_line = Strip([Segment(note, base + get_palette(self.app).muted)])
            return Strip([*empty_line.crop_extend(0, line_width, base), edge])

        row = self.lines[y]
        text = Strip(self._text_segments(row, base)).crop(0, self.size.width)
        line = Strip([*self._prefix_segments(row, base), *text])
        strip = Strip([*line.crop_extend(0, line_width, base), edge])
        line_style = self.line_style(row)
        if line_style is not None:
            return Strip(Segment.apply_style(strip, post_style=line_style), strip.cell_length)
        return strip

    def _prefix_segments(self, row: TextRow, base: Style) -> Iterator[Segment]:
        """Draw what stands before a row.

        There is one segment for each character, so that a click anywhere to the left of the text
        starts a selection at its first character.
        """
        origin = selection_origin(0, row.start)
        for text, style in self.row_prefix(row):
            for character in text:
                yield Segment(character, base + style + origin)

    def _text_segments(self, row: TextRow, base: Style) -> Iterator[Segment]:
        """Draw the text of a row, with the styles of its parts and the selection."""
        spans: Sequence[Span] = [(row.text, base + get_palette(self.app).text)]
        for start, end, style in self.part_styles(row):
            if start < row.end and end > row.start:
                spans = style_ranges(spans, [(start - row.start, end - row.start)], style)
        offset = 0
        for text, style in mark_selection(self, spans, row.start):
            yield Segment(text, style + selection_origin(offset, row.start))
            offset += len(text)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, which begins and ends in what was visible."""
        if not self.lines:
            return None
        start = self.lines[0].start
        if selection.start is not None:
            start = selection.start.y + selection.start.x
        end = self.lines[-1].end
        if selection.end is not None:
            end = selection.end.y + selection.end.x
        try:
            return self.source.part(start, min(end, self.source.size)), "\n"
        except PartMissing:  # of a long text that was scrolled meanwhile
            return None

    def load_then(self, work: Callable[[], None]) -> None:
        """Call `work` once the parts of the text that it reads are loaded."""
        if self._pending_work:
            self._pending_work.append(work)
            return
        try:
            work()
        except PartMissing as missing:
            self._pending_work.append(work)
            add_part = partial(self._add_part, missing.add)
            self.fetcher.run("text", missing.fetch, add_part, self._fail_to_load)

    def _add_part(self, add: Callable[[Any], None], part: Any) -> None:
        """Add a part that has come, and do the work that has waited for it."""
        add(part)
        pending_work = self._pending_work
        self._pending_work = []
        for work in pending_work:
            self.load_then(work)

    def _fail_to_load(self, sentence: str) -> None:
        self._pending_work.clear()
        self.fail(sentence)

    # Scrolling

    def refresh_view(self) -> None:
        """Lay out the visible rows anew, and draw them. Raises `PartMissing`."""
        height = max(1, self.size.height)
        if self.size:
            self.lines = self.window.rows(self.top, height, self.text_width)
        else:
            self.lines = []
        self.refresh()

    def go_to(self, offset: int) -> None:
        """Scroll to the row that contains an offset, once this part of the text is loaded."""

        def go() -> None:
            row = self.window.row_at(offset, self.text_width)
            self.top = self.window.up(row, self.rows_above, self.text_width)
            self.refresh_view()

        self.load_then(go)

    def on_resize(self) -> None:
        self.rewrap()

    def rewrap(self) -> None:
        """Lay out the rows in another width, with the same text at the top."""

        def wrap() -> None:
            self.top = self.window.row_at(self.top, self.text_width)
            self.refresh_view()

        self.load_then(wrap)

    def action_move(self, step: int) -> None:
        """Scroll down by a number of rows, or up if it is negative."""

        def move() -> None:
            if step < 0:
                self.top = self.window.up(self.top, -step, self.text_width)
            elif not self.lines or self.lines[-1].end < self.source.size:
                below = self.window.down(self.top, step, self.text_width)
                self.top = min(below, max(self.top, self._last_top()))
            self.refresh_view()

        self.load_then(move)

    def action_move_page(self, direction: int) -> None:
        """Scroll down (1) or up (-1) by a page."""
        self.action_move(direction * max(1, self.size.height - 2))

    def action_move_to(self, offset: int) -> None:
        """Go to the start of the text (0), or else to its end."""
        if offset == 0:
            self.top = 0
        self.load_then(self._go_to_end if offset else self.refresh_view)

    def _go_to_end(self) -> None:
        width = 0
        # Longer line numbers make rows narrower, which moves the end further down.
        while width != self.text_width:
            width = self.text_width
            self.top = self._last_top()
            self.refresh_view()

    def _last_top(self) -> int:
        """Return the offset of the first visible row when the end of the text is at the bottom."""
        last_row = self.window.row_at(self.source.size - 1, self.text_width)
        return self.window.up(last_row, max(0, self.size.height - 1), self.text_width)

    # Searching

    def find(self, search_text: str, start: int, *, backwards: bool) -> TextSpan | None:
        """Return the next place of a text, or the previous one. Called on a thread; see `find_match`."""
        return find_match(self.source, search_text, start, backwards=backwards)

    def search(self, search_text: str) -> None:
        """Search for a text from the first visible row on; empty to end the search."""
        self.search_text = search_text
        self.hit = None
        self.action_next(False)
        if not search_text:
            self.load_then(self.refresh_view)

    def action_next(self, backwards: bool) -> None:
        """Go to the next match, or to the previous one."""
        if self.hit is None:
            start = self.top
        else:
            hit_start, hit_end = self.hit
            start = hit_start if backwards else hit_end
        if self.search_text:
            find = partial(self.find, self.search_text, start, backwards=backwards)
            self.fetcher.run("find", find, self._set_hit, self.fail)

    def fail(self, sentence: str) -> None:
        """Tell the user what went wrong."""
        self.app.notify(sentence)

    def _set_hit(self, hit: TextSpan | None) -> None:
        self.hit = hit
        if hit is None:
            self.fail("Not found in the text.")
            self.refresh()
        else:
            self.load_then(self._show_hit)

    def _show_hit(self) -> None:
        """Scroll to the match if it is not visible."""
        if self.hit is None:
            return
        start, _ = self.hit
        width = self.text_width
        row = self.window.row_at(start, width)
        is_visible = bool(self.lines) and self.lines[0].start <= start < self.lines[-1].end
        if not is_visible:
            rows_above = min(MAX_ROWS_ABOVE_MATCH, self.size.height // 4)
            self.top = self.window.up(row, rows_above, width)
        self.refresh_view()

    # The mouse

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.action_move(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.action_move(-WHEEL_ROWS)

    def on_click(self, event: Click) -> None:
        if event.x == self.size.width - 1:
            self.go_to(event.y * self.source.size // max(1, self.size.height))
