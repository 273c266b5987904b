"""Parses the first table in HTML, such as a data frame's `_repr_html_` returns."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain

_SPAN = 1_000
"""Columns or rows that a cell spans at most."""
_CELLS = 100_000
"""Cells at most, with spanned ones."""

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


_NUMBER = re.compile(
    r"[-+]?[\d.,_ ]*\d[\d.,_]*(?:[eE][-+]?\d+)?%?|NaN|nan|inf|-inf|<NA>|null|\.\.\.|…|"
)
LONGEST_NUMBER = 40


def is_number(text: str) -> bool:
    """Return whether a text is a number, a missing value, or empty."""
    return len(text) <= LONGEST_NUMBER and _NUMBER.fullmatch(text) is not None


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
    """Return whether all values of each column are numbers."""
    width = max(map(len, lines), default=0)
    return [
        all(column >= len(line) or is_number(line[column].text) for line in lines)
        for column in range(width)
    ]


def read_table(source: str) -> HtmlTable | None:
    """Parse the first table; None if there is no table with a line."""
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
        self._depth = 0
        """Of inner tables, only the text is read."""
        self._over = False
        self._cell: list[str] | None = None
        self._spans = {"colspan": 1, "rowspan": 1}
        self._heading = False
        self._below: dict[int, tuple[int, TableCell]] = {}
        """Cells that span further lines, by column, with the number of lines."""

    def read(self, source: str) -> None:
        for token in _TOKEN.finditer(source):
            if token["text"]:
                self._data(token["text"])
            elif token["tag"]:
                tag = token["tag"].lower()
                self._end(tag) if token["end"] else self._start(tag, token["attributes"])
            if self._cells > _CELLS:
                self.notes.append("… the rest of the table is left out …")
                return
        self._end_cell()

    def _start(self, tag: str, attributes: str) -> None:
        if tag == "table":
            self._depth += 1
        inside = self._depth == 1 and not self._over
        if inside and tag == "tr":
            self._end_cell()
            self.lines.append([])
            self._fill_from_above()
        elif inside and tag in ("td", "th") and self.lines:
            self._end_cell()
            self._cell, self._heading = [], tag == "th"
            self._spans = {"colspan": 1, "rowspan": 1}
            for name, number in _SPANS.findall(attributes):
                self._spans[name.lower()] = min(max(1, int(number)), _SPAN)
        elif tag in ("br", "td", "th") and self._cell is not None:
            self._cell.append(" ")

    def _end(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table") and self._depth == 1:
            self._end_cell()
        if tag == "table" and self._depth:
            self._depth -= 1
            self._over = self._over or not self._depth

    def _data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)
        else:
            self.notes.append(_one_line(data))

    def _end_cell(self) -> None:
        if self._cell is None:
            return
        cell = TableCell(_one_line("".join(self._cell)), self._heading)
        self._cell = None
        for number in range(self._spans["colspan"]):
            shown = cell if number == 0 else cell._replace(text="")
            if self._spans["rowspan"] > 1:
                self._below[len(self.lines[-1])] = (
                    self._spans["rowspan"] - 1,
                    shown._replace(text=""),
                )
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
