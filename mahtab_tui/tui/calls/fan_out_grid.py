"""Lays out a large fan-out as a field of cells, one for each part."""

from __future__ import annotations

from mahtab_tui.search.node import FanOut, SearchNode, State

ROWS = 5
"""Maximum number of lines."""

_FIRST: tuple[State, ...] = (
    "error",
    "thinking",
    "running",
    "partial",
    "stopped",
    "waiting",
    "done",
)
"""The order in which states take precedence if one cell stands for several parts."""


class FanOutGrid:
    """Assigns the parts of a fan-out to cells, for a width."""

    def __init__(self, batch: FanOut, width: int) -> None:
        self._batch = batch
        # Multiples of ten are easy to count.
        self._width = max(1, width - width % 10 if width >= 20 else width)
        self.parts = -(-batch.of // (ROWS * self._width)) or 1
        """Parts in each cell."""
        self._cells = -(-batch.of // self.parts)
        self.rows = -(-self._cells // self._width)

    def row(self, row: int) -> list[State]:
        """Return the states of a line's cells."""
        first = row * self._width
        after = min(first + self._width, self._cells)
        return [self._state(cell) for cell in range(first, after)]

    def node(self, row: int, column: int) -> SearchNode | None:
        """Return the part in a cell; if there are several, the one whose state is shown."""
        if not 0 <= column < self._width:
            return None
        cell = row * self._width + column
        found = [node for node in map(self._batch.slots.get, self._range(cell)) if node is not None]
        return min(found, key=lambda node: _FIRST.index(node.state), default=None)

    def _range(self, cell: int) -> range:
        return range(cell * self.parts, min((cell + 1) * self.parts, self._batch.of))

    def _state(self, cell: int) -> State:
        slots = self._batch.slots
        if self.parts == 1:
            return slots[cell].state if cell in slots else "waiting"
        states = {
            slots[index].state if index in slots else "waiting" for index in self._range(cell)
        }
        return next(state for state in _FIRST if state in states)
