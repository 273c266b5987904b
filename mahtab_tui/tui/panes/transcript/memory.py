"""Bounds what the outputs of all cells take together: of the oldest ones, only the ends stay."""

from __future__ import annotations

from collections import deque

from mahtab_tui.tui.panes.transcript.entries import Cell

BUDGET = 32_000_000
"""Characters of long outputs, and of pictures, that stay in memory."""
LONG = 100_000
"""Characters that make an output long, if its lines do not."""
ENDS = 20
"""Lines that stay of each end of an output, whatever happens."""


class Memory:
    """Knows the cells whose outputs are worth shortening."""

    def __init__(self) -> None:
        self._cells: deque[tuple[Cell, int]] = deque()
        self._held = 0

    def ended(self, cell: Cell) -> list[Cell]:
        """A cell has ended; returns the cells whose outputs were shortened for it."""
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
