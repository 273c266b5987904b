"""A view over a text of any length. It moves by positions in the text, since the number of rows is
not known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.strip import Strip
from textual.widget import Widget

from mahtab_tui.tui.rows.palette import palette_of
from mahtab_tui.tui.rows.row import Span
from mahtab_tui.tui.rows.text_window import TextRow, TextWindow

_WHEEL = 3
"""Rows that the wheel moves."""

StyledPart = tuple[int, int, Style]
"""Start and end in the text, and the style."""


class LongTextView(Widget, can_focus=True):
    """Moves through the text by `rows_view.CURSOR_KEYS`, the wheel, and clicks at the right edge,
    which represents the whole text."""

    def __init__(self, window: TextWindow) -> None:
        super().__init__()
        self.window = window
        self.top = 0
        """The position of the first visible row."""
        self.found: tuple[int, int] | None = None
        """The match of the last search."""
        self.lines: list[TextRow] = []
        self._left = 0
        """Horizontal scroll offset in cells."""

    # Drawing

    @property
    def text_width(self) -> int:
        """Cells of a row's text."""
        raise NotImplementedError

    def left_of(self, row: TextRow) -> Sequence[Span]:
        """Return what is left of a row's text: the line number."""
        raise NotImplementedError

    def edge(self, y: int) -> Span:
        """Return the right edge at a line of the view."""
        raise NotImplementedError

    def ink(self, row: TextRow) -> Style:
        return palette_of(self.app).text

    def colours_in(self, row: TextRow) -> list[StyledPart]:
        """Return styles of parts of a row, later ones over earlier ones."""
        return [] if self.found is None else [(*self.found, Style(reverse=True))]

    def ground(self, row: TextRow) -> Style | None:
        """Return a style for the whole line, if any."""
        return None

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.visual_style.rich_style
        text, style = self.edge(y)
        edge = Segment(text, base + style)
        if y >= len(self.lines):
            empty = Segment(
                " It is empty." if y == 0 and not self.window.chars else "",
                base + palette_of(self.app).muted,
            )
            return Strip([*Strip([empty]).crop_extend(0, width - 1, base), edge])
        row = self.lines[y]
        left = [Segment(text, base + style) for text, style in self.left_of(row)]
        words = Strip(
            _styled(row.text, row.start, self.colours_in(row), base + self.ink(row))
        ).crop(self._left, self._left + width)
        strip = Strip([*Strip([*left, *words]).crop_extend(0, width - 1, base), edge])
        ground = self.ground(row)
        return (
            strip
            if ground is None
            else Strip(Segment.apply_style(strip, post_style=ground), strip.cell_length)
        )

    # Moving

    def do(self, work: Callable[[], None]) -> None:
        """Run work on the text, after missing parts of it are fetched."""
        work()

    def look(self) -> None:
        """Draw the rows from `top` on."""
        self.lines = (
            self.window.rows(self.top, max(1, self.size.height), self.text_width)
            if self.size
            else []
        )
        self.refresh()

    @property
    def rows_above(self) -> int:
        """Rows to show above the target of `go_to`."""
        return 0

    def go_to(self, place: int) -> None:
        def go() -> None:
            self.top = self.window.up(
                self.window.row_at(place, self.text_width), self.rows_above, self.text_width
            )
            self.look()

        self.do(go)

    def on_resize(self, event: Resize) -> None:
        self.rewrap()

    def rewrap(self) -> None:
        """Wrap rows to a new width, and keep the text at the top."""

        def wrap() -> None:
            self.top = self.window.row_at(self.top, self.text_width)
            self.look()

        self.do(wrap)

    def action_move(self, step: int) -> None:
        """Move down by `step` rows, or up if it is negative."""

        def move() -> None:
            if step < 0:
                self.top = self.window.up(self.top, -step, self.text_width)
            elif not self.lines or self.lines[-1].end < self.window.chars:
                self.top = min(
                    self.window.down(self.top, step, self.text_width),
                    max(self.top, self._last_top()),
                )
            self.look()

        self.do(move)

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 2))

    def action_move_to(self, place: int) -> None:
        """Move to the start of the text (0) or to its end."""
        if place == 0:
            self.top = self._left = 0
            self.do(self.look)
        else:
            self.do(self._go_to_end)

    def _go_to_end(self) -> None:
        width = 0
        while (
            width != self.text_width
        ):  # longer line numbers make rows narrower, which moves the end down
            width = self.text_width
            self.top = self._last_top()
            self.look()

    def _last_top(self) -> int:
        """Return the position of the top row when the end is visible."""
        return self.window.up(
            self.window.row_at(self.window.chars - 1, self.text_width),
            max(0, self.size.height - 1),
            self.text_width,
        )

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.action_move(_WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.action_move(-_WHEEL)

    def on_click(self, event: Click) -> None:
        """Go to a part of the text by a click at the right edge."""
        if event.x == self.size.width - 1:
            self.go_to(event.y * self.window.chars // max(1, self.size.height))


def _styled(text: str, start: int, styles: Sequence[StyledPart], base: Style) -> list[Segment]:
    """Return the segments of a row that starts at a position of the text."""
    end = start + len(text)
    limits = sorted(
        {
            start,
            end,
            *(place for first, last, _ in styles for place in (first, last) if start < place < end),
        }
    )
    segments = []
    for left, right in pairwise(limits):
        style = base
        for first, last, drawn in styles:
            if first <= left < last:
                style += drawn
        segments.append(Segment(text[left - start : right - start], style))
    return segments
