"""Draws the single lines and the displayed values of an output."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from mahtab_tui.bus.output_lines import DisplayLine, OutputLine
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.sgr import styled
from mahtab_tui.tui.rows.code import PYTHON, highlight
from mahtab_tui.tui.rows.markdown import MarkdownRenderer
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, style_ranges, token_cuts, word_cuts
from mahtab_tui.tui.theme import Palette
from mahtab_tui.tui.transcript.picture_rows import DEFAULT_SPACE, PictureSpace, picture_rows
from mahtab_tui.tui.transcript.tables import grid_rows, shown_table
from mahtab_tui.tui.transcript.tracebacks import ERROR_LEAD, traceback_spans

MAX_MARKDOWN_CHARS = 20_000
"""At most this many characters of a Markdown text are drawn."""
MARKDOWN_COST = 10
"""How much longer it takes to draw a character of Markdown than one of a table."""
CODE_LEAD = "code"
"""The lead of a value's lines that are coloured as code."""
FRAME_KEY = "frame"
"""The key, in the `meta` of a style, of the index of a traceback's frame."""
VALUE_KEY = "value"
"""The key, in the `meta` of a style, of the key of a table's value."""
TAB_CELLS = 8
_MORE_ENTRIES = re.compile(r"… [\d,]+ more")
_STYLE_SEQUENCE = re.compile(r"(\x1b\[[\d;:]*m)")


class LineRows:
    """The rows of one line of text. Their spans are made when the first of them is drawn."""

    __slots__ = ("_cuts", "_frame", "_kind", "_lead", "_palette", "_rows", "_text", "state")

    def __init__(self, line: OutputLine, width: int, palette: Palette, lead: str = "") -> None:
        """
        Args:
            line: The line.
            width: The width of a row, in cells.
            palette: The colours.
            lead: `CODE_LEAD`, a lead of `tracebacks.error_first`, or empty.
        """
        self.state = line.state
        """The state of the line when it was drawn; a line with another state must be drawn again."""
        self._frame = line.frame
        self._kind = line.kind
        self._palette = palette
        self._lead = lead
        text = expand_tabs(line.final_text)
        lead_is_words = lead not in (ERROR_LEAD, CODE_LEAD)
        self._text = lead + text if lead_is_words else text
        find_cuts = token_cuts if lead == CODE_LEAD else word_cuts
        self._cuts = find_cuts(plain(self._text), width)
        self._rows: list[Row] | None = None

    def __len__(self) -> int:
        return len(self._cuts)

    def __getitem__(self, index: int) -> Row:
        if self._rows is None:
            bar = self._palette.hairline
            span_rows = cut_spans(self._spans(), self._cuts)
            self._rows = [Row(spans, bar, soft=row > 0) for row, spans in enumerate(span_rows)]
        return self._rows[index]

    def _spans(self) -> Sequence[Span]:
        """Return the whole line with its colours."""
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


class DisplayRows:
    """The rows of a displayed value."""

    def __init__(self, state: tuple[object, ...], rows: Sequence[Row]) -> None:
        """
        Args:
            state: The state of the display when it was drawn; a display with another state must be
                drawn again.
            rows: The rows.
        """
        self.state = state
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        return self._rows[index]


def display_rows(
    display: DisplayLine, width: int, palette: Palette, space: PictureSpace = DEFAULT_SPACE
) -> Sequence[Row]:
    """Return the rows of a displayed value. Any thread may call it.

    Args:
        display: The value.
        width: The width of a row, in cells.
        palette: The colours.
        space: How large pictures may be.
    """
    rows: Sequence[Row] = ()
    match display.mime:
        case "image/png" | "image/jpeg":
            rows = _with_bar(picture_rows(display, width, space, palette) or (), palette)
        case "text/html" if (table := shown_table(display)) is not None:
            # A click opens the value.
            click_style = Style(meta={VALUE_KEY: display.value}) if display.value else Style()
            rows = grid_rows(table, width, palette, display.offset, click_style)
        case "text/markdown":
            rows = _with_bar(_markdown_rows(display, width, palette), palette)
    # If the value cannot be drawn, its text is.
    return rows or display_text_rows(display, width, palette)


def _with_bar(rows: Sequence[Row], palette: Palette) -> list[Row]:
    """Return rows with the bar of an output at their left."""
    return [row._replace(bar=palette.hairline) for row in rows]


def _markdown_rows(display: DisplayLine, width: int, palette: Palette) -> list[Row]:
    text = plain(display.data)
    rows = MarkdownRenderer(palette).document(text[:MAX_MARKDOWN_CHARS], width)
    omitted_chars = len(text) - MAX_MARKDOWN_CHARS
    if omitted_chars > 0:
        rows.append(Row([(f"… {omitted_chars:,} characters left out", palette.muted)]))
    return rows


def display_text_rows(display: DisplayLine, width: int, palette: Palette) -> list[Row]:
    """Return the rows of the text of a displayed value, which are drawn in its place."""
    rows: list[Row] = []
    for text in display.text.split("\n"):
        line_rows = LineRows(OutputLine(display.kind, text), width, palette)
        rows += [line_rows[index] for index in range(len(line_rows))]
    if display.omitted_chars:
        hint = " (Enter shows all)" if display.mime == "text/plain" else ""
        rows.append(remark(f"… {display.omitted_chars:,} characters left out{hint}", palette))
    return rows


def drawing_cost(display: DisplayLine) -> int:
    """Return the number of characters of a table that take about as long to draw as a value."""
    if display.mime == "text/markdown":
        return MARKDOWN_COST * min(len(display.data), MAX_MARKDOWN_CHARS)
    return len(display.data)


def remark(text: str, palette: Palette) -> Row:
    """Return a row in which the program says something about the output."""
    return Row([(text, palette.muted)], palette.hairline)


def value_spans(text: str, palette: Palette) -> list[Span]:
    """Colour a line of a value as code, and mute the number of its entries that are left out."""
    (spans,) = highlight(PYTHON, text, palette)
    ranges = [match.span() for match in _MORE_ENTRIES.finditer(text)]
    return style_ranges(spans, ranges, palette.muted)


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
