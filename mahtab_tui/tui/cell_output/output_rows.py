"""Rows of a cell's output. Only visible rows are styled."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from mahtab_tui.bus.sanitize import plain, styled
from mahtab_tui.bus.terminal_screen import collapse
from mahtab_tui.tui.cell_output.output import (
    FRAME,
    LINE_HEAD,
    LOCATION,
    DisplayLine,
    OutputBuffer,
    OutputLine,
)
from mahtab_tui.tui.rows.palette import BOLD, Palette
from mahtab_tui.tui.rows.row import Row, Span, cut_spans, hard_cuts, word_cuts

TAB = 8

_SGR_PARTS = re.compile(r"(\x1b\[[\d;:]*m)")
_MARKS = re.compile(r"^\s*[~^]+\s*$")
_HEAD = "Traceback (most recent call last):"
_LINKS = {
    "The above exception was the direct cause of the following exception:": "caused by ",
    "During handling of the above exception, another exception occurred:": "raised while handling ",
}
"""Python's lines between chained errors, and how the earlier error is introduced below the later
one."""
_QUIET = (_HEAD, "  [Previous line", "  … ")

_HINT = "Hint: "
"""Begins the line after an error that helps to fix it."""


class OutputRows:
    """Rows of a `OutputBuffer` for one width. `update` takes time proportional to the lines kept,
    not to the output."""

    def __init__(self, output: OutputBuffer, width: int, palette: Palette) -> None:
        self._output = output
        self._width = width
        self._palette = palette
        self._lines: dict[tuple[OutputLine, str], _DrawnLine] = {}
        self._rows: list[tuple[_DrawnLine, int] | Row] = []

    def update(self) -> None:
        """Update the rows: a traceback begins with its error."""
        ordered = error_first(list(self._output))
        lines: dict[tuple[OutputLine, str], _DrawnLine] = {}
        rows: list[tuple[_DrawnLine, int] | Row] = []
        first = next(
            (number for number, (line, _) in enumerate(ordered) if line.kind == "traceback"),
            len(ordered),
        )
        gap = min(len(self._output.head), first) if self._output.left_out else -1
        for number, (line, lead) in enumerate(ordered):
            known = self._lines.get((line, lead))
            if known is None or known.state != line.state:
                known = self._drawn(line, lead)
            lines[line, lead] = known
            if number == gap:
                rows.append(
                    self._note(f"… {self._output.left_out:,} lines left out (Enter shows all) …")
                )
            rows += [(known, index) for index in range(len(known))]
        self._lines, self._rows = lines, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        row = self._rows[index]
        return row if isinstance(row, Row) else row[0][row[1]]

    @property
    def reading(self) -> int | None:
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
            if line.text.strip():  # Python's help prints an empty line afterwards
                return None
        return None

    def _drawn(self, line: OutputLine, lead: str = "") -> _DrawnLine:
        if not isinstance(line, DisplayLine):
            return LineRows(line, self._width, self._palette, lead)
        from mahtab_tui.tui.cell_output.display_rows import display_rows

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
"""The lead of the line with which a traceback begins."""


def error_first(lines: list[OutputLine]) -> list[tuple[OutputLine, str]]:
    """Order a traceback at the end for reading: the error, its frames, then each error that led to
    it.

    Return each line with what introduces it: `ERROR` for the first line of the last error, words
    for the errors before.
    """
    start = next(
        (number for number, line in enumerate(lines) if line.kind == "traceback"), len(lines)
    )
    if start == len(lines) or not (lines[start].text == _HEAD or LOCATION.match(lines[start].text)):
        return [
            (line, "") for line in lines
        ]  # there is none, or it is written in another form, as IPython does
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
    """Rows of one line of output, wrapped as a terminal wraps it."""

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
    """Replace tabs by spaces up to the next tab stop, counted in cells; SGR sequences take none."""
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
    """Style one line of a traceback: the location dim, the source plain, the error in the error
    colour and bold, the hint after it plain."""
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
