"""Reads pictures in base64: their size without decoding them, and their pixels in small steps."""

from __future__ import annotations

import base64
import io
import struct
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from PIL.Image import Image

STEP = 65_536
"""Bytes to decode at once: other threads wait meanwhile."""
_SEGMENTS = 1_000
"""Maximum segments of a JPEG before its size; a file with more is hostile."""
_NO_LENGTH = (0x01, *range(0xD0, 0xD9))
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that are followed by the size."""


def size_of(data: str) -> tuple[int, int] | None:
    """Return the width and height of a PNG or JPEG in base64, in pixels; None for anything else."""
    file = _file(data)
    try:
        beginning = file.read(24)
        if beginning.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack("!II", beginning[16:])
        elif beginning.startswith(b"\xff\xd8"):
            file.seek(2)
            width, height = _size_of_jpeg(file)
        else:
            return None
    except (ValueError, struct.error):
        return None
    return (width, height) if width and height else None


def opened(data: str, largest: int) -> Image:
    """Open a picture; it is decoded when its pixels are used. Raises Pillow's errors for broken
    files, and `ValueError` if it is too large."""
    from PIL import Image

    image = Image.open(_file(data), formats=("PNG", "JPEG"))
    if image.width * image.height > largest:
        raise ValueError("too many pixels")
    return image


def _size_of_jpeg(file: BinaryIO) -> tuple[int, int]:
    """Find the size of a JPEG. Raises `ValueError` and `struct.error`."""
    for _ in range(_SEGMENTS):
        ground, mark = struct.unpack("!BB", file.read(2))
        if ground != 0xFF:
            break
        if mark in _NO_LENGTH:
            continue
        if mark == 0xFF:
            file.seek(-1, io.SEEK_CUR)
            continue
        (length,) = struct.unpack("!H", file.read(2))
        if mark in _SIZES:
            _, height, width = struct.unpack("!BHH", file.read(5))
            return width, height
        file.seek(length - 2, io.SEEK_CUR)
    raise ValueError("no size")


def _file(data: str) -> BinaryIO:
    return io.BufferedReader(_Base64(data), STEP)


class _Base64(io.RawIOBase):
    """Decodes base64 as it is read. Reading raises `ValueError` if the data is invalid."""

    def __init__(self, data: str) -> None:
        super().__init__()
        self._data = data
        self._size = len(data) // 4 * 3 - data[-2:].count("=")
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        wanted = memoryview(buffer).cast("B")
        group, skipped = divmod(self._position, 3)
        end = (self._position + len(wanted) + 2) // 3
        piece = base64.b64decode(self._data[4 * group : 4 * end], validate=True)[
            skipped : skipped + len(wanted)
        ]
        wanted[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)
