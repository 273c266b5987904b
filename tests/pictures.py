"""Picture files for tests, good and bad."""

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
    """An image that cannot be compressed."""
    return Image.frombytes("RGB", (width, height), random.Random(7).randbytes(3 * width * height))


def moving(*colours: str) -> bytes:
    """A GIF with a frame of each colour."""
    frames = [Image.new("RGB", (30, 20), colour) for colour in colours]
    return encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])


def bomb(width: int, height: int) -> bytes:
    """A PNG of few bytes that claims to have so many pixels."""
    head = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 1_000)), (b"IEND", b""))
    written = (
        struct.pack("!I", len(data)) + name + data + struct.pack("!I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def seen(picture: EncodedPicture) -> Image.Image:
    """The picture as a model sees it."""
    return decoded(picture.data)


def decoded(data: str) -> Image.Image:
    """An image from base64."""
    return Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
