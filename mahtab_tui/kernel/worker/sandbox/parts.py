"""The strings of a sandbox that know more than their characters: parts of the text, and answers."""

from __future__ import annotations

MOST_PLACES = 1_000
"""Parts of a list that is handed on as their places."""

FOUND_AGAIN = 64
"""Characters from which a plain string is looked for in the text: shorter ones could stand anywhere."""


class Part(str):
    """A part of the text: a str in every way, that also knows where it stands.

    start, end: its place in the text, in characters (end is exclusive). line: the number of its first line, from 1.
    Slices and other results of its methods are plain strings.
    """

    __slots__ = ("end", "line", "start")

    start: int
    end: int
    line: int

    def __new__(cls, text: str = "", start: int = 0, end: int = 0, line: int = 1) -> Part:
        """Give the place with the characters; the defaults are for copies, which get theirs afterwards."""
        part = super().__new__(cls, text)
        part.start, part.end, part.line = start, end, line
        return part


class SubAnswer(str):
    """The answer of a sub-call: a str. failed: whether it says why there is none."""

    __slots__ = ()

    failed = False


class Failure(SubAnswer):
    """In place of an answer: "[failed: why]"."""

    __slots__ = ()

    failed = True


class Final(BaseException):
    """Ends the code once FINAL has sent the answer."""


def answer_of(reply: dict[str, object]) -> SubAnswer:
    """An answer as the engine gives it: {"text", "failed"}."""
    text = str(reply["text"])
    if not reply["failed"]:
        return SubAnswer(text)
    return Failure(text if text.startswith("[failed") else f"[failed: {text}]")


def place_of(value: str, text: str) -> tuple[int, int] | None:
    """Where a string stands in the text; None where that is not known."""
    if isinstance(value, Part):
        return value.start, value.end
    if len(value) < FOUND_AGAIN and len(value) != len(text):
        return None
    start = text.find(value)
    return None if start < 0 else (start, start + len(value))


def places_of(values: object) -> list[list[int]]:
    """Where the parts in a list stand, without the line ends at their ends; nothing where it is not a list of parts alone."""
    if not isinstance(values, (list, tuple)) or len(values) > MOST_PLACES or not all(isinstance(value, Part) for value in values):
        return []
    return [[part.start, part.start + len(part.rstrip("\n"))] for part in values]
