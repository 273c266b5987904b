"""Draws a cell's output as rows."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from mahtab_tui.bus.output import DisplayLine, OutputBuffer, OutputLine, is_code
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.sgr import styled
from mahtab_tui.tui.rows.code import PYTHON, highlight
from mahtab_tui.tui.rows.markdown import MarkdownRenderer
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, style_range, token_cuts, word_cuts
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.transcript.picture_rows import DEFAULT_SPACE, PictureSpace, picture_rows
from mahtab_tui.tui.transcript.tables import grid_rows, shown_table
from mahtab_tui.tui.transcript.tracebacks import ERROR_LEAD, LedLine, error_first, traceback_spans

MAX_MARKDOWN_CHARS = 20_000
MARKDOWN_COST = 10
"""How much longer it takes to draw a character of Markdown than one of a table."""
FOLD_ABOVE_LINES = 50
"""Only the first and last lines of a longer printed text or value are drawn."""
FOLDED_HEAD_LINES = 20
FOLDED_TAIL_LINES = 10
"""Last printed lines, which show how far a running cell is."""
_UNDRAWN = ("undrawn",)
"""The state of a display that is drawn in a later step."""
CODE_LEAD = "code"
"""The lead of a value's lines that are coloured as code."""
_MORE_ENTRIES = re.compile(r"… [\d,]+ more")
FRAME_KEY = "frame"
"""The key, in the `meta` of a style, of the index of a traceback's frame."""
VALUE_KEY = "value"
"""The key, in the `meta` of a style, of the key of a table's value."""
TAB_CELLS = 8
_STYLE_SEQUENCE = re.compile(r"(\x1b\[[\d;:]*m)")


def display_rows(
    display: DisplayLine, width: int, palette: Palette, space: PictureSpace = DEFAULT_SPACE
) -> Sequence[Row] | None:
    """Return the rows of a rich representation; nothing if only the text can be drawn."""
    rows: list[Row] | None = None
    match display.mime:
        case "image/png" | "image/jpeg":
            rows = picture_rows(display, width, space, palette)
        case "text/html" if (table := shown_table(display)) is not None:
            # A click opens the value.
            click_style = Style(meta={VALUE_KEY: display.value}) if display.value else Style()
            return grid_rows(table, width, palette, display.offset, click_style)
        case "text/markdown":
            text = plain(display.data)
            rows = MarkdownRenderer(palette).document(text[:MAX_MARKDOWN_CHARS], width)
            omitted_chars = len(text) - MAX_MARKDOWN_CHARS
            if omitted_chars > 0:
                rows.append(Row([(f"… {omitted_chars:,} characters left out", palette.muted)]))
    if not rows:
        return rows
    return [row._replace(bar=palette.hairline) for row in rows]


def _drawing_cost(display: DisplayLine) -> int:
    """Return for how many characters of a table a display is about as much work."""
    if display.mime == "text/markdown":
        return MARKDOWN_COST * min(len(display.data), MAX_MARKDOWN_CHARS)
    return len(display.data)


def remark(text: str, palette: Palette) -> Row:
    """Return a row in which the program says something about the output."""
    return Row([(text, palette.muted)], palette.hairline)


class OutputRows:
    """The rows of an output that may still grow; a line is drawn again only if it changes.

    Many tables or Markdown texts that come at once are drawn step by step, and long ones on a
    thread. They show their plain texts until then, so that keys are not held up."""

    def __init__(
        self,
        output: OutputBuffer,
        width: int,
        palette: Palette,
        space: PictureSpace = DEFAULT_SPACE,
    ) -> None:
        self._space = space
        self._output = output
        self._width = width
        self._palette = palette
        self._lines: dict[LedLine, _DrawnLine] = {}
        self._parts: list[_DrawnLine | Row] = []
        self._ends: list[int] = []
        """The number of rows up to the end of each part."""
        self._free_chars: float = math.inf
        """Characters of tables that may still be drawn in this step."""
        self._max_display_chars: float = math.inf
        self.slow_displays: list[DisplayLine] = []
        """Displays that take too long for a step, to be drawn by `draw_display`."""
        self.is_complete = True
        """Whether there is nothing left for a further `update`."""

    def update(self, max_step_chars: float = math.inf, max_display_chars: float = math.inf) -> None:
        """Draw the lines that are new or have changed.

        Args:
            max_step_chars: Draw tables of about this many characters, or fewer of Markdown, and
                leave the others to a further call.
            max_display_chars: Leave longer ones to `draw_display`.
        """
        self._free_chars = max_step_chars
        self._max_display_chars = max_display_chars
        self.slow_displays = []
        self.is_complete = True
        lines: dict[LedLine, _DrawnLine] = {}
        self._parts = []
        self._ends = []
        row_count = 0
        for line in self._visible_lines():
            part: _DrawnLine | Row
            if isinstance(line, Row):
                part = line
                row_count += 1
            else:
                part = self._draw(*line)
                lines[line] = part
                row_count += len(part)
            self._parts.append(part)
            self._ends.append(row_count)
        self._lines = lines

    def _draw(self, line: OutputLine, lead: str) -> _DrawnLine:
        """Draw a line, unless it is drawn already, or must wait for a later step."""
        drawn_line = self._lines.get((line, lead))
        if drawn_line is not None and drawn_line.state == line.state:
            return drawn_line
        if not isinstance(line, DisplayLine):
            return LineRows(line, self._width, self._palette, lead)
        if line.mime.startswith("text/"):
            cost = _drawing_cost(line)
            is_slow = cost > self._max_display_chars
            if is_slow:
                self.slow_displays.append(line)
            if is_slow or self._free_chars <= 0:
                self.is_complete = False
                return drawn_line or DisplayRows(_UNDRAWN, self._text_rows(line))
            self._free_chars -= cost
        return self.draw_display(line)

    def draw_display(self, display: DisplayLine) -> DisplayRows:
        """Draw a display. Any thread may call it."""
        state = display.state
        rows = display_rows(display, self._width, self._palette, self._space)
        return DisplayRows(state, rows or self._text_rows(display))

    def show_display(self, display: DisplayLine, rows: DisplayRows | None) -> None:
        """Let the next `update` show a display as it was drawn. rows: None if it cannot be."""
        if rows is None:
            rows = DisplayRows(display.state, self._text_rows(display))
        self._lines[display, ""] = rows

    def _visible_lines(self) -> Iterator[LedLine | Row]:
        """Yield the lines to draw, with a remark in place of those that are folded."""
        ordered = error_first(list(self._output))
        kinds = [line.kind for line, _ in ordered]
        first_error = kinds.index("traceback") if "traceback" in kinds else len(kinds)
        # Before the line of this number, the buffer left out lines.
        gap = min(len(self._output.head), first_error) if self._output.omitted_lines else -1
        start = 0
        for (kind, _), group in groupby(ordered, lambda led_line: (led_line[0].kind, led_line[1])):
            lines = list(group)
            omitted_count = self._output.omitted_lines if start <= gap < start + len(lines) else 0
            yield from self._fold(kind, lines, omitted_count, gap - start)
            start += len(lines)
        if gap == start:
            yield self._remark_folded(f"{self._output.omitted_lines:,} lines")

    def _fold(
        self, kind: str, lines: list[LedLine], omitted_count: int, gap: int
    ) -> Iterator[LedLine | Row]:
        """Yield the lines of one kind, or the ends of many.

        Args:
            kind: The kind of all these lines.
            lines: The lines that the buffer has kept.
            omitted_count: Lines that the buffer left out.
            gap: Number of the line before which the buffer left them out.
        """
        if kind == "value" and is_code([line for line, _ in lines]):
            lines = [(line, CODE_LEAD) for line, _ in lines]

        head_count = gap if omitted_count else len(lines)
        tail_count = len(lines) - head_count
        if kind in ("stdout", "value") and len(lines) + omitted_count > FOLD_ABOVE_LINES:
            head_count = min(head_count, FOLDED_HEAD_LINES)
            max_tail_lines = 0 if kind == "value" else FOLDED_TAIL_LINES
            tail_count = min(max_tail_lines, len(lines) - head_count)

        hidden_count = len(lines) - head_count - tail_count + omitted_count
        yield from lines[:head_count]
        if hidden_count:
            noun = "more" if kind == "value" else "lines"
            yield self._remark_folded(f"{hidden_count:,} {noun}")
        yield from lines[len(lines) - tail_count :]

    def _remark_folded(self, amount: str) -> Row:
        return remark(f"… {amount} (Enter shows all)", self._palette)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Row:
        number = bisect_right(self._ends, index)
        part = self._parts[number]
        if isinstance(part, Row):
            return part
        start = self._ends[number - 1] if number else 0
        return part[index - start]

    @property
    def reading_start(self) -> int | None:
        """The first row of the help or error with which the output ends."""
        row = len(self)
        for (line, lead), drawn_line in reversed(self._lines.items()):
            row -= len(drawn_line)
            if line.kind == "traceback":
                if lead == ERROR_LEAD:
                    return row
                continue
            if isinstance(line, DisplayLine):
                if line.mime in ("text/plain", "text/markdown"):
                    return row
                return None
            # Python's help prints an empty line at its end.
            if line.text.strip():
                return None
        return None

    def _text_rows(self, display: DisplayLine) -> list[Row]:
        rows = []
        for text in display.text.split("\n"):
            line = LineRows(OutputLine(display.kind, text), self._width, self._palette)
            rows += [line[index] for index in range(len(line))]
        if display.omitted_chars:
            hint = " (Enter shows all)" if display.mime == "text/plain" else ""
            rows.append(
                remark(f"… {display.omitted_chars:,} characters left out{hint}", self._palette)
            )
        return rows


class LineRows:
    """The rows of one line, which are made when they are first drawn."""

    __slots__ = ("_cuts", "_frame", "_kind", "_lead", "_palette", "_rows", "_text", "state")

    def __init__(self, line: OutputLine, width: int, palette: Palette, lead: str = "") -> None:
        self.state = line.state
        self._frame = line.frame
        self._kind = line.kind
        self._palette = palette
        text = expand_tabs(line.final_text)
        self._lead = lead
        if lead not in (ERROR_LEAD, CODE_LEAD):
            text = lead + text
        self._text = text
        find_cuts = token_cuts if lead == CODE_LEAD else word_cuts
        self._cuts = find_cuts(plain(text), width)
        self._rows: list[Row] | None = None

    def __len__(self) -> int:
        return len(self._cuts)

    def __getitem__(self, index: int) -> Row:
        if self._rows is None:
            bar = self._palette.hairline
            rows = cut_spans(self._spans(), self._cuts)
            self._rows = [Row(spans, bar, soft=index > 0) for index, spans in enumerate(rows)]
        return self._rows[index]

    def _spans(self) -> Sequence[Span]:
        if "\x1b" in self._text:
            return text_spans(styled(self._text), self._palette.text)
        text = plain(self._text)
        if self._lead == CODE_LEAD:
            return value_spans(text, self._palette)
        if self._kind == "traceback":
            meta = {} if self._frame is None else {FRAME_KEY: self._frame}
            spans = traceback_spans(text, self._palette, self._lead)
            return [(piece, style + Style(meta=meta)) for piece, style in spans]
        return [(text, self._palette.text)]


def value_spans(text: str, palette: Palette) -> list[Span]:
    """Colour a line of a value as code, and the number of its entries that are left out."""
    (spans,) = highlight(PYTHON, text, palette)
    for match in _MORE_ENTRIES.finditer(text):
        spans = style_range(spans, *match.span(), palette.muted)
    return spans


class DisplayRows:
    """The rows of a rich representation."""

    def __init__(self, state: tuple[object, ...], rows: Sequence[Row]) -> None:
        self.state = state
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        return self._rows[index]


_DrawnLine = LineRows | DisplayRows


def expand_tabs(text: str) -> str:
    """Expand tabs, counted in cells; SGR sequences have no width."""
    if "\t" not in text:
        return text
    parts: list[str] = []
    column = 0
    for part in _STYLE_SEQUENCE.split(text):
        if part.startswith("\x1b"):
            parts.append(part)
            continue
        for index, piece in enumerate(part.split("\t")):
            if index:
                spaces = TAB_CELLS - column % TAB_CELLS
                parts.append(" " * spaces)
                column += spaces
            parts.append(piece)
            column += cell_len(plain(piece))
    return "".join(parts)


def text_spans(text: Text, base: Style) -> list[Span]:
    """Return the spans of a text whose styles do not overlap."""
    spans: list[Span] = []
    offset = 0
    for start, end, span_style in text.spans:
        style = span_style if isinstance(span_style, Style) else Style.parse(span_style)
        spans.append((text.plain[offset:start], base))
        spans.append((text.plain[start:end], base + style))
        offset = end
    spans.append((text.plain[offset:], base))
    return [(piece, style) for piece, style in spans if piece]
