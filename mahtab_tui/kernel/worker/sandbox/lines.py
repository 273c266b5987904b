"""The lines of a text that a pattern matches, quickly also where the text has 100 MB."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import Pattern

from ..text_tools import LONG_LINE

_NEGATED = re.compile(r"\[\^(?:\\.|[^\]\\])*\]?", re.DOTALL)
_ACROSS = re.compile(r"\n|\\n|\[\\s\\S\]|\[\\S\\s\]|\(\?[aiLmux]*s")
"""What a pattern has that is meant to match more than one line."""

_MAY_CROSS = re.compile(r"\[\^|\\[sDWAZzBx0u\n]|\(\?(?!:|P<|[aiLm]+\))", re.DOTALL)
"""What may match a line's end, or sees beyond it: with these, the whole text and its lines by themselves are not the same."""

_LEADING = re.compile(r"((?:\(\?[aiLmu]+\))?)\^?\.\*(?![+*{])\??")
"""A beginning that says nothing of whether a line matches, but makes the search try the line again from each of its characters."""


AROUND = 300
"""Characters before and after a match that `surroundings` gives."""


def compile_pattern(pattern: object) -> Pattern[str]:
    """A pattern, given as text or compiled, with ``^`` and ``$`` at the ends of lines.

    Raises ValueError where it is not a regular expression, TypeError where it is no pattern at all.
    """
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return re.compile(pattern.pattern, pattern.flags | re.MULTILINE)
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be a str (a regular expression), not {type(pattern).__name__}")
    try:
        return re.compile(pattern, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{pattern[:200]!r} is not a regular expression: {error}. For plain text with special characters use re.escape(text)."
        ) from None


def matching_lines(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Start and end (without its line end) of each line that matches, in order.

    A pattern that names line ends (``\\n``, ``[\\s\\S]``, ``(?s)``) is matched across lines; all lines of a match are then one.
    A line end at the very end of the text begins no further line.
    """
    source = _NEGATED.sub("", pattern.pattern)
    if pattern.flags & re.DOTALL or _ACROSS.search(source):
        return _in_whole(text, pattern)
    if pattern.flags & re.VERBOSE or _MAY_CROSS.search(pattern.pattern):
        return _by_line(text, pattern)
    if found := _LEADING.match(pattern.pattern):
        pattern = re.compile(found[1] + pattern.pattern[found.end() :], pattern.flags)
    return _in_whole(text, pattern)


def surroundings(text: str, pattern: Pattern[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of what stands around each match in a line, those that meet as one; for lines too long to be shown."""
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
    """Start and end of the line that holds a character."""
    end = text.find("\n", place)
    return text.rfind("\n", 0, place) + 1, len(text) if end < 0 else end


def widened(text: str, start: int, end: int, lines: int) -> tuple[int, int]:
    """A run of lines with so many lines before and after it, up to one that is too long to be shown."""
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
    """One search of the whole text: where the pattern begins with plain characters, ten times as fast as by line."""
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
        if pattern.search(text[start:end]):
            yield start, end
        start = end + 1
