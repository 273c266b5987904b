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
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from mahtab_tui.bus.hidden_characters import hidden_characters
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.tui.rows.row import Span, hard_cuts, mark_selection, selection_origin, style_ranges
from mahtab_tui.tui.theme import REVERSE, get_palette
from mahtab_tui.tui.workers import Fetcher

LINE_PART_CHARS = 16_384
"""A longer line is split into parts of this length."""
BLOCK_CHARS = 65_536
"""Fetched or searched at a time."""
SEARCH_TIMEOUT_S = 20.0
WHEEL_ROWS = 3


class PartMissing(Exception):
    """A part of the text must be fetched first."""

    def __init__(self, fetch: Callable[[], Any], add: Callable[[Any], None]) -> None:
        """
        Args:
            fetch: Returns the part; called on a thread.
            add: Adds it, on the main thread.
        """
        super().__init__()
        self.fetch = fetch
        self.add = add


class TextSource(Protocol):
    """A text of any length, which need not be in this process."""

    size: int

    def part(self, start: int, end: int) -> str:
        """Return a part of the text. Raises `PartMissing`."""

    def read(self, start: int, end: int) -> str:
        """Return a part of the text; waits. Raises `KernelError`."""

    def line_number(self, offset: int) -> int:
        """Return the number of the line that contains an offset, from 1. Raises `PartMissing`."""


class PagedText:
    """A text whose parts can be read at any time."""

    def __init__(self, read: Callable[[int, int], str], size: int, first_line: int = 1) -> None:
        self.part = self.read = read
        self.size = size
        self._block_lines = [first_line]
        """The number of the line at the start of each block that was read."""

    def line_number(self, offset: int) -> int:
        while len(self._block_lines) * BLOCK_CHARS <= offset:
            start = (len(self._block_lines) - 1) * BLOCK_CHARS
            line_breaks = self.part(start, start + BLOCK_CHARS).count("\n")
            self._block_lines.append(self._block_lines[-1] + line_breaks)
        block = offset // BLOCK_CHARS
        line_breaks = self.part(block * BLOCK_CHARS, offset).count("\n")
        return self._block_lines[block] + line_breaks


class LocalText(PagedText):
    """A text in this process."""

    def __init__(self, text: str, first_line: int = 1) -> None:
        super().__init__(lambda start, end: text[start:end], len(text), first_line)
        self.text = text


def find_match(
    text: TextSource, search_text: str, start: int, *, backwards: bool = False
) -> TextSpan | None:
    """Find the next match, or the last one before `start`; wraps around.

    Without capitals, case is ignored. Called on a thread. Raises `KernelError`.
    """
    deadline = time.monotonic() + SEARCH_TIMEOUT_S
    has_capitals = any(char.isupper() for char in search_text)
    pattern = re.compile(re.escape(search_text), 0 if has_capitals else re.IGNORECASE)
    for block_start, block_end in _blocks(text.size, start, backwards=backwards):
        if time.monotonic() > deadline:
            seconds = f"{SEARCH_TIMEOUT_S:.0f} s"
            raise KernelError(f"Not found within {seconds}, because the text is very long.")
        # A match may begin in this block and end in the next one.
        block_text = text.read(block_start, min(block_end + len(search_text), text.size))
        spans = []
        for match in pattern.finditer(block_text):
            if block_start + match.start() < block_end:
                spans.append(match.span())
        if spans:
            match_start, match_end = spans[-1 if backwards else 0]
            return block_start + match_start, block_start + match_end
    return None


def _blocks(size: int, start: int, *, backwards: bool) -> Iterator[TextSpan]:
    """Yield the blocks from `start` on, then those before it; in reverse order if backwards."""
    halves = [(start, size), (0, start)]
    if backwards:
        halves.reverse()
    for half_start, half_end in halves:
        blocks = []
        for block_start in range(half_start, half_end, BLOCK_CHARS):
            blocks.append((block_start, min(block_start + BLOCK_CHARS, half_end)))
        if backwards:
            blocks.reverse()
        yield from blocks


class TextRow(NamedTuple):
    """A row of a text, with the offsets of its start and end."""

    start: int
    end: int
    number: int | None
    """None if the row continues the one above."""
    text: str


class TextWindow:
    """Moves through a text by rows, reading only nearby parts. Raises `PartMissing`."""

    def __init__(self, source: TextSource) -> None:
        self.source = source

    def rows(self, start: int, count: int, width: int) -> list[TextRow]:
        """Return up to `count` rows from the one that begins at the offset `start`."""
        rows: list[TextRow] = []
        line_start = self.line_start(start)
        number = self.source.line_number(line_start)
        while len(rows) < count and (line_start < self.source.size or line_start == 0):
            line_end, text = self._line(line_start)
            for row_start, row_end in self._cuts(line_start, text, width):
                if row_start < start or len(rows) >= count:
                    continue
                row_number = number if row_start == line_start else None
                row_text = text[row_start - line_start : row_end - line_start]
                rows.append(TextRow(row_start, row_end, row_number, row_text))
            # A long line is split without a line break between its parts.
            has_line_break = line_end > line_start + len(text)
            if has_line_break:
                number += 1
            if line_end >= self.source.size:
                break
            line_start = line_end
        return rows

    def row_at(self, offset: int, width: int) -> int:
        """Return the start of the row that contains an offset."""
        last_offset = max(0, self.source.size - 1)
        line_start = self.line_start(min(max(0, offset), last_offset))
        _, text = self._line(line_start)
        row_starts = [start for start, _ in self._cuts(line_start, text, width)]
        return max(start for start in row_starts if start <= offset or start == line_start)

    def up(self, start: int, count: int, width: int) -> int:
        """Return the start of the row that is `count` rows above the one at `start`."""
        for _ in range(count):
            if start <= 0:
                return 0
            start = self.row_at(start - 1, width)
        return start

    def down(self, start: int, count: int, width: int) -> int:
        """Return the start of the row that is `count` rows below the one at `start`."""
        rows = self.rows(start, count + 1, width)
        return rows[-1].start if rows else start

    def line_start(self, offset: int) -> int:
        part_start = max(0, offset - LINE_PART_CHARS)
        line_break = self.source.part(part_start, offset).rfind("\n")
        if line_break >= 0:
            return part_start + line_break + 1
        if part_start == 0:
            return 0
        # Parts of a long line begin at multiples of their length, wherever one looks from.
        return offset - offset % LINE_PART_CHARS

    def _line(self, start: int) -> tuple[int, str]:
        """Return the end of a line or of a part of a long one, and its text."""
        end = min(start + LINE_PART_CHARS, self.source.size)
        text = self.source.part(start, end)
        line_break = text.find("\n")
        if line_break >= 0:
            return start + line_break + 1, _visible_text(text[:line_break])
        if end < self.source.size:
            end = max(start + 1, end - end % LINE_PART_CHARS)
        return end, _visible_text(text[: end - start])

    def _cuts(self, line_start: int, text: str, width: int) -> list[TextSpan]:
        """Return the start and end of each row of a line."""
        starts = [line_start + cut for cut in hard_cuts(text, width)]
        ends = [*starts[1:], line_start + len(text)]
        return list(zip(starts, ends, strict=True))


def _visible_text(text: str) -> str:
    """Replace each hidden character by one visible one; offsets stay."""
    characters = list(text.replace("\t", " "))
    for offset, symbol in hidden_characters(text):
        is_blank = text[offset] >= "\xa0" and text[offset].isspace()
        if is_blank:
            symbol = " "
        characters[offset] = symbol if len(symbol) == 1 else "·"
    return "".join(characters)


StyledPart = tuple[int, int, Style]
"""The offsets of its start and end, and its style."""


class LongTextView(Widget, can_focus=True):
    """Scrolls a long text by `CURSOR_KEYS`, the wheel, and clicks at the right edge."""

    def __init__(self, source: TextSource) -> None:
        super().__init__()
        self.window = TextWindow(source)
        self.top = 0
        """The offset of the first visible row."""
        self.search_text = ""
        self.hit: TextSpan | None = None
        self.lines: list[TextRow] = []
        self.fetcher = Fetcher(self)
        self._pending_work: list[Callable[[], None]] = []

    @property
    def source(self) -> TextSource:
        return self.window.source

    @property
    def text_width(self) -> int:
        raise NotImplementedError

    def row_prefix(self, row: TextRow) -> Sequence[Span]:
        raise NotImplementedError

    def edge(self, y: int) -> Span:
        raise NotImplementedError

    def part_styles(self, row: TextRow) -> list[StyledPart]:
        if self.hit is None:
            return []
        return [(*self.hit, REVERSE)]

    def line_style(self, row: TextRow) -> Style | None:
        return None

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.visual_style.rich_style
        palette = get_palette(self.app)
        edge_text, edge_style = self.edge(y)
        edge = Segment(edge_text, base + edge_style)
        if y >= len(self.lines):
            note = " It is empty." if y == 0 and not self.source.size else ""
            empty = Strip([Segment(note, base + palette.muted)])
            return Strip([*empty.crop_extend(0, width - 1, base), edge])

        row = self.lines[y]
        # One segment per cell, so that a click anywhere to the left of the text starts a selection at
        # its first character.
        origin = selection_origin(0, row.start)
        prefix: list[Segment] = []
        for text, style in self.row_prefix(row):
            prefix += [Segment(character, base + style + origin) for character in text]
        spans: Sequence[Span] = [(row.text, base + palette.text)]
        for start, end, style in self.part_styles(row):
            if start < row.end and end > row.start:
                spans = style_ranges(spans, [(start - row.start, end - row.start)], style)
        spans = mark_selection(self, spans, row.start)
        segments: list[Segment] = []
        offset = 0
        for text, style in spans:
            segments.append(Segment(text, style + selection_origin(offset, row.start)))
            offset += len(text)
        text_strip = Strip(segments).crop(0, width)
        line = Strip([*prefix, *text_strip]).crop_extend(0, width - 1, base)
        strip = Strip([*line, edge])
        line_style = self.line_style(row)
        if line_style is not None:
            return Strip(Segment.apply_style(strip, post_style=line_style), strip.cell_length)
        return strip

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
        add(part)
        pending_work = self._pending_work
        self._pending_work = []
        for work in pending_work:
            self.load_then(work)

    def _fail_to_load(self, sentence: str) -> None:
        self._pending_work.clear()
        self.fail(sentence)

    def refresh_view(self) -> None:
        height = max(1, self.size.height)
        if self.size:
            self.lines = self.window.rows(self.top, height, self.text_width)
        else:
            self.lines = []
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
        last_row = self.window.row_at(self.source.size - 1, self.text_width)
        return self.window.up(last_row, max(0, self.size.height - 1), self.text_width)

    def find(self, search_text: str, start: int, *, backwards: bool) -> TextSpan | None:
        return find_match(self.source, search_text, start, backwards=backwards)

    def search(self, search_text: str) -> None:
        self.search_text = search_text
        self.hit = None
        self.action_next(False)
        if not search_text:
            self.load_then(self.refresh_view)

    def action_next(self, backwards: bool) -> None:
        if self.hit is None:
            start = self.top
        else:
            hit_start, hit_end = self.hit
            start = hit_start if backwards else hit_end
        if self.search_text:
            find = partial(self.find, self.search_text, start, backwards=backwards)
            self.fetcher.run("find", find, self._set_hit, self.fail)

    def fail(self, sentence: str) -> None:
        self.app.notify(sentence)

    def _set_hit(self, hit: TextSpan | None) -> None:
        self.hit = hit
        if hit is None:
            self.fail("Not found in the text.")
            self.refresh()
        else:
            self.load_then(self._show_hit)

    def _show_hit(self) -> None:
        if self.hit is None:
            return
        start = self.hit[0]
        width = self.text_width
        row = self.window.row_at(start, width)
        if not self.lines or not self.lines[0].start <= start < self.lines[-1].end:
            self.top = self.window.up(row, min(3, self.size.height // 4), width)
        self.refresh_view()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.action_move(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.action_move(-WHEEL_ROWS)

    def on_click(self, event: Click) -> None:
        if event.x == self.size.width - 1:
            self.go_to(event.y * self.source.size // max(1, self.size.height))
