"""Objects as pictures."""

from __future__ import annotations

import io
import re
import struct
import zlib
from typing import Any, Callable, NamedTuple

from ..values.figures import draw_png
from ..values.objects import MISSING, find_in_class, get_if_loaded, is_from, is_one_of, is_subclass
from .limits import InspectionError

MAX_PICTURE_BYTES = 8_000_000
MAX_SIDE_PIXELS = 2_000

_MAGIC = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|BM.{4}\0{4}", re.DOTALL)
"""The start of a picture file; BMP's two letters alone are too common."""

_PNG_BITS_PER_COLOUR = 8
_PNG_RGB = 2
_PNG_RGBA = 6


class PictureSource(NamedTuple):
    draw: Callable[[], Any]
    """Returns a file. May run the object's code."""
    size: tuple[int, int] = (0, 0)
    """Width and height in pixels; zeros if it must be drawn for that."""
    on_request: bool = False
    """Whether it is drawn only when the user asks, because the object is more than a picture."""


def picture_of(value: Any) -> PictureSource | None:
    """Return how to draw an object; None if it is not a picture. Runs no code of its class."""
    if (type(value) is bytes or type(value) is bytearray) and _MAGIC.match(value):
        return PictureSource(lambda: bytes(value))
    if is_subclass(type(value), get_if_loaded("PIL.Image", "Image")) and is_from(value, "PIL"):
        return PictureSource(lambda: _encode_image(value), tuple(value.size))
    if is_one_of(value, "matplotlib.figure", "Figure"):
        return PictureSource(lambda: draw_png(value, MAX_SIDE_PIXELS))

    is_byte_array = is_one_of(value, "numpy", "ndarray") and str(value.dtype) == "uint8"
    if is_byte_array and value.ndim == 3 and value.shape[2] in (3, 4) and value.size:
        step = max(1, -(-max(value.shape[:2]) // MAX_SIDE_PIXELS))
        height, width = value.shape[:2]
        return PictureSource(
            lambda: _encode_png(value[::step, ::step]), (width, height), on_request=True
        )
    if find_in_class(type(value), "_repr_png_") is not MISSING:
        return PictureSource(lambda: type(value)._repr_png_(value), on_request=True)
    return None


def draw_picture(value: object) -> bytes:
    """Return the picture file of an object. May run its code. Raises `InspectionError`."""
    picture = picture_of(value)
    if picture is None:
        raise InspectionError("This is no longer a picture; press r to reload.")
    drawing = picture.draw()
    if type(drawing) is not bytes or not _MAGIC.match(drawing):
        raise InspectionError("The object did not return a picture.")
    if len(drawing) > MAX_PICTURE_BYTES:
        raise InspectionError(
            f"The picture has {len(drawing):,} bytes; at most {MAX_PICTURE_BYTES:,} are shown."
        )
    return drawing


def _encode_png(pixels: Any) -> bytes:
    """Return pixels as PNG.

    Args:
        pixels: An array of bytes: rows, columns, and three or four colours.
    """
    height, width, colour_count = pixels.shape
    rows = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))

    def chunk(name: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(name + data)
        return struct.pack("!I", len(data)) + name + data + struct.pack("!I", checksum)

    colour_type = _PNG_RGB if colour_count == 3 else _PNG_RGBA
    # The zeros: compression, filter, and no interlacing.
    head = struct.pack("!IIBBBBB", width, height, _PNG_BITS_PER_COLOUR, colour_type, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(rows, 1))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + data + chunk(b"IEND", b"")


def _encode_image(value: Any) -> bytes:
    """Return an image of Pillow as PNG, reduced if it is large. The image stays as it is."""
    image = value.copy()
    if max(image.size) > MAX_SIDE_PIXELS:
        image.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
