"""Data in pieces, and its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

_PIECE_BYTES = 2**24


def compute_digest(parts: Iterable[object]) -> str:
    """Return a digest of data as hexadecimal digits.

    Args:
        parts: Bytes, or other buffers.
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        for piece in split_pieces(part):
            digest.update(piece)
    return digest.hexdigest()


def split_pieces(part: Any) -> Iterator[memoryview]:
    """Yield a buffer in pieces of at most 16 MiB, without copying it."""
    view = memoryview(part).cast("B")
    for start in range(0, len(view), _PIECE_BYTES):
        yield view[start : start + _PIECE_BYTES]
