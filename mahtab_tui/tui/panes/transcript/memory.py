"""Limits the memory of all cells' outputs: the oldest ones are shortened."""

from __future__ import annotations

from collections import deque

from mahtab_tui.tui.panes.transcript.entries import Cell

BUDGET = 32_000_000
"""Characters of long outputs and pictures to keep in memory."""
LONG = 100_000
"""An output with so many characters is long, even if it has few lines."""
ENDS = 20
"""Lines to keep of each end of an output."""


class OutputMemory:
    """The cells with long outputs, oldest first."""

    def __init__(self) -> None:
        self._cells: deque[tuple[Cell, int]] = deque()
        self._held = 0

    def ended(self, cell: Cell) -> list[Cell]:
        """Add a cell that has ended; returns the cells whose outputs were shortened to make
        room."""
        size = cell.output.size
        if len(cell.output) <= 2 * ENDS and size < LONG:
            return []
        self._cells.append((cell, size))
        self._held += size
        shortened = []
        while self._held > BUDGET and len(self._cells) > 1:
            oldest, size = self._cells.popleft()
            oldest.output.shrink(ENDS)
            self._held -= size
            shortened.append(oldest)
        return shortened
