"""Finds what an answer rests on: the parts of the text that it quotes, and the lines that it names
by number."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import islice

from .parts import Part, Piece, plain

_HEAD = 16
_QUOTED = range(_HEAD, 2_001)
"""Lengths of parts that are looked for in an answer; shorter ones are in many answers by chance."""
_REMEMBERED = 5_000
_SHORTEST = 4
"""Characters of a quote that is looked for in the text."""
_SCANNED = 100_000_000
"""Characters of the text that are read for the quotes of one answer."""
_QUOTE = re.compile(
    r'"([^"\n]{4,2000})"|“([^“”\n]{4,2000})”|`([^`\n]{4,2000})`|(?<!\w)\'([^\'\n]{4,2000})\''
)
_MORE = r"(?:\s*(?:,|-|–|to|and)\s*\d{1,9})"
_NAMED = re.compile(rf"\b(?:line\s+(\d{{1,9}}{_MORE}*)|lines\s+(\d{{1,9}}{_MORE}+))", re.IGNORECASE)
"""\"lines 6000" counts lines; "lines 6000 and 6001" names them."""
_MOST_NAMED = 1_000
_DEEPEST = 4
"""Levels of lists in an answer that are looked through."""


class EvidenceFinder:
    """Remembers the latest parts that were given to the code."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._given: deque[Part] = deque(maxlen=_REMEMBERED)

    def remember(self, parts: Iterable[Part]) -> None:
        """Remember parts of the text that are given to the code."""
        self._given.extend(part for part in parts if len(part) in _QUOTED)

    def find(self, answer: object, words: str, numbered: bool) -> list[tuple[int, int]]:
        """Return the places on which an answer rests, in order.

        answer: as the code gave it, perhaps with pieces of the text in it. words: the answer as
        text. numbered: whether line numbers in it are those of the text.
        """
        pieces = list(_pieces(answer))
        known = {plain(piece) for piece in pieces}
        pieces += (
            part for part in self._quoted(words) if plain(part) not in known
        )  # a known one was taken elsewhere
        places = {(piece.start, piece.end) for piece in pieces}
        places.update(find_quotes(words, self._text))
        if numbered:
            places.update(self._named(words))
        return sorted(places)

    def _quoted(self, words: str) -> Iterator[Part]:
        """Yield the remembered parts that are in the words, which may be long: they are read once,
        not once for each part.

        Of parts with the same words from different places none is meant for certain, so they are
        left out.
        """
        sizes: defaultdict[str, set[int]] = defaultdict(set)
        given: dict[str, Part | None] = {}
        for part in self._given:
            sizes[str.__getitem__(part, slice(_HEAD))].add(len(part))
            before = given.setdefault(part, part)
            if before is not None and before.start != part.start:
                given[part] = None
        for start in range(len(words) - _HEAD + 1) if given else ():
            for size in sizes.get(words[start : start + _HEAD], ()):
                found = given.pop(words[start : start + size], None)
                if found is not None:
                    yield found

    def _named(self, words: str) -> Iterator[tuple[int, int]]:
        line, start = 1, 0
        for number in sorted(named_lines(words)):
            while 0 < line < number:
                start = str.find(self._text, "\n", start) + 1
                line = line + 1 if start else 0
            if line != number or start >= len(self._text):
                return
            end = str.find(self._text, "\n", start)
            yield start, len(self._text) if end < 0 else end


def find_quotes(words: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of what an answer quotes and the text has exactly once: the whole answer,
    its lines, and what is in quotation marks."""
    quotes = [
        words,
        *words.splitlines(),
        *(next(filter(None, found)) for found in _QUOTE.findall(words)),
    ]
    stripped = {quote.strip(" \t\n-*•") for quote in quotes}
    longest = sorted(
        (quote for quote in stripped if len(quote) >= _SHORTEST), key=len, reverse=True
    )
    for quote in longest[: _SCANNED // (len(text) + 1)]:
        start = str.find(text, quote)
        end = start + len(quote)
        if (
            start >= 0
            and str.find(text, quote, start + 1) < 0
            and not _within_word(text, start)
            and not _within_word(text, end)
        ):
            yield start, end


def named_lines(words: str) -> set[int]:
    """Return the numbers of the lines that an answer names."""
    named = (int(number) for run in _NAMED.finditer(words) for number in re.findall(r"\d+", run[0]))
    return {number for number in islice(named, _MOST_NAMED) if number}


def _within_word(text: str, place: int) -> bool:
    """Whether a place is between two characters of the same word."""
    around = str.__getitem__(text, slice(place - 1, place + 1)) if place else ""
    return len(around) == 2 and around.isalnum()


def _pieces(answer: object, depth: int = 0) -> Iterator[Piece]:
    """Yield the pieces of the text in an answer."""
    if isinstance(answer, Piece):
        yield answer
    elif isinstance(answer, (list, tuple, set, frozenset, dict)) and depth < _DEEPEST:
        for item in answer.values() if isinstance(answer, dict) else answer:
            yield from _pieces(item, depth + 1)
