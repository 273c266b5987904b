"""Fits pixels to cells of two colours by the characters that fill quarters of a cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, groupby
from operator import itemgetter

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

Rgb = tuple[int, int, int]
"""Red, green and blue, from 0 to 255."""
Cell = tuple[str, Style]
"""A character, and the style in which it is drawn."""

_QUADRANTS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
"""Characters by the sum of the quarters that have the first colour: 1 is the upper left, 2 the
upper right, 4 the lower left, 8 the lower right."""
_SAME_COLOUR_DISTANCE = 300
"""Squared distance up to which the pixels of a cell are one colour."""
_CELL_BYTES = 6
"""Bytes of a cell's upper or lower two pixels."""


def fit_blocks(pixels: bytes, columns: int, rows: int) -> Iterator[list[Cell]]:
    """Yield the cells of each row.

    Args:
        pixels: RGB, two by two for each cell.
        columns: Cells in a row.
        rows: Rows of cells.
    """
    line_bytes = _CELL_BYTES * columns
    for row_start in range(0, 2 * rows * line_bytes, 2 * line_bytes):
        middle = row_start + line_bytes
        upper_line = pixels[row_start:middle]
        lower_line = pixels[middle : middle + line_bytes]
        cells = []
        for cell_start in range(0, line_bytes, _CELL_BYTES):
            cell_end = cell_start + _CELL_BYTES
            upper_pixels = upper_line[cell_start:cell_end]
            lower_pixels = lower_line[cell_start:cell_end]
            cells.append(_fit_cell(upper_pixels, lower_pixels))
        yield cells


def merge_cells(cells: Sequence[Cell]) -> list[Segment]:
    """Return the segments of a row, one for neighbours of the same style."""
    segments = []
    for style, neighbours in groupby(cells, key=itemgetter(1)):
        text = "".join(character for character, _ in neighbours)
        segments.append(Segment(text, style))
    return segments


def one_colour_cell(colour: Color) -> Cell:
    """Return a filled cell. It is not a space, which would count as outside the picture."""
    return "▀", Style.from_color(colour, colour)


def _fit_cell(upper: bytes, lower: bytes) -> Cell:
    """Return the cell that is closest to two pixels above two others.

    Args:
        upper: The left and the right pixel, as red, green and blue.
        lower: The two pixels below them.
    """
    quarters = (upper[:3], upper[3:], lower[:3], lower[3:])
    if upper[:3] == upper[3:] and upper == lower:
        return one_colour_cell(Color.from_rgb(*upper[:3]))
    first, second = _most_distant(quarters)
    if _distance(first, second) <= _SAME_COLOUR_DISTANCE:
        return one_colour_cell(Color.from_rgb(*_mean(quarters)))

    # Each quarter gets the nearer of the two colours, which is then the mean of its quarters.
    index = 0
    near_first: list[bytes] = []
    near_second: list[bytes] = []
    for number, quarter in enumerate(quarters):
        if _distance(quarter, first) < _distance(quarter, second):
            index |= 1 << number
            near_first.append(quarter)
        else:
            near_second.append(quarter)
    foreground = _mean(near_first)
    background = _mean(near_second)
    style = Style.from_color(Color.from_rgb(*foreground), Color.from_rgb(*background))
    return _QUADRANTS[index], style


def _most_distant(quarters: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """Return the two colours that differ most."""
    return max(combinations(quarters, 2), key=lambda pair: _distance(*pair))


def _distance(first: bytes, second: bytes) -> int:
    """Return the squared distance of two colours."""
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))


def _mean(colours: tuple[bytes, ...] | list[bytes]) -> Rgb:
    red, green, blue = (sum(channel) // len(colours) for channel in zip(*colours, strict=True))
    return red, green, blue
