"""Frames between host and kernel: a length of four bytes (network order), a token where one was agreed on, then a JSON object in ASCII.

ASCII, because JSON's escapes carry any Python string, lone surrogates included.
"""

from __future__ import annotations

import json
import struct
from typing import Any

MAX_FRAME = 256 * 1024 * 1024
"""Bytes. A length above it means that something else than a frame was written."""

TOKEN_SIZE = 16
"""Bytes of a token, which tells the frames of the kernel from what code writes to the same descriptor."""

CONNECTION_LOST = 87
"""Exit code of a kernel that cannot read or write frames any more."""

_LENGTH = struct.Struct("!I")

Frame = dict[str, Any]


class FrameError(ValueError):
    """This is not a frame, or it is too large to be one."""


def encode(frame: Frame, limit: int = MAX_FRAME, token: bytes = b"") -> bytes:
    """The frame's bytes, at most `limit`. Raises `TypeError` for what JSON cannot carry and `FrameError` for what is too large."""
    try:
        body = json.dumps(frame, separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise FrameError("the value is nested too deeply") from None
    if len(body) > limit:
        raise FrameError(f"a message of {len(body):,} bytes is too large (at most {limit:,})")
    return _LENGTH.pack(len(body)) + token + body


class FrameReader:
    """Makes frames of bytes, at most `limit` each, that come in pieces of any size.

    bare_limit: bytes of a frame outside its strings. They are what a hostile writer makes memory of: three bytes of
    an empty list become sixty, while a string takes about what it has.
    """

    def __init__(self, limit: int = MAX_FRAME, bare_limit: int | None = None, token: bytes = b"") -> None:
        self._limit = limit
        self._token = token
        self._bare_limit = bare_limit
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """The frames that `data` completes. Raises `FrameError`; after that the stream cannot be trusted any more."""
        self._buffer += data
        frames: list[Frame] = []
        start, head = 0, _LENGTH.size + len(self._token)
        while len(self._buffer) - start >= head:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > self._limit:
                raise FrameError(f"a frame of {length:,} bytes was announced")
            # Before the frame is whole: a length that is not ours must not make all that follows it part of a frame that never ends.
            if self._buffer[start + _LENGTH.size : start + head] != self._token:
                raise FrameError("a frame without the token")
            end = start + head + length
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[start + head : end])
            if self._bare_limit is not None and length > self._bare_limit:
                _check_bare(body, self._bare_limit)
            frames.append(_parse(body))
            start = end
        del self._buffer[:start]
        return frames


def _check_bare(body: bytes, limit: int) -> None:
    """Hold a frame's bytes outside its strings, with the quotes, to a limit.

    Linear in time and memory for any bytes: a regular expression for JSON's strings is not, and holds every other thread up meanwhile.
    """
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # every quote that is left begins or ends a string
    bare = unescaped.count(b'"')
    if bare <= limit:
        bare += sum(map(len, unescaped.split(b'"')[::2]))
    if bare > limit:
        raise FrameError(f"a frame has more than {limit:,} bytes outside its strings")


def _parse(body: bytes) -> Frame:
    try:
        frame = json.loads(body.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame does not parse: {error}") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("op"), str):
        raise FrameError("a frame is not an object with an op")
    return frame
