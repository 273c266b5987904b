"""Rows of a cell's output. Only visible rows are styled."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from mahtab_tui.bus.overwrite import collapse
from mahtab_tui.bus.sanitize import plain, styled
from mahtab_tui.tui.cell_output.output import FRAME, LINE_HEAD, DisplayLine, OutputBuffer, OutputLine
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, hard_cuts, word_cuts

TAB = 8
LONG_TRACEBACK = 10
"""If more lines precede the last frame of a traceback, they are collapsed."""

_SGR = re.compile(r"(\x1b\[[\d;:]*m)")
_FILE = re.compile(r'^(\s*File )(".*?"|\S+)(, line )(\d+)(.*)$')
_MARKS = re.compile(r"^\s*[~^]+\s*$")
_QUIET = ("Traceback (most recent call last)", "During handling of ", "The above exception was ", "  [Previous line", "  … ")

_HINT = "Hint: "
"""Begins the line after an error that helps to fix it."""


class OutputRows:
    """Rows of a `OutputBuffer` for one width. `update` takes time proportional to the lines kept, not to the output."""

    def __init__(self, output: OutputBuffer, width: int, palette: Palette) -> None:
        self._output = output
        self._width = width
        self._palette = palette
        self._lines: dict[OutputLine, _DrawnLine] = {}
        self._rows: list[tuple[_DrawnLine, int] | Row] = []

    def update(self, *, whole_traceback: bool = True) -> None:
        """Update the rows. whole_traceback: show all of a long traceback."""
        lines: dict[OutputLine, _DrawnLine] = {}
        for line in self._output:
            known = self._lines.get(line)
            if known is None or known.state != line.state:
                known = self._drawn(line)
            lines[line] = known
        self._lines = lines
        collapsed = range(0) if whole_traceback else _frames_to_collapse(list(lines))
        rows: list[tuple[_DrawnLine, int] | Row] = []
        for number, drawn in enumerate(lines.values()):
            if number == len(self._output.head) and self._output.left_out:
                rows.append(self._note(f"… {self._output.left_out:,} lines left out (Enter shows all) …"))
            if number in collapsed:
                if number == collapsed.start:
                    rows.append(self._note(f"… {len(collapsed):,} lines of earlier frames collapsed (t shows them)"))
                continue
            rows += [(drawn, index) for index in range(len(drawn))]
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        row = self._rows[index]
        return row if isinstance(row, Row) else row[0][row[1]]

    @property
    def reading(self) -> int | None:
        """The first row of a text to read, such as help or Markdown, if the output ends with one."""
        row = len(self._rows)
        for line, drawn in reversed(self._lines.items()):
            row -= len(drawn)
            if isinstance(line, DisplayLine):
                return row if line.mime in ("text/plain", "text/markdown") else None
            if line.text.strip():  # Python's help prints an empty line afterwards
                return None
        return None

    def _drawn(self, line: OutputLine) -> _DrawnLine:
        if not isinstance(line, DisplayLine):
            return LineRows(line, self._width, self._palette)
        from mahtab_tui.tui.cell_output.display_rows import display_rows

        return DisplayRows(line.state, display_rows(line, self._width, self._palette) or self._text_rows(line))

    def _text_rows(self, shown: DisplayLine) -> list[Row]:
        lines = [LineRows(OutputLine(shown.kind, text), self._width, self._palette) for text in shown.text.split("\n")]
        rows = [drawn[index] for drawn in lines for index in range(len(drawn))]
        how = " (Enter shows all)" if shown.mime == "text/plain" else ""
        return [*rows, self._note(f"… {shown.cut:,} characters left out{how}")] if shown.cut else rows

    def _note(self, text: str) -> Row:
        return Row([(text, self._palette.muted)], self._palette.hairline)


def _frames_to_collapse(lines: Sequence[OutputLine]) -> range:
    """Return the lines of a long traceback between its first and last frame."""
    start = next((number for number, line in enumerate(lines) if line.kind == "traceback"), len(lines))
    last = max((number for number in range(start, len(lines)) if _FILE.match(lines[number].text)), default=start)
    return range(start + 1, last) if last - start > LONG_TRACEBACK else range(0)


class LineRows:
    """Rows of one line of output, wrapped as a terminal wraps it."""

    __slots__ = ("_cuts", "_frame", "_kind", "_palette", "_rows", "_text", "state")

    def __init__(self, line: OutputLine, width: int, palette: Palette) -> None:
        self.state = line.state
        self._frame = line.frame
        self._kind = line.kind
        self._palette = palette
        text = expand_tabs(collapse(line.text))
        if line.cut:
            text = f"{text[:LINE_HEAD]} … {line.cut:,} characters left out … {text[LINE_HEAD:]}"
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
            spans = _traceback_spans(text, self._palette)
            return spans if self._frame is None else [(piece, style + Style(meta={FRAME: self._frame})) for piece, style in spans]
        return [(text, self._palette.text)]


class DisplayRows(list[Row]):
    def __init__(self, state: tuple[object, ...], rows: Sequence[Row]) -> None:
        super().__init__(rows)
        self.state = state


_DrawnLine = LineRows | DisplayRows


def expand_tabs(text: str) -> str:
    """Replace tabs by spaces up to the next tab stop, counted in cells; SGR sequences take none."""
    if "\t" not in text:
        return text
    parts: list[str] = []
    column = 0
    for part in _SGR.split(text):
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
        spans += [(text.plain[end : span.start], base), (text.plain[span.start : span.end], base + style)]
        end = span.end
    return [(piece, style) for piece, style in [*spans, (text.plain[end:], base)] if piece]


def _traceback_spans(text: str, palette: Palette) -> list[Span]:
    """Style one line of a traceback: the location dim, the source plain, the error in the error colour, the hint after it plain."""
    if match := _FILE.match(text):
        before, file, line, number, after = match.groups()
        quiet = palette.muted
        return [(before, quiet), (file, palette.person), (line, quiet), (number, palette.moon), (after, quiet)]
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
