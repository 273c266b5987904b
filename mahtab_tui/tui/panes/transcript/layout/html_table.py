"""The first table of a piece of HTML: what `_repr_html_` of data frames gives."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain

_SPAN = 100
"""Columns or rows that one cell may take."""


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    heading: bool


class Table(NamedTuple):
    """A table of any origin."""

    header: list[list[Cell]]
    """Its first lines, of headings only."""
    body: list[list[Cell]]
    notes: list[str]
    """What stands around it: `1000 rows × 5 columns`."""


def read_table(html: str) -> Table | None:
    """None where there is no table with a line."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = [line for line in reader.lines if line]
    if not lines:
        return None
    header = []
    while lines and all(cell.heading for cell in lines[0]):
        header.append(lines.pop(0))
    return Table(header, lines, [note for note in reader.notes if note])


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[list[Cell]] = []
        self.notes: list[str] = []
        self._tables = 0
        """Tables that were begun, one inside the other or after it; the first is read."""
        self._skipped = ""
        self._cell: list[str] | None = None
        self._spans = (1, 1)
        self._heading = False
        self._below: dict[int, tuple[int, Cell]] = {}
        """By column: a cell that goes on in so many more lines."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("style", "script"):
            self._skipped = tag
        elif tag == "table":
            self._tables += 1
        elif self._tables == 1 and tag == "tr":
            self._end_cell()
            self.lines.append([])
            self._fill_from_above()
        elif self._tables == 1 and tag in ("td", "th") and self.lines:
            self._end_cell()
            given = dict(attrs)
            self._cell, self._heading = [], tag == "th"
            self._spans = (_number(given.get("colspan")), _number(given.get("rowspan")))
        elif tag == "br" and self._cell is not None:
            self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._skipped:
            self._skipped = ""
        elif tag in ("td", "th", "tr", "table"):
            self._end_cell()

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        if self._cell is not None:
            self._cell.append(data)
        else:
            self.notes.append(_one_line(data))

    def _end_cell(self) -> None:
        if self._cell is None:
            return
        cell = Cell(_one_line("".join(self._cell)), self._heading)
        self._cell = None
        columns, rows = self._spans
        for number in range(columns):
            shown = cell if number == 0 else cell._replace(text="")
            if rows > 1:
                self._below[len(self.lines[-1])] = (rows - 1, shown._replace(text=""))
            self.lines[-1].append(shown)
            self._fill_from_above()

    def _fill_from_above(self) -> None:
        line = self.lines[-1]
        while (found := self._below.get(len(line))) is not None and found[0] > 0:
            left, cell = self._below.pop(len(line))
            if left > 1:
                self._below[len(line)] = (left - 1, cell)
            line.append(cell)
            if left > 1 and len(line) > _SPAN:
                return


def _number(text: str | None) -> int:
    return min(int(text), _SPAN) if text is not None and text.isdecimal() and int(text) > 0 else 1


def _one_line(text: str) -> str:
    return " ".join(plain(text).split())
