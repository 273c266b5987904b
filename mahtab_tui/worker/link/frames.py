"""Encodes and reads frames, in which JSON objects are sent over a stream of bytes.

A frame has three parts:

- the length of the body: four bytes, the most significant first
- a token, if writer and reader have agreed on one
- the body: a JSON object as ASCII text, whose member ``op`` names the kind of message

The body is ASCII because JSON's escapes can represent any Python string, also one with a lone
surrogate.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from .json_structure import exceeds_structure_limit

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""The largest body. A reader that finds a greater length was sent something other than a frame."""

TOKEN_BYTES = 16
"""The size of a kernel's token, by which the host distinguishes the kernel's frames from bytes that
code of the user's writes."""

Frame = dict[str, Any]
"""The body of a frame: a JSON object with the member ``op``."""

_LENGTH = struct.Struct("!I")


class FrameError(ValueError):
    """A value cannot be encoded as a frame, or bytes are not a frame. The message is a clause."""


def encode(frame: Frame, max_body_bytes: int = MAX_FRAME_BYTES, token: bytes = b"") -> bytes:
    """Return a frame as bytes.

    Args:
        frame: A JSON object with the member ``op``.
        max_body_bytes: The largest body, in bytes.
        token: The bytes that the reader expects after the length.

    Raises:
        TypeError, FrameError: See `encode_body`.
    """
    return join_frame(encode_body(frame, max_body_bytes), token)


def join_frame(body: bytes, token: bytes) -> bytes:
    """Return the bytes of a frame with this body."""
    return _LENGTH.pack(len(body)) + token + body


def encode_body(frame: Frame, max_body_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """Return the body of a frame.

    Raises:
        TypeError: JSON cannot represent the type of a value.
        FrameError: The body is too large, or JSON cannot represent the object: a value contains
            itself, is nested too deeply, or is an integer with too many digits.
    """
    try:
        body = json.dumps(frame, separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise FrameError("the value is nested too deeply") from None
    except ValueError as error:
        raise FrameError(f"the value cannot be written as JSON: {error}") from None
    if len(body) > max_body_bytes:
        raise FrameError(
            f"a message of {len(body):,} bytes is too large (at most {max_body_bytes:,})"
        )
    return body


class FrameReader:
    """Divides a stream of bytes into frames."""

    def __init__(
        self,
        max_body_bytes: int = MAX_FRAME_BYTES,
        max_structure_bytes: int | None = None,
        token: bytes = b"",
    ) -> None:
        """Create a reader for a stream from its first byte on.

        Args:
            max_body_bytes: The largest body, in bytes.
            max_structure_bytes: Maximum JSON bytes outside string literals. None if the writer is
                trusted.
            token: The bytes that are expected after each length.
        """
        self._max_body_bytes = max_body_bytes
        self._max_structure_bytes = max_structure_bytes
        self._token = token
        self._buffer = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """Add the next bytes of the stream, and iterate over the frames that are complete now. A
        frame to which the caller does not advance comes with the next call.

        Raises:
            FrameError: Raised by the iterator, after the frames before: the next bytes are not a
                frame. The rest of the stream must not be read.
        """
        self._buffer += data
        return self._take_frames()

    def _take_frames(self) -> Iterator[Frame]:
        """Yield the complete frames, and remove each from the buffer before. Raises `FrameError`."""
        head_bytes = _LENGTH.size + len(self._token)
        while len(self._buffer) >= head_bytes:
            (body_bytes,) = _LENGTH.unpack_from(self._buffer)
            if body_bytes > self._max_body_bytes:
                raise FrameError(f"a frame of {body_bytes:,} bytes was announced")
            # Checked before the frame is complete: after a forged length, all later frames would be
            # read as a part of the forged one.
            if self._buffer[_LENGTH.size : head_bytes] != self._token:
                raise FrameError("a frame does not have the expected token")
            frame_bytes = head_bytes + body_bytes
            if len(self._buffer) < frame_bytes:
                return
            # A view, because the body may be large and would be copied twice.
            with memoryview(self._buffer) as buffer:
                body = buffer[head_bytes:frame_bytes].tobytes()
            del self._buffer[:frame_bytes]
            yield self._parse(body)

    def _parse(self, body: bytes) -> Frame:
        """Return the object of a body. Raises `FrameError`."""
        limit = self._max_structure_bytes
        if limit is not None and exceeds_structure_limit(body, limit):
            raise FrameError(f"a frame has more than {limit:,} bytes outside its strings")
        try:
            frame = json.loads(body.decode("ascii"))
        except (ValueError, RecursionError) as error:
            raise FrameError(f"a frame does not parse: {error}") from None
        if not isinstance(frame, dict) or not isinstance(frame.get("op"), str):
            raise FrameError('a frame is not an object with a text as its "op"')
        return frame
