"""Frames between host and kernel: a length of four bytes (network order), a token if one was agreed
on, then a JSON object in ASCII.

ASCII, because JSON's escapes can represent any Python string, including lone surrogates. The engine
and its sandboxes, and the holder, use the same frames. Three links do not, each for a reason: the
one to another machine (`station_link.Link`) carries these frames and output as bytes, numbered; a
locked fork (`guard.fork_messages`) sends large values as bytes beside its JSON; the sandboxes' fork server
(`sandbox.server`) passes descriptors, over a socket that keeps messages whole.
"""

from __future__ import annotations

import json
import struct
from typing import Any

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""A greater length means that something other than a frame was written."""

TOKEN_BYTES = 16
"""Bytes of a token, which distinguishes the kernel's frames from what user code writes."""

CONNECTION_LOST = 87
"""The exit code of a kernel whose host is gone."""

Frame = dict[str, Any]
"""A message: a JSON object with an ``op``, which says what it is about."""

_LENGTH = struct.Struct("!I")


class FrameError(ValueError):
    """Data is not a frame, or is too large for one."""


def encode(frame: Frame, limit: int = MAX_FRAME_BYTES, token: bytes = b"") -> bytes:
    """Return a frame as bytes.

    Args:
        frame: a JSON object with an ``op``.
        limit: maximum bytes of the JSON text.
        token: what the reader expects before it.

    Raises:
        TypeError: a value is one that JSON cannot represent.
        FrameError: the frame is too large, or nested too deeply.
    """
    try:
        body = json.dumps(frame, separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise FrameError("the value is nested too deeply") from None
    if len(body) > limit:
        raise FrameError(f"a message of {len(body):,} bytes is too large (at most {limit:,})")
    return _LENGTH.pack(len(body)) + token + body


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(
        self, limit: int = MAX_FRAME_BYTES, bare_limit: int | None = None, token: bytes = b""
    ) -> None:
        """Create a reader for a stream's start.

        Args:
            limit: maximum bytes of a frame.
            bare_limit: maximum bytes of a frame outside its strings, with which a hostile writer can
                fill memory: three bytes of an empty list become sixty. None for a writer of ours.
            token: with which each frame must begin.
        """
        self._limit = limit
        self._token = token
        self._bare_limit = bare_limit
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """Take the next bytes of the stream, and return the frames that are complete now.

        Raises:
            FrameError: the stream is not one of frames, and must not be trusted any more.
        """
        self._buffer += data
        frames: list[Frame] = []
        start = 0
        head_bytes = _LENGTH.size + len(self._token)
        while len(self._buffer) - start >= head_bytes:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > self._limit:
                raise FrameError(f"a frame of {length:,} bytes was announced")
            # Checked before the frame is complete: with a forged length, all later frames would be
            # taken for a part of this one.
            if self._buffer[start + _LENGTH.size : start + head_bytes] != self._token:
                raise FrameError("a frame without the token")
            end = start + head_bytes + length
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[start + head_bytes : end])
            if self._bare_limit is not None and length > self._bare_limit:
                check_bare(body, self._bare_limit)
            frames.append(_parse(body))
            start = end
        del self._buffer[:start]
        return frames


def check_bare(body: bytes, limit: int) -> None:
    """Limit the bytes of a JSON text outside its strings. Linear in time for any bytes, unlike a
    regular expression. Raises `FrameError`."""
    # Each remaining quote starts or ends a string.
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    bare_bytes = unescaped.count(b'"')
    if bare_bytes <= limit:
        bare_bytes += sum(map(len, unescaped.split(b'"')[::2]))
    if bare_bytes > limit:
        raise FrameError(f"a frame has more than {limit:,} bytes outside its strings")


def _parse(body: bytes) -> Frame:
    try:
        frame = json.loads(body.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame does not parse: {error}") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("op"), str):
        raise FrameError("a frame is not an object with an op")
    return frame
