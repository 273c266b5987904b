"""Fits pixels to cells of two colours by the characters that fill quarters of a cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

Rgb = tuple[int, int, int]

_QUADRANTS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
"""By the quarters that have the first colour: 1 is the upper left, 2 the upper right, 4 the lower
left, 8 the lower right."""
_SAME_COLOUR = 300
"""Squared distance up to which the pixels of a cell are one colour."""


def fit_blocks(pixels: bytes, columns: int, rows: int) -> Iterator[list[tuple[str, Style]]]:
    """Yield the cells of each row.

    Args:
        pixels: RGB, two by two for each cell.
        columns: Cells in a row.
        rows: Rows of cells.
    """
    line = 6 * columns
    for row in range(rows):
        upper = pixels[2 * row * line : (2 * row + 1) * line]
        lower = pixels[(2 * row + 1) * line : (2 * row + 2) * line]
        cells = []
        for at in range(0, line, 6):
            cells.append(_fit_cell(upper[at : at + 6], lower[at : at + 6]))
        yield cells


def merge_cells(cells: Sequence[tuple[str, Style]]) -> list[Segment]:
    """Return the segments of a row, one for neighbours of the same style."""
    return [
        Segment("".join(character for character, _ in same), style)
        for style, same in groupby(cells, key=itemgetter(1))
    ]


def one_colour_cell(colour: Color) -> tuple[str, Style]:
    """Return a cell that is not a space, so that it is a part of the picture."""
    return "▀", Style.from_color(colour, colour)


def _fit_cell(upper: bytes, lower: bytes) -> tuple[str, Style]:
    quarters = upper[:3], upper[3:], lower[:3], lower[3:]
    if upper[:3] == upper[3:] and upper == lower:
        return one_colour_cell(Color.from_rgb(*upper[:3]))
    first, second = _most_distant(quarters)
    if _distance(first, second) <= _SAME_COLOUR:
        return one_colour_cell(Color.from_rgb(*_mean(quarters)))
    near_first = [_distance(quarter, first) < _distance(quarter, second) for quarter in quarters]
    index = sum(1 << number for number, is_near in enumerate(near_first) if is_near)
    foreground = _mean([quarters[n] for n in range(4) if near_first[n]])
    background = _mean([quarters[n] for n in range(4) if not near_first[n]])
    style = Style.from_color(Color.from_rgb(*foreground), Color.from_rgb(*background))
    return _QUADRANTS[index], style


def _most_distant(quarters: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    pairs = ((quarters[a], quarters[b]) for a in range(4) for b in range(a + 1, 4))
    return max(pairs, key=lambda pair: _distance(*pair))


def _distance(first: bytes, second: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))


def _mean(colours: tuple[bytes, ...] | list[bytes]) -> Rgb:
    red, green, blue = (sum(channel) // len(colours) for channel in zip(*colours, strict=True))
    return red, green, blue
