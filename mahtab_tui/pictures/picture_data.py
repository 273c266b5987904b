"""Reads pictures, and fits them to the cells of a terminal."""

from __future__ import annotations

import base64
import io
import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image, Resampling

HEADER_CHARS = 262_144
"""The size of a picture is found in this many characters of its base64."""
MAX_PICTURE_COLUMNS = 100
MAX_PICTURE_ROWS = 24
MIN_CELL_PIXELS = 8
"""Pixels across a cell, so that small pictures stay small."""
MAX_PICTURE_PIXELS = 12_000_000


def open_picture(data: str, max_pixels: int) -> Image:
    """Open a picture. Its pixels are decoded only when they are needed.

    Args:
        data: A PNG or JPEG in base64, or its start.
        max_pixels: Larger pictures are refused.

    Raises:
        ValueError: It is too large.
        Exception: Any error of Pillow, because the picture may come from anyone.
    """
    from PIL import Image

    with warnings.catch_warnings():
        # Pillow warns about large pictures.
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(base64.b64decode(data)), formats=("PNG", "JPEG"))
    if image.width * image.height > max_pixels:
        raise ValueError("too many pixels")
    return image


def scale_picture(image: Image, width: int, height: int, resampling: Resampling) -> Image:
    """Return a picture in this size in pixels, with transparent parts in white. Raises Pillow's
    errors."""
    from PIL import Image as images

    # Decode a JPEG no larger than necessary.
    image.draft("RGB", (width, height))
    scaled = image.convert("RGBA").resize((width, height), resampling)
    white = images.new("RGBA", scaled.size, "white")
    return images.alpha_composite(white, scaled).convert("RGB")


class CellSize(NamedTuple):
    """The size of a picture in cells."""

    columns: int
    rows: int


def size_in_cells(
    width: int, height: int, available_width: int, max_rows: int = MAX_PICTURE_ROWS
) -> CellSize:
    """Return the size of a picture; a cell is twice as high as wide.

    Args:
        width: In pixels.
        height: In pixels.
        available_width: In cells.
        max_rows: In cells.
    """
    scale = min(
        1 / MIN_CELL_PIXELS,
        min(available_width, MAX_PICTURE_COLUMNS) / width,
        2 * min(MAX_PICTURE_ROWS, max_rows) / height,
    )
    return CellSize(max(1, round(width * scale)), max(1, round(height * scale / 2)))
