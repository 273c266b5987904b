"""Finds the lines of a text that share words with a query, before a model is asked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

MOST_CHARACTERS = 5_000_000
"""Characters of a text that are searched, its beginning: a few hundredths of a second."""
_LONGEST_QUERY = 2_000
_MOST_WORDS = 8
_MOST_TRIED = 30
_MOST_LINES = 4
_LONGEST_LINE = 200
_EVERYWHERE = 0.9
"""Share of the lines from which a word says nothing."""
_NEAR = 0.3
"""Share of the best line's score that another line needs to be shown."""
_RARE = 3
"""Lines that a word has at most which leads from one line to another."""
_BEFORE = 2
"""Lines shown before the best one where sentences go on."""

_COMMON = frozenset(
    "a about all an and any are as at be been by can did do does each for from had has have how in"
    " into is it its many more most much no not of on one or other out over some than that the their"
    " then there these they this to under up was were what when where which who whose why will with"
    " would you your answer list name names number such tell text find give line lines".split()
)
_EDGES = " \t\n\r.,;:!?\"'()[]{}<>`*"


class QueryLines(NamedTuple):
    words: tuple[str, ...]
    """Words of the query as the text writes them: all that it has if some line has all of them,
    otherwise the rarest."""
    lines: int
    shown: tuple[tuple[int, str], ...]
    """The lines with most words, rare ones first, and lines that these lead to: number, line."""
    complete: bool = False


def find_query_lines(query: str, text: str, *, header: bool = False) -> QueryLines:
    """Find the lines of a text that share words with a query."""
    text = text[:MOST_CHARACTERS]
    first = text.find("\n") + 1 if header else 0
    size = text.count("\n", first) + 1
    lower = text.lower()
    lower = lower if len(lower) == len(text) else ""  # letters may become two
    found: dict[str, list[int]] = {}
    words = list(islice(_words(query[:_LONGEST_QUERY]), _MOST_TRIED))
    for word in words:
        starts, written = list(_starts(word, text, first)), word
        if not starts:
            for other in (word.lower(), word.lower().removesuffix("s")):
                if starts := list(_starts(other, lower, first)):
                    at = lower.find(other, starts[0])
                    written = text[at : at + len(other)]
                    break
        if starts and len(starts) < size * _EVERYWHERE and len(found) < _MOST_WORDS:
            found[written] = starts
    if not found:
        return QueryLines((), 0, ())
    scores: dict[int, float] = {}
    for starts in found.values():
        for start in starts:
            scores[start] = scores.get(start, 0.0) + math.log(1 + size / len(starts))
    every = set.intersection(*map(set, found.values()))
    ranked = sorted(scores, key=lambda start: (-scores[start], start))[:_MOST_LINES]
    best = ranked[0]
    shown = {start for start in ranked if scores[start] > scores[best] * _NEAR}
    if len(every) <= _MOST_LINES:  # the query is not about all of them
        if not every and not header:  # in prose, sentences go on in the next line
            shown = {*ranked[:2], *_around(text, best)} & (shown | _around(text, best))
        shown |= _related(text, best, set(found), first)
    rarest = min(found, key=lambda word: len(found[word]))
    return QueryLines(
        tuple(found) if every else (rarest,),
        len(every) or len(found[rarest]),
        tuple(
            (text.count("\n", 0, start) + 1, line)
            for start in sorted(shown)
            if (line := _line(text, start).strip()[:_LONGEST_LINE])
        ),
        complete=bool(every) and len(found) == len(words),
    )


def _words(query: str) -> Iterator[str]:
    seen = set()
    for part in query.split():
        word = re.sub(r"['’]s$", "", part.strip(_EDGES))
        if word.lower() not in _COMMON and len(word) > 1 and word not in seen:
            seen.add(word)
            yield word


def is_always_whole(word: str, text: str) -> bool:
    """Tell whether no line has a word only within other words, as "12" in "4123"."""
    text = text[:MOST_CHARACTERS]
    return list(_starts(word, text, 0)) == list(_starts(word, text, 0, whole=False))


def _starts(word: str, text: str, first: int, *, whole: bool = True) -> Iterator[int]:
    """Yield the starts of the lines that have a word, in linear time. whole: not within others."""
    at = text.find(word, first)
    while at >= 0:
        end = at + len(word)
        if not whole or not (_in_word(text[at - 1 : at]) or _in_word(text[end : end + 1])):
            yield text.rfind("\n", 0, at) + 1
            end = text.find("\n", end)
            if end < 0:
                return
        at = text.find(word, end)


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start:] if end < 0 else text[start:end]


def _around(text: str, start: int) -> set[int]:
    starts = {start}
    before = start
    for _ in range(_BEFORE):
        if before:
            before = text.rfind("\n", 0, before - 1) + 1
            starts.add(before)
    if after := text.find("\n", start) + 1:
        starts.add(after)
    return starts


def _related(text: str, best: int, known: set[str], first: int) -> set[int]:
    """Return lines that share a rare word with the best line: the next step of a question such as
    "where does the owner of badge 12 work?"."""
    related: dict[int, None] = {}
    for word in _words(_line(text, best)[:_LONGEST_LINE]):
        if word not in known:
            starts = list(_starts(word, text, first))
            if 1 < len(starts) <= _RARE:
                related |= dict.fromkeys(starts)
    return set(list(related)[:_MOST_LINES])
