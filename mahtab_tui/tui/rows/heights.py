"""Heights of a growing list of entries, summed in O(log n): a Fenwick tree."""

from __future__ import annotations


class Heights:
    """The number of rows of each entry, from 0."""

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._tree: list[int] = [0]

    def __len__(self) -> int:
        return len(self._heights)

    @property
    def total(self) -> int:
        return self.above(len(self._heights))

    def append(self, height: int) -> None:
        self._heights.append(height)
        position = len(self._heights)
        start = position - (position & -position)
        self._tree.append(height + self.above(position - 1) - self.above(start))

    def set(self, index: int, height: int) -> None:
        change = height - self._heights[index]
        if change:
            self._heights[index] = height
            position = index + 1
            while position < len(self._tree):
                self._tree[position] += change
                position += position & -position

    def above(self, index: int) -> int:
        """Return the number of rows before an entry."""
        total = 0
        while index > 0:
            total += self._tree[index]
            index -= index & -index
        return total

    def find(self, row: int) -> tuple[int, int]:
        """Return the entry at a row, and the row within it. For a row past the end, the entry is
        `len(self)`."""
        index, step = 0, 1 << len(self._heights).bit_length()
        while step:
            following = index + step
            if following < len(self._tree) and self._tree[following] <= row:
                index = following
                row -= self._tree[following]
            step >>= 1
        return index, row
