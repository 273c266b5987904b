"""Parts of long texts, and what is found in them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from ..values.objects import Classes, mro_of
from .limits import Deadline

BLOCK_CHARS = 1_000_000
"""Characters that are searched between two looks at the deadline."""
MAX_PAGE_CHARS = 200_000

_TEXT_CLASSES = Classes(str, bytes, bytearray)


def text_class(value: object) -> Any:
    """Return which of str, bytes and bytearray a value derives from; None if from none."""
    return next((base for base in mro_of(type(value)) if base in _TEXT_CLASSES), None)


def text_slice(value: object, start: int, end: int) -> object:
    """Return a part of a text of at most `MAX_PAGE_CHARS`, without methods of the user's class."""
    base = text_class(value)
    piece = base.__getitem__(value, slice(start, min(end, start + MAX_PAGE_CHARS)))
    return piece if base is str else bytes(piece)


def text_length(value: object) -> int:
    """Return the number of characters or bytes, without methods of the user's class."""
    return int(text_class(value).__len__(value))


def find_text(
    value: str, query: str, start: int, backwards: bool, deadline: Deadline
) -> list[int] | None:
    """Search from a position, and go on at the other end.

    Args:
        value: The text.
        query: What to find; one without capitals ignores case.
        start: Position of the first character to look at; backwards, the end of the search.
        backwards: Whether to find the nearest place before the start.
        deadline: Raises when the time is over.

    Returns:
        Start and end of the place, as JSON needs them; None if there is none.
    """
    flags = 0 if any(map(str.isupper, query)) else re.IGNORECASE
    pattern = re.compile(re.escape(query), flags)
    size = text_length(value)
    for block_start, block_end in _blocks(start, size, backwards):
        deadline.check()
        matches = pattern.finditer(value, block_start, min(block_end + len(query), size))
        spans = (list(match.span()) for match in matches if match.start() < block_end)
        for span in deque(spans, 1) if backwards else spans:
            return span
    return None


def _blocks(start: int, size: int, backwards: bool) -> Iterator[tuple[int, int]]:
    """Yield the blocks of a text in the order in which they are searched."""
    step = -1 if backwards else 1
    for low, high in [(start, size), (0, start)][::step]:
        for block_start in range(low, high, BLOCK_CHARS)[::step]:
            yield block_start, min(block_start + BLOCK_CHARS, high)
