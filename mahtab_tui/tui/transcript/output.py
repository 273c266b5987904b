"""A cell's output, as growing data and as rows."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from mahtab_tui.bus.html_table import HtmlTable, read_table
from mahtab_tui.bus.sanitize import plain, styled
from mahtab_tui.bus.terminal_screen import (
    HEIGHT,
    NO_STYLE,
    PrintedLine,
    Screen,
    apply_sgr,
    collapse,
    leaves_line,
    split_unfinished,
    style_change,
)
from mahtab_tui.tui.graphics.pictures import Picture, open_picture, read_size
from mahtab_tui.tui.rows.grid import grid_rows, last_offset
from mahtab_tui.tui.rows.markdown import Markdown
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, hard_cuts, word_cuts
from mahtab_tui.tui.theme import BOLD, Palette

HEAD, TAIL = 200, 800
"""Lines to keep at the start and at the end."""
FRAME = "frame"
"""Key in a style's `meta` for the frame number of a traceback line."""
VALUE = "value"
"""Key in a style's `meta` for the key of a table's value."""
RICH_DISPLAYS = 40
"""Maximum number of tables, pictures and Markdown texts of one output."""
COLOURS = 16
"""Maximum number of SGR sequences carried over to the next line."""
LIVE = 50_000
"""Characters at the end of a piece in which cursor movements are emulated; a flood of them must not
block the screen. The final output replaces this when the cell ends."""
LINE_HEAD, LINE_TAIL = 3_000, 1_000
"""Characters to keep at the start and at the end of a line."""
HELP = 20_000
"""Characters to keep of a help text."""

LOCATION = re.compile(r'^(\s*File )(".*?"|\S+)(, line )(\d+)(.*)$')
"""A traceback line that names a location."""
_SGR = re.compile(r"\x1b\[[\d;:]*m")
_RESET = re.compile(r"\x1b\[[0;:]*m")


@dataclass(slots=True, eq=False)
class OutputLine:
    """A line of output as it was written; escape sequences are removed when it is drawn."""

    kind: str
    """``stdout``, ``value`` or ``traceback``."""
    text: str
    cut: int = 0
    """Characters omitted after the first `LINE_HEAD`."""
    frame: int | None = None
    """Number of the traceback frame that the line names."""

    @property
    def state(self) -> tuple[object, ...]:
        """Everything that the line's rows depend on."""
        return self.text, self.frame

    def extend(self, text: str) -> None:
        """Append text. A carriage return moves back to the start of the line."""
        text = self.text + text
        if (start := text.rfind("\r")) > 0:
            text = collapse(text[:start]) + text[start:]
        if (over := len(text) - LINE_HEAD - LINE_TAIL) > 0:
            self.cut += over
            text = text[:LINE_HEAD] + text[-LINE_TAIL:]
        self.text = text


@dataclass(slots=True, eq=False)
class DisplayLine(OutputLine):
    """A displayed picture, table or Markdown text, shown instead of its plain text."""

    mime: str = ""
    """Empty if only the text is left."""
    data: str = ""
    """Base64 for pictures."""
    value: str = ""
    """The key with which the kernel opens the value of a table; empty if it cannot."""
    offset: int = 0
    """Columns of a wide table that the user has scrolled past."""
    unreadable: bool = False
    """Whether drawing the picture has failed."""

    @property
    def state(self) -> tuple[object, ...]:
        return self.text, self.mime, self.unreadable, self.offset

    def drop_value(self) -> None:
        """Keep only the text."""
        self.mime = self.data = self.value = ""


@dataclass(slots=True, eq=False)
class OutputBuffer:
    """The stored lines of a cell's output. Feeding a piece takes time proportional to its
    length."""

    received: int = 0
    """Characters fed so far."""
    omitted: int = 0
    """Number of lines that were not kept."""
    head: list[OutputLine] = field(default_factory=list)
    tail: list[OutputLine] = field(default_factory=list)
    _open: OutputLine | None = None
    """The last line, if it has not ended yet."""
    _colours: tuple[str, ...] = ()
    """The SGR sequences in effect at the start of the next line."""
    _above: int = 0
    """Lines between the cursor and the last one."""
    _column: int | None = None
    """The cursor's column; None for the end of its line."""
    _unfinished: str = ""
    """The start of an incomplete sequence."""

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def __iter__(self) -> Iterator[OutputLine]:
        yield from self.head
        yield from self.tail

    def clear(self) -> None:
        self.received = self.omitted = 0
        self.head.clear()
        self.tail.clear()
        self._colours = ()
        self._end_prints()

    def feed(self, kind: str, text: str) -> None:
        if not text:
            return
        self.received += len(text)
        if self._open is not None and self._open.kind != kind:
            self._end_prints()
        if kind == "stdout":
            text, self._unfinished = split_unfinished(self._unfinished + text)
        if kind == "stdout" and (self._above or self._column is not None or leaves_line(text)):
            self._emulate(text)
        else:
            first, newline, rest = text.partition("\n")
            self._write(kind, first)
            if newline:
                self._end_line()
                self._feed_lines(kind, rest)
        self._trim()

    def show(self, text: str, mime: str, data: str, value: str = "") -> None:
        """Add a displayed value. If there are very many, those in the middle become plain text."""
        self._end_prints()
        self.received += len(text)
        text = text.rstrip("\n")
        room = HELP if mime == "text/plain" else LINE_HEAD
        self._append(
            DisplayLine(
                "display", text[:room], max(0, len(text) - room), mime=mime, data=data, value=value
            )
        )
        self._trim()
        rich = [line for line in self if isinstance(line, DisplayLine) and line.mime]
        if len(rich) > RICH_DISPLAYS:
            rich[RICH_DISPLAYS // 2].drop_value()

    def _trim(self) -> None:
        if (over := len(self.tail) - TAIL) > 0:
            del self.tail[:over]
            self.omitted += over

    def _feed_lines(self, kind: str, text: str) -> None:
        """Add text that starts with a new line."""
        if text.count("\n") > HEAD + TAIL:
            beginning, text = self._split_long(text)
            for line in beginning:
                self._whole_line(kind, line)
        *lines, last = text.split("\n")
        for line in lines:
            self._whole_line(kind, line)
        if last:
            self._write(kind, last)

    @property
    def size(self) -> int:
        return sum(
            len(line.text) + (len(line.data) if isinstance(line, DisplayLine) else 0)
            for line in self
        )

    def from_end(self, count: int) -> OutputLine | None:
        """Return a line counted from the end, where 1 is the last one; None if it was not kept."""
        if 0 < count <= len(self.tail):
            return self.tail[-count]
        return (
            self.head[len(self) - count]
            if len(self.tail) < count <= len(self) and not self.omitted
            else None
        )

    def shrink(self, lines: int) -> None:
        """Keep only that many lines at each end, and only the plain text of displayed values."""
        self.omitted += max(0, len(self) - 2 * lines)
        remaining = list(self)
        self.head, self.tail = remaining[:lines], remaining[lines:][-lines:]
        for line in self:
            if isinstance(line, DisplayLine):
                line.drop_value()

    def _split_long(self, text: str) -> tuple[list[str], str]:
        """Split a long text into lines that still belong to the head, and the text of the last
        `TAIL` lines; count those in between."""
        wanted = HEAD - len(self.head)
        beginning = text.split("\n", wanted)[:wanted] if wanted > 0 else []
        middle = text[sum(len(line) + 1 for line in beginning) :]
        end = len(middle)
        for _ in range(TAIL + 1):
            end = middle.rfind("\n", 0, end)
        self.omitted += middle.count("\n", 0, end + 1)
        self._remember_colours(middle[: end + 1])
        return beginning, middle[end + 1 :]

    def _write(self, kind: str, text: str) -> None:
        if self._open is None:
            self._open = OutputLine(kind, "".join(self._colours))
            self._append(self._open)
        self._open.extend(text)
        self._remember_colours(text)

    def _whole_line(self, kind: str, text: str) -> None:
        self._write(kind, text)
        self._end_line()

    def _end_line(self) -> None:
        self._open, self._above, self._column = None, 0, None

    def _end_prints(self) -> None:
        """End the line, because output of another kind follows."""
        self._end_line()
        self._unfinished = ""

    # Cursor movements

    def _emulate(self, text: str) -> None:
        """Add text that moves the cursor."""
        if (over := len(text) - LIVE) > 0:
            self.omitted += text.count("\n", 0, over)
        lines = self._pop_screenful()
        rows = [PrintedLine(line.text, NO_STYLE, NO_STYLE) for line in lines]
        if self._open is None or not rows:
            rows.append(PrintedLine("", NO_STYLE, NO_STYLE))
        pen = reduce(apply_sgr, (colour[2:-1] for colour in self._colours), NO_STYLE)
        screen = Screen(rows, above=min(self._above, len(rows) - 1), column=self._column, pen=pen)
        screen.feed(text[-LIVE:])
        rows = screen.rows()
        begun = bool(screen.above or rows[-1].text)
        for number, row in enumerate(rows if begun else rows[:-1]):
            line = lines[number] if number < len(lines) else OutputLine("stdout", "")
            if (drawn := style_change(NO_STYLE, row.start) + row.text) != line.text:
                line.text, line.cut = "", 0
                line.extend(drawn)
            (self.tail.append if self.omitted else self._append)(line)
        self._open = (self.tail or self.head)[-1] if begun else None
        self._above, self._column = (0, None) if screen.at_end else (screen.above, screen.column)
        self._colours = (screen.pen.codes(),) if screen.pen != NO_STYLE else ()

    def _pop_screenful(self) -> list[OutputLine]:
        """Remove and return the last lines, which the cursor can reach."""
        lines: list[OutputLine] = []
        for line in chain(reversed(self.tail), () if self.omitted else reversed(self.head)):
            if type(line) is not OutputLine or line.kind != "stdout" or len(lines) == HEIGHT:
                break
            lines.append(line)
        of_tail = min(len(lines), len(self.tail))
        del self.tail[len(self.tail) - of_tail :]
        del self.head[len(self.head) - (len(lines) - of_tail) :]
        return lines[::-1]

    def _append(self, line: OutputLine) -> None:
        (self.head if len(self.head) < HEAD and not self.tail else self.tail).append(line)

    def _remember_colours(self, text: str) -> None:
        """Remember the colours in effect after the text."""
        if "\x1b" not in text:
            return
        for sequence in _SGR.findall(text):
            self._colours = (
                () if _RESET.fullmatch(sequence) else (*self._colours, sequence)[-COLOURS:]
            )


WIDEST, HIGHEST = 100, 24
"""Maximum size of a picture in cells."""

PIXELS_OF_A_CELL = 8
"""A small picture is drawn no larger than if cells had this width in pixels."""

LARGEST = 12_000_000
"""Maximum pixels of a picture in the transcript; a larger one is shown on a screen of its own."""


def picture_rows(shown: DisplayLine, width: int) -> list[Row] | None:
    """Return the rows of a picture; None if it is too large or unreadable."""
    if shown.unreadable or (size := read_size(shown.data)) is None or size[0] * size[1] > LARGEST:
        return None
    columns, rows = size_in_cells(*size, width)
    picture = Picture(picture_key(shown), columns, rows, lambda: open_picture(shown.data, LARGEST))
    return [Row(picture=(picture, number), soft=number > 0) for number in range(rows)]


def picture_key(shown: DisplayLine) -> Hashable:
    """Return a key that identifies the picture."""
    return len(shown.data), hash(shown.data)


def mark_unreadable(output: OutputBuffer, picture: Picture) -> bool:
    """Show the plain text instead of a picture that cannot be drawn; returns whether the output
    contains it."""
    found = [
        line
        for line in output
        if isinstance(line, DisplayLine) and picture_key(line) == picture.key
    ]
    for line in found:
        line.unreadable = True
    return bool(found)


def size_in_cells(width: int, height: int, room: int) -> tuple[int, int]:
    """Return the columns and rows of a picture of this size in pixels; a cell is twice as high as
    wide."""
    scale = min(1 / PIXELS_OF_A_CELL, min(room, WIDEST) / width, 2 * HIGHEST / height)
    return max(1, round(width * scale)), max(1, round(height * scale / 2))


MARKDOWN = 20_000
"""Maximum characters of Markdown to render; more would block the screen."""


def display_rows(shown: DisplayLine, width: int, palette: Palette) -> Sequence[Row] | None:
    """Return the rows of a displayed value; None if it cannot be drawn."""
    rows: Sequence[Row] | None
    match shown.mime:
        case "image/png" | "image/jpeg":
            rows = picture_rows(shown, width)
        case "text/html":
            table = read_table(shown.data)
            rows = None if table is None else _table_rows(table, shown, width, palette)
        case "text/markdown":
            rows = _markdown_rows(plain(shown.data), width, palette)
        case _:
            rows = None
    return rows and [row._replace(bar=palette.hairline) for row in rows]


def scroll_table(shown: DisplayLine, step: int, width: int) -> bool:
    """Scroll a wide table by columns; returns whether that was possible."""
    table = read_table(shown.data) if shown.mime == "text/html" else None
    if table is None:
        return False
    before = shown.offset
    shown.offset = max(0, min(before + step, last_offset(table, width)))
    return shown.offset != before


def _table_rows(table: HtmlTable, shown: DisplayLine, width: int, palette: Palette) -> list[Row]:
    """Return the rows of a table. A click on one opens the table's value, if it is known."""
    rows = grid_rows(table, width, palette, shown.offset)
    if not shown.value:
        return rows
    opens = Style(meta={VALUE: shown.value})
    return [
        row._replace(spans=[(text, style + opens) for text, style in row.spans]) for row in rows
    ]


def _markdown_rows(text: str, width: int, palette: Palette) -> list[Row]:
    """Return the rows of a Markdown text, truncated to `MARKDOWN` characters."""
    rows = Markdown(palette).document(text[:MARKDOWN], width)
    if (omitted := len(text) - MARKDOWN) > 0:
        rows.append(Row([(f"… {omitted:,} characters left out", palette.muted)]))
    return rows


TAB = 8

_SGR_PARTS = re.compile(r"(\x1b\[[\d;:]*m)")
_MARKS = re.compile(r"^\s*[~^]+\s*$")
_HEAD = "Traceback (most recent call last):"
_LINKS = {
    "The above exception was the direct cause of the following exception:": "caused by ",
    "During handling of the above exception, another exception occurred:": "raised while handling ",
}
"""Python's lines between chained errors, and the text that introduces the earlier error below the
later one."""
_QUIET = (_HEAD, "  [Previous line", "  … ")

_HINT = "Hint: "
"""Starts the line after an error that helps to fix it."""


class OutputRows:
    """The rows of an `OutputBuffer` for one width. `update` takes time proportional to the stored
    lines, not to the output."""

    def __init__(self, output: OutputBuffer, width: int, palette: Palette) -> None:
        self._output = output
        self._width = width
        self._palette = palette
        self._lines: dict[tuple[OutputLine, str], _DrawnLine] = {}
        self._rows: list[tuple[_DrawnLine, int] | Row] = []

    def update(self) -> None:
        """Update the rows: a traceback starts with its error."""
        ordered = error_first(list(self._output))
        lines: dict[tuple[OutputLine, str], _DrawnLine] = {}
        rows: list[tuple[_DrawnLine, int] | Row] = []
        first = next(
            (number for number, (line, _) in enumerate(ordered) if line.kind == "traceback"),
            len(ordered),
        )
        gap = min(len(self._output.head), first) if self._output.omitted else -1
        for number, (line, lead) in enumerate(ordered):
            known = self._lines.get((line, lead))
            if known is None or known.state != line.state:
                known = self._draw_line(line, lead)
            lines[line, lead] = known
            if number == gap:
                rows.append(
                    self._note(f"… {self._output.omitted:,} lines left out (Enter shows all) …")
                )
            rows += [(known, index) for index in range(len(known))]
        self._lines, self._rows = lines, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        row = self._rows[index]
        return row if isinstance(row, Row) else row[0][row[1]]

    @property
    def reading_start(self) -> int | None:
        """The first row of a text to read, such as help, Markdown or an error, if the output ends
        with one."""
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

    def _draw_line(self, line: OutputLine, lead: str = "") -> _DrawnLine:
        if not isinstance(line, DisplayLine):
            return LineRows(line, self._width, self._palette, lead)

        return DisplayRows(
            line.state, display_rows(line, self._width, self._palette) or self._text_rows(line)
        )

    def _text_rows(self, shown: DisplayLine) -> list[Row]:
        lines = [
            LineRows(OutputLine(shown.kind, text), self._width, self._palette)
            for text in shown.text.split("\n")
        ]
        rows = [drawn[index] for drawn in lines for index in range(len(drawn))]
        how = " (Enter shows all)" if shown.mime == "text/plain" else ""
        return (
            [*rows, self._note(f"… {shown.cut:,} characters left out{how}")] if shown.cut else rows
        )

    def _note(self, text: str) -> Row:
        return Row([(text, self._palette.muted)], self._palette.hairline)


ERROR = "error"
"""The lead of a traceback's first line."""


def error_first(lines: list[OutputLine]) -> list[tuple[OutputLine, str]]:
    """Reorder a traceback at the end for reading: the error, its frames, then each error that led
    to it.

    Returns each line with its lead: `ERROR` for the first line of the last error, an introduction
    for earlier errors.
    """
    start = next(
        (number for number, line in enumerate(lines) if line.kind == "traceback"), len(lines)
    )
    if start == len(lines) or not (lines[start].text == _HEAD or LOCATION.match(lines[start].text)):
        # There is no traceback, or it has another form, as in IPython.
        return [(line, "") for line in lines]
    ordered: list[tuple[OutputLine, str]] = [(line, "") for line in lines[:start]]
    lead = ERROR
    block: list[OutputLine] = []
    for line in reversed(lines[start:]):
        if line.text in _LINKS:
            ordered += _one_error(block[::-1], lead)
            lead, block = _LINKS[line.text], []
        else:
            block.append(line)
    return ordered + _one_error(block[::-1], lead)


def _one_error(block: list[OutputLine], lead: str) -> list[tuple[OutputLine, str]]:
    """Move an error with its message above its frames."""
    while block and not block[0].text.strip():
        del block[0]
    while block and not block[-1].text.strip():
        del block[-1]
    if block and block[0].text == _HEAD:
        del block[0]
    at = next((number for number, line in enumerate(block) if line.text[:1] not in ("", " ")), 0)
    return [
        (line, lead if number == 0 else "")
        for number, line in enumerate([*block[at:], *block[:at]])
    ]


class LineRows:
    """The rows of one line of output, wrapped as in a terminal."""

    __slots__ = ("_cuts", "_frame", "_kind", "_lead", "_palette", "_rows", "_text", "state")

    def __init__(self, line: OutputLine, width: int, palette: Palette, lead: str = "") -> None:
        """lead: see `error_first`."""
        self.state = line.state
        self._frame = line.frame
        self._kind = line.kind
        self._palette = palette
        text = expand_tabs(collapse(line.text))
        if line.cut:
            text = f"{text[:LINE_HEAD]} … {line.cut:,} characters left out … {text[LINE_HEAD:]}"
        self._lead = lead
        if lead != ERROR:
            text = lead + text
        self._text = text
        is_hint = line.kind == "traceback" and text.startswith(_HINT)
        self._cuts = (word_cuts if is_hint else hard_cuts)(plain(text), width)
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
        if self._kind == "traceback":
            spans = _traceback_spans(text, self._palette, self._lead)
            return (
                spans
                if self._frame is None
                else [(piece, style + Style(meta={FRAME: self._frame})) for piece, style in spans]
            )
        return [(text, self._palette.text)]


class DisplayRows(list[Row]):
    def __init__(self, state: tuple[object, ...], rows: Sequence[Row]) -> None:
        super().__init__(rows)
        self.state = state


_DrawnLine = LineRows | DisplayRows


def expand_tabs(text: str) -> str:
    """Expand tabs to the next tab stop, counted in cells; SGR sequences have no width."""
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
    """Convert a `rich.text.Text` whose spans do not overlap."""
    spans, end = [], 0
    for span in text.spans:
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        spans += [
            (text.plain[end : span.start], base),
            (text.plain[span.start : span.end], base + style),
        ]
        end = span.end
    return [(piece, style) for piece, style in [*spans, (text.plain[end:], base)] if piece]


def _traceback_spans(text: str, palette: Palette, lead: str) -> list[Span]:
    """Style a traceback line: location dim, source plain, error bold in the error colour, the hint
    after it plain."""
    if lead == ERROR:
        return [(text, palette.bad + BOLD)]
    if lead:
        return [(lead, palette.muted), *_traceback_spans(text[len(lead) :], palette, "")]
    if match := LOCATION.match(text):
        before, file, line, number, after = match.groups()
        quiet = palette.muted
        return [
            (before, quiet),
            (file, palette.person),
            (line, quiet),
            (number, palette.moon),
            (after, quiet),
        ]
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
