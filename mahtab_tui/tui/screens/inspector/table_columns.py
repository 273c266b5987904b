"""The columns of a table: names, types, figures, widths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.inspector_client import ColumnStatistics, Heading

NARROWEST, WIDEST = 5, 36
"""Cells of a column."""
BETWEEN = 2
"""Cells between two columns."""
_MARKS = " ▲/"
"""The marks of a sorted and filtered column, behind its name."""
BARS = " ▁▂▃▄▅▆▇█"


class TableColumns:
    """Columns by number. Widths only grow, so that nothing jumps while the user scrolls."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.headings: dict[int, Heading] = {}
        self.figures: dict[int, ColumnStatistics | None] = {}
        """None for a column that has none."""
        self._widths: dict[int, int] = {}

    def name(self, column: int) -> str:
        heading = self.headings.get(column)
        return one_line(heading.name) if heading is not None else ""

    def type(self, column: int) -> str:
        heading = self.headings.get(column)
        return one_line(heading.type) if heading is not None else ""

    def width(self, column: int) -> int:
        return self._widths.get(column, NARROWEST + 5)

    def take_headings(self, columns: Sequence[int], headings: Sequence[Heading]) -> None:
        for column, heading in zip(columns, headings, strict=True):
            self.headings[column] = heading
            self._grow(column, [self.name(column) + _MARKS, self.type(column)])

    def take_figures(self, column: int, figures: ColumnStatistics | None) -> None:
        """Take in figures; None for a column that has none."""
        self.figures[column] = figures
        if figures is not None:
            self._grow(
                column,
                [figures.min, figures.max, figures.mean, *figures.top, "▁" * len(figures.bars)],
            )

    def take_cells(self, column: int, cells: Iterable[str | None]) -> None:
        """Widen a column for its values."""
        self._grow(column, (cell or "—" for cell in cells))

    def seen(self, left: int, room: int) -> list[int]:
        """The columns from `left` on that are visible in so many cells; at least one."""
        found: list[int] = []
        used = 0
        for column in range(left, self.count):
            if found and used >= room:
                break
            found.append(column)
            used += self.width(column) + BETWEEN
        return found

    def left_for(self, column: int, left: int, room: int) -> int:
        """The first visible column, after scrolling as little as possible to make all of `column`
        visible."""
        if column <= left:
            return column
        used = self.width(column)
        first = column
        while first > left and used + self.width(first - 1) + BETWEEN <= room:
            first -= 1
            used += self.width(first) + BETWEEN
        return first

    def _grow(self, column: int, texts: Iterable[str]) -> None:
        widest = max((cell_len(text) for text in texts), default=0)
        self._widths[column] = min(WIDEST, max(self._widths.get(column, NARROWEST), widest))


def bars(counts: Sequence[int]) -> str:
    """Draw a histogram in one line."""
    highest = max(counts, default=0)
    return "".join(BARS[-(-count * 8 // highest)] for count in counts) if highest else ""
