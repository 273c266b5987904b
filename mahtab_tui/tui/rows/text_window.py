"""A view of a text of any length, which creates only the visible rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.strip import Strip
from textual.widget import Widget

from mahtab_tui.bus.sanitize import hidden_characters
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.tui.rows.row import Span, hard_cuts, style_range
from mahtab_tui.tui.theme import get_palette
from mahtab_tui.tui.workers import Fetcher

Fetch = Callable[[int, int], str | None]
"""Returns a part of the text; None if the text is gone."""

Find = Callable[..., TextSpan | None]

LINE = 16_384
BLOCK = 1_000_000


class TextRow(NamedTuple):
    start: int
    end: int
    number: int | None
    """The line number, from 1; None if the row continues the one above."""
    text: str


class TextWindow:
    """Moves through a text by rows, reading only the nearby parts."""

    def __init__(self, fetch: Fetch, chars: int) -> None:
        self.chars = chars
        self._fetch = fetch
        self._ends: list[int] = [0]

    @property
    def is_loaded(self) -> bool:
        return self._fetch(0, 1) is not None

    def rows(self, start: int, count: int, width: int) -> list[TextRow]:
        """Return `count` rows from the one that starts at an offset."""
        rows: list[TextRow] = []
        line = self.line_start(start)
        number = self.line_number(line)
        while len(rows) < count and (line < self.chars or line == 0):
            end, text = self._line(line)
            for first, last in self._cuts(line, text, width):
                if first >= start and len(rows) < count:
                    shown = text[first - line : last - line]
                    rows.append(TextRow(first, last, number if first == line else None, shown))
            number += end > line + len(text)
            if end >= self.chars:
                break
            line = end
        return rows

    def row_at(self, offset: int, width: int) -> int:
        """Return the start of the row that contains an offset."""
        line = self.line_start(min(max(0, offset), max(0, self.chars - 1)))
        cuts = self._cuts(line, self._line(line)[1], width)
        return max(start for start, _ in cuts if start <= offset or start == line)

    def up(self, start: int, count: int, width: int) -> int:
        for _ in range(count):
            if start <= 0:
                return 0
            start = self.row_at(start - 1, width)
        return start

    def down(self, start: int, count: int, width: int) -> int:
        rows = self.rows(start, count + 1, width)
        return rows[-1].start if rows else start

    def line_start(self, offset: int) -> int:
        """Return the start of the line that contains an offset."""
        first = max(0, offset - LINE)
        found = self._part(first, offset).rfind("\n")
        if found >= 0:
            return first + found + 1
        return 0 if first == 0 else offset - offset % LINE

    def line_number(self, offset: int) -> int:
        while len(self._ends) * BLOCK <= offset:
            first = (len(self._ends) - 1) * BLOCK
            self._ends.append(self._ends[-1] + self._part(first, first + BLOCK).count("\n"))
        block = offset // BLOCK
        return 1 + self._ends[block] + self._part(block * BLOCK, offset).count("\n")

    def find(self, words: str, start: int, *, backwards: bool = False) -> TextSpan | None:
        """Find the next or previous match of words, from an offset and around. Words without
        capitals ignore case."""
        if not words:
            return None
        pattern = re.compile(re.escape(words), 0 if any(map(str.isupper, words)) else re.IGNORECASE)
        ranges = self._blocks_backwards(start) if backwards else self._blocks(start)
        for first, last in ranges:
            text = self._part(first, min(last + len(words), self.chars))
            found = None
            for match in pattern.finditer(text):
                if first + match.start() >= last:
                    break
                found = match
                if not backwards:
                    break
            if found is not None:
                return first + found.start(), first + found.end()
        return None

    def _blocks(self, start: int) -> Iterator[TextSpan]:
        for low, high in ((start, self.chars), (0, start)):
            for first in range(low, high, BLOCK):
                yield first, min(first + BLOCK, high)

    def _blocks_backwards(self, start: int) -> Iterator[TextSpan]:
        for low, high in ((0, start), (start, self.chars)):
            for last in range(high, low, -BLOCK):
                yield max(low, last - BLOCK), last

    def _line(self, start: int) -> tuple[int, str]:
        """Return the start of the next line, and the line without its end."""
        last = min(start + LINE, self.chars)
        text = self._part(start, last)
        found = text.find("\n")
        if found >= 0:
            return start + found + 1, _visible_text(text[:found])
        if last < self.chars:
            last = max(start + 1, last - last % LINE)
        return last, _visible_text(text[: last - start])

    def _cuts(self, line: int, text: str, width: int) -> list[TextSpan]:
        cuts = [line + cut for cut in hard_cuts(text, width)]
        return list(zip(cuts, [*cuts[1:], line + len(text)], strict=True))

    def _part(self, start: int, end: int) -> str:
        return self._fetch(start, end) or ""


def _visible_text(text: str) -> str:
    """Replace each hidden character by one visible character; offsets stay the same."""
    characters = list(text.replace("\t", " "))
    for offset, symbol in hidden_characters(text):
        blank = text[offset] >= "\xa0" and text[offset].isspace()
        characters[offset] = " " if blank else symbol if len(symbol) == 1 else "·"
    return "".join(characters)


_WHEEL = 3

StyledPart = tuple[int, int, Style]
"""Start, end and style of a part of the text."""


class LongTextView(Widget, can_focus=True):
    """A scrolling view of a long text, moved by `row.CURSOR_KEYS`, the wheel, and clicks at the
    right edge."""

    def __init__(self, window: TextWindow) -> None:
        super().__init__()
        self.window = window
        self.top = 0
        self.words = ""
        self.found: TextSpan | None = None
        self.lines: list[TextRow] = []
        self.fetcher = Fetcher(self)
        self._wrapped = True
        """Whether long lines are wrapped, rather than scrolled."""
        self._left = 0

    # Drawing

    @property
    def text_width(self) -> int:
        raise NotImplementedError

    def row_prefix(self, row: TextRow) -> Sequence[Span]:
        raise NotImplementedError

    def edge(self, y: int) -> Span:
        raise NotImplementedError

    def row_style(self, row: TextRow) -> Style:
        return get_palette(self.app).text

    def part_styles(self, row: TextRow) -> list[StyledPart]:
        return [] if self.found is None else [(*self.found, Style(reverse=True))]

    def line_style(self, row: TextRow) -> Style | None:
        return None

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.visual_style.rich_style
        text, style = self.edge(y)
        edge = Segment(text, base + style)
        if y >= len(self.lines):
            note = " It is empty." if y == 0 and not self.window.chars else ""
            empty = Segment(note, base + get_palette(self.app).muted)
            return Strip([*Strip([empty]).crop_extend(0, width - 1, base), edge])
        row = self.lines[y]
        left = [Segment(text, base + style) for text, style in self.row_prefix(row)]
        spans = [(row.text, base + self.row_style(row))]
        for first, last, style in self.part_styles(row):
            if first < row.end and last > row.start:
                spans = style_range(spans, first - row.start, last - row.start, style)
        words = Strip([Segment(*span) for span in spans]).crop(self._left, self._left + width)
        strip = Strip([*Strip([*left, *words]).crop_extend(0, width - 1, base), edge])
        if (ground := self.line_style(row)) is not None:
            return Strip(Segment.apply_style(strip, post_style=ground), strip.cell_length)
        return strip

    # Moving

    def load_then(self, work: Callable[[], None]) -> None:
        """Call `work` once the parts of the text that it needs are loaded."""
        work()

    def refresh_view(self) -> None:
        height = max(1, self.size.height)
        self.lines = self.window.rows(self.top, height, self.text_width) if self.size else []
        self.refresh()

    @property
    def rows_above(self) -> int:
        return 0

    def go_to(self, offset: int) -> None:
        def go() -> None:
            row = self.window.row_at(offset, self.text_width)
            self.top = self.window.up(row, self.rows_above, self.text_width)
            self.refresh_view()

        self.load_then(go)

    def on_resize(self, event: Resize) -> None:
        self.rewrap()

    def rewrap(self) -> None:
        def wrap() -> None:
            self.top = self.window.row_at(self.top, self.text_width)
            self.refresh_view()

        self.load_then(wrap)

    def action_move(self, step: int) -> None:
        def move() -> None:
            if step < 0:
                self.top = self.window.up(self.top, -step, self.text_width)
            elif not self.lines or self.lines[-1].end < self.window.chars:
                below = self.window.down(self.top, step, self.text_width)
                self.top = min(below, max(self.top, self._last_top()))
            self.refresh_view()

        self.load_then(move)

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 2))

    def action_move_to(self, offset: int) -> None:
        if offset == 0:
            self.top = self._left = 0
            self.load_then(self.refresh_view)
        else:
            self.load_then(self._go_to_end)

    def _go_to_end(self) -> None:
        width = 0
        # Longer line numbers make rows narrower, which moves the end further down.
        while width != self.text_width:
            width = self.text_width
            self.top = self._last_top()
            self.refresh_view()

    def _last_top(self) -> int:
        last = self.window.row_at(self.window.chars - 1, self.text_width)
        return self.window.up(last, max(0, self.size.height - 1), self.text_width)

    # Searching

    @property
    def find(self) -> Find:
        return self.window.find

    def search(self, words: str) -> None:
        """Go to the next match of other words; none end the search."""
        self.words, self.found = words, None
        self.action_next(False)
        if not words:
            self.load_then(self.refresh_view)

    def action_next(self, backwards: bool) -> None:
        """Find the next or previous match on a thread, and show it."""
        find, words = self.find, self.words
        at = self.top if self.found is None else self.found[0 if backwards else 1]
        if words:
            self.fetcher.ask(
                "find", lambda: find(words, at, backwards=backwards), self._set_found, self.fail
            )

    def fail(self, sentence: str) -> None:
        self.app.notify(sentence)

    def _set_found(self, found: TextSpan | None) -> None:
        self.found = found
        if found is None:
            self.fail("Not found in the text.")
            self.refresh()
        else:
            self.load_then(self._show_found)

    def _show_found(self) -> None:
        if self.found is None:
            return
        start, width = self.found[0], self.text_width
        row = self.window.row_at(start, width)
        if not self.lines or not self.lines[0].start <= start < self.lines[-1].end:
            self.top = self.window.up(row, min(3, self.size.height // 4), width)
        if not self._wrapped:
            self._left = max(0, start - row - self.size.width // 2)
        self.refresh_view()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.action_move(_WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.action_move(-_WHEEL)

    def on_click(self, event: Click) -> None:
        """Jump to a part of the text by a click at the right edge."""
        if event.x == self.size.width - 1:
            self.go_to(event.y * self.window.chars // max(1, self.size.height))
