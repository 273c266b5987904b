"""Strings that know where they are from, also after slicing, splitting, stripping and joining, as far as Python lets them.

What Python makes without asking them (`lower`, `replace`, `%`, `format`) is a plain string, whose place is unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

MOST_PIECES = 100_000
"""Strings that are tracked in one turn; later ones are plain, so that code with millions of them takes no more time and memory."""
MOST_RUNS = 1_000
"""Runs of one string; a string with more of them is plain."""
_BY_CHARACTER = 1_000
"""Strings of at most so many characters give tracked characters."""

SOURCE = 1 << 40
"""A place is one number: the number of its source times this, and the character there. Source 0 is the text, others are answers of sub-calls."""

Run = tuple[int, int, int]
"""Start in a string, length, and the place that it is from."""

_new = str.__new__
_left = [MOST_PIECES]


def renew() -> None:
    """Begin another turn, which may track as many strings again."""
    _left[0] = MOST_PIECES


class Tracked(str):
    """A piece of one source."""

    __slots__ = ("at",)

    at: int
    """The place of its first character."""

    def runs(self) -> list[Run]:
        """Return which parts of it are from where, in order."""
        return [(0, len(self), self.at)]

    def piece(self, found: str, start: int) -> str:
        """Return `found`, which is in this string from `start` on, as a tracked string."""
        if not found or _left[0] <= 0:
            return found
        _left[0] -= 1
        piece = _new(Tracked, found)
        piece.at = self.at + start
        return piece

    cut = piece
    """The same for what code takes out of the string by itself."""

    def __str__(self) -> str:
        return self

    def __getitem__(self, key: Any) -> str:
        found = str.__getitem__(self, key)
        if type(key) is not slice:
            place = operator.index(key)
            return self.cut(found, place + len(self) if place < 0 else place)
        if key.step is not None and key.step != 1:
            return found
        start = 0 if key.start is None else operator.index(key.start)
        return self.cut(found, max(0, start + len(self)) if start < 0 else start)

    def __iter__(self) -> Iterator[str]:
        plain = str.__iter__(self)
        return plain if len(self) > _BY_CHARACTER else (self.piece(found, place) for place, found in enumerate(plain))

    def __add__(self, other: str) -> str:
        return tracked(str.__add__(self, other), [*self.runs(), *_shifted(other, len(self))])

    def __radd__(self, other: str) -> str:
        return tracked(str.__add__(other, self), _shifted(self, len(other)))

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = str.splitlines(self, keepends)
        if len(lines) > _left[0]:
            return lines
        place = 0
        for number, whole in enumerate(lines if keepends else str.splitlines(self, True)):
            lines[number] = self.piece(lines[number], place)
            place += len(whole)
        return lines

    def split(self, sep: Any = None, maxsplit: Any = -1) -> list[str]:
        parts = str.split(self, sep, maxsplit)
        if len(parts) > _left[0]:
            return parts
        place = 0
        for number, part in enumerate(parts):
            start = place if sep is not None else str.find(self, part, place)
            parts[number] = self.piece(part, start)
            place = start + len(part) + (len(sep) if sep is not None else 0)
        return parts

    def rsplit(self, sep: Any = None, maxsplit: Any = -1) -> list[str]:
        parts = str.rsplit(self, sep, maxsplit)
        if len(parts) > _left[0]:
            return parts
        place = len(self)
        for number in range(len(parts) - 1, -1, -1):
            part = parts[number]
            start = place - len(part) if sep is not None else str.rfind(self, part, 0, place)
            parts[number] = self.piece(part, start)
            place = start - (len(sep) if sep is not None else 0)
        return parts

    def partition(self, sep: str) -> tuple[str, str, str]:
        return self._three(str.partition(self, sep))

    def rpartition(self, sep: str) -> tuple[str, str, str]:
        return self._three(str.rpartition(self, sep))

    def _three(self, parts: tuple[str, str, str]) -> tuple[str, str, str]:
        first, second, third = parts
        return self.piece(first, 0), self.piece(second, len(first)), self.piece(third, len(first) + len(second))

    def strip(self, chars: Any = None) -> str:
        return self.piece(str.strip(self, chars), len(self) - len(str.lstrip(self, chars)))

    def lstrip(self, chars: Any = None) -> str:
        found = str.lstrip(self, chars)
        return self.piece(found, len(self) - len(found))

    def rstrip(self, chars: Any = None) -> str:
        return self.piece(str.rstrip(self, chars), 0)

    def removeprefix(self, prefix: str) -> str:
        found = str.removeprefix(self, prefix)
        return self.piece(found, len(self) - len(found))

    def removesuffix(self, suffix: str) -> str:
        return self.piece(str.removesuffix(self, suffix), 0)

    def join(self, strings: Iterable[str]) -> str:
        return joined(self, strings)


class Joined(Tracked):
    """Pieces of several places, with strings between them whose place is unknown."""

    __slots__ = ("parts",)

    parts: list[Run]

    def runs(self) -> list[Run]:
        return self.parts

    def piece(self, found: str, start: int) -> str:
        end = start + len(found)
        inside = [(max(low, start), min(low + length, end), at - low) for low, length, at in self.parts if low < end and low + length > start]
        return tracked(found, [(low - start, high - low, shift + low) for low, high, shift in inside])

    cut = piece


Tracked.__name__ = Joined.__name__ = "str"  # as which they show themselves to code that asks for their type


def tracked(text: str, runs: Sequence[Run]) -> str:
    """Return a string as one that knows the places of its parts; a plain one if it has none, or too many."""
    if not runs or len(runs) > MOST_RUNS or _left[0] <= 0:
        return text
    _left[0] -= 1
    if len(runs) == 1 and runs[0][1] == len(text):
        piece = _new(Tracked, text)
        piece.at = runs[0][2]
        return piece
    whole = _new(Joined, text)
    whole.parts = _merged(runs)
    return whole


def joined(between: str, strings: Iterable[str]) -> str:
    """Join strings; the result knows the places of those that know theirs."""
    pieces = strings if isinstance(strings, (list, tuple)) else list(strings)
    text = str.join(between, pieces)
    if len(pieces) > MOST_RUNS:
        return text
    runs: list[Run] = []
    gap, place = runs_of(between), 0
    for number, piece in enumerate(pieces):
        if number:
            runs += [(low + place, length, at) for low, length, at in gap]
            place += len(between)
        runs += _shifted(piece, place)
        place += len(piece)
    return tracked(text, runs)


def runs_of(value: object) -> list[Run]:
    """Return which parts of a string are from where; nothing for a plain string."""
    return value.runs() if isinstance(value, Tracked) else []


def untracked(text: str) -> str:
    """Return a string as a plain one."""
    return str.__getitem__(text, slice(None))


def _shifted(value: object, by: int) -> list[Run]:
    return [(low + by, length, at) for low, length, at in runs_of(value)]


def _merged(runs: Sequence[Run]) -> list[Run]:
    """Merge runs that follow each other in the string and in their source."""
    merged: list[Run] = []
    for low, length, at in runs:
        if merged and merged[-1][0] + merged[-1][1] == low and merged[-1][2] + merged[-1][1] == at:
            merged[-1] = (merged[-1][0], merged[-1][1] + length, merged[-1][2])
        elif length:
            merged.append((low, length, at))
    return merged
