"""The blocks of a table that the screen holds: the visible rows and a few around them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.kernel.looking import TablePage

ROWS = 100
"""Rows of a block."""
_KEPT = 24
"""Blocks that are kept."""


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

    def take(self, columns: Sequence[int], page: TablePage) -> None:
        """Take in more columns."""
        self.cells.update(zip(columns, page.cells, strict=True))


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
        block.take(wanted.columns, page)
        while len(self._blocks) > _KEPT:
            self._blocks.popitem(last=False)

    def block(self, row: int) -> Block | None:
        """The block that has a row; None if it is not here."""
        block = self._blocks.get(row // ROWS)
        if block is not None:
            self._blocks.move_to_end(row // ROWS)
        return block

    def missing(self, first: int, last: int, columns: Sequence[int]) -> list[BlockPart]:
        """What is not here of the rows from `first` up to, without, `last`."""
        found = []
        for number in range(first // ROWS, max(first, last - 1) // ROWS + 1):
            block = self._blocks.get(number)
            gone = tuple(column for column in columns if block is None or column not in block.cells)
            if gone:
                found.append(BlockPart(number, gone))
        return found
