"""Files of pictures, good and bad, for tests."""

from __future__ import annotations

import base64
import io
import random
import struct
import zlib
from typing import Any

from PIL import Image

from mahtab_tui.llm.pictures import EncodedPicture


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """An image's file."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def noise(width: int, height: int) -> Image.Image:
    """An image that no file makes small."""
    return Image.frombytes("RGB", (width, height), random.Random(7).randbytes(3 * width * height))


def moving(*colours: str) -> bytes:
    """A GIF with a frame of each colour."""
    frames = [Image.new("RGB", (30, 20), colour) for colour in colours]
    return encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])


def bomb(width: int, height: int) -> bytes:
    """A PNG of few bytes that says that it has so many pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack("!I", len(data)) + name + data + struct.pack("!I", zlib.crc32(name + data))
        )

    head = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1_000))
        + chunk(b"IEND", b"")
    )


def seen(picture: EncodedPicture) -> Image.Image:
    """Return the pictures that a model would see."""
    return decoded(picture.data)


def decoded(data: str) -> Image.Image:
    """An image of base64."""
    return Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
