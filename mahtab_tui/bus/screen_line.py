"""A line of a terminal's screen, whose characters can be overwritten."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from mahtab_tui.bus.pens import Pen, style_change

MAX_CELL_CHARS = 200
"""Characters of a cell, with the combining ones."""
BLANK_CELL = (" ", "")


class ScreenLine:
    """A line that can be overwritten. Columns count from 0."""

    def __init__(self) -> None:
        self._cells: list[tuple[str, Pen]] = []
        """A character for each column, with the combining ones after it, and its pen. A wide character
        is followed by an empty cell."""

    def __len__(self) -> int:
        return len(self._cells)

    def write(self, text: str, column: int, pen: Pen) -> int:
        """Write text at a column, filling a gap with blanks; return the column after it."""
        if text.isascii() or all(width(char) == 1 for char in set(text)):
            return self._put([(char, pen) for char in text], column)

        for char in text:
            columns = width(char)
            if columns:
                cells = [(char, pen), ("", pen)][:columns]
                column = self._put(cells, column)
            elif 0 < column <= len(self._cells):
                self._combine(char, column)
        return column

    def erase(self, start: int, end: int | None = None) -> None:
        """Erase columns; `end` is exclusive, or the line's end."""
        self._split_wide_character(start)
        if end is None or end >= len(self._cells):
            del self._cells[start:]
        else:
            self._split_wide_character(end)
            self._cells[start:end] = [BLANK_CELL] * (end - start)

    def __str__(self) -> str:
        pieces: list[str] = []
        previous_pen = ""
        for pen, cells in groupby(self._cells, itemgetter(1)):
            pieces.append(style_change(previous_pen, pen))
            pieces += (char for char, _ in cells)
            previous_pen = pen
        pieces.append(style_change(previous_pen, ""))
        return "".join(pieces)

    def _put(self, cells: list[tuple[str, Pen]], column: int) -> int:
        end = column + len(cells)
        missing_columns = column - len(self._cells)
        self._cells += [BLANK_CELL] * missing_columns
        self._split_wide_character(column)
        self._split_wide_character(end)
        self._cells[column:end] = cells
        return end

    def _combine(self, char: str, column: int) -> None:
        """Add a combining character to the one before a column."""
        index = column - 1
        # The second half of a wide character has an empty cell.
        if not self._cells[index][0]:
            index -= 1
        text, pen = self._cells[index]
        self._cells[index] = ((text + char)[:MAX_CELL_CHARS], pen)

    def _split_wide_character(self, column: int) -> None:
        """Blank a wide character whose second half is at a column, where another text begins."""
        if 0 < column < len(self._cells) and not self._cells[column][0]:
            self._cells[column - 1 : column + 1] = [BLANK_CELL] * 2


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    """Return how many columns a character takes."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 1
