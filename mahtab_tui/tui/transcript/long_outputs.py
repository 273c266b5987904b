"""Limits the memory that the transcript needs for outputs.

Within a day, a session may print gigabytes in many cells, of which nobody reads the oldest again. The
whole outputs are in the session's file, from which the output screen reads them.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mahtab_tui.bus.entries import Cell

MAX_LONG_OUTPUTS_CHARS = 32_000_000
"""Characters that are kept of all long outputs and their pictures."""
LONG_OUTPUT_CHARS = 100_000
"""An output with at least this many characters is long."""
KEPT_END_LINES = 20
"""Lines at each end that are kept of an output that is cut."""


class _LongOutput(NamedTuple):
    cell: Cell
    size: int
    """Characters when it was added. An output may grow later, so they are not asked for again."""


class LongOutputs:
    """The long outputs that are in memory, the oldest first."""

    def __init__(self) -> None:
        self._outputs: deque[_LongOutput] = deque()
        self._total_chars = 0

    def add(self, cell: Cell) -> list[Cell]:
        """Note the output of a cell that has ended, and cut the oldest ones if all are too long.

        The newest one stays whole, however long it is.

        Returns:
            The cells whose outputs were cut.
        """
        size = cell.output.size
        if len(cell.output) <= 2 * KEPT_END_LINES and size < LONG_OUTPUT_CHARS:
            return []
        self._outputs.append(_LongOutput(cell, size))
        self._total_chars += size
        cut_cells: list[Cell] = []
        while self._total_chars > MAX_LONG_OUTPUTS_CHARS and len(self._outputs) > 1:
            oldest = self._outputs.popleft()
            oldest.cell.output.shrink(KEPT_END_LINES)
            self._total_chars -= oldest.size
            cut_cells.append(oldest.cell)
        return cut_cells
