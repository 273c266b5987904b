"""Makes pictures of images, figures, bytes of image files, and arrays of colours: PNG, or the
original file."""

from __future__ import annotations

import io
import re
import struct
import zlib
from typing import Any

from ..showing.plots import png_of
from ..statics import MISSING, descends, in_class, is_one_of, loaded, module_of, name_of
from .pace import LookError

LARGEST_PICTURE = 8_000_000
"""Larger pictures (in bytes) are not shown."""
SIDE = 2_000
"""Larger pictures (pixels of a side) are scaled down."""
_PNG = b"\x89PNG\r\n\x1a\n"
_MAGIC = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|BM.{4}\0{4}", re.DOTALL)
"""The start of a picture's file; for BMP more than its two letters, which are too common."""


def is_picture(value: Any) -> bool:
    """Tell whether an object is a picture."""
    return _is_image(value) or is_one_of(value, "matplotlib.figure", "Figure") or _is_file(value)


def draws_itself(value: Any) -> bool:
    """Tell whether it can be drawn on request: an array of colours, or an object that draws
    itself."""
    return _is_colours(value) or in_class(type(value), "_repr_png_") is not MISSING


def measure(value: Any) -> tuple[int, int] | None:
    """Return a picture's width and height in pixels; zeros if only drawing it would tell; None if
    it is not a picture."""
    if _is_image(value):
        width, height = value.size
        return width, height
    if _is_colours(value):
        return value.shape[1], value.shape[0]
    return (0, 0) if is_picture(value) or draws_itself(value) else None


def picture(value: Any) -> bytes:
    """Return the picture's file. Runs the drawing code of a figure or object. Raises `LookError` if
    there is no picture."""
    if _is_file(value):
        found = bytes(value)
    elif _is_image(value):
        found = _image(value)
    elif is_one_of(value, "matplotlib.figure", "Figure"):
        found = png_of(value, SIDE)
    elif _is_colours(value):
        step = max(1, -(-max(value.shape[0], value.shape[1]) // SIDE))
        found = png(value[::step, ::step])
    elif draws_itself(value):
        found = type(value)._repr_png_(value)
    else:
        raise LookError("This is no longer a picture; press r to reload.")
    if type(found) is not bytes or not _MAGIC.match(found):
        raise LookError("The object did not return a picture.")
    if len(found) > LARGEST_PICTURE:
        raise LookError(
            f"The picture has {len(found):,} bytes; at most {LARGEST_PICTURE:,} are shown."
        )
    return found


def png(pixels: Any) -> bytes:
    """Encode an array of bytes (height, width, three or four colours) as PNG."""
    height, width, colours = pixels.shape
    rows = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack("!I", len(data)) + name + data + struct.pack("!I", zlib.crc32(name + data))
        )

    head = struct.pack("!IIBBBBB", width, height, 8, 2 if colours == 3 else 6, 0, 0, 0)
    return (
        _PNG + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
    )


def _is_image(value: Any) -> bool:
    """Tell whether it is an image of PIL's own classes."""
    cls = type(value)
    module = module_of(cls)
    return (
        descends(cls, loaded("PIL.Image", "Image"))
        and module.startswith("PIL.")
        and loaded(module, name_of(cls)) is cls
    )


def _image(value: Any) -> bytes:
    image = value.copy()
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE))
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _is_file(value: Any) -> bool:
    return (type(value) is bytes or type(value) is bytearray) and _MAGIC.match(value) is not None


def _is_colours(value: Any) -> bool:
    return (
        is_one_of(value, "numpy", "ndarray")
        and str(value.dtype) == "uint8"
        and value.ndim == 3
        and value.shape[2] in (3, 4)
        and value.size > 0
    )
