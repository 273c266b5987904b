"""Model of a table: how it is sorted and filtered, its columns, the rows that were fetched, and
what to fetch next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.kernel.inspector_client import (
    ColumnStatistics,
    Heading,
    InspectedObject,
    InspectorClient,
    ObjectPath,
    TableArrangement,
    TablePage,
)
from mahtab_tui.tui.screens.inspector.table_columns import TableColumns

ROWS = 100
"""Rows of a block."""
_KEPT = 24
"""Blocks that are kept."""
_AROUND = 2
"""Columns that are fetched on either side of the visible ones."""


class BlockPart(NamedTuple):
    """A part of a table to fetch."""

    block: int
    columns: tuple[int, ...]


class Block:
    """Some rows, with the columns that were fetched."""

    def __init__(self, page: TablePage) -> None:
        self.positions = page.positions
        self.labels = page.labels
        self.cells: dict[int, Sequence[str | None]] = {}


class TableCache:
    """The blocks of rows that were used last."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, Block] = OrderedDict()

    def clear(self) -> None:
        """Drop everything, because it is out of date."""
        self._blocks.clear()

    def take(self, wanted: BlockPart, page: TablePage) -> None:
        """Take in a page that was fetched."""
        block = self._blocks.get(wanted.block)
        if block is None or block.positions != page.positions:
            block = self._blocks[wanted.block] = Block(page)
        block.cells.update(zip(wanted.columns, page.cells, strict=True))
        while len(self._blocks) > _KEPT:
            self._blocks.popitem(last=False)

    def block(self, row: int) -> Block | None:
        """The block that has a row; None if it is not here."""
        block = self._blocks.get(row // ROWS)
        if block is not None:
            self._blocks.move_to_end(row // ROWS)
        return block

    def missing(self, first: int, last: int, columns: Sequence[int]) -> list[BlockPart]:
        """Return the missing rows between `first` and `last`, exclusive."""
        found = []
        for number in range(first // ROWS, max(first, last - 1) // ROWS + 1):
            block = self._blocks.get(number)
            gone = tuple(column for column in columns if block is None or column not in block.cells)
            if gone:
                found.append(BlockPart(number, gone))
        return found


class TableRequest(NamedTuple):
    """Request for the visible part of a table."""

    headings: tuple[int, ...]
    """The columns whose names and types are not here."""
    parts: tuple[BlockPart, ...]
    arranged: TableArrangement

    def fetch(self, look: InspectorClient, path: ObjectPath) -> TableAnswer:
        """Ask the kernel; waits. Raises `KernelError`."""
        headings = look.headings(path, self.headings) if self.headings else ()
        pages = [
            look.rows(path, part.block * ROWS, (part.block + 1) * ROWS, part.columns, self.arranged)
            for part in self.parts
        ]
        return TableAnswer(self, headings, pages)


class TableAnswer(NamedTuple):
    """The kernel's answer to a request."""

    request: TableRequest
    headings: Sequence[Heading]
    pages: Sequence[TablePage]
    """One for each part."""


class TableModel:
    """Main thread only."""

    def __init__(self, opened: InspectedObject) -> None:
        self.rows = self.of = opened.rows
        """Rows that pass the filters, and all rows."""
        self.columns = TableColumns(opened.columns)
        self.cache = TableCache()
        self.arranged = TableArrangement()
        self.busy = ""
        """Activity of the kernel, as in "sorting …"."""
        self._before: TableArrangement | None = None
        """The arrangement to return to if the new one fails."""
        self._request: TableRequest | None = None
        self._figures_of: int | None = None
        """The column whose figures are being fetched."""

    @property
    def filtered(self) -> bool:
        return self.rows != self.of

    def arrange(self, arranged: TableArrangement, busy: str) -> None:
        """Sort and filter in another way from now on."""
        self._before = self._before or self.arranged
        self.arranged = arranged
        self.busy = busy
        self.cache.clear()
        self.rows = self.rows if arranged.filters else self.of
        self._request = None

    def next_request(self, rows: range, columns: Sequence[int]) -> TableRequest | None:
        """Return the request for the visible rows and columns; None if all of it is here or was
        asked for."""
        around = range(
            max(0, columns[0] - _AROUND), min(self.columns.count, columns[-1] + 1 + _AROUND)
        )
        headings = tuple(column for column in around if column not in self.columns.headings)
        parts = tuple(self.cache.missing(rows.start, max(rows.stop, rows.start + 1), around))
        request = TableRequest(headings, parts, self.arranged)
        if not (headings or parts) or request == self._request:
            return None
        self._request = request
        return request

    def take(self, answer: TableAnswer) -> bool:
        """Take in an answer; returns False if the table has other columns by now."""
        if any(page.columns != self.columns.count for page in answer.pages):
            return False
        self.busy = ""
        self._request = self._before = None
        if answer.headings:
            self.columns.take_headings(answer.request.headings, answer.headings)
        for part, page in zip(answer.request.parts, answer.pages, strict=True):
            if (
                page.of != self.of
            ):  # rows were added or removed meanwhile: what is here is out of date
                self.cache.clear()
                self.columns.figures.clear()
            self.cache.take(part, page)
            for column, cells in zip(part.columns, page.cells, strict=True):
                self.columns.take_cells(column, cells)
            self.rows, self.of = page.rows, page.of
        return True

    def take_failure(self) -> bool:
        """A request has failed: return to the arrangement before. Returns whether there was another
        one."""
        self.busy = ""
        self._request = None
        if self._before is None:
            return False
        self.arranged, self._before = self._before, None
        return True

    def next_figures(self, columns: Sequence[int], first: int) -> int | None:
        """The visible column whose figures to fetch next, `first` before others; None if there is
        none, or it was asked for."""
        missing = (
            [column for column in columns if column not in self.columns.figures]
            if self.rows
            else []
        )
        column = first if first in missing else next(iter(missing), None)
        if column is None or column == self._figures_of:
            return None
        self._figures_of = column
        return column

    def take_figures(self, column: int, figures: ColumnStatistics | None) -> None:
        self._figures_of = None
        self.columns.take_figures(column, figures)
