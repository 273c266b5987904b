"""Reads texts and bytes of any length in parts, and searches texts in steps, so that nothing blocks
for long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..statics import Classes, mro_of
from ..summary import summary
from .pace import LookError, Pace

BLOCK = 1_000_000
"""Characters that are counted or searched in one step."""
MOST_CHARS = 200_000
"""Characters or bytes of one answer."""

_BASES = Classes(str, bytes, bytearray, memoryview)


class LineCounts:
    """Counts line breaks before each block of one text, as far as needed."""

    def __init__(self) -> None:
        self._of: Any = None
        self._before: list[int] = [0]

    def before(self, text: str, place: int, pace: Pace) -> int:
        """Count the line breaks before a place."""
        if text is not self._of:
            self._of, self._before = text, [0]
        known = self._before
        while (len(known) - 1) * BLOCK + BLOCK <= place:
            pace.check()
            start = (len(known) - 1) * BLOCK
            known.append(known[-1] + str.count(text, "\n", start, start + BLOCK))
        block = place // BLOCK
        return known[block] + str.count(text, "\n", block * BLOCK, place)


def base_of(value: object) -> Any:
    """Return ``str``, ``bytes``, ``bytearray`` or ``memoryview``, whichever an object is; None for
    others."""
    return next((base for base in mro_of(type(value)) if base in _BASES), None)


def part(value: Any, start: int, end: int) -> Any:
    """Return a part of a text, or of bytes as `bytes`."""
    return _slice(value, start, min(end, start + MOST_CHARS))


def _slice(value: Any, start: int, end: int) -> Any:
    base = base_of(value)
    if base is memoryview:
        return bytes(_octets(value)[start:end])
    found = base.__getitem__(value, slice(start, end))
    return found if base is str else bytes(found)


def length(value: Any) -> int:
    """Count characters or bytes."""
    base = base_of(value)
    if base is memoryview and summary(value) == "released":
        return 0
    return len(_octets(value)) if base is memoryview else int(base.__len__(value))


def _octets(value: memoryview) -> memoryview:
    try:
        return value.cast("B") if value.contiguous else memoryview(b"")
    except ValueError:
        raise LookError("The memory was released.") from None


def find(value: str, words: str, start: int, backwards: bool, pace: Pace) -> list[int] | None:
    """Find the next or previous occurrence of words, wrapping around. Words without capitals match
    any case."""
    flags = 0 if any(map(str.isupper, words)) else re.IGNORECASE
    size = length(value)
    pattern = re.compile(re.escape(words), flags)
    for first, last in _backwards(start, size) if backwards else _forwards(start, size):
        pace.check()
        found = None
        for matched in pattern.finditer(_slice(value, first, min(last + len(words), size))):
            if first + matched.start() >= last:
                break
            found = matched
            if not backwards:
                break
        if found is not None:
            return [first + found.start(), first + found.end()]
    return None


def _forwards(start: int, size: int) -> Iterator[tuple[int, int]]:
    for low, high in ((start, size), (0, start)):
        for first in range(low, high, BLOCK):
            yield first, min(first + BLOCK, high)


def _backwards(start: int, size: int) -> Iterator[tuple[int, int]]:
    for low, high in ((0, start), (start, size)):
        for last in range(high, low, -BLOCK):
            yield max(low, last - BLOCK), last
