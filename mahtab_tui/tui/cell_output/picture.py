"""The rows that a picture takes: what is in them is drawn on a thread once they are seen."""

from __future__ import annotations

from collections.abc import Hashable

from mahtab_tui.tui.cell_output.output import Output, Shown
from mahtab_tui.tui.graphics.files import opened, size_of
from mahtab_tui.tui.graphics.pictured import Picture
from mahtab_tui.tui.rows.row import Row

WIDEST, HIGHEST = 100, 24
"""Cells that a picture takes at most."""

PIXELS_OF_A_CELL = 8
"""A small picture is not drawn larger than it would be on a screen of such cells."""

LARGEST = 12_000_000
"""Pixels of a picture between other rows; a larger one is seen on a screen of its own."""


def picture_rows(shown: Shown, width: int) -> list[Row] | None:
    """The rows of a picture; None where it is known to be too large, or not to be readable."""
    if shown.unreadable or (size := size_of(shown.data)) is None or size[0] * size[1] > LARGEST:
        return None
    columns, rows = size_in_cells(*size, width)
    picture = Picture(key_of(shown), columns, rows, lambda: opened(shown.data, LARGEST))
    return [Row(picture=(picture, number), soft=number > 0) for number in range(rows)]


def key_of(shown: Shown) -> Hashable:
    """The same for the same picture."""
    return len(shown.data), hash(shown.data)


def mark_unreadable(output: Output, picture: Picture) -> bool:
    """A picture cannot be drawn: its text is shown instead. Says whether the output has it."""
    found = [line for line in output if isinstance(line, Shown) and key_of(line) == picture.key]
    for line in found:
        line.unreadable = True
    return bool(found)


def size_in_cells(width: int, height: int, room: int) -> tuple[int, int]:
    """Columns and rows of a picture of so many pixels; a cell is twice as high as it is wide."""
    scale = min(1 / PIXELS_OF_A_CELL, min(room, WIDEST) / width, 2 * HIGHEST / height)
    return max(1, round(width * scale)), max(1, round(height * scale / 2))
