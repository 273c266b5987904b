"""Strings of a sandbox that know more than their characters: pieces of the text, and answers."""

from __future__ import annotations

import operator
from typing import Any

from .read_tracker import ReadTracker

MOST_PLACES = 1_000
"""A list of at most so many parts is handed on as their places."""

FOUND_AGAIN = 64
"""Plain strings of at least so many characters are looked up in the text; shorter ones could be
anywhere."""


class Piece(str):
    """A slice of the text: a str that knows where it is. start, end: its place in the text, in
    characters (end is exclusive)."""

    __slots__ = ("start",)

    start: int

    def __new__(cls, text: str = "", start: int = 0) -> Piece:
        """Set the place too; the default is for copies, whose place is set afterwards."""
        piece = super().__new__(cls, text)
        piece.start = start
        return piece

    @property
    def end(self) -> int:
        return self.start + len(self)

    def __getitem__(self, key: Any) -> str:
        found = str.__getitem__(self, key)
        if type(key) is not slice or (key.step is not None and key.step != 1) or not found:
            return found
        start = 0 if key.start is None else operator.index(key.start)
        return Piece(found, self.start + (max(0, start + len(self)) if start < 0 else start))


class Part(Piece):
    """A piece of the text that a function has returned. line: the number of its first line, from
    1."""

    __slots__ = ("line",)

    line: int

    def __new__(cls, text: str = "", start: int = 0, line: int = 1) -> Part:
        """Set place and line too; the defaults are for copies, whose place is set afterwards."""
        part = super().__new__(cls, text, start)
        assert isinstance(part, Part)
        part.line = line
        return part


class Source(Part):
    """The text, or one of its documents: slices of it count as seen."""

    __slots__ = ("_touches",)

    _touches: ReadTracker

    @classmethod
    def of(cls, text: str, touches: ReadTracker, start: int = 0, line: int = 1) -> Source:
        """Make it. start: where it is in the text. line: the number of its first line."""
        source = cls(text, start, line)
        assert isinstance(source, Source)
        return source.reporting(touches)

    @classmethod
    def read(cls, data: Any) -> Source:
        """Decode the text from UTF-8, which may have surrogates, without a further copy; then
        `reporting` must be called."""
        source: Source = str.__new__(cls, data, "utf-8", "surrogatepass")
        source.start, source.line = 0, 1
        return source

    def reporting(self, touches: ReadTracker) -> Source:
        """Set where it reports what is seen."""
        self._touches = touches
        return self

    def __getitem__(self, key: Any) -> str:
        found = super().__getitem__(key)
        if isinstance(found, Piece):
            self._touches.note(found.start, found.end)
        return found

    def __str__(self) -> str:
        """Return the text itself, since a copy might not fit into memory."""
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Make copies parts, which report nothing."""
        return Part, (plain(self), self.start, self.line)


Piece.__name__ = Source.__name__ = (
    "str"  # as which they show themselves to code that asks for their type
)


class SubAnswer(str):
    """The answer of a sub-call: a str. failed: whether it says why there is no answer."""

    __slots__ = ()

    failed = False


class Failure(SubAnswer):
    """Replaces an answer: "[failed: why]"."""

    __slots__ = ()

    failed = True


class Final(BaseException):
    """Ends the code once FINAL has sent the answer."""


def answer_of(reply: dict[str, Any]) -> SubAnswer:
    """Convert an answer from the engine: {"text", "failed"}."""
    text = str(reply["text"])
    if not reply["failed"]:
        return SubAnswer(text)
    return Failure(text if text.startswith("[failed") else f"[failed: {text}]")


def plain(text: str) -> str:
    """Return a string without its place."""
    return str.__getitem__(text, slice(None))


def place_of(value: str, text: str) -> tuple[int, int] | None:
    """Return where a string is in the text; None if that is unknown, because it is no piece of it
    and the text has it twice."""
    if isinstance(value, Piece):
        return value.start, value.end
    if len(value) == len(text):
        return (0, len(text)) if value == text else None
    if len(value) < FOUND_AGAIN:
        return None
    start = str.find(text, value)
    return (
        None if start < 0 or str.find(text, value, start + 1) >= 0 else (start, start + len(value))
    )


def places_of(values: object) -> list[list[int]]:
    """Return where the pieces of a list are, without their trailing line breaks; empty if not all
    are pieces."""
    if (
        not isinstance(values, (list, tuple))
        or len(values) > MOST_PLACES
        or not all(isinstance(value, Piece) for value in values)
    ):
        return []
    return [[value.start, value.start + len(str.rstrip(value, "\n"))] for value in values]
