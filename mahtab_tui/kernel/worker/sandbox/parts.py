"""Strings of a sandbox with extra attributes: parts of the text, and answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from .touches import Touches
from .tracked import SOURCE, Run, Tracked, runs_of

T = TypeVar("T")

MOST_PLACES = 1_000
"""A list of at most so many parts is handed on as their places."""

FOUND_AGAIN = 64
"""Plain strings of at least so many characters are looked up in the text; shorter ones could be anywhere."""


class Part(Tracked):
    """A part of the text: a str that also knows where it is.

    start, end: its place in the text, in characters (end is exclusive). line: the number of its first line, from 1.
    """

    __slots__ = ("line",)

    line: int

    def __new__(cls, text: str = "", start: int = 0, end: int = 0, line: int = 1) -> Part:
        """Set the place too; the defaults are for copies, whose place is set afterwards."""
        part = super().__new__(cls, text)
        part.at, part.line = start, line
        return part

    @property
    def start(self) -> int:
        return self.at

    @property
    def end(self) -> int:
        return self.at + len(self)


class Source(Part):
    """The text, or one of its documents: what code takes out of it counts as seen."""

    __slots__ = ("_touches",)

    _touches: Touches

    @classmethod
    def of(cls, text: str, touches: Touches, start: int = 0, line: int = 1) -> Source:
        """Make it. start: where it is in the text. line: the number of its first line."""
        source = cls(text, start, start + len(text), line)
        source._touches = touches
        return source

    @classmethod
    def read(cls, data: Any) -> Source:
        """Decode the text from UTF-8, which may have surrogates, without a further copy; then `reporting` must be called."""
        source: Source = str.__new__(cls, data, "utf-8", "surrogatepass")
        source.at, source.line = 0, 1
        return source

    def reporting(self, touches: Touches) -> Source:
        """Set where it reports what is seen."""
        self._touches = touches
        return self

    def seen(self, how: str, spans: Iterable[tuple[int, int]]) -> None:
        """Note which parts of it are seen."""
        for start, end in spans:
            self._touches.note(how, self.at + start, self.at + end)

    def cut(self, found: str, start: int) -> str:
        self._touches.note("peek", self.at + start, self.at + start + len(found))
        return self.piece(found, start)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Make copies parts, which report nothing."""
        return Part, (str.__getitem__(self, slice(None)), self.start, self.end, self.line)

    def __str__(self) -> str:
        return self._all(self)

    def __iter__(self) -> Iterator[str]:
        return self._all(super().__iter__())

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self._all(super().splitlines(keepends))

    def split(self, sep: Any = None, maxsplit: Any = -1) -> list[str]:
        return self._all(super().split(sep, maxsplit))

    def rsplit(self, sep: Any = None, maxsplit: Any = -1) -> list[str]:
        return self._all(super().rsplit(sep, maxsplit))

    def partition(self, sep: str) -> tuple[str, str, str]:
        return self._all(super().partition(sep))

    def rpartition(self, sep: str) -> tuple[str, str, str]:
        return self._all(super().rpartition(sep))

    def _all(self, found: T) -> T:
        """Note that all of it is seen."""
        self._touches.note("peek", self.start, self.end)
        return found


Source.__name__ = "str"  # as which it shows itself to code that asks for its type


class SubAnswer(Tracked):
    """The answer of a sub-call: a str. failed: whether it says why there is no answer."""

    __slots__ = ()

    failed = False

    @classmethod
    def of(cls, text: str, number: int) -> SubAnswer:
        """Make it. number: of the answer, by which the engine knows it; 0 if it does not."""
        answer = cls(text)
        answer.at = number * SOURCE if number else -1
        return answer

    def runs(self) -> list[Run]:
        return super().runs() if self.at >= 0 else []

    def piece(self, found: str, start: int) -> str:
        return super().piece(found, start) if self.at >= 0 else found

    cut = piece


class Failure(SubAnswer):
    """Replaces an answer: "[failed: why]"."""

    __slots__ = ()

    failed = True


class Final(BaseException):
    """Ends the code once FINAL has sent the answer."""


def answer_of(reply: dict[str, Any]) -> SubAnswer:
    """Convert an answer from the engine: {"text", "failed", "number"}."""
    text = str(reply["text"])
    if not reply["failed"]:
        return SubAnswer.of(text, reply.get("number", 0))
    return Failure.of(text if text.startswith("[failed") else f"[failed: {text}]", 0)


def place_of(value: str, text: str) -> tuple[int, int] | None:
    """Return where a string is in the text; None if that is unknown, because it has lost its place and the text has it twice."""
    if isinstance(value, Tracked):
        runs = runs_of(value)
        if len(runs) != 1 or runs[0][1] != len(value) or runs[0][2] >= SOURCE:
            return None
        return runs[0][2], runs[0][2] + len(value)
    if len(value) == len(text):
        return (0, len(text)) if value == text else None
    if len(value) < FOUND_AGAIN:
        return None
    start = str.find(text, value)
    return None if start < 0 or str.find(text, value, start + 1) >= 0 else (start, start + len(value))


def places_of(values: object) -> list[list[int]]:
    """Return where the strings of a list are, without their trailing line breaks; empty unless all have a place."""
    if not isinstance(values, (list, tuple)) or len(values) > MOST_PLACES or not all(isinstance(value, Tracked) for value in values):
        return []
    places = [place_of(value, "") for value in values]
    if None in places:
        return []
    return [[start, start + len(str.rstrip(value, "\n"))] for value, (start, _) in zip(values, filter(None, places))]
