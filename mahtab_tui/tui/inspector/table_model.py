"""A table that is fetched in parts, and its arrangement."""

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

# Widths of columns, in terminal cells.
MIN_COLUMN_WIDTH = 5
MAX_COLUMN_WIDTH = 36
COLUMN_GAP = 2
WIDEST_MARK = " ▲/"
"""What a heading needs when its column is sorted and filtered."""
ROWS_PER_BLOCK = 100
"""Rows are fetched and cached in blocks."""
MAX_CACHED_BLOCKS = 24
PREFETCHED_COLUMNS = 2
"""Columns fetched on each side of the visible ones."""
_RANKS = ("1st", "2nd", "3rd", "4th")
"""The labels of the most common values of a text column, which stand where other columns have
statistics with labels."""


def ranked_values(top: Sequence[str]) -> list[str]:
    """Return the most common values of a column with their ranks; a single sentence as it is."""
    if len(top) < 2:
        return list(top)
    return [f"{rank} {value}" for rank, value in zip(_RANKS, top, strict=False)]


class RowBlock:
    """Cached cells of consecutive rows."""

    def __init__(self, page: TablePage) -> None:
        self.positions = page.positions
        self.labels = page.labels
        self.cells: dict[int, Sequence[str | None]] = {}
        """The cells of each fetched column; None is a missing value."""

    def label(self, index: int) -> str:
        if self.labels is not None:
            return self.labels[index]
        return str(self.positions[index])


class BlockRequest(NamedTuple):
    """Columns to fetch of one block of rows."""

    number: int
    columns: tuple[int, ...]


class TableRequest(NamedTuple):
    """What the visible part of a table lacks."""

    heading_columns: tuple[int, ...]
    blocks: tuple[BlockRequest, ...]
    arrangement: TableArrangement

    def fetch(self, client: InspectorClient, path: ObjectPath) -> TableAnswer:
        """Ask the kernel, and wait. Raises `KernelError`."""
        headings: Sequence[Heading] = ()
        if self.heading_columns:
            headings = client.headings(path, self.heading_columns)
        pages = []
        for block in self.blocks:
            start = block.number * ROWS_PER_BLOCK
            stop = start + ROWS_PER_BLOCK
            pages.append(client.rows(path, start, stop, block.columns, self.arrangement))
        return TableAnswer(self, headings, pages)


class TableAnswer(NamedTuple):
    """The kernel's answer: a heading for each requested one, and a page for each block."""

    request: TableRequest
    headings: Sequence[Heading]
    pages: Sequence[TablePage]


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
        self._blocks: dict[int, RowBlock] = {}
        """The blocks in the order in which they were fetched."""
        self.arrangement = TableArrangement()
        self.busy = ""
        """What the kernel is doing to the table, such as ``sorting …``."""
        self._previous: TableArrangement | None = None
        """The arrangement to return to if the new one fails."""
        self._request: TableRequest | None = None
        self._statistics_column: int | None = None
        """The column whose statistics are being fetched."""

    def name(self, column: int) -> str:
        if column in self.headings:
            return one_line(self.headings[column].name)
        return ""

    def type(self, column: int) -> str:
        if column in self.headings:
            return one_line(self.headings[column].type)
        return ""

    def width(self, column: int) -> int:
        return self._widths.get(column, MIN_COLUMN_WIDTH + 5)

    def set_statistics(self, column: int, statistics: ColumnStatistics | None) -> None:
        self._statistics_column = None
        self.statistics[column] = statistics
        if statistics is not None:
            histogram = "▁" * len(statistics.bars)
            common_values = ranked_values(statistics.top)
            values = [statistics.min, statistics.max, statistics.mean, *common_values]
            self.widen(column, [*values, histogram])

    def widen(self, column: int, texts: Iterable[str | None]) -> None:
        widest = max((cell_len(text or "—") for text in texts), default=0)
        self._widths[column] = min(
            MAX_COLUMN_WIDTH, max(self._widths.get(column, MIN_COLUMN_WIDTH), widest)
        )

    def visible_columns(self, first_column: int, available_width: int) -> list[int]:
        """Return at least one column; the last may be visible only in part."""
        columns: list[int] = []
        remaining_width = available_width
        for column in range(first_column, self.column_count):
            if columns and remaining_width <= 0:
                break
            columns.append(column)
            remaining_width -= self.width(column) + COLUMN_GAP
        return columns

    def scroll_to_show(self, column: int, first_column: int, available_width: int) -> int:
        """Return the first visible column after scrolling just enough to show all of `column`."""
        if column <= first_column:
            return column
        used_width = self.width(column)
        new_first = column
        while new_first > first_column:
            used_width += self.width(new_first - 1) + COLUMN_GAP
            if used_width > available_width:
                break
            new_first -= 1
        return new_first

    def arrange(self, arrangement: TableArrangement, busy: str) -> None:
        self._previous = self._previous or self.arrangement
        self.arrangement = arrangement
        self.busy = busy
        self._blocks.clear()
        # The number of rows that pass the filters is not known until the kernel answers.
        if not arrangement.filters:
            self.rows = self.total_rows
        self._request = None

    def next_request(self, rows: range, columns: Sequence[int]) -> TableRequest | None:
        """Return the request for what is missing of the visible part; None if all of it is cached
        or requested."""
        first_column = max(0, columns[0] - PREFETCHED_COLUMNS)
        last_column = min(self.column_count - 1, columns[-1] + PREFETCHED_COLUMNS)
        wanted_columns = range(first_column, last_column + 1)
        heading_columns = [column for column in wanted_columns if column not in self.headings]

        blocks = []
        last_block = max(rows.start, rows.stop - 1) // ROWS_PER_BLOCK
        for number in range(rows.start // ROWS_PER_BLOCK, last_block + 1):
            block = self._blocks.get(number)
            cached_columns = block.cells if block is not None else {}
            missing_columns = [column for column in wanted_columns if column not in cached_columns]
            if missing_columns:
                blocks.append(BlockRequest(number, tuple(missing_columns)))

        request = TableRequest(tuple(heading_columns), tuple(blocks), self.arrangement)
        if not (heading_columns or blocks) or request == self._request:
            return None
        self._request = request
        return request

    def block(self, row: int) -> RowBlock | None:
        return self._blocks.get(row // ROWS_PER_BLOCK)

    def apply(self, answer: TableAnswer) -> bool:
        """Return False if the table's columns have changed meanwhile."""
        request = answer.request
        if any(page.columns != self.column_count for page in answer.pages):
            return False
        self.busy = ""
        self._request = None
        self._previous = None
        for column, heading in zip(request.heading_columns, answer.headings, strict=True):
            self.headings[column] = heading
            self.widen(column, [self.name(column) + WIDEST_MARK, self.type(column)])
        for block_request, page in zip(request.blocks, answer.pages, strict=True):
            self._add_page(block_request, page)
        return True

    def _add_page(self, request: BlockRequest, page: TablePage) -> None:
        """Keep the cells of a page, and widen their columns."""
        if page.total_rows != self.total_rows:
            # The table itself has changed, so nothing of it is still valid.
            self._blocks.clear()
            self.statistics.clear()

        block = self._blocks.get(request.number)
        if block is None or block.positions != page.positions:
            block = RowBlock(page)
            self._blocks[request.number] = block
        for column, cells in zip(request.columns, page.cells, strict=True):
            block.cells[column] = cells
            self.widen(column, cells)

        while len(self._blocks) > MAX_CACHED_BLOCKS:
            oldest = next(iter(self._blocks))
            del self._blocks[oldest]
        self.rows = page.rows
        self.total_rows = page.total_rows

    def revert(self) -> bool:
        """Return whether there was an earlier arrangement."""
        self.busy = ""
        self._request = None
        if self._previous is None:
            return False
        self.arrangement = self._previous
        self._previous = None
        return True

    def next_statistics(self, visible_columns: Sequence[int], preferred_column: int) -> int | None:
        """Return the next visible column whose statistics to fetch; None if there is none, or during
        a request."""
        if not self.rows:
            return None
        missing = [column for column in visible_columns if column not in self.statistics]
        if not missing:
            return None
        column = preferred_column if preferred_column in missing else missing[0]
        if column == self._statistics_column:
            return None
        self._statistics_column = column
        return column


def rows_code(expression: str, table: TableModel) -> str:
    """Write code for a table's rows as they are sorted and filtered."""
    names = [heading.name for heading in table.headings.values()]
    has_all_names = len(names) == table.column_count

    def column_code(column: int) -> str:
        """A column is named only if no other column has the same name."""
        heading = table.headings.get(column)
        if heading is not None and has_all_names and names.count(heading.name) == 1:
            return repr(heading.name)
        return str(column)

    arguments = [expression]
    if table.arrangement.sort is not None:
        column, descending = table.arrangement.sort
        arguments.append(f"sort={column_code(column)}")
        if descending:
            arguments.append("descending=True")
    filters = [f"{column_code(column)}: {text!r}" for column, text in table.arrangement.filters]
    if filters:
        arguments.append(f"filters={{{', '.join(filters)}}}")
    return f"table_rows({', '.join(arguments)})"
