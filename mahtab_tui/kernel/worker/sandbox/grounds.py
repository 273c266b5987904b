"""Finds what an answer rests on: the parts of the text that it quotes, and the lines that it names by number."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from .parts import place_of
from .tracked import SOURCE, Tracked, runs_of, untracked

_HEAD = 16
_QUOTED = range(_HEAD, 2_001)
"""Lengths of parts that are looked for in an answer; shorter ones are in many answers by chance."""
_REMEMBERED = 5_000
_MORE = r"(?:\s*(?:,|-|–|to|and)\s*\d{1,9})"
_NAMED = re.compile(rf"\b(?:line\s+(\d{{1,9}}{_MORE}*)|lines\s+(\d{{1,9}}{_MORE}+))", re.IGNORECASE)
"""\"lines 6000" counts lines; "lines 6000 and 6001" names them."""
_MOST_NAMED = 1_000
_DEEPEST = 4
"""Levels of lists in an answer that are looked through."""


class Found(NamedTuple):
    """What an answer rests on, as far as it is known."""

    places: list[tuple[int, int]]
    """In the text, in order."""
    answers: list[int]
    """Numbers of answers of sub-calls."""


class Grounds:
    """Remembers the latest strings that were given to the code."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._given: deque[Tracked] = deque(maxlen=_REMEMBERED)

    def give(self, strings: Iterable[Tracked]) -> None:
        """Remember parts of the text, and answers, that are given to the code."""
        self._given.extend(string for string in strings if len(string) in _QUOTED)

    def of(self, answer: object, words: str, numbered: bool) -> Found:
        """Return what an answer rests on.

        answer: as the code gave it; strings that know their places, also in lists and dicts, tell them. words: the answer as text.
        numbered: whether line numbers in it are those of the text.
        """
        strings = list(_strings(answer))
        runs = {(length, at) for value in strings for _, length, at in runs_of(value)}
        known = {untracked(value) for value in strings if isinstance(value, Tracked)}
        for quoted in self._quoted(words):
            if quoted not in known:  # otherwise its place is known, and another one with the same words says nothing
                runs.update((length, at) for _, length, at in quoted.runs())
        places = {(at, at + length) for length, at in runs if at < SOURCE}
        places.update(place for value in strings if not isinstance(value, Tracked) and (place := place_of(value, self._text)))
        if numbered:
            places.update(self._named(words))
        return Found(sorted(places), sorted({at // SOURCE for _, at in runs if at >= SOURCE}))

    def _quoted(self, words: str) -> Iterator[Tracked]:
        """Yield the remembered strings that are in the words, which may be long: they are read once, not once for each string.

        Of strings with the same words from different places none is meant for certain, so they are left out.
        """
        sizes: defaultdict[str, set[int]] = defaultdict(set)
        given: dict[str, Tracked | None] = {}
        for string in self._given:
            sizes[str.__getitem__(string, slice(_HEAD))].add(len(string))
            before = given.setdefault(string, string)
            if before is not None and before.runs() != string.runs():
                given[string] = None
        for start in range(len(words) - _HEAD + 1) if given else ():
            for size in sizes.get(words[start : start + _HEAD], ()):
                found = given.pop(words[start : start + size], None)
                if found is not None:
                    yield found

    def _named(self, words: str) -> Iterable[tuple[int, int]]:
        named = (int(number) for run in _NAMED.finditer(words) for number in re.findall(r"\d+", run[0]))
        wanted = sorted({number for number in islice(named, _MOST_NAMED) if number})
        line, start = 1, 0
        for number in wanted:
            while 0 < line < number:
                start = self._text.find("\n", start) + 1
                line = line + 1 if start else 0
            if line != number or start >= len(self._text):
                return
            end = self._text.find("\n", start)
            yield start, len(self._text) if end < 0 else end


def _strings(answer: object, depth: int = 0) -> Iterator[str]:
    """Yield the answer itself if it is a string, otherwise the strings in it that know their places."""
    if isinstance(answer, str):
        if depth == 0 or isinstance(answer, Tracked):
            yield answer
    elif isinstance(answer, (list, tuple, set, frozenset, dict)) and depth < _DEEPEST:
        for item in answer.values() if isinstance(answer, dict) else answer:
            yield from _strings(item, depth + 1)
