"""A grid of cells on which a chart is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from textual.strip import Strip

from mahtab_tui.tui.pictures.blocks import Cell, merge_cells


@dataclass
class Canvas:
    """A grid of cells, each with a character and its style."""

    columns: int
    rows: int
    ground: Style
    """The style of an empty cell."""
    cells: list[list[Cell]] = field(init=False)
    """The cells by row and column. The cell after a character of two columns has an empty text."""

    def __post_init__(self) -> None:
        self.cells = [[(" ", self.ground)] * self.columns for _ in range(self.rows)]

    def write(self, x: int, y: int, text: str, style: Style) -> None:
        """Write a text of one line, as far as it is on the canvas, on the ground that is there.

        Args:
            x: The column of the first character; may be outside.
            y: The row; may be outside.
            text: What to write.
            style: Its colour.
        """
        if not 0 <= y < self.rows:
            return
        row = self.cells[y]
        for character in text:
            width = cell_len(character)
            if width and 0 <= x <= self.columns - width:
                _put_character(row, x, character, width, style)
            x += width

    def strips(self) -> list[Strip]:
        """Return a strip for each row."""
        return [Strip(merge_cells(row), self.columns) for row in self.cells]


def _put_character(row: list[Cell], x: int, character: str, width: int, style: Style) -> None:
    for column in range(x, x + width):
        _remove_wide_character(row, column)
    _, old_style = row[x]
    new_style = style + Style(bgcolor=old_style.bgcolor)
    row[x] = (character, new_style)
    if width == 2:
        row[x + 1] = ("", new_style)


def _remove_wide_character(row: list[Cell], column: int) -> None:
    """Leave blanks in both cells of a character of two columns, which would be cut."""
    is_second_cell = not row[column][0]
    first = column - 1 if is_second_cell else column
    if first + 1 < len(row) and not row[first + 1][0]:
        row[first] = (" ", row[first][1])
        row[first + 1] = (" ", row[first + 1][1])


@dataclass(frozen=True)
class Area:
    """A rectangle of cells."""

    left: int
    top: int
    right: int
    """The column after its last one."""
    bottom: int
    """The row below its last one."""

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top


def write_centred(canvas: Canvas, area: Area, y: int, text: str, style: Style) -> None:
    """Write a text in the middle of an area's width, cut if it is too long.

    Args:
        y: Its row.
    """
    text = cut_text(text, area.width)
    canvas.write(area.left + (area.width - cell_len(text)) // 2, y, text, style)


def cut_text(text: str, width: int) -> str:
    """Return a text, cut with an ellipsis if it is wider.

    Args:
        width: In cells.
    """
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    return set_cell_size(text, width - 1) + "…"
