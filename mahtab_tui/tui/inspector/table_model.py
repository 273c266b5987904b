"""The fetched parts of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.inspector_client import (
    ColumnStatistics,
    Heading,
    InspectedObject,
    InspectorClient,
    ObjectPath,
    TableArrangement,
    TablePage,
)

MIN_WIDTH, MAX_WIDTH = 5, 36
COLUMN_GAP = 2
_MARKS = " ▲/"
BARS = " ▁▂▃▄▅▆▇█"


def bars(counts: Sequence[int]) -> str:
    highest = max(counts, default=0)
    return "".join(BARS[-(-count * 8 // highest)] for count in counts) if highest else ""


BLOCK_ROWS = 100
_MAX_BLOCKS = 24
_MARGIN_COLUMNS = 2


class Block:
    def __init__(self, page: TablePage) -> None:
        self.positions = page.positions
        self.labels = page.labels
        self.cells: dict[int, Sequence[str | None]] = {}

    def label(self, row: int) -> str:
        return self.labels[row] if self.labels is not None else str(self.positions[row])


class TableRequest(NamedTuple):
    headings: tuple[int, ...]
    parts: tuple[tuple[int, tuple[int, ...]], ...]
    arranged: TableArrangement

    def fetch(self, client: InspectorClient, path: ObjectPath) -> TableAnswer:
        """Ask the kernel, and wait. Raises `KernelError`."""
        headings = client.headings(path, self.headings) if self.headings else ()
        pages = []
        for block, columns in self.parts:
            start = block * BLOCK_ROWS
            pages.append(client.rows(path, start, start + BLOCK_ROWS, columns, self.arranged))
        return self, headings, pages


TableAnswer = tuple[TableRequest, Sequence[Heading], Sequence[TablePage]]


class TableModel:
    """A table with its cached rows and its arrangement. Main thread only."""

    def __init__(self, opened: InspectedObject) -> None:
        self.rows = self.total_rows = opened.rows
        """Rows that pass the filters, and all rows."""
        self.column_count = opened.columns
        self.headings: dict[int, Heading] = {}
        self.statistics: dict[int, ColumnStatistics | None] = {}
        self._widths: dict[int, int] = {}
        """They only grow, so that nothing jumps while scrolling."""
        self._blocks: dict[int, Block] = {}
        self.arranged = TableArrangement()
        self.busy = ""
        self._previous: TableArrangement | None = None
        self._request: TableRequest | None = None
        self._statistics_column: int | None = None

    def name(self, column: int) -> str:
        return one_line(self.headings[column].name) if column in self.headings else ""

    def type(self, column: int) -> str:
        return one_line(self.headings[column].type) if column in self.headings else ""

    def width(self, column: int) -> int:
        return self._widths.get(column, MIN_WIDTH + 5)

    def set_statistics(self, column: int, found: ColumnStatistics | None) -> None:
        self._statistics_column = None
        self.statistics[column] = found
        if found is not None:
            bars = "▁" * len(found.bars)
            self.widen(column, [found.min, found.max, found.mean, *found.top, bars])

    def widen(self, column: int, texts: Iterable[str | None]) -> None:
        widest = max((cell_len(text or "—") for text in texts), default=0)
        self._widths[column] = min(MAX_WIDTH, max(self._widths.get(column, MIN_WIDTH), widest))

    def visible(self, left: int, room: int) -> list[int]:
        found: list[int] = []
        for column in range(left, self.column_count):
            if found and room <= 0:
                break
            found.append(column)
            room -= self.width(column) + COLUMN_GAP
        return found

    def scroll_to_show(self, column: int, left: int, room: int) -> int:
        """Return the first visible column after scrolling just enough to show all of `column`."""
        if column <= left:
            return column
        used = self.width(column)
        first = column
        while first > left and used + self.width(first - 1) + COLUMN_GAP <= room:
            first -= 1
            used += self.width(first) + COLUMN_GAP
        return first

    def arrange(self, arranged: TableArrangement, busy: str) -> None:
        self._previous = self._previous or self.arranged
        self.arranged = arranged
        self.busy = busy
        self._blocks.clear()
        self.rows = self.rows if arranged.filters else self.total_rows
        self._request = None

    def next_request(self, rows: range, columns: Sequence[int]) -> TableRequest | None:
        """Return None if the visible part is cached or requested."""
        first, last = max(0, columns[0] - _MARGIN_COLUMNS), columns[-1] + _MARGIN_COLUMNS
        around = range(first, min(self.column_count, last + 1))
        headings = tuple(column for column in around if column not in self.headings)
        parts = []
        last_block = max(rows.start, rows.stop - 1) // BLOCK_ROWS
        for number in range(rows.start // BLOCK_ROWS, last_block + 1):
            block = self._blocks.get(number)
            if missing := [each for each in around if block is None or each not in block.cells]:
                parts.append((number, tuple(missing)))
        request = TableRequest(headings, tuple(parts), self.arranged)
        if not (headings or parts) or request == self._request:
            return None
        self._request = request
        return request

    def block(self, row: int) -> Block | None:
        return self._blocks.get(row // BLOCK_ROWS)

    def apply(self, answer: TableAnswer) -> bool:
        """Return False if the table's columns have changed meanwhile."""
        request, headings, pages = answer
        if any(page.columns != self.column_count for page in pages):
            return False
        self.busy = ""
        self._request = self._previous = None
        for column, heading in zip(request.headings, headings, strict=True):
            self.headings[column] = heading
            self.widen(column, [self.name(column) + _MARKS, self.type(column)])
        for (number, columns), page in zip(request.parts, pages, strict=True):
            if page.total_rows != self.total_rows:
                self._blocks.clear()
                self.statistics.clear()
            block = self._blocks.get(number)
            if block is None or block.positions != page.positions:
                block = self._blocks[number] = Block(page)
            for column, cells in zip(columns, page.cells, strict=True):
                block.cells[column] = cells
                self.widen(column, cells)
            while len(self._blocks) > _MAX_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            self.rows, self.total_rows = page.rows, page.total_rows
        return True

    def revert(self) -> bool:
        """Return whether there was an earlier arrangement."""
        self.busy = ""
        self._request = None
        if self._previous is None:
            return False
        self.arranged, self._previous = self._previous, None
        return True

    def next_statistics(self, columns: Sequence[int], first: int) -> int | None:
        """Return the next visible column whose statistics to fetch, `first` first; None during a
        request."""
        known = self.statistics
        missing = [column for column in columns if column not in known] if self.rows else []
        column = first if first in missing else next(iter(missing), None)
        if column is None or column == self._statistics_column:
            return None
        self._statistics_column = column
        return column
