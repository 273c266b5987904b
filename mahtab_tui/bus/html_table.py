"""Reads the tables in HTML that a cell displays, such as data frames.

The HTML may be broken or hostile, so it is read by one pattern, token by token, within limits. Only rows,
cells and what they span count; all other tags are left out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain

MAX_SPAN = 1_000
"""Columns or lines that a cell may span; HTML has the same limit for columns."""
MAX_TABLE_CELLS = 20_000
"""Cells that are read, with those that others span; a note says that the rest is left out."""
MAX_HTML_TOKENS = 80_000
"""Tags and texts of a table that are read."""
MAX_NUMBER_CHARS = 40
"""Longer texts are not taken for numbers."""

# `html.parser` raises on some broken markup, and takes minutes for other. This looks at each
# character once. Of its branches, comments, styles, scripts and declarations have no named group but
# `raw`, so that they are skipped.
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
"""References to characters that do not exist; `html.unescape` raises on very long ones."""
_LONG_COUNT = re.compile(r"(?<!\d)[1-9]\d{3,14}(?= (?:rows|columns)\b)", re.ASCII)
"""A long number in a note of pandas below a table."""
_NUMBER = re.compile(
    r"[-+]?[\d.,_ ]*\d[\d.,_]*(?:[eE][-+]?\d+)?%?|NaN|nan|inf|-inf|<NA>|null|\.\.\.|…|"
)


class TableCell(NamedTuple):
    """A cell of a table on one line."""

    text: str
    """Without markup and control characters; empty where another cell extends to here."""
    heading: bool
    """Whether it is a `th`, not a `td`."""


class HtmlTable(NamedTuple):
    """A table, line by line."""

    header: list[list[TableCell]]
    """The lines at the top that consist of headings only."""
    body: list[list[TableCell]]
    notes: list[str]
    """The texts after the table begins, such as `1,000 rows × 5 columns`."""
    titles: list[str]
    """The texts before its first line, such as a caption."""


def read_table(source: str) -> HtmlTable | None:
    """Read all tables in HTML as one.

    Args:
        source: Any text, however broken or hostile; reading takes linear time.

    Returns:
        The lines of all tables, in the order in which they begin; None if there are none.
    """
    reader = _TableReader()
    reader.read(source)
    lines = [line for line in reader.lines if line]
    if not lines:
        return None
    header_lines = takewhile(lambda line: all(cell.heading for cell in line), lines)
    header_count = sum(1 for _line in header_lines)
    notes = [_LONG_COUNT.sub(_with_separators, note) for note in reader.notes if note]
    titles = list(filter(None, reader.titles))
    return HtmlTable(lines[:header_count], lines[header_count:], notes, titles)


def numeric_columns(lines: Sequence[Sequence[TableCell]]) -> list[bool]:
    """Return for each column whether all its cells are numbers."""
    column_count = max(map(len, lines), default=0)
    is_numeric = [True] * column_count
    for line in lines:
        for column, cell in enumerate(line):
            if is_numeric[column]:
                is_numeric[column] = _is_number(cell.text)
    return is_numeric


def _is_number(text: str) -> bool:
    """Return whether a text is a number, a missing value, or empty."""
    return len(text) <= MAX_NUMBER_CHARS and _NUMBER.fullmatch(text) is not None


@dataclass
class _OpenCell:
    """A cell whose end has not been read."""

    is_heading: bool
    texts: list[str] = field(default_factory=list)
    column_count: int = 1
    """Columns that it spans."""
    line_count: int = 1
    """Lines that it spans."""


@dataclass
class _OpenTable:
    """A table whose end has not been read."""

    line: list[TableCell] | None = None
    """The last line; None before the first one."""
    line_count: int = 0
    spanning_cells: dict[int, tuple[int, TableCell]] = field(default_factory=dict)
    """For each column the number of the last line that a cell above spans, and a blank cell for
    it."""


def _with_separators(count: re.Match[str]) -> str:
    """Return a count as the rest of the program writes it: 1,000."""
    return f"{int(count[0]):,}"


class _TableReader:
    """Reads the lines of all tables, and the text around them."""

    def __init__(self) -> None:
        self.lines: list[list[TableCell]] = []
        """The lines of a nested table come after the line whose cell contains it."""
        self.notes: list[str] = []
        self.titles: list[str] = []
        self._cell_count = 0
        self._cell: _OpenCell | None = None
        self._table = _OpenTable()
        self._outer_tables: list[_OpenTable] = []
        """The tables that contain the present one, the outermost first."""

    def read(self, source: str) -> None:
        """Read the HTML, as far as the limits allow. It is called once."""
        for number, token in enumerate(_HTML_TOKEN.finditer(source)):
            tag = (token["tag"] or "").lower()
            if token["text"]:
                self._read_text(token["text"])
            elif token["end"]:
                self._end_tag(tag)
            else:
                self._start_tag(tag, token["attributes"])
            if self._cell_count > MAX_TABLE_CELLS or number > MAX_HTML_TOKENS:
                self.notes.append("… the rest of the table is left out …")
                break
        self._end_cell()

    def _read_text(self, text: str) -> None:
        """Add a text to the cell in which it stands, or to the titles or notes."""
        if self._cell is None:
            texts = self.notes if self.lines else self.titles
            texts.append(_one_line(text))
        else:
            self._cell.texts.append(text)

    def _start_tag(self, tag: str, attributes: str) -> None:
        match tag:
            case "table":
                self._end_cell()
                self._outer_tables.append(self._table)
                self._table = _OpenTable()
            case "tr":
                self._end_cell()
                self._start_line()
            case "td" | "th" if self._table.line is not None:
                self._end_cell()
                self._start_cell(attributes, is_heading=tag == "th")
            case "br" if self._cell is not None:
                self._cell.texts.append(" ")

    def _end_tag(self, tag: str) -> None:
        # Closing tags of cells may be missing, so that any of these ends the open cell.
        if tag in ("td", "th", "tr", "table"):
            self._end_cell()
        if tag == "table" and self._outer_tables:
            self._table = self._outer_tables.pop()

    def _start_line(self) -> None:
        """Begin a line with the cells that reach down from those above."""
        line: list[TableCell] = []
        self.lines.append(line)
        self._table.line = line
        self._table.line_count += 1
        self._fill_from_above(line)

    def _start_cell(self, attributes: str, *, is_heading: bool) -> None:
        """Begin a cell.

        Args:
            attributes: Those of its tag, as they are written.
            is_heading: Whether it is a `th`.
        """
        cell = _OpenCell(is_heading)
        for name, number in _SPAN_ATTRIBUTE.findall(attributes):
            span = min(max(1, int(number)), MAX_SPAN)
            if name.lower() == "colspan":
                cell.column_count = span
            else:
                cell.line_count = span
        self._cell = cell

    def _end_cell(self) -> None:
        """Add the open cell, if there is one, to its line, once for each column that it spans."""
        line = self._table.line
        open_cell = self._cell
        if open_cell is None or line is None:
            return
        self._cell = None
        cell = TableCell(_one_line("".join(open_cell.texts)), open_cell.is_heading)
        blank_cell = cell._replace(text="")
        last_line = self._table.line_count + open_cell.line_count - 1
        for column in range(open_cell.column_count):
            if open_cell.line_count > 1:
                self._table.spanning_cells[len(line)] = last_line, blank_cell
            # The text stands in the first of the columns that the cell spans.
            is_first = column == 0
            self._add(line, cell if is_first else blank_cell)
            self._fill_from_above(line)

    def _fill_from_above(self, line: list[TableCell]) -> None:
        """Add the cells of earlier lines that reach down into the next columns of this line."""
        while spanning := self._table.spanning_cells.get(len(line)):
            last_line, cell = spanning
            if last_line < self._table.line_count:
                break
            self._add(line, cell)

    def _add(self, line: list[TableCell], cell: TableCell) -> None:
        """Add a cell to a line, and count it."""
        line.append(cell)
        self._cell_count += 1


def _one_line(text: str) -> str:
    """Return a text between tags as it is drawn: on one line, with the characters that references name,
    without control characters."""
    text = html.unescape(_LARGE_REFERENCE.sub("\ufffd", text))
    return " ".join(plain(text).split())
