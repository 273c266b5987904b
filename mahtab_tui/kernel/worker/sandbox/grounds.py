"""Finds what an answer rests on: the parts of the text that it quotes, and the lines that it names by number."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import islice

from .parts import Part, place_of

_HEAD = 16
_QUOTED = range(_HEAD, 2_001)
"""Lengths of parts that are looked for in an answer; shorter ones are in many answers by chance."""
_REMEMBERED = 5_000
_MORE = r"(?:\s*(?:,|-|–|to|and)\s*\d{1,9})"
_NAMED = re.compile(rf"\b(?:line\s+(\d{{1,9}}{_MORE}*)|lines\s+(\d{{1,9}}{_MORE}+))", re.IGNORECASE)
"""\"lines 6000" counts lines; "lines 6000 and 6001" names them."""
_MOST_NAMED = 1_000


class Grounds:
    """Remembers the latest parts that were given to the code."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._given: deque[Part] = deque(maxlen=_REMEMBERED)

    def give(self, parts: Iterable[Part]) -> None:
        """Remember parts that are given to the code."""
        self._given.extend(part for part in parts if len(part) in _QUOTED)

    def of(self, answer: object, words: str, numbered: bool) -> list[tuple[int, int]]:
        """Return the places in the text that an answer rests on, in order.

        answer: as the code gave it; a part, or parts in a list or dict, know their places. words: the answer as text.
        numbered: whether line numbers in it are those of the text.
        """
        strings = _strings(answer)
        found = {place for value in strings if (place := place_of(value, self._text))}
        known = {str(value) for value in strings if isinstance(value, Part)}  # where the text has them again, nothing rests on that
        found.update((part.start, part.end) for part in self._quoted(words) if part not in known)
        if numbered:
            found.update(self._named(words))
        return sorted(found)

    def _quoted(self, words: str) -> Iterator[Part]:
        """Yield the remembered parts that are in the words, which may be long: they are read once, not once for each part."""
        sizes: defaultdict[str, set[int]] = defaultdict(set)
        parts: defaultdict[str, list[Part]] = defaultdict(list)
        for part in self._given:
            sizes[part[:_HEAD]].add(len(part))
            parts[part].append(part)
        for start in range(len(words) - _HEAD + 1) if parts else ():
            for size in sizes.get(words[start : start + _HEAD], ()):
                yield from parts.pop(words[start : start + size], ())

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


def _strings(answer: object) -> list[str]:
    """Return the answer itself if it is a string, otherwise the parts that it contains."""
    if isinstance(answer, str):
        return [answer]
    if not isinstance(answer, (list, tuple, dict)):
        return []
    items = list(answer.values() if isinstance(answer, dict) else answer)
    return [item for item in items if isinstance(item, Part)]
