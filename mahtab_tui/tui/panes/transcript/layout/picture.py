"""A picture as rows of half blocks: each cell is two pixels, one above the other."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.color import Color
from rich.style import Style

from mahtab_tui.tui.graphics.pictured import Picture
from mahtab_tui.tui.panes.transcript.layout.row import Row, Span

if TYPE_CHECKING:
    from PIL import Image

WIDEST, HIGHEST = 100, 24
"""Cells that a picture takes at most."""

PIXELS_OF_A_CELL = 8
"""A small picture is not drawn larger than it would be on a screen of such cells."""

LARGEST = 50_000_000
"""Pixels; a larger picture is not decoded."""
LARGEST_HERE = 12_000_000
"""Pixels of a picture between other rows, which are drawn while the person types; a larger one is seen on a screen of its own."""

Pixel = tuple[int, int, int]


def picture_rows(data: str, width: int) -> list[Row] | None:
    """The rows of a picture (base64 of PNG or JPEG); None where it cannot be read."""
    from PIL import Image

    try:
        image = _opened(data)
        if image.width * image.height > LARGEST_HERE:
            return None
        columns, rows = size_in_cells(image.width, image.height, width)
        image.draft("RGB", (columns, 2 * rows))  # of a JPEG, no more is decoded than is needed
        picture = Picture((len(data), hash(data)), columns, rows, lambda: _opened(data))
        return [row._replace(picture=(picture, number)) for number, row in enumerate(half_blocks(image, columns, rows))]
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # what Pillow raises for broken files
        return None


def _opened(data: str) -> Image.Image:
    """A picture that is decoded when its pixels are asked for. Raises what Pillow raises for broken files."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its size
        return Image.open(io.BytesIO(base64.b64decode(data)), formats=("PNG", "JPEG"))


def half_blocks(image: Image.Image, columns: int, rows: int) -> list[Row]:
    """A picture in so many cells, on white where one sees through it. Raises what Pillow raises for broken files."""
    from PIL import Image

    small = image.convert("RGBA").resize((columns, 2 * rows), Image.Resampling.BOX)
    ground = Image.new("RGBA", small.size, "white")
    colours = Image.alpha_composite(ground, small).convert("RGB").tobytes()
    pixels = list(zip(colours[0::3], colours[1::3], colours[2::3], strict=True))
    lines = [pixels[start : start + columns] for start in range(0, len(pixels), columns)]
    return [Row(list(_spans(upper, lower))) for upper, lower in zip(lines[::2], lines[1::2], strict=True)]


def size_in_cells(width: int, height: int, room: int) -> tuple[int, int]:
    """Columns and rows of a picture of so many pixels; a cell is twice as high as it is wide."""
    scale = min(1 / PIXELS_OF_A_CELL, min(room, WIDEST) / width, 2 * HIGHEST / height)
    return max(1, round(width * scale)), max(1, round(height * scale / 2))


def _spans(upper: list[Pixel], lower: list[Pixel]) -> Iterator[Span]:
    """A row, cells of the same colours together."""
    start = 0
    pairs = list(zip(upper, lower, strict=True))
    for end in range(1, len(pairs) + 1):
        if end == len(pairs) or pairs[end] != pairs[start]:
            above, below = (Color.from_rgb(*pixel) for pixel in pairs[start])
            yield "▀" * (end - start), Style(color=above, bgcolor=below)
            start = end
