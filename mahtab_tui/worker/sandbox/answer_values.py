"""Finds the values in an answer (names, numbers, lines), and where they stand in a text. All positions
count characters.

Sandboxes look for evidence by them (`evidence`), and so does the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

Span = tuple[int, int]
"""The start of a part of a text, and its end, exclusive."""

_MAX_SCANNED_CHARS = 100_000_000
"""Characters of the text to read for the values of one answer."""
_MAX_VALUES = 1_000
"""Values of an answer that are looked for."""
_MAX_OCCURRENCES = 10_000
"""Most occurrences of a value to check; most are within other words."""
_MAX_NAMED_LINES = 1_000

_QUOTATION = re.compile(
    r'"([^"\n]{4,2000})"|“([^“”\n]{4,2000})”|`([^`\n]{4,2000})`|(?<!\w)\'([^\'\n]{4,2000})\''
)
_BETWEEN_VALUES = re.compile(r"[\n,;|\t]|: ")
_BETWEEN_WORDS = re.compile(r"[\s,;|\"'`“”()\[\]{}<>]+")
_AROUND_VALUES = " \t\r\n-*•.:\"'`“”()[]{}<>"
"""Characters that are removed from both ends of a value."""
_MORE_NUMBERS = r"(?:\s*(?:,|-|–|to|and)\s*\d{1,9})"
_LINE_NUMBERS = re.compile(
    rf"\b(?:line\s+(\d{{1,9}}{_MORE_NUMBERS}*)|lines\s+(\d{{1,9}}{_MORE_NUMBERS}+))", re.IGNORECASE
)
"""\"lines 6000" counts lines; "lines 6000 and 6001" names them."""


def answer_values(words: str) -> list[str]:
    """Return the values in an answer, longest first: all of it, its lines, quotations, items, and
    words with digits, unless they are short."""
    values = {words, *words.splitlines(), *_BETWEEN_VALUES.split(words)}
    values.update("".join(groups) for groups in _QUOTATION.findall(words))
    values.update(word for word in _BETWEEN_WORDS.split(words) if re.search(r"\d", word))
    stripped_values = {value.strip(_AROUND_VALUES) for value in values}
    telling_values = [value for value in stripped_values if _is_telling(value)]
    telling_values.sort(key=lambda value: (-len(value), value))
    return telling_values[:_MAX_VALUES]


def _is_telling(value: str) -> bool:
    """Return whether a value is long enough to be there not just by chance."""
    if value.isdigit():
        return len(value) > 3
    return len(value) > 2


def find_values(words: str, text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """Yield start and end of each value of an answer that occurs exactly once in these spans of a
    text."""
    searched_chars = sum(end - start for start, end in spans) + 1
    for value in answer_values(words)[: _MAX_SCANNED_CHARS // searched_chars]:
        if span := find_once(value, text, spans):
            yield span


def find_once(words: str, text: str, spans: Sequence[Span]) -> Span | None:
    """Return start and end of words that occur exactly once in these spans of a text; None if they do
    not. Within longer words they do not count."""
    starts: list[int] = []
    for span_start, span_end in spans:
        starts += islice(_find_words(words, text, span_start, span_end), 2 - len(starts))
    if len(starts) == 1:
        return starts[0], starts[0] + len(words)
    return None


def stands_in(words: str, text: str) -> bool:
    """Return whether a text contains words, not only within longer ones."""
    return next(_find_words(words, text, 0, len(text)), None) is not None


def _find_words(words: str, text: str, search_start: int, search_end: int) -> Iterator[int]:
    """Yield where words start that are not within longer ones."""
    start = str.find(text, words, search_start, search_end)
    for _ in range(_MAX_OCCURRENCES):
        if start < 0:
            return
        end = start + len(words)
        if not _is_within_word(text, start) and not _is_within_word(text, end):
            yield start
        start = str.find(text, words, end, search_end)


def _is_within_word(text: str, offset: int) -> bool:
    if offset == 0:
        return False
    around = str.__getitem__(text, slice(offset - 1, offset + 1))
    return len(around) == 2 and around.isalnum()


def named_lines(words: str) -> set[int]:
    """Return the numbers of the lines that an answer names, as in "line 5" and "lines 5 to 7"."""
    numbers = (
        int(number)
        for match in _LINE_NUMBERS.finditer(words)
        for number in re.findall(r"\d+", match[0])
    )
    return {number for number in islice(numbers, _MAX_NAMED_LINES) if number}
