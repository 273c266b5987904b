"""A cell's output as growing data, and the tables in its HTML, such as data frames."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.terminal_screen import (
    HEIGHT,
    Pen,
    Screen,
    collapse,
    leaves_line,
    read_pen,
    split_unfinished,
)

HEAD, TAIL = 200, 800
"""Lines to keep at the start and at the end."""
RICH_DISPLAYS = 40
"""Tables, pictures and Markdown texts of one output at most."""
LIVE = 50_000
"""Characters at a piece's end whose cursor movements are emulated."""
LINE_HEAD, LINE_TAIL = 3_000, 1_000
HELP = 20_000

DisplayedValue = tuple[str, str, str, str]
"""Text, MIME type, data and key of a displayed value."""

LOCATION = re.compile(r'^(\s*File )(".*?"|\S+)(, line )(\d+)(.*)$')


@dataclass(slots=True, eq=False)
class OutputLine:
    """A line of output with its escape sequences."""

    kind: str
    """``stdout``, ``value`` or ``traceback``."""
    text: str
    cut: int = 0
    """Characters omitted after the first `LINE_HEAD`."""
    frame: int | None = None
    """The frame of the traceback that it names."""

    @property
    def state(self) -> tuple[object, ...]:
        return self.text, self.frame

    def extend(self, text: str) -> None:
        text = self.text + text
        if (start := text.rfind("\r")) > 0:
            text = collapse(text[:start]) + text[start:]
        if (over := len(text) - LINE_HEAD - LINE_TAIL) > 0:
            self.cut += over
            text = text[:LINE_HEAD] + text[-LINE_TAIL:]
        self.text = text


@dataclass(slots=True, eq=False)
class DisplayLine(OutputLine):
    """A picture, table or Markdown text."""

    mime: str = ""
    """Empty if only the text is left."""
    data: str = ""
    value: str = ""
    """The key with which the kernel opens a table; empty if it cannot."""
    offset: int = 0
    """Columns of a wide table that the user has scrolled past."""
    unreadable: bool = False

    @property
    def state(self) -> tuple[object, ...]:
        return self.text, self.mime, self.unreadable, self.offset

    @property
    def content(self) -> tuple[str, str, str]:
        return self.text, self.mime, self.data

    def drop_value(self) -> None:
        self.mime = self.data = self.value = ""


@dataclass(slots=True, eq=False)
class OutputBuffer:
    """A cell's output. Feeding takes linear time."""

    received: int = 0
    omitted: int = 0
    head: list[OutputLine] = field(default_factory=list)
    tail: list[OutputLine] = field(default_factory=list)
    _open: OutputLine | None = None
    _pen: Pen = ""
    _above: int = 0
    _column: int | None = None
    """None for the end of the line."""
    _unfinished: str = ""

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def __iter__(self) -> Iterator[OutputLine]:
        yield from self.head
        yield from self.tail

    def clear(self) -> None:
        self.received = self.omitted = 0
        self.head.clear()
        self.tail.clear()
        self._pen = ""
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
        """Add a displayed value. Of very many, those in the middle become text."""
        self._end_prints()
        self.received += len(text)
        self._append(_display_line(text, mime, data, value))
        self._trim()
        rich = [line for line in self if isinstance(line, DisplayLine) and line.mime]
        if len(rich) > RICH_DISPLAYS:
            rich[RICH_DISPLAYS // 2].drop_value()

    def replace_display(self, old: DisplayedValue, new: DisplayedValue) -> None:
        """Put a displayed value in the place of an earlier one."""
        old_line = _display_line(*old)
        for lines in (self.head, self.tail):
            for index, line in enumerate(lines):
                if isinstance(line, DisplayLine) and line.content == old_line.content:
                    lines[index] = _display_line(*new)
                    return

    def _trim(self) -> None:
        if (over := len(self.tail) - TAIL) > 0:
            del self.tail[:over]
            self.omitted += over

    def _feed_lines(self, kind: str, text: str) -> None:
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
        displays = (line for line in self if isinstance(line, DisplayLine))
        return sum(len(line.text) for line in self) + sum(len(line.data) for line in displays)

    def from_end(self, count: int) -> OutputLine | None:
        """Return a line counted from the end, from 1, if it was kept."""
        if 0 < count <= len(self.tail):
            return self.tail[-count]
        if len(self.tail) < count <= len(self) and not self.omitted:
            return self.head[len(self) - count]
        return None

    def shrink(self, lines: int) -> None:
        """Keep only that many lines at each end, and only the plain text of displayed values."""
        self.omitted += max(0, len(self) - 2 * lines)
        remaining = list(self)
        self.head, self.tail = remaining[:lines], remaining[lines:][-lines:]
        for line in self:
            if isinstance(line, DisplayLine):
                line.drop_value()

    def _split_long(self, text: str) -> tuple[list[str], str]:
        wanted = HEAD - len(self.head)
        beginning = text.split("\n", wanted)[:wanted] if wanted > 0 else []
        middle = text[sum(len(line) + 1 for line in beginning) :]
        end = len(middle)
        for _ in range(TAIL + 1):
            end = middle.rfind("\n", 0, end)
        self.omitted += middle.count("\n", 0, end + 1)
        self._pen = read_pen(self._pen, middle[: end + 1])
        return beginning, middle[end + 1 :]

    def _write(self, kind: str, text: str) -> None:
        if self._open is None:
            self._open = OutputLine(kind, self._pen)
            self._append(self._open)
        self._open.extend(text)
        self._pen = read_pen(self._pen, text)

    def _whole_line(self, kind: str, text: str) -> None:
        self._write(kind, text)
        self._end_line()

    def _end_line(self) -> None:
        self._open, self._above, self._column = None, 0, None

    def _end_prints(self) -> None:
        self._end_line()
        self._unfinished = ""

    # Cursor movements

    def _emulate(self, text: str) -> None:
        if (over := len(text) - LIVE) > 0:
            self.omitted += text.count("\n", 0, over)
        lines = self._pop_screenful()
        rows = [line.text for line in lines]
        if self._open is None or not rows:
            rows.append("")
        above = min(self._above, len(rows) - 1)
        screen = Screen(rows, above=above, column=self._column, pen=self._pen)
        screen.feed(text[-LIVE:])
        rows = screen.rows()
        begun = bool(screen.above or rows[-1])
        for number, row in enumerate(rows if begun else rows[:-1]):
            line = lines[number] if number < len(lines) else OutputLine("stdout", "")
            if row != line.text:
                line.text, line.cut = "", 0
                line.extend(row)
            (self.tail.append if self.omitted else self._append)(line)
        self._open = (self.tail or self.head)[-1] if begun else None
        self._above, self._column = (0, None) if screen.at_end else (screen.above, screen.column)
        self._pen = screen.pen

    def _pop_screenful(self) -> list[OutputLine]:
        """Remove the last lines, which the cursor can reach."""
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


def _display_line(text: str, mime: str, data: str, value: str) -> DisplayLine:
    text = text.rstrip("\n")
    max_chars = HELP if mime == "text/plain" else LINE_HEAD
    cut = max(0, len(text) - max_chars)
    return DisplayLine("display", text[:max_chars], cut, mime=mime, data=data, value=value)


_SPAN = 1_000
_CELLS = 100_000

# `html.parser` raises on some broken markup, and takes minutes for other. This looks at each
# character once.
_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<raw>style|script)\b.*?(?:</(?P=raw)\s*>|\Z)"
    r"|<(?P<end>/?)(?P<tag>[a-z][a-z0-9]*)(?P<attributes>(?:[^<>\"']+|\"[^\"]*\"|'[^']*')*+)>?"
    r"|<[!?/][^>]*>?"
    r"|(?P<text>[^<]+|<)",
    re.DOTALL | re.IGNORECASE,
)
_SPANS = re.compile(r"\b(colspan|rowspan)\s*=\s*[\"']?(\d{1,9})\b", re.IGNORECASE)

_NUMBERED = re.compile(r"&#(?:\d{8,}|x[0-9a-f]{7,});?", re.IGNORECASE)
"""No characters; `html.unescape` raises on very long ones."""


_NUMERIC = re.compile(
    r"[-+]?[\d.,_ ]*\d[\d.,_]*(?:[eE][-+]?\d+)?%?|NaN|nan|inf|-inf|<NA>|null|\.\.\.|…|"
)
LONGEST_NUMBER = 40


def is_number(text: str) -> bool:
    """Return whether a text is a number, a missing value, or empty."""
    return len(text) <= LONGEST_NUMBER and _NUMERIC.fullmatch(text) is not None


class TableCell(NamedTuple):
    text: str
    heading: bool


class HtmlTable(NamedTuple):
    header: list[list[TableCell]]
    """Lines of headings only."""
    body: list[list[TableCell]]
    notes: list[str]
    """The texts around the table, such as `1000 rows × 5 columns`."""


def numeric_columns(lines: Sequence[Sequence[TableCell]]) -> list[bool]:
    width = max(map(len, lines), default=0)
    return [
        all(column >= len(line) or is_number(line[column].text) for line in lines)
        for column in range(width)
    ]


def read_table(source: str) -> HtmlTable | None:
    reader = _TableReader()
    reader.read(source)
    lines = [line for line in reader.lines if line]
    if not lines:
        return None
    header = []
    while lines and all(cell.heading for cell in lines[0]):
        header.append(lines.pop(0))
    return HtmlTable(header, lines, [note for note in reader.notes if note])


class _TableReader:
    def __init__(self) -> None:
        self.lines: list[list[TableCell]] = []
        self.notes: list[str] = []
        self._cells = 0
        self._cell: list[str] | None = None
        self._spans = {"colspan": 1, "rowspan": 1}
        self._heading = False
        self._below: dict[int, tuple[int, TableCell]] = {}
        """Cells that span further lines, by column, with the number of lines."""

    def read(self, source: str) -> None:
        for token in _TOKEN.finditer(source):
            tag = (token["tag"] or "").lower()
            if token["text"]:
                if self._cell is not None:
                    self._cell.append(token["text"])
                else:
                    self.notes.append(_one_line(token["text"]))
            elif not token["end"]:
                self._start(tag, token["attributes"])
            elif tag in ("td", "th", "tr", "table"):
                self._end_cell()
            if self._cells > _CELLS:
                self.notes.append("… the rest of the table is left out …")
                return
        self._end_cell()

    def _start(self, tag: str, attributes: str) -> None:
        if tag == "tr":
            self._end_cell()
            self.lines.append([])
            self._fill_from_above()
        elif tag in ("td", "th") and self.lines:
            self._end_cell()
            self._cell, self._heading = [], tag == "th"
            self._spans = {"colspan": 1, "rowspan": 1}
            for name, number in _SPANS.findall(attributes):
                self._spans[name.lower()] = min(max(1, int(number)), _SPAN)
        elif tag == "br" and self._cell is not None:
            self._cell.append(" ")

    def _end_cell(self) -> None:
        if self._cell is None:
            return
        cell = TableCell(_one_line("".join(self._cell)), self._heading)
        self._cell = None
        for number in range(self._spans["colspan"]):
            shown = cell if number == 0 else cell._replace(text="")
            if (lines := self._spans["rowspan"] - 1) > 0:
                self._below[len(self.lines[-1])] = lines, shown._replace(text="")
            self._add(shown)
            self._fill_from_above()

    def _fill_from_above(self) -> None:
        while (found := self._below.pop(len(self.lines[-1]), None)) is not None:
            left, cell = found
            if left > 1:
                self._below[len(self.lines[-1])] = (left - 1, cell)
            self._add(cell)

    def _add(self, cell: TableCell) -> None:
        self.lines[-1].append(cell)
        self._cells += 1


def _one_line(text: str) -> str:
    return " ".join(plain(html.unescape(_NUMBERED.sub("\ufffd", text))).split())
