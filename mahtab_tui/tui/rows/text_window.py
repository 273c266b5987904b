"""A view of a text of any length."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.strip import Strip
from textual.widget import Widget

from mahtab_tui.bus.sanitize import hidden_characters
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.sandbox.base import TextSpan
from mahtab_tui.tui.rows.row import Span, hard_cuts, style_range
from mahtab_tui.tui.theme import get_palette
from mahtab_tui.tui.workers import Fetcher

LINE = 16_384
"""Characters from which a line is split."""
BLOCK = 65_536
"""Characters to fetch or search at a time."""
WHOLE = 20.0


class PartMissing(Exception):
    """A part of the text must be fetched first."""

    def __init__(self, fetch: Callable[[], Any], add: Callable[[Any], None]) -> None:
        """fetch: waits. add: adds the part, on the main thread."""
        super().__init__()
        self.fetch = fetch
        self.add = add


class Text(Protocol):
    size: int

    def part(self, start: int, end: int) -> str:
        """Return a part of the text. Raises `PartMissing`."""

    def read(self, start: int, end: int) -> str:
        """Return a part of the text; waits. Raises `KernelError`."""

    def line_number(self, offset: int) -> int:
        """Return the number of the line that contains an offset, from 1. Raises `PartMissing`."""


class PagedText:
    def __init__(self, read: Callable[[int, int], str], size: int, first_line: int = 1) -> None:
        self.part = self.read = read
        self.size = size
        self._lines = [first_line]

    def line_number(self, offset: int) -> int:
        while len(self._lines) * BLOCK <= offset:
            start = (len(self._lines) - 1) * BLOCK
            self._lines.append(self._lines[-1] + self.part(start, start + BLOCK).count("\n"))
        block = offset // BLOCK
        return self._lines[block] + self.part(block * BLOCK, offset).count("\n")


class LocalText(PagedText):
    def __init__(self, text: str, first_line: int = 1) -> None:
        super().__init__(lambda start, end: text[start:end], len(text), first_line)
        self.text = text


def find_match(text: Text, words: str, start: int, *, backwards: bool = False) -> TextSpan | None:
    """Find the next match, or the last one before; wraps around. Without capitals, case is ignored.
    Called on a thread. Raises `KernelError`."""
    until = time.monotonic() + WHOLE
    pattern = re.compile(re.escape(words), 0 if any(map(str.isupper, words)) else re.IGNORECASE)
    for first, last in _blocks(text.size, start, backwards=backwards):
        if time.monotonic() > until:
            raise KernelError(f"Not found within {WHOLE:.0f} s, because the text is very long.")
        part = text.read(first, min(last + len(words), text.size))
        spans = [match.span() for match in pattern.finditer(part) if first + match.start() < last]
        if spans:
            begin, end = spans[-1 if backwards else 0]
            return first + begin, first + end
    return None


def _blocks(size: int, start: int, *, backwards: bool) -> Iterator[tuple[int, int]]:
    parts = [(start, size), (0, start)]
    for low, high in reversed(parts) if backwards else parts:
        blocks = [(first, min(first + BLOCK, high)) for first in range(low, high, BLOCK)]
        yield from reversed(blocks) if backwards else blocks


class TextRow(NamedTuple):
    start: int
    end: int
    number: int | None
    """None if the row continues the one above."""
    text: str


class TextWindow:
    """Moves through a text by rows, reading only nearby parts. Raises `PartMissing`."""

    def __init__(self, source: Text) -> None:
        self.source = source

    def rows(self, start: int, count: int, width: int) -> list[TextRow]:
        rows: list[TextRow] = []
        line = self.line_start(start)
        number = self.source.line_number(line)
        while len(rows) < count and (line < self.source.size or line == 0):
            end, text = self._line(line)
            for first, last in self._cuts(line, text, width):
                if first >= start and len(rows) < count:
                    row_number = number if first == line else None
                    rows.append(TextRow(first, last, row_number, text[first - line : last - line]))
            number += end > line + len(text)
            if end >= self.source.size:
                break
            line = end
        return rows

    def row_at(self, offset: int, width: int) -> int:
        line = self.line_start(min(max(0, offset), max(0, self.source.size - 1)))
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
        first = max(0, offset - LINE)
        line_break = self.source.part(first, offset).rfind("\n")
        if line_break >= 0:
            return first + line_break + 1
        return 0 if first == 0 else offset - offset % LINE

    def _line(self, start: int) -> tuple[int, str]:
        last = min(start + LINE, self.source.size)
        text = self.source.part(start, last)
        line_break = text.find("\n")
        if line_break >= 0:
            return start + line_break + 1, _visible_text(text[:line_break])
        if last < self.source.size:
            last = max(start + 1, last - last % LINE)
        return last, _visible_text(text[: last - start])

    def _cuts(self, line: int, text: str, width: int) -> list[TextSpan]:
        cuts = [line + cut for cut in hard_cuts(text, width)]
        return list(zip(cuts, [*cuts[1:], line + len(text)], strict=True))


def _visible_text(text: str) -> str:
    """Replace each hidden character by one visible one; offsets stay."""
    characters = list(text.replace("\t", " "))
    for offset, symbol in hidden_characters(text):
        is_blank = text[offset] >= "\xa0" and text[offset].isspace()
        if is_blank:
            symbol = " "
        characters[offset] = symbol if len(symbol) == 1 else "·"
    return "".join(characters)


_WHEEL = 3

StyledPart = tuple[int, int, Style]


class LongTextView(Widget, can_focus=True):
    """Scrolls a long text by `CURSOR_KEYS`, the wheel, and clicks at the right edge."""

    def __init__(self, source: Text) -> None:
        super().__init__()
        self.window = TextWindow(source)
        self.top = 0
        self.words = ""
        self.found: TextSpan | None = None
        self.lines: list[TextRow] = []
        self.fetcher = Fetcher(self)
        self._waiting: list[Callable[[], None]] = []

    @property
    def source(self) -> Text:
        return self.window.source

    @property
    def text_width(self) -> int:
        raise NotImplementedError

    def row_prefix(self, row: TextRow) -> Sequence[Span]:
        raise NotImplementedError

    def edge(self, y: int) -> Span:
        raise NotImplementedError

    def part_styles(self, row: TextRow) -> list[StyledPart]:
        return [] if self.found is None else [(*self.found, Style(reverse=True))]

    def line_style(self, row: TextRow) -> Style | None:
        return None

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.visual_style.rich_style
        text, style = self.edge(y)
        edge = Segment(text, base + style)
        if y >= len(self.lines):
            note = " It is empty." if y == 0 and not self.source.size else ""
            empty = Segment(note, base + get_palette(self.app).muted)
            return Strip([*Strip([empty]).crop_extend(0, width - 1, base), edge])
        row = self.lines[y]
        left = [Segment(text, base + style) for text, style in self.row_prefix(row)]
        spans = [(row.text, base + get_palette(self.app).text)]
        for first, last, style in self.part_styles(row):
            if first < row.end and last > row.start:
                spans = style_range(spans, first - row.start, last - row.start, style)
        words = Strip([Segment(*span) for span in spans]).crop(0, width)
        strip = Strip([*Strip([*left, *words]).crop_extend(0, width - 1, base), edge])
        if (ground := self.line_style(row)) is not None:
            return Strip(Segment.apply_style(strip, post_style=ground), strip.cell_length)
        return strip

    def load_then(self, work: Callable[[], None]) -> None:
        """Call `work` once its parts of the text are loaded."""
        if self._waiting:
            self._waiting.append(work)
            return
        try:
            work()
        except PartMissing as missing:
            self._waiting.append(work)
            loaded = partial(self._add_part, missing.add)
            self.fetcher.ask("text", missing.fetch, loaded, self._fail_to_load)

    def _add_part(self, add: Callable[[Any], None], part: Any) -> None:
        add(part)
        waiting = self._waiting
        self._waiting = []
        for work in waiting:
            self.load_then(work)

    def _fail_to_load(self, sentence: str) -> None:
        self._waiting.clear()
        self.fail(sentence)

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

    def on_resize(self) -> None:
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
            elif not self.lines or self.lines[-1].end < self.source.size:
                below = self.window.down(self.top, step, self.text_width)
                self.top = min(below, max(self.top, self._last_top()))
            self.refresh_view()

        self.load_then(move)

    def action_move_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self.size.height - 2))

    def action_move_to(self, offset: int) -> None:
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
        last = self.window.row_at(self.source.size - 1, self.text_width)
        return self.window.up(last, max(0, self.size.height - 1), self.text_width)

    def find(self, words: str, start: int, *, backwards: bool) -> TextSpan | None:
        return find_match(self.source, words, start, backwards=backwards)

    def search(self, words: str) -> None:
        self.words = words
        self.found = None
        self.action_next(False)
        if not words:
            self.load_then(self.refresh_view)

    def action_next(self, backwards: bool) -> None:
        at = self.top if self.found is None else self.found[0 if backwards else 1]
        if self.words:
            find = partial(self.find, self.words, at, backwards=backwards)
            self.fetcher.ask("find", find, self._set_found, self.fail)

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
        start = self.found[0]
        width = self.text_width
        row = self.window.row_at(start, width)
        if not self.lines or not self.lines[0].start <= start < self.lines[-1].end:
            self.top = self.window.up(row, min(3, self.size.height // 4), width)
        self.refresh_view()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.action_move(_WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.action_move(-_WHEEL)

    def on_click(self, event: Click) -> None:
        if event.x == self.size.width - 1:
            self.go_to(event.y * self.source.size // max(1, self.size.height))
