"""Strings of a sandbox with extra attributes: parts of the text, and answers."""

from __future__ import annotations

MOST_PLACES = 1_000
"""A list of at most so many parts is handed on as their places."""

FOUND_AGAIN = 64
"""Plain strings of at least so many characters are looked up in the text; shorter ones could be anywhere."""


class Part(str):
    """A part of the text: a str that also knows where it is.

    start, end: its place in the text, in characters (end is exclusive). line: the number of its first line, from 1.
    Slices and other results of its methods are plain strings.
    """

    __slots__ = ("end", "line", "start")

    start: int
    end: int
    line: int

    def __new__(cls, text: str = "", start: int = 0, end: int = 0, line: int = 1) -> Part:
        """Set the place too; the defaults are for copies, whose place is set afterwards."""
        part = super().__new__(cls, text)
        part.start, part.end, part.line = start, end, line
        return part


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


def answer_of(reply: dict[str, object]) -> SubAnswer:
    """Convert an answer from the engine: {"text", "failed"}."""
    text = str(reply["text"])
    if not reply["failed"]:
        return SubAnswer(text)
    return Failure(text if text.startswith("[failed") else f"[failed: {text}]")


def place_of(value: str, text: str) -> tuple[int, int] | None:
    """Return where a string is in the text; None if unknown."""
    if isinstance(value, Part):
        return value.start, value.end
    if len(value) < FOUND_AGAIN and len(value) != len(text):
        return None
    start = text.find(value)
    return None if start < 0 else (start, start + len(value))


def places_of(values: object) -> list[list[int]]:
    """Return where the parts of a list are, without their trailing line breaks; empty unless all items are parts."""
    if not isinstance(values, (list, tuple)) or len(values) > MOST_PLACES or not all(isinstance(value, Part) for value in values):
        return []
    return [[part.start, part.start + len(part.rstrip("\n"))] for part in values]
