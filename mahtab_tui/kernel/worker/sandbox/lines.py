"""Finds the lines that match a pattern, quickly even in 100 MB of text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import Pattern

from ..text_tools import LONG_LINE

_NEGATED = re.compile(r"\[\^(?:\\.|[^\]\\])*\]?", re.DOTALL)
_ACROSS = re.compile(r"\n|\\n|\[\\s\\S\]|\[\\S\\s\]|\(\?[aiLmux]*s")
"""Occurs in patterns that are meant to match more than one line."""

_MAY_CROSS = re.compile(r"\[\^|\\[sDWAZzBx0u\n]|\(\?(?!:|P<|[aiLm]+\))", re.DOTALL)
"""May match a line break or look beyond it, so that searching the whole text and searching line by
line differ."""

_LEADING = re.compile(r"((?:\(\?[aiLmu]+\))?)\^?\.\*(?![+*{])\??")
"""A start that does not affect which lines match, but makes the search try each line again from
every character."""


AROUND = 300
"""Characters before and after a match that `surroundings` includes."""


def compile_pattern(pattern: object) -> Pattern[str]:
    """Compile a pattern, so that ``^`` and ``$`` match at line ends. Raises ValueError for an
    invalid one, TypeError for other types."""
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return re.compile(pattern.pattern, pattern.flags | re.MULTILINE)
    if not isinstance(pattern, str):
        raise TypeError(
            f"pattern must be a str (a regular expression), not {type(pattern).__name__}"
        )
    try:
        return re.compile(pattern, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{pattern[:200]!r} is not a regular expression: {error}. For plain text with special characters use re.escape(text)."
        ) from None


def matching_lines(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end (without the line break) of each matching line, in order.

    A pattern that contains line breaks (``\\n``, ``[\\s\\S]``, ``(?s)``) matches across lines; all
    lines of a match are then one. A line break at the very end of the text does not start another
    line.
    """
    source = _NEGATED.sub("", pattern.pattern)
    if pattern.flags & re.DOTALL or _ACROSS.search(source):
        return _in_whole(text, pattern)
    if pattern.flags & re.VERBOSE or _MAY_CROSS.search(pattern.pattern):
        return _by_line(text, pattern)
    if found := _LEADING.match(pattern.pattern):
        pattern = re.compile(found[1] + pattern.pattern[found.end() :], pattern.flags)
    return _in_whole(text, pattern)


def surroundings(
    text: str, pattern: Pattern[str], start: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield start and end of the text around each match in a line, merged if they touch; for lines
    that are too long to show."""
    low = high = -1
    for found in pattern.finditer(text, start, end):
        if high < 0 or found.start() - AROUND > high:
            if high >= 0:
                yield low, high
            low = max(start, found.start() - AROUND)
        high = min(end, found.end() + AROUND)
    if high >= 0:
        yield low, high


def line_of(text: str, place: int) -> tuple[int, int]:
    """Return start and end of the line that contains a character."""
    end = text.find("\n", place)
    return text.rfind("\n", 0, place) + 1, len(text) if end < 0 else end


def widened(text: str, start: int, end: int, lines: int) -> tuple[int, int]:
    """Extend a run of lines by so many lines before and after it, but not beyond one that is too
    long to show."""
    for _ in range(lines):
        before = text.rfind("\n", 0, max(0, start - 1)) + 1
        if start - before > LONG_LINE:
            break
        start = before
    for _ in range(lines):
        if end + 1 >= len(text):
            break
        after = line_of(text, end + 1)[1]
        if after - end > LONG_LINE:
            break
        end = after
    return start, end


def _in_whole(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Search the whole text at once, which is ten times as fast as by line if the pattern starts
    with plain characters."""
    place = 0
    while place < len(text):
        found = pattern.search(text, place)
        if found is None:
            return
        start, end = line_of(text, found.start())
        if found.end() - 1 > end:
            end = line_of(text, found.end() - 1)[1]
        if start < len(text):
            yield start, end
        place = end + 1


def _by_line(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        if pattern.search(str.__getitem__(text, slice(start, end))):
            yield start, end
        start = end + 1
