"""What is known of a table that is fetched in parts: its cells, its columns and its arrangement.

A table may have millions of rows. The view asks this model for what is missing of its visible part,
sends the request to the kernel, and gives the answer back to the model. Only the newest request counts,
so an answer that comes too late is dropped.
"""

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

MIN_COLUMN_WIDTH = 5
"""Terminal cells of the narrowest column."""
MAX_COLUMN_WIDTH = 36
"""Terminal cells of the widest column; longer values are cut."""
UNKNOWN_COLUMN_WIDTH = 10
"""Terminal cells of a column of which nothing has been fetched."""
COLUMN_GAP = 2
"""Terminal cells between two columns."""
HEADING_MARKS = " ▲/"
"""What a heading needs when its column is sorted and filtered."""
ROWS_PER_BLOCK = 100
"""Rows are fetched and cached in blocks."""
MAX_CACHED_BLOCKS = 24
"""At most this many blocks are cached; a screen shows two or three."""
PREFETCHED_COLUMNS = 2
"""Columns fetched on each side of the visible ones."""
_RANKS = ("1st", "2nd", "3rd", "4th")
"""The labels of the most common values of a text column, which stand where other columns have
statistics with labels."""


def ranked_values(top: Sequence[str]) -> list[str]:
    """Return the most common values of a column with their ranks; a single sentence as it is."""
    if len(top) < 2:
        return list(top)
    # The header has no line for a fifth value.
    return [f"{rank} {value}" for rank, value in zip(_RANKS, top, strict=False)]


class RowBlock:
    """Cached cells of consecutive rows."""

    def __init__(self, page: TablePage) -> None:
        """Create a block without cells, of the rows of a page."""
        self.positions = page.positions
        """The positions that the rows have in the table itself, which is not sorted or filtered."""
        self.labels = page.labels
        self.cells: dict[int, Sequence[str | None]] = {}
        """The cells of each fetched column; None is a missing value."""

    def label(self, index: int) -> str:
        """Return the label of a row, or its position if the table has no labels.

        Args:
            index: The index of the row within the block.
        """
        if self.labels is not None:
            return self.labels[index]
        return str(self.positions[index])


class BlockRequest(NamedTuple):
    """Columns to fetch of one block of rows."""

    block_number: int
    columns: tuple[int, ...]


class TableRequest(NamedTuple):
    """What the visible part of a table lacks. Equal requests are sent only once."""

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
            start = block.block_number * ROWS_PER_BLOCK
            stop = start + ROWS_PER_BLOCK
            pages.append(client.rows(path, start, stop, block.columns, self.arrangement))
        return TableAnswer(self, headings, pages)


class TableAnswer(NamedTuple):
    """The kernel's answer: a heading for each requested one, and a page for each block."""

    request: TableRequest
    headings: Sequence[Heading]
    pages: Sequence[TablePage]


class StatisticsRequest(NamedTuple):
    """A column whose statistics to fetch."""

    column: int
    table_version: int
    """Counts how often the table had changed."""


class _ArrangedRows(NamedTuple):
    """An arrangement that the kernel has answered, and how many rows pass its filters."""

    arrangement: TableArrangement
    row_count: int


class TableModel:
    """A table with its cached rows and its arrangement. Main thread only."""

    def __init__(self, opened: InspectedObject) -> None:
        """Create a model of a table. Nothing of it has been fetched."""
        self.row_count = opened.rows
        """Rows that pass the filters."""
        self.total_row_count = opened.rows
        self.column_count = opened.columns
        self.headings: dict[int, Heading] = {}
        self.statistics: dict[int, ColumnStatistics | None] = {}
        """The statistics of each column for which the kernel was asked; None if it had none."""
        self._widths: dict[int, int] = {}
        """Columns only grow, so that nothing jumps while scrolling."""
        self._blocks: dict[int, RowBlock] = {}
        """The blocks by their numbers, in the order in which they were last used."""
        self.arrangement = TableArrangement()
        """How the rows are sorted and filtered."""
        self.busy = ""
        """What the kernel is doing to the table, such as ``sorting …``."""
        self._previous: _ArrangedRows | None = None
        """What to return to if the new arrangement fails."""
        self._table_request: TableRequest | None = None
        """The request that waits for its answer."""
        self._statistics_request: StatisticsRequest | None = None
        """The request that waits for its answer."""
        self._version = 0
        """Counts how often the table itself has changed."""

    def column_name(self, column: int) -> str:
        """Return the name of a column; empty if it has not been fetched."""
        if column in self.headings:
            return one_line(self.headings[column].name)
        return ""

    def column_type(self, column: int) -> str:
        """Return the type of a column's values; empty if it has not been fetched."""
        if column in self.headings:
            return one_line(self.headings[column].type)
        return ""

    def column_width(self, column: int) -> int:
        """Return the width of a column in terminal cells."""
        return self._widths.get(column, UNKNOWN_COLUMN_WIDTH)

    def widen(self, column: int, texts: Iterable[str | None]) -> None:
        """Make a column wide enough for these texts, within limits. None is a missing value."""
        text_width = max((cell_len(text or "—") for text in texts), default=0)
        old_width = self._widths.get(column, MIN_COLUMN_WIDTH)
        self._widths[column] = max(old_width, min(text_width, MAX_COLUMN_WIDTH))

    def visible_columns(self, first_column: int, available_width: int) -> list[int]:
        """Return at least one column; the last may be visible only in part."""
        columns: list[int] = []
        remaining_width = available_width
        for column in range(first_column, self.column_count):
            if columns and remaining_width <= 0:
                break
            columns.append(column)
            remaining_width -= self.column_width(column) + COLUMN_GAP
        return columns

    def scroll_to_show(self, column: int, first_column: int, available_width: int) -> int:
        """Return the first visible column after scrolling just enough to show all of `column`."""
        if column <= first_column:
            return column
        used_width = self.column_width(column)
        new_first_column = column
        while new_first_column > first_column:
            used_width += self.column_width(new_first_column - 1) + COLUMN_GAP
            if used_width > available_width:
                break
            new_first_column -= 1
        return new_first_column

    # Rows

    def arrange(self, arrangement: TableArrangement, busy: str) -> None:
        """Sort and filter the table in another way, from the next request on.

        Args:
            arrangement: How rows are sorted and filtered.
            busy: What the kernel will do, such as ``sorting …``.
        """
        if self._previous is None:
            self._previous = _ArrangedRows(self.arrangement, self.row_count)
        self.arrangement = arrangement
        self.busy = busy
        self._blocks.clear()
        # The number of rows that pass the filters is not known until the kernel answers.
        if not arrangement.filters:
            self.row_count = self.total_row_count
        self._table_request = None

    def revert(self) -> bool:
        """Return to the arrangement before the one that has failed. Return False if none has."""
        self.busy = ""
        self._table_request = None
        if self._previous is None:
            return False
        self.arrangement = self._previous.arrangement
        self.row_count = self._previous.row_count
        self._previous = None
        return True

    def take_table_request(self, rows: range, columns: Sequence[int]) -> TableRequest | None:
        """Return a request for what is missing of the visible part, and note that it waits.

        Args:
            rows: The visible rows.
            columns: The visible columns, at least one.

        Returns:
            The request; None if all of the visible part is cached or requested.
        """
        first_column = max(0, columns[0] - PREFETCHED_COLUMNS)
        last_column = min(self.column_count - 1, columns[-1] + PREFETCHED_COLUMNS)
        needed_columns = range(first_column, last_column + 1)
        heading_columns = [column for column in needed_columns if column not in self.headings]

        blocks = []
        last_block = max(rows.start, rows.stop - 1) // ROWS_PER_BLOCK
        for block_number in range(rows.start // ROWS_PER_BLOCK, last_block + 1):
            block = self._blocks.get(block_number)
            cached_columns = block.cells if block is not None else {}
            missing_columns = [column for column in needed_columns if column not in cached_columns]
            if missing_columns:
                blocks.append(BlockRequest(block_number, tuple(missing_columns)))

        request = TableRequest(tuple(heading_columns), tuple(blocks), self.arrangement)
        if not (heading_columns or blocks) or request == self._table_request:
            return None
        self._table_request = request
        return request

    def use_block(self, row: int) -> RowBlock | None:
        """Return the block of a row; None if it is not cached.

        The block that was used last stays cached for longest.
        """
        block_number = row // ROWS_PER_BLOCK
        block = self._blocks.pop(block_number, None)
        if block is not None:
            self._blocks[block_number] = block
        return block

    def apply(self, answer: TableAnswer) -> bool:
        """Cache what the kernel has answered.

        Returns:
            Whether the answer fits. It does not if the table has other columns now.
        """
        request = answer.request
        if any(page.columns != self.column_count for page in answer.pages):
            return False
        self.busy = ""
        self._table_request = None
        self._previous = None
        for column, heading in zip(request.heading_columns, answer.headings, strict=True):
            self.headings[column] = heading
            heading_text = self.column_name(column) + HEADING_MARKS
            self.widen(column, [heading_text, self.column_type(column)])
        for block_request, page in zip(request.blocks, answer.pages, strict=True):
            self._add_page(block_request, page)
        return True

    def _add_page(self, request: BlockRequest, page: TablePage) -> None:
        """Cache the cells of a page, and widen their columns."""
        if page.total_rows != self.total_row_count:
            self._forget_table()
        self.row_count = page.rows
        self.total_row_count = page.total_rows

        block = self._blocks.get(request.block_number)
        if block is None or block.positions != page.positions:
            block = RowBlock(page)
            self._blocks[request.block_number] = block
        for column, cells in zip(request.columns, page.cells, strict=True):
            block.cells[column] = cells
            self.widen(column, cells)

        while len(self._blocks) > MAX_CACHED_BLOCKS:
            least_used = next(iter(self._blocks))
            del self._blocks[least_used]

    def _forget_table(self) -> None:
        """Drop all that was fetched, because the table itself has changed.

        Statistics that are being fetched may be those of the old table. The new version says so.
        """
        self._blocks.clear()
        self.headings.clear()
        self.statistics.clear()
        self._statistics_request = None
        self._version += 1

    # Statistics

    def take_statistics_request(
        self, visible_columns: Sequence[int], preferred_column: int
    ) -> StatisticsRequest | None:
        """Return a request for the statistics of a visible column, and note that it waits.

        Args:
            visible_columns: The columns of which one is chosen.
            preferred_column: Is chosen if it lacks statistics; the one with the cursor.

        Returns:
            The request; None if no column lacks statistics, or if the next one is requested.
        """
        if not self.row_count:
            return None
        missing = [column for column in visible_columns if column not in self.statistics]
        if not missing:
            return None
        column = preferred_column if preferred_column in missing else missing[0]
        request = StatisticsRequest(column, self._version)
        if request == self._statistics_request:
            return None
        self._statistics_request = request
        return request

    def set_statistics(
        self, request: StatisticsRequest, statistics: ColumnStatistics | None
    ) -> None:
        """Keep the statistics of a column, unless the table has changed since they were requested.

        Args:
            request: The request that was answered.
            statistics: None if the kernel has none.
        """
        if request.table_version != self._version:
            return
        self._statistics_request = None
        self.statistics[request.column] = statistics
        if statistics is not None:
            histogram = "▁" * len(statistics.bars)
            common_values = ranked_values(statistics.top)
            values = [statistics.min, statistics.max, statistics.mean, *common_values]
            self.widen(request.column, [*values, histogram])


def rows_code(expression: str, table: TableModel) -> str:
    """Return code for a table's rows as they are sorted and filtered.

    Args:
        expression: Code for the table itself.
        table: The table, with its arrangement.
    """
    names = [heading.name for heading in table.headings.values()]
    has_all_names = len(names) == table.column_count

    def column_code(column: int) -> str:
        """Return the name of a column if only it has that name, else its number."""
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
