"""Reads the tables in HTML that a cell displays, such as data frames."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain

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


def _is_number(text: str) -> bool:
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
                is_numeric[column] = _is_number(cell.text)
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
