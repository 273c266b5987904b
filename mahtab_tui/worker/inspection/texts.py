"""Parts of long texts and bytes, and the places where words stand in them. No methods of the user's
classes run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..values.objects import Classes, mro_of
from .limits import Deadline

BLOCK_CHARS = 1_000_000
"""Characters that are searched between two looks at the deadline."""
MAX_PAGE_CHARS = 200_000
"""Maximum characters of a part."""

_TEXT_CLASSES = Classes(str, bytes, bytearray)


def text_class(value: object) -> Any:
    """Return which of str, bytes and bytearray a value derives from; None if from none."""
    for base in mro_of(type(value)):
        if base in _TEXT_CLASSES:
            return base
    return None


def text_slice(value: object, start: int, end: int) -> object:
    """Return a part of a text as a str, or of bytes as a bytes object.

    It has at most `MAX_PAGE_CHARS` characters or bytes.
    """
    base = text_class(value)
    piece = base.__getitem__(value, slice(start, min(end, start + MAX_PAGE_CHARS)))
    return piece if base is str else bytes(piece)


def text_length(value: object) -> int:
    """Return the number of characters of a text, or of bytes."""
    return int(text_class(value).__len__(value))


def find_text(
    value: str, query: str, start: int, backwards: bool, deadline: Deadline
) -> list[int] | None:
    """Search a text from a position on. The search goes on at the other end of the text.

    Args:
        value: The text.
        query: What to find; one without capitals ignores case.
        start: The position of the first character to look at; backwards, the end of the search.
        backwards: Whether to find the nearest place before the start.
        deadline: Ends the search.

    Returns:
        The start and the end of the place, in a list because JSON needs one; None if there is none.
    """
    has_capitals = any(map(str.isupper, query))
    pattern = re.compile(re.escape(query), 0 if has_capitals else re.IGNORECASE)
    size = text_length(value)
    for block_start, block_end in _blocks(start, size, backwards):
        deadline.check()
        # A place may end after the block in which it starts.
        search_end = min(block_end + len(query), size)
        place: list[int] | None = None
        for match in pattern.finditer(value, block_start, search_end):
            if match.start() >= block_end:
                break
            place = list(match.span())
            # Backwards, the last place of the block is the nearest one.
            if not backwards:
                break
        if place is not None:
            return place
    return None


def _blocks(start: int, size: int, backwards: bool) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each block of a text, in the order in which they are searched.

    Args:
        start: Where the search starts.
        size: The length of the text.
        backwards: Whether the search goes towards the beginning of the text.
    """
    before_start = range(0, start, BLOCK_CHARS)
    after_start = range(start, size, BLOCK_CHARS)
    if backwards:
        for block_start in reversed(before_start):
            yield block_start, min(block_start + BLOCK_CHARS, start)
        for block_start in reversed(after_start):
            yield block_start, min(block_start + BLOCK_CHARS, size)
    else:
        for block_start in after_start:
            yield block_start, min(block_start + BLOCK_CHARS, size)
        for block_start in before_start:
            yield block_start, min(block_start + BLOCK_CHARS, start)
