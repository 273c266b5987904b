"""One line of a terminal: the character and style of each column."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from mahtab_tui.bus.sgr import NO_STYLE, Graphic


class ScreenLine:
    """A line that can be overwritten. Columns count from 0."""

    __slots__ = ("_cells", "_looks", "_marks")

    def __init__(self) -> None:
        self._cells: list[str] = []
        """Characters; a wide one is followed by an empty cell."""
        self._looks: list[Graphic] = []
        self._marks: dict[int, list[str]] = {}
        """Text without width, by the column before it (-1 at the start): combining characters,
        sequences that are not obeyed."""

    def __len__(self) -> int:
        return len(self._cells)

    def write(self, text: str, column: int, look: Graphic) -> int:
        """Write text at a column and return the column after it. If the column is beyond the line's
        end, blanks fill the gap."""
        if text.isascii() or all(width(char) == 1 for char in set(text)):
            return self._put(list(text), column, look)
        for char in text:
            columns = width(char)
            if columns == 0:
                self.mark(char, column)
            else:
                column = self._put([char, ""][:columns], column, look)
        return column

    def mark(self, text: str, column: int) -> None:
        """Insert text without width before a column."""
        place = min(column, len(self._cells)) - 1
        while place > 0 and not self._cells[place]:
            place -= 1
        self._marks.setdefault(place, []).append(text)

    def erase(self, start: int, end: int | None = None) -> None:
        """Erase from a column to another, exclusive, or to the end."""
        self._halve(start)
        if end is None or end >= len(self._cells):
            self._unmark(start, len(self._cells))
            del self._cells[start:], self._looks[start:]
            return
        self._halve(end)
        self._unmark(start, end)
        self._cells[start:end] = [" "] * (end - start)
        self._looks[start:end] = [NO_STYLE] * (end - start)

    def shown(self) -> str:
        """Return the text with the sequences for its styles, from `NO_STYLE` to `NO_STYLE`."""
        cells = self._cells
        if self._marks:
            cells = [cell + "".join(self._marks.get(place, ())) for place, cell in enumerate(cells)]
        parts = self._marks.get(-1, []).copy()
        start, look = 0, NO_STYLE
        for place, here in enumerate(self._looks):
            if here is not look and here != look:
                parts += ("".join(cells[start:place]), change(look, here))
                start, look = place, here
        return "".join([*parts, *cells[start:], change(look, NO_STYLE)])

    def _put(self, cells: list[str], column: int, look: Graphic) -> int:
        end = column + len(cells)
        if (missing := column - len(self._cells)) > 0:
            self._cells += [" "] * missing
            self._looks += [NO_STYLE] * missing
        self._halve(column)
        self._halve(end)
        self._unmark(column, end)
        self._cells[column:end] = cells
        self._looks[column:end] = [look] * len(cells)
        return end

    def _halve(self, column: int) -> None:
        """Replace a wide character that this column would cut in two by blanks."""
        if 0 < column < len(self._cells) and not self._cells[column]:
            self._cells[column - 1] = self._cells[column] = " "

    def _unmark(self, start: int, end: int) -> None:
        if self._marks:
            for place in range(start, end):
                self._marks.pop(place, None)


def change(before: Graphic, now: Graphic) -> str:
    """Return the sequence that changes one style to another."""
    if before == now:
        return ""
    return now.codes() if before == NO_STYLE else "\x1b[0m" + now.codes()


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
