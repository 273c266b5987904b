"""Frames between host and kernel: a length of four bytes (network order), then a JSON object in ASCII.

ASCII, because JSON's escapes carry any Python string, lone surrogates included.
"""

from __future__ import annotations

import json
import struct
from typing import Any

MAX_FRAME = 256 * 1024 * 1024
"""Bytes. A length above it means that something else than a frame was written."""

_LENGTH = struct.Struct("!I")

Frame = dict[str, Any]


class FrameError(ValueError):
    """This is not a frame, or it is too large to be one."""


def encode(frame: Frame) -> bytes:
    """The frame's bytes. Raises `TypeError` for what JSON cannot carry and `FrameError` for what is too large."""
    try:
        body = json.dumps(frame, separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise FrameError("the value is nested too deeply") from None
    if len(body) > MAX_FRAME:
        raise FrameError(f"a message of {len(body):,} bytes is too large (at most {MAX_FRAME:,})")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Makes frames of bytes that come in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes. Raises `FrameError`; after that the stream cannot be trusted any more."""
        self._buffer += data
        frames: list[Frame] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > MAX_FRAME:
                raise FrameError(f"a frame of {length:,} bytes was announced")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            frames.append(_parse(bytes(self._buffer[start + _LENGTH.size : end])))
            start = end
        del self._buffer[:start]
        return frames


def _parse(body: bytes) -> Frame:
    try:
        frame = json.loads(body.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame does not parse: {error}") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("op"), str):
        raise FrameError("a frame is not an object with an op")
    return frame
