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

HEAD_LINES = 200
TAIL_LINES = 800
"""Lines to keep at the start and at the end."""
LINE_HEAD_CHARS = 3_000
LINE_TAIL_CHARS = 1_000
"""Characters of a line to keep at its start and end."""
MAX_HELP_CHARS = 20_000
"""Characters of a displayed text, such as help."""
MAX_RICH_DISPLAYS = 40
"""Tables, pictures and Markdown texts of one output at most."""
MAX_EMULATED_CHARS = 50_000
"""Characters at a piece's end whose cursor movements are emulated."""
MAX_SPAN = 1_000
MAX_TABLE_CELLS = 20_000
MAX_HTML_TOKENS = 80_000
"""Tags and texts of a table that are read."""
MAX_NUMBER_CHARS = 40

# `html.parser` raises on some broken markup, and takes minutes for other. This looks at each
# character once.
_HTML_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<raw>style|script)\b.*?(?:</(?P=raw)\s*>|\Z)"
    r"|<(?P<end>/?)(?P<tag>[a-z][a-z0-9]*)(?P<attributes>(?:[^<>\"']+|\"[^\"]*\"|'[^']*')*+)>?"
    r"|<[!?/][^>]*>?"
    r"|(?P<text>[^<]+|<)",
    re.DOTALL | re.IGNORECASE,
)
_SPAN_ATTRIBUTE = re.compile(r"\b(colspan|rowspan)\s*=\s*[\"']?(\d{1,9})\b", re.IGNORECASE)
_LARGE_REFERENCE = re.compile(r"&#(?:\d{8,}|x[0-9a-f]{7,});?", re.IGNORECASE)
"""No characters; `html.unescape` raises on very long ones."""
_NUMBER = re.compile(
    r"[-+]?[\d.,_ ]*\d[\d.,_]*(?:[eE][-+]?\d+)?%?|NaN|nan|inf|-inf|<NA>|null|\.\.\.|…|"
)

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
    """Characters omitted after the first `LINE_HEAD_CHARS`."""
    frame: int | None = None
    """The frame of the traceback that it names."""

    @property
    def state(self) -> tuple[object, ...]:
        """What a drawn row depends on."""
        return self.text, self.frame

    def extend(self, text: str) -> None:
        """Add text at the end, and leave out the middle of a long line."""
        text = self.text + text
        # What stands before the last return to the start is final.
        last_return = text.rfind("\r")
        if last_return > 0:
            text = collapse(text[:last_return]) + text[last_return:]
        excess_chars = len(text) - LINE_HEAD_CHARS - LINE_TAIL_CHARS
        if excess_chars > 0:
            self.cut += excess_chars
            text = text[:LINE_HEAD_CHARS] + text[-LINE_TAIL_CHARS:]
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
        """Keep only the text."""
        self.mime = ""
        self.data = ""
        self.value = ""


@dataclass(slots=True, eq=False)
class OutputBuffer:
    """A cell's output. Feeding takes linear time."""

    received: int = 0
    """Characters that were fed."""
    omitted: int = 0
    """Lines that are left out between head and tail."""
    head: list[OutputLine] = field(default_factory=list)
    tail: list[OutputLine] = field(default_factory=list)
    _open_line: OutputLine | None = None
    """The line to which the next text is added."""
    _pen: Pen = ""
    _lines_below_cursor: int = 0
    _column: int | None = None
    """The cursor's; None for the end of the line."""
    _unfinished: str = ""
    """A sequence whose end has not arrived yet."""

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def __iter__(self) -> Iterator[OutputLine]:
        yield from self.head
        yield from self.tail

    def clear(self) -> None:
        self.received = 0
        self.omitted = 0
        self.head.clear()
        self.tail.clear()
        self._pen = ""
        self._end_prints()

    def feed(self, kind: str, text: str) -> None:
        if not text:
            return
        self.received += len(text)
        if self._open_line is not None and self._open_line.kind != kind:
            self._end_prints()
        if kind == "stdout":
            text, self._unfinished = split_unfinished(self._unfinished + text)

        is_cursor_moved = bool(self._lines_below_cursor) or self._column is not None
        if kind == "stdout" and (is_cursor_moved or leaves_line(text)):
            self._emulate(text)
        else:
            open_text, newline, whole_lines = text.partition("\n")
            self._write(kind, open_text)
            if newline:
                self._end_line()
                self._feed_lines(kind, whole_lines)
        self._trim()

    def show(self, text: str, mime: str, data: str, value: str = "") -> None:
        """Add a displayed value. Of very many, those in the middle become text."""
        self._end_prints()
        self.received += len(text)
        self._append(_display_line(text, mime, data, value))
        self._trim()
        rich_lines = [line for line in self if isinstance(line, DisplayLine) and line.mime]
        if len(rich_lines) > MAX_RICH_DISPLAYS:
            rich_lines[MAX_RICH_DISPLAYS // 2].drop_value()

    def replace_display(self, old: DisplayedValue, new: DisplayedValue) -> None:
        """Put a displayed value in the place of an earlier one."""
        old_line = _display_line(*old)
        for lines in (self.head, self.tail):
            for index, line in enumerate(lines):
                if isinstance(line, DisplayLine) and line.content == old_line.content:
                    lines[index] = _display_line(*new)
                    return

    def _trim(self) -> None:
        excess_lines = len(self.tail) - TAIL_LINES
        if excess_lines > 0:
            del self.tail[:excess_lines]
            self.omitted += excess_lines

    def _feed_lines(self, kind: str, text: str) -> None:
        """Add text that begins at the start of a line."""
        if text.count("\n") > HEAD_LINES + TAIL_LINES:
            first_lines, text = self._omit_middle(text)
            for line in first_lines:
                self._write_line(kind, line)
        *lines, open_text = text.split("\n")
        for line in lines:
            self._write_line(kind, line)
        if open_text:
            self._write(kind, open_text)

    @property
    def size(self) -> int:
        """Characters that are kept."""
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
        all_lines = list(self)
        self.head = all_lines[:lines]
        self.tail = all_lines[lines:][-lines:]
        for line in self:
            if isinstance(line, DisplayLine):
                line.drop_value()

    def _omit_middle(self, text: str) -> tuple[list[str], str]:
        """Return the first lines of a long text, which complete the head, and its end, which
        replaces the tail."""
        missing_lines = HEAD_LINES - len(self.head)
        first_lines = []
        if missing_lines > 0:
            first_lines = text.split("\n", missing_lines)[:missing_lines]
        middle = text[sum(len(line) + 1 for line in first_lines) :]

        tail_start = len(middle)
        for _ in range(TAIL_LINES + 1):
            tail_start = middle.rfind("\n", 0, tail_start)
        omitted_text = middle[: tail_start + 1]
        self.omitted += omitted_text.count("\n")
        self._pen = read_pen(self._pen, omitted_text)
        return first_lines, middle[tail_start + 1 :]

    def _write(self, kind: str, text: str) -> None:
        if self._open_line is None:
            self._open_line = OutputLine(kind, self._pen)
            self._append(self._open_line)
        self._open_line.extend(text)
        self._pen = read_pen(self._pen, text)

    def _write_line(self, kind: str, text: str) -> None:
        self._write(kind, text)
        self._end_line()

    def _end_line(self) -> None:
        self._open_line = None
        self._lines_below_cursor = 0
        self._column = None

    def _end_prints(self) -> None:
        self._end_line()
        self._unfinished = ""

    # Cursor movements

    def _emulate(self, text: str) -> None:
        """Add text that moves the cursor over the last lines."""
        excess_chars = len(text) - MAX_EMULATED_CHARS
        if excess_chars > 0:
            self.omitted += text.count("\n", 0, excess_chars)
        lines = self._pop_screenful()
        rows = [line.text for line in lines]
        if self._open_line is None or not rows:
            rows.append("")

        above = min(self._lines_below_cursor, len(rows) - 1)
        screen = Screen(rows, above=above, column=self._column, pen=self._pen)
        screen.feed(text[-MAX_EMULATED_CHARS:])
        rows = screen.rows()

        # An empty last row is a line that has not begun.
        has_open_line = bool(screen.above or rows[-1])
        if not has_open_line:
            rows.pop()
        for index, row in enumerate(rows):
            if index < len(lines):
                line = lines[index]
            else:
                line = OutputLine("stdout", "")
            if row != line.text:
                line.text = ""
                line.cut = 0
                line.extend(row)
            if self.omitted:
                self.tail.append(line)
            else:
                self._append(line)

        self._open_line = (self.tail or self.head)[-1] if has_open_line else None
        self._pen = screen.pen
        if screen.at_end:
            self._lines_below_cursor = 0
            self._column = None
        else:
            self._lines_below_cursor = screen.above
            self._column = screen.column

    def _pop_screenful(self) -> list[OutputLine]:
        """Remove the last lines, which the cursor can reach."""
        lines: list[OutputLine] = []
        reachable_head = [] if self.omitted else self.head
        for line in chain(reversed(self.tail), reversed(reachable_head)):
            if type(line) is not OutputLine or line.kind != "stdout" or len(lines) == HEIGHT:
                break
            lines.append(line)
        tail_count = min(len(lines), len(self.tail))
        head_count = len(lines) - tail_count
        del self.tail[len(self.tail) - tail_count :]
        del self.head[len(self.head) - head_count :]
        lines.reverse()
        return lines

    def _append(self, line: OutputLine) -> None:
        if len(self.head) < HEAD_LINES and not self.tail:
            self.head.append(line)
        else:
            self.tail.append(line)


def _display_line(text: str, mime: str, data: str, value: str) -> DisplayLine:
    text = text.rstrip("\n")
    max_chars = LINE_HEAD_CHARS
    if mime == "text/plain":
        max_chars = MAX_HELP_CHARS
    cut = max(0, len(text) - max_chars)
    return DisplayLine("display", text[:max_chars], cut, mime=mime, data=data, value=value)


def is_number(text: str) -> bool:
    """Return whether a text is a number, a missing value, or empty."""
    return len(text) <= MAX_NUMBER_CHARS and _NUMBER.fullmatch(text) is not None


class TableCell(NamedTuple):
    """A cell of a table on one line."""

    text: str
    heading: bool


class HtmlTable(NamedTuple):
    """A table, line by line."""

    header: list[list[TableCell]]
    """Lines of headings only."""
    body: list[list[TableCell]]
    notes: list[str]
    """The texts around the table, such as `1000 rows × 5 columns`."""


def numeric_columns(lines: Sequence[Sequence[TableCell]]) -> list[bool]:
    """Return for each column whether all its cells are numbers."""
    column_count = max(map(len, lines), default=0)
    is_numeric = [True] * column_count
    for line in lines:
        for column, cell in enumerate(line):
            if is_numeric[column]:
                is_numeric[column] = is_number(cell.text)
    return is_numeric


def read_table(source: str) -> HtmlTable | None:
    """Read the tables in HTML as one; None if there is none."""
    reader = _TableReader()
    reader.read(source)
    lines = [line for line in reader.lines if line]
    if not lines:
        return None
    header_count = 0
    while header_count < len(lines) and all(cell.heading for cell in lines[header_count]):
        header_count += 1
    notes = [note for note in reader.notes if note]
    return HtmlTable(lines[:header_count], lines[header_count:], notes)


class _TableReader:
    """Reads the lines of a table, and the text around them."""

    def __init__(self) -> None:
        self.lines: list[list[TableCell]] = []
        self.notes: list[str] = []
        self._cell_count = 0
        self._cell_texts: list[str] | None = None
        """The texts of the cell that is being read."""
        self._spans = {"colspan": 1, "rowspan": 1}
        self._is_heading = False
        self._spanning_cells: dict[int, tuple[int, TableCell]] = {}
        """Cells that span further lines, by column, with the number of lines."""

    def read(self, source: str) -> None:
        for number, token in enumerate(_HTML_TOKEN.finditer(source)):
            tag = (token["tag"] or "").lower()
            if token["text"]:
                if self._cell_texts is not None:
                    self._cell_texts.append(token["text"])
                else:
                    self.notes.append(_one_line(token["text"]))
            elif not token["end"]:
                self._start_tag(tag, token["attributes"])
            elif tag in ("td", "th", "tr", "table"):
                self._end_cell()
            if self._cell_count > MAX_TABLE_CELLS or number > MAX_HTML_TOKENS:
                self.notes.append("… the rest of the table is left out …")
                break
        self._end_cell()

    def _start_tag(self, tag: str, attributes: str) -> None:
        if tag == "tr":
            self._end_cell()
            self.lines.append([])
            self._fill_from_above()
        elif tag in ("td", "th") and self.lines:
            self._end_cell()
            self._cell_texts = []
            self._is_heading = tag == "th"
            self._spans = {"colspan": 1, "rowspan": 1}
            for name, number in _SPAN_ATTRIBUTE.findall(attributes):
                self._spans[name.lower()] = min(max(1, int(number)), MAX_SPAN)
        elif tag == "br" and self._cell_texts is not None:
            self._cell_texts.append(" ")

    def _end_cell(self) -> None:
        if self._cell_texts is None:
            return
        cell = TableCell(_one_line("".join(self._cell_texts)), self._is_heading)
        blank_cell = cell._replace(text="")
        self._cell_texts = None
        lines_below = self._spans["rowspan"] - 1
        for number in range(self._spans["colspan"]):
            column = len(self.lines[-1])
            if lines_below > 0:
                self._spanning_cells[column] = (lines_below, blank_cell)
            # The text stands in the first of the columns that the cell spans.
            self._add(blank_cell if number else cell)
            self._fill_from_above()

    def _fill_from_above(self) -> None:
        """Add the cells of earlier lines that span this one, too."""
        column = len(self.lines[-1])
        while column in self._spanning_cells:
            line_count, cell = self._spanning_cells.pop(column)
            if line_count > 1:
                self._spanning_cells[column] = (line_count - 1, cell)
            self._add(cell)
            column += 1

    def _add(self, cell: TableCell) -> None:
        self.lines[-1].append(cell)
        self._cell_count += 1


def _one_line(text: str) -> str:
    text = html.unescape(_LARGE_REFERENCE.sub("\ufffd", text))
    return " ".join(plain(text).split())
