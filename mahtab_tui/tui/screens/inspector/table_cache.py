"""The pages of a table that the screen holds: what is seen and a little around it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.kernel.looking import TablePage

ROWS = 100
"""Rows of a block."""
_KEPT = 24
"""Blocks that are kept."""


class Wanted(NamedTuple):
    """A part of a table that is seen and not here."""

    block: int
    columns: tuple[int, ...]


class Block:
    """Some rows, with those columns that have come."""

    def __init__(self, page: TablePage) -> None:
        self.positions = page.positions
        self.labels = page.labels
        self.cells: dict[int, Sequence[str | None]] = {}

    def take(self, columns: Sequence[int], page: TablePage) -> None:
        """Columns have come."""
        self.cells.update(zip(columns, page.cells, strict=True))


class TableCache:
    """Blocks of rows, the ones that were last used."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, Block] = OrderedDict()

    def clear(self) -> None:
        """All of it is old."""
        self._blocks.clear()

    def take(self, wanted: Wanted, page: TablePage) -> None:
        """A page has come."""
        block = self._blocks.get(wanted.block)
        if block is None or block.positions != page.positions:
            block = self._blocks[wanted.block] = Block(page)
        block.take(wanted.columns, page)
        while len(self._blocks) > _KEPT:
            self._blocks.popitem(last=False)

    def block(self, row: int) -> Block | None:
        """The block that has a row, if it is here."""
        block = self._blocks.get(row // ROWS)
        if block is not None:
            self._blocks.move_to_end(row // ROWS)
        return block

    def missing(self, first: int, last: int, columns: Sequence[int]) -> list[Wanted]:
        """What is to be fetched for the rows from first up to last."""
        found = []
        for number in range(first // ROWS, max(first, last - 1) // ROWS + 1):
            block = self._blocks.get(number)
            gone = tuple(column for column in columns if block is None or column not in block.cells)
            if gone:
                found.append(Wanted(number, gone))
        return found
