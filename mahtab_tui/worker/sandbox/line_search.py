"""Searches a text for the lines that match a regular expression.

A search in all of the text at once is ten times as fast as one in each line, but some patterns then
match differently: ``\\s`` may match a line break, ``\\A`` matches only once. All positions count
characters. Texts may be a subclass of `str` whose methods return pieces with their place, so those of
`str` itself are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import Pattern

from ..tools.text_tools import LONG_LINE_CHARS

_CONTEXT_CHARS = 300
"""Characters to return on each side of a match in a long line."""

_NEGATED_SET = re.compile(r"\[\^(?:\\.|[^\]\\])*\]?", re.DOTALL)
"""A set such as ``[^,]``. It may name the line break, so as not to match it."""
_LINE_BREAK = re.compile(r"\n|\\n|\[\\s\\S\]|\[\\S\\s\]|\(\?[aiLmux]*s")
"""What somebody writes to match across lines."""
_DIFFERS_IN_LINES = re.compile(r"\[\^|\\[sDWAZzBx0u\n]|\(\?(?!:|P<|[aiLm]+\))", re.DOTALL)
"""What may match differently in all of the text than in a single line."""
_ANY_START = re.compile(r"((?:\(\?[aiLmu]+\))?)\^?\.\*(?![+*{])\??")
"""``.*`` at the start of a pattern, after the flags. It changes no result, but with it the search
tries each character of a line."""


def compile_pattern(pattern: object) -> Pattern[str]:
    """Compile a pattern whose ``^`` and ``$`` match at the ends of lines.

    Args:
        pattern: A str, or a compiled pattern of str.

    Raises:
        TypeError: It is something else.
        ValueError: It is not a regular expression. The message is for the author of the code.
    """
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


def find_matches(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of what a search returns, in order: each matching line without its line
    break, and of a long line only what is around each match."""
    for start, end in matching_lines(text, pattern):
        if end - start > LONG_LINE_CHARS:
            yield from _around_matches(text, pattern, start, end)
        else:
            yield start, end


def matching_lines(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end (without the line break) of each matching line, in order. All lines of a
    match across lines are treated as one.

    Args:
        text: The text to search.
        pattern: As `compile_pattern` returns it.
    """
    expression = pattern.pattern
    is_across_lines = _LINE_BREAK.search(_NEGATED_SET.sub("", expression))
    if pattern.flags & re.DOTALL or is_across_lines:
        return _search_whole(text, pattern)
    if pattern.flags & re.VERBOSE or _DIFFERS_IN_LINES.search(expression):
        return _search_each_line(text, pattern)
    any_start = _ANY_START.match(expression)
    if any_start:
        pattern = re.compile(any_start[1] + expression[any_start.end() :], pattern.flags)
    return _search_whole(text, pattern)


def find_line(text: str, offset: int) -> tuple[int, int]:
    """Return start and end (without the line break) of the line at an offset."""
    return str.rfind(text, "\n", 0, offset) + 1, line_end(text, offset)


def line_end(text: str, offset: int) -> int:
    """Return where the line at an offset ends, without its line break."""
    end = str.find(text, "\n", offset)
    if end < 0:
        return len(text)
    return end


def extend_lines(text: str, start: int, end: int, line_count: int) -> tuple[int, int]:
    """Extend a run of lines by others before and after it, but not beyond one that is too long to
    show.

    Args:
        line_count: The lines on each side.
    """
    for _ in range(line_count):
        line_start = text.rfind("\n", 0, max(0, start - 1)) + 1
        if start - line_start > LONG_LINE_CHARS:
            break
        start = line_start
    for _ in range(line_count):
        if end + 1 >= len(text):
            break
        next_end = line_end(text, end + 1)
        if next_end - end > LONG_LINE_CHARS:
            break
        end = next_end
    return start, end


def _around_matches(
    text: str, pattern: Pattern[str], line_start: int, end_of_line: int
) -> Iterator[tuple[int, int]]:
    """Yield what is around each match in a line, as one span where two overlap."""
    start = -1
    end = -1
    for match in pattern.finditer(text, line_start, end_of_line):
        is_first = end < 0
        is_far_from_last = match.start() - _CONTEXT_CHARS > end
        if is_far_from_last and not is_first:
            yield start, end
        if is_first or is_far_from_last:
            start = max(line_start, match.start() - _CONTEXT_CHARS)
        end = min(end_of_line, match.end() + _CONTEXT_CHARS)
    if end >= 0:
        yield start, end


def _search_whole(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the matching lines by one search in all of the text."""
    offset = 0
    while offset < len(text):
        match = pattern.search(text, offset)
        if match is None:
            return
        start, end = find_line(text, match.start())
        last_matched = match.end() - 1
        if last_matched > end:
            end = line_end(text, last_matched)
        if start < len(text):
            yield start, end
        offset = end + 1


def _search_each_line(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the matching lines by a search in each of them."""
    start = 0
    while start < len(text):
        end = line_end(text, start)
        if pattern.search(str.__getitem__(text, slice(start, end))):
            yield start, end
        start = end + 1
