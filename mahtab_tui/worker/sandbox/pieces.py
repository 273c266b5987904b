"""Strings that know where they are in the text of a search.

Code gets them from `context`, grep, peek and partition. They are used as any other str; only where
they are passed on (to a sub-call, or as an answer), their position is sent instead of their text.
All positions count characters.
"""

from __future__ import annotations

import operator
from typing import Any

MAX_SENT_SPANS = 1_000
"""A list of at most this many pieces is passed on as their positions."""
_MIN_LOOKED_UP_CHARS = 64
"""Shorter plain strings are not looked up in the text: they could be anywhere."""


class Piece(str):
    """A slice of the text. Its own slices are pieces again."""

    __slots__ = ("start",)

    start: int

    # The defaults are for copies and pickles.
    def __new__(cls, text: str = "", start: int = 0) -> Piece:
        piece = super().__new__(cls, text)
        piece.start = start
        return piece

    @property
    def end(self) -> int:
        """Where the piece ends in the text, exclusive."""
        return self.start + len(self)

    @property
    def text(self) -> str:
        """The piece itself, because models write ``hit.text``."""
        return self

    def __getitem__(self, key: Any) -> str:
        characters = str.__getitem__(self, key)
        is_slice = type(key) is slice and key.step in (None, 1)
        if not is_slice or not characters:
            return characters
        offset = 0
        if key.start is not None:
            offset = operator.index(key.start)
        if offset < 0:
            offset = max(0, offset + len(self))
        return Piece(characters, self.start + offset)


class Part(Piece):
    """A piece of the text as a function returns it."""

    __slots__ = ("line",)

    line: int
    """The number of its first line, from 1."""

    def __new__(cls, text: str = "", start: int = 0, line: int = 1) -> Part:
        part = super().__new__(cls, text, start)
        assert isinstance(part, Part)
        part.line = line
        return part


class Hit(str):
    """A string like a `Part`, but from another text than that of the search. Its position is that
    in the other text, and is never sent."""

    __slots__ = ("line", "start")

    start: int
    line: int

    def __new__(cls, text: str = "", start: int = 0, line: int = 1) -> Hit:
        hit = super().__new__(cls, text)
        hit.start = start
        hit.line = line
        return hit

    end = Piece.end
    text = Piece.text


class Source(Part):
    """The whole text, or one of its documents."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the text itself: a copy might not fit into memory."""
        return self

    def __reduce_ex__(self, protocol: object) -> Any:
        return Part, (to_plain_str(self), self.start, self.line)


# Shown to code that asks for the type.
Piece.__name__ = "str"
Source.__name__ = "str"


def to_plain_str(text: str) -> str:
    """Return a text as a str without a position."""
    return str.__getitem__(text, slice(None))


def find_span(value: str, text: str) -> tuple[int, int] | None:
    """Return where a string is in the text, as start and end. None if it is not a piece of the text,
    and short or not there exactly once."""
    if isinstance(value, Piece):
        return value.start, value.end
    if value == text:
        return 0, len(text)
    if len(value) < _MIN_LOOKED_UP_CHARS:
        return None
    start = str.find(text, value)
    if start < 0:
        return None
    is_there_twice = str.find(text, value, start + 1) >= 0
    if is_there_twice:
        return None
    return start, start + len(value)


def piece_spans(values: object) -> list[list[int]]:
    """Return start and end of each piece in a list or tuple, without its last line breaks. Empty if
    it has another item, or more than `MAX_SENT_SPANS`."""
    if not isinstance(values, (list, tuple)) or len(values) > MAX_SENT_SPANS:
        return []
    if not all(isinstance(value, Piece) for value in values):
        return []
    return [[value.start, value.start + len(str.rstrip(value, "\n"))] for value in values]
