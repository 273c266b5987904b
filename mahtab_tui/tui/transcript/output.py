"""Draws a cell's output as rows."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from mahtab_tui.bus.output import (
    LINE_HEAD,
    LOCATION,
    DisplayLine,
    HtmlTable,
    OutputBuffer,
    OutputLine,
    TableCell,
    numeric_columns,
    read_table,
)
from mahtab_tui.bus.sanitize import plain, styled
from mahtab_tui.bus.terminal_screen import collapse
from mahtab_tui.tui.charts import has_chart
from mahtab_tui.tui.pictures import HEAD, Picture, open_picture
from mahtab_tui.tui.rows.code import PYTHON, highlight
from mahtab_tui.tui.rows.markdown import Markdown
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, style_range, token_cuts, word_cuts
from mahtab_tui.tui.theme import BOLD, Palette

SPACE = 2
"""Cells between the columns of a table."""
MAX_COLUMN_CELLS = 40
MAX_TABLE_LINES = 400

MAX_PICTURE_COLUMNS = 100
MAX_PICTURE_ROWS = 24
MIN_CHART_ROWS = 8
"""Rows of a figure that is drawn for the cells, even on a low screen."""
MIN_CELL_PIXELS = 8
"""Pixels across a cell, so that small pictures stay small."""
MAX_PICTURE_PIXELS = 12_000_000
MAX_MARKDOWN_CHARS = 20_000

FOLD_ABOVE_LINES = 50
"""Lines of printed text or of a value up to which all are drawn."""
FOLDED_HEAD_LINES = 20
FOLDED_TAIL_LINES = 10
"""Last printed lines, which show how far a running cell is."""

CODE = "code"
"""The lead of a value's lines that are coloured as code."""
CODE_PREFIX_CHARS = 1_000
"""Characters of a line that tell whether it is code."""
_CODE_START = re.compile(r"[\[{(]|[bru]{0,2}[\'\"]|[^\W\d][\w.]*[(\[{]|<\w+[ .][^>]*>$")
"""A bracket, a string, a call, or a repr such as ``<Figure size 640x480>``."""
_CODE_ENDS = ("]", ")", "}", "'", '"', ">")
_NUMBER_OR_CONSTANT = re.compile(r"-?[\d.]+(?:e[-+]?\d+)?j?|True|False|None")
_MORE_ENTRIES = re.compile(r"… [\d,]+ more")

_EMPTY = TableCell("", False)


def grid_rows(table: HtmlTable, width: int, palette: Palette, offset: int = 0) -> list[Row]:
    """offset: columns scrolled past."""
    head, foot = _two_ends(table)
    body = [*head, *foot]
    columns, widths, named, total = _fit_columns(table, width, offset)
    numeric = numeric_columns(body)
    right = [column >= len(numeric) or numeric[column] for column in columns]

    def draw(lines: Iterable[Sequence[TableCell]]) -> list[Row]:
        return [_row(line, columns, widths, right, palette) for line in lines]

    def note(text: str) -> Row:
        return Row([(set_cell_size(text, min(width, cell_len(text))), palette.muted)])

    rows = draw(table.header)
    if table.header:
        rule = "─" * min(width, sum(widths) + SPACE * (len(widths) - 1))
        rows.append(Row([(rule, palette.hairline)]))
    rows += draw(head)
    if foot:
        omitted = len(table.body) - MAX_TABLE_LINES
        rows += [note(f"… {omitted:,} lines left out …"), *draw(foot)]
    if len(columns) < total:
        first = columns[min(named, len(columns) - 1)] - named + 1
        last = columns[-1] - named + 1
        seen = f"column {first}" if first >= last else f"columns {first} to {last}"
        rows.append(note(f"{seen} of {total - named:,} · ← → show more"))
    return [*rows, *map(note, table.notes)]


def _two_ends(table: HtmlTable) -> tuple[list[list[TableCell]], list[list[TableCell]]]:
    if len(table.body) <= MAX_TABLE_LINES:
        return table.body, []
    return table.body[: MAX_TABLE_LINES * 3 // 4], table.body[-(MAX_TABLE_LINES // 4) :]


class _Columns(NamedTuple):
    visible: list[int]
    widths: list[int]
    named: int
    """How many of them name the rows and stay visible."""
    total: int


def _fit_columns(table: HtmlTable, width: int, offset: int) -> _Columns:
    body = [line for lines in _two_ends(table) for line in lines]
    lines = [*table.header, *body]
    wanted: list[int] = []
    for line in lines:
        wanted += [0] * (len(line) - len(wanted))
        for column, cell in enumerate(line):
            wanted[column] = max(wanted[column], cell_len(cell.text))
    total = len(wanted)
    every = list(range(total))
    if sum(wanted) + SPACE * (total - 1) <= width:
        return _Columns(every, wanted, 0, total)
    widths = [max(1, min(cells, MAX_COLUMN_CELLS)) for cells in wanted]
    least = min(map(len, body), default=0)
    headings = (all(line[column].heading for line in body) for column in range(least))
    named = sum(1 for _ in takewhile(bool, headings))
    if named == total:
        named = 0
    elif sum(widths[:named]) + SPACE * named > width // 2:
        named = 1
    if named == 1:
        widths[0] = max(1, min(widths[0], width // 2 - SPACE))
    columns = every[:named]
    available_width = width - sum(widths[:named]) - SPACE * named
    for column in every[min(named + offset, total - 1) :]:
        if len(columns) > named and widths[column] > available_width:
            break
        widths[column] = max(1, min(widths[column], available_width))
        columns.append(column)
        available_width -= widths[column] + SPACE
    return _Columns(columns, [widths[column] for column in columns], named, total)


def _row(
    line: Sequence[TableCell],
    columns: Sequence[int],
    widths: Sequence[int],
    right: Sequence[bool],
    palette: Palette,
) -> Row:
    spans: list[Span] = []
    for column, width, to_right in zip(columns, widths, right, strict=True):
        if spans:
            spans.append((" " * SPACE, palette.text))
        cell = line[column] if column < len(line) else _EMPTY
        text = cell.text
        if cell_len(text) > width:
            text = set_cell_size(text, width - 1) + "…"
        space = " " * (width - cell_len(text))
        style = palette.muted + BOLD if cell.heading else palette.text
        spans.append((space + text if to_right else text + space, style))
    return Row(spans)


FRAME = "frame"
"""Key of a traceback line's frame in a style's `meta`."""
VALUE = "value"
"""Key of a table's value in a style's `meta`."""


class PictureSpace(NamedTuple):
    """What the terminal has for pictures."""

    height: int = MAX_PICTURE_ROWS
    """Rows up to which a picture can be seen whole."""
    draws_charts: bool = True
    """Whether figures are drawn for the cells, because the terminal has no graphics."""


DEFAULT_SPACE = PictureSpace()


def picture_rows(
    display: DisplayLine, width: int, space: PictureSpace, palette: Palette
) -> list[Row] | None:
    """Return the rows of a picture; None if it cannot be drawn."""
    if display.unreadable:
        return None
    try:
        header = open_picture(display.data[:HEAD], MAX_PICTURE_PIXELS)
    except Exception:  # Pillow may raise anything for broken files
        return None

    is_chart = space.draws_charts and has_chart(header)
    fit = chart_size_in_cells if is_chart else size_in_cells
    columns, rows = fit(*header.size, width, space.height)
    picture = Picture(
        key=picture_key(display),
        columns=columns,
        rows=rows,
        pixels=lambda: open_picture(display.data, MAX_PICTURE_PIXELS),
        chart_palette=palette if is_chart else None,
    )
    return [Row(picture=(picture, number), soft=number > 0) for number in range(rows)]


def picture_key(display: DisplayLine) -> Hashable:
    return len(display.data), hash(display.data)


def mark_unreadable(output: OutputBuffer, picture: Picture) -> bool:
    """Draw the text of a picture instead from now on. Return whether it is in the output."""
    displays = (line for line in output if isinstance(line, DisplayLine))
    unreadable_lines = [line for line in displays if picture_key(line) == picture.key]
    for line in unreadable_lines:
        line.unreadable = True
    return bool(unreadable_lines)


def size_in_cells(
    width: int, height: int, available_width: int, max_rows: int = MAX_PICTURE_ROWS
) -> tuple[int, int]:
    """Return columns and rows; a cell is twice as high as wide.

    Args:
        width: In pixels.
        height: In pixels.
        available_width: In cells.
        max_rows: In cells.
    """
    scale = min(
        1 / MIN_CELL_PIXELS,
        min(available_width, MAX_PICTURE_COLUMNS) / width,
        2 * min(MAX_PICTURE_ROWS, max_rows) / height,
    )
    return max(1, round(width * scale)), max(1, round(height * scale / 2))


def chart_size_in_cells(
    width: int, height: int, available_width: int, max_rows: int = MAX_PICTURE_ROWS
) -> tuple[int, int]:
    """Return columns and rows of a figure, which is drawn for the cells, so that it can be as wide
    as possible. The arguments are those of `size_in_cells`."""
    columns = max(1, min(available_width, MAX_PICTURE_COLUMNS))
    rows = round(columns * height / width / 2)
    return columns, max(MIN_CHART_ROWS, min(rows, MAX_PICTURE_ROWS, max_rows))


def display_rows(
    display: DisplayLine, width: int, palette: Palette, space: PictureSpace = DEFAULT_SPACE
) -> Sequence[Row] | None:
    """Return the rows of a rich representation; nothing if only the text can be drawn."""
    rows: list[Row] | None = None
    match display.mime:
        case "image/png" | "image/jpeg":
            rows = picture_rows(display, width, space, palette)
        case "text/html" if (table := read_table(display.data)) is not None:
            click_style = Style(meta={VALUE: display.value}) if display.value else Style()
            rows = [
                row._replace(spans=[(text, style + click_style) for text, style in row.spans])
                for row in grid_rows(table, width, palette, display.offset)
            ]
        case "text/markdown":
            text = plain(display.data)
            rows = Markdown(palette).document(text[:MAX_MARKDOWN_CHARS], width)
            omitted_chars = len(text) - MAX_MARKDOWN_CHARS
            if omitted_chars > 0:
                rows.append(Row([(f"… {omitted_chars:,} characters left out", palette.muted)]))
    return rows and [row._replace(bar=palette.hairline) for row in rows]


def scroll_table(display: DisplayLine, step: int, width: int) -> bool:
    """Scroll a table by columns. Return whether it has moved."""
    table = read_table(display.data) if display.mime == "text/html" else None
    if table is None:
        return False
    columns = _fit_columns(table, width, display.offset)
    if step > 0 and columns.visible[-1] == columns.total - 1:
        return False
    old_offset = display.offset
    display.offset = max(0, old_offset + step)
    return display.offset != old_offset


TAB = 8

_SGR_PARTS = re.compile(r"(\x1b\[[\d;:]*m)")
_MARKS = re.compile(r"^\s*[~^]+\s*$")
_HEAD = "Traceback (most recent call last):"
_LINKS = {
    "The above exception was the direct cause of the following exception:": "caused by ",
    "During handling of the above exception, another exception occurred:": "raised while handling ",
}
"""Python's lines between chained errors, and what introduces the earlier error."""
_QUIET = (_HEAD, "  [Previous line", "  … ")

_HINT = "Hint: "
"""Starts a line that helps to fix the error."""


def remark(text: str, palette: Palette) -> Row:
    """Return a row in which the program says something about the output."""
    return Row([(text, palette.muted)], palette.hairline)


def _is_code(lines: Sequence[OutputLine]) -> bool:
    """Return whether the lines of a value are Python, as far as their two ends tell."""
    start = lines[0].text[:CODE_PREFIX_CHARS]
    if len(lines) == 1 and _NUMBER_OR_CONSTANT.fullmatch(start):
        return True
    return _CODE_START.match(start) is not None and lines[-1].text.endswith(_CODE_ENDS)


_LedLine = tuple[OutputLine, str]
"""A line and its lead, which says what introduces the line or how it is drawn."""


class OutputRows:
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
        self._lines: dict[_LedLine, _DrawnLine] = {}
        self._rows: list[tuple[_DrawnLine, int] | Row] = []

    def update(self) -> None:
        """Draw the lines that are new or have changed."""
        lines: dict[_LedLine, _DrawnLine] = {}
        rows: list[tuple[_DrawnLine, int] | Row] = []
        for line in self._visible_lines():
            if isinstance(line, Row):
                rows.append(line)
                continue
            drawn = self._draw(*line)
            lines[line] = drawn
            rows += [(drawn, index) for index in range(len(drawn))]
        self._lines = lines
        self._rows = rows

    def _draw(self, line: OutputLine, lead: str) -> _DrawnLine:
        drawn = self._lines.get((line, lead))
        if drawn is not None and drawn.state == line.state:
            return drawn
        if not isinstance(line, DisplayLine):
            return LineRows(line, self._width, self._palette, lead)
        display = display_rows(line, self._width, self._palette, self._space)
        return DisplayRows(line.state, display or self._text_rows(line))

    def _visible_lines(self) -> Iterator[_LedLine | Row]:
        """Yield the lines to draw, with a remark in place of those that are folded."""
        ordered = error_first(list(self._output))
        kinds = [line.kind for line, _ in ordered]
        first_error = kinds.index("traceback") if "traceback" in kinds else len(kinds)
        # Before the line of this number, the buffer left out lines.
        gap = min(len(self._output.head), first_error) if self._output.omitted else -1
        start = 0
        for (kind, _), group in groupby(ordered, lambda item: (item[0].kind, item[1])):
            lines = list(group)
            omitted_count = self._output.omitted if start <= gap < start + len(lines) else 0
            yield from self._fold(kind, lines, omitted_count, gap - start)
            start += len(lines)
        if gap == start:
            yield self._remark_folded(f"{self._output.omitted:,} lines")

    def _fold(
        self, kind: str, lines: list[_LedLine], omitted_count: int, gap: int
    ) -> Iterator[_LedLine | Row]:
        """Yield the lines of one kind, or the ends of many.

        Args:
            kind: Of all these lines.
            lines: Those that the buffer has kept.
            omitted_count: Lines that the buffer left out.
            gap: Number of the line before which it left them out.
        """
        if kind == "value" and _is_code([line for line, _ in lines]):
            lines = [(line, CODE) for line, _ in lines]

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
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        row = self._rows[index]
        return row if isinstance(row, Row) else row[0][row[1]]

    @property
    def reading_start(self) -> int | None:
        """The first row of the help or error with which the output ends."""
        row = len(self._rows)
        for (line, lead), drawn in reversed(self._lines.items()):
            row -= len(drawn)
            if line.kind == "traceback":
                if lead == ERROR:
                    return row
                continue
            if isinstance(line, DisplayLine):
                return row if line.mime in ("text/plain", "text/markdown") else None
            if line.text.strip():  # Python's help prints an empty line at its end
                return None
        return None

    def _text_rows(self, display: DisplayLine) -> list[Row]:
        lines = [
            LineRows(OutputLine(display.kind, text), self._width, self._palette)
            for text in display.text.split("\n")
        ]
        rows = [line[index] for line in lines for index in range(len(line))]
        if display.cut:
            hint = " (Enter shows all)" if display.mime == "text/plain" else ""
            rows.append(remark(f"… {display.cut:,} characters left out{hint}", self._palette))
        return rows


ERROR = "error"


def error_first(lines: list[OutputLine]) -> list[tuple[OutputLine, str]]:
    """Reorder a traceback at the end: the error, its frames, then each error that led to it. Each
    line has a lead: `ERROR` for the first of the last error, an introduction for earlier ones."""
    start = next((n for n, line in enumerate(lines) if line.kind == "traceback"), len(lines))
    ordered: list[tuple[OutputLine, str]] = [(line, "") for line in lines]
    if start == len(lines) or not (lines[start].text == _HEAD or LOCATION.match(lines[start].text)):
        return ordered  # there is no traceback, or it has another form, as in IPython
    del ordered[start:]
    lead = ERROR
    block: list[OutputLine] = []
    for line in reversed(lines[start:]):
        if line.text in _LINKS:
            ordered += _one_error(block[::-1], lead)
            lead = _LINKS[line.text]
            block = []
        else:
            block.append(line)
    return ordered + _one_error(block[::-1], lead)


def _one_error(block: list[OutputLine], lead: str) -> list[tuple[OutputLine, str]]:
    while block and not block[0].text.strip():
        del block[0]
    while block and not block[-1].text.strip():
        del block[-1]
    if block and block[0].text == _HEAD:
        del block[0]
    at = next((number for number, line in enumerate(block) if line.text[:1] not in ("", " ")), 0)
    ordered = [*block[at:], *block[:at]]
    return [(line, "" if number else lead) for number, line in enumerate(ordered)]


class LineRows:
    __slots__ = ("_cuts", "_frame", "_kind", "_lead", "_palette", "_rows", "_text", "state")

    def __init__(self, line: OutputLine, width: int, palette: Palette, lead: str = "") -> None:
        self.state = line.state
        self._frame = line.frame
        self._kind = line.kind
        self._palette = palette
        text = expand_tabs(collapse(line.text))
        if line.cut:
            text = f"{text[:LINE_HEAD]} … {line.cut:,} characters left out … {text[LINE_HEAD:]}"
        self._lead = lead
        if lead not in (ERROR, CODE):
            text = lead + text
        self._text = text
        find_cuts = token_cuts if lead == CODE else word_cuts
        self._cuts = find_cuts(plain(text), width)
        self._rows: list[Row] | None = None

    def __len__(self) -> int:
        return len(self._cuts)

    def __getitem__(self, index: int) -> Row:
        if self._rows is None:
            bar = self._palette.hairline
            rows = cut_spans(self._spans(), self._cuts)
            self._rows = [Row(spans, bar, soft=number > 0) for number, spans in enumerate(rows)]
        return self._rows[index]

    def _spans(self) -> Sequence[Span]:
        if "\x1b" in self._text:
            return text_spans(styled(self._text), self._palette.text)
        text = plain(self._text)
        if self._lead == CODE:
            return value_spans(text, self._palette)
        if self._kind == "traceback":
            meta = {} if self._frame is None else {FRAME: self._frame}
            spans = _traceback_spans(text, self._palette, self._lead)
            return [(piece, style + Style(meta=meta)) for piece, style in spans]
        return [(text, self._palette.text)]


def value_spans(text: str, palette: Palette) -> list[Span]:
    """Colour a line of a value as code, and the number of its entries that are left out."""
    (spans,) = highlight(PYTHON, text, palette)
    for match in _MORE_ENTRIES.finditer(text):
        spans = style_range(spans, *match.span(), palette.muted)
    return spans


class DisplayRows(list[Row]):
    def __init__(self, state: tuple[object, ...], rows: Sequence[Row]) -> None:
        super().__init__(rows)
        self.state = state


_DrawnLine = LineRows | DisplayRows


def expand_tabs(text: str) -> str:
    """Expand tabs, counted in cells; SGR sequences have no width."""
    if "\t" not in text:
        return text
    parts: list[str] = []
    column = 0
    for part in _SGR_PARTS.split(text):
        if part.startswith("\x1b"):
            parts.append(part)
            continue
        for number, piece in enumerate(part.split("\t")):
            if number:
                spaces = TAB - column % TAB
                parts.append(" " * spaces)
                column += spaces
            parts.append(piece)
            column += cell_len(plain(piece))
    return "".join(parts)


def text_spans(text: Text, base: Style) -> list[Span]:
    spans = []
    done = 0
    for start, end, style in text.spans:
        style = style if isinstance(style, Style) else Style.parse(style)
        spans += [(text.plain[done:start], base), (text.plain[start:end], base + style)]
        done = end
    return [(piece, style) for piece, style in [*spans, (text.plain[done:], base)] if piece]


def _traceback_spans(text: str, palette: Palette, lead: str) -> list[Span]:
    if lead == ERROR:
        return [(text, palette.bad + BOLD)]
    if lead:
        return [(lead, palette.muted), *_traceback_spans(text[len(lead) :], palette, "")]
    if match := LOCATION.match(text):
        quiet = palette.muted
        styles = (quiet, palette.person, quiet, palette.moon, quiet)
        return list(zip(match.groups(), styles, strict=True))
    if text.startswith(_QUIET):
        return [(text, palette.muted)]
    if _MARKS.match(text):
        return [(text, palette.bad)]
    if text[:1].isspace():
        return [(text, palette.text)]
    if text.startswith(_HINT):
        return [(_HINT, palette.moon), (text[len(_HINT) :], palette.text)]
    name, colon, rest = text.partition(":")
    return [(name, palette.bad + BOLD), (colon + rest, palette.bad)]
