"""The rows of a picture. Its content is drawn on a thread when they become visible."""

from __future__ import annotations

from collections.abc import Hashable

from mahtab_tui.tui.cell_output.output import DisplayLine, OutputBuffer
from mahtab_tui.tui.graphics.files import opened, size_of
from mahtab_tui.tui.graphics.pictures import Picture
from mahtab_tui.tui.rows.row import Row

WIDEST, HIGHEST = 100, 24
"""Maximum size of a picture in cells."""

PIXELS_OF_A_CELL = 8
"""A small picture is not drawn larger than if cells had this width in pixels."""

LARGEST = 12_000_000
"""Maximum pixels of a picture between other rows; a larger one has a screen of its own."""


def picture_rows(shown: DisplayLine, width: int) -> list[Row] | None:
    """Return the rows of a picture; None if it is too large or unreadable."""
    if shown.unreadable or (size := size_of(shown.data)) is None or size[0] * size[1] > LARGEST:
        return None
    columns, rows = size_in_cells(*size, width)
    picture = Picture(key_of(shown), columns, rows, lambda: opened(shown.data, LARGEST))
    return [Row(picture=(picture, number), soft=number > 0) for number in range(rows)]


def key_of(shown: DisplayLine) -> Hashable:
    """Return a key that identifies the picture."""
    return len(shown.data), hash(shown.data)


def mark_unreadable(output: OutputBuffer, picture: Picture) -> bool:
    """Show the plain text of a picture that cannot be drawn; returns whether the output has the
    picture."""
    found = [
        line for line in output if isinstance(line, DisplayLine) and key_of(line) == picture.key
    ]
    for line in found:
        line.unreadable = True
    return bool(found)


def size_in_cells(width: int, height: int, room: int) -> tuple[int, int]:
    """Return the columns and rows of a picture from its pixels; a cell is twice as high as wide."""
    scale = min(1 / PIXELS_OF_A_CELL, min(room, WIDEST) / width, 2 * HIGHEST / height)
    return max(1, round(width * scale)), max(1, round(height * scale / 2))
