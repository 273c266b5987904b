"""Tools for texts that are too long to print. Results are recognised by identity, because
libraries (yaml) reject subclasses of str."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Literal, NamedTuple

Form = Literal["markdown", "plain"]
"""How a cell shows a text that is its value: as Markdown, or as it is, without quotes."""

MAX_SHOWN_LINE_CHARS = 500
"""Characters of a line that `grep` shows."""
LONG_LINE_CHARS = 10_000
"""Longer lines are cut inside."""
_MAX_MARKED_TEXTS = 100
_MAX_MARKED_CHARS = 10_000_000
"""Characters of all marked texts."""
_MAX_SHORTENED_CHARS = 100
"""Characters that a part may lose so that it ends between words."""


class _MarkedText(NamedTuple):
    """A text that a tool has returned."""

    text: str
    form: Form


_MARKED: deque[_MarkedText] = deque(maxlen=_MAX_MARKED_TEXTS)
"""Kept alive, so that no other object gets their identity."""


def mark_as_text(text: str, form: Form = "plain") -> str:
    """Return a text that is shown in this form if it is the value of a cell."""
    _MARKED.append(_MarkedText(text, form))
    total_chars = sum(len(marked.text) for marked in list(_MARKED))
    while len(_MARKED) > 1 and total_chars > _MAX_MARKED_CHARS:
        total_chars -= len(_MARKED.popleft().text)
    return text


def text_form(value: object) -> Form | None:
    """Return the form of a marked text; None for other objects, also for equal texts."""
    for marked in list(_MARKED):
        if marked.text is value:
            return marked.form
    return None


def forget_short_texts() -> None:
    """Forget texts of one character: Python shares such objects with the user's code."""
    for marked in list(_MARKED):
        if len(marked.text) < 2:
            _MARKED.remove(marked)


def peek(text: str, n: int = 2000, start: int = 0) -> str:
    """Return n characters of a text, from a start (negative: from the end), with a line that says where they are.

    text: the text; of other objects, their str().
    Example: print(peek(log, 500)), print(peek(log, 500, -500)).
    """
    text = str(text)
    begin = max(0, len(text) + start) if start < 0 else min(start, len(text))
    end = min(len(text), begin + max(0, n))
    position = f"[characters {begin:,} to {end:,} of {len(text):,}]"
    return mark_as_text(f"{position}\n{text[begin:end]}")


def grep(text: str, pattern: str, context: int = 0, max_matches: int = 50) -> str:
    """Return the lines of a text that match a regular expression, each with its number.

    context: lines shown before and after each match. max_matches: at most this many matching lines; more are counted.
    Raises ValueError, with a sentence, if the pattern is not a regular expression.
    Example: print(grep(log, r"ERROR|FATAL", context=2)).
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    lines = str(text).split("\n")
    hits = [index for index, line in enumerate(lines) if compiled.search(line)]
    shown_lines = _lines_around(lines, hits[:max_matches], context)
    omitted_count = len(hits) - len(hits[:max_matches])
    if omitted_count:
        shown_lines.append(
            f"… {omitted_count:,} more matching lines; narrow the pattern or raise max_matches"
        )
    return mark_as_text("\n".join(shown_lines) or f"no line matches {pattern!r}")


def _lines_around(lines: list[str], hits: list[int], context: int) -> list[str]:
    """Return lines with their numbers, and with lines around them.

    Args:
        lines: All lines of a text.
        hits: The indexes of those that match, in order.
        context: How many lines before and after each.
    """
    matching = frozenset(hits)
    shown_lines: list[str] = []
    next_index = 0
    """The index of the line after the last one that is shown."""
    for hit in hits:
        start = max(next_index, hit - context)
        if context and shown_lines and start > next_index:
            shown_lines.append("--")
        end = min(len(lines), hit + context + 1)
        for index in range(start, end):
            mark = ":" if index in matching else "-"
            shown_lines.append(f"{index + 1}{mark} {_shorten_line(lines[index])}")
        next_index = max(next_index, end)
    return shown_lines


def _shorten_line(line: str) -> str:
    if len(line) <= MAX_SHOWN_LINE_CHARS:
        return line
    return f"{line[:MAX_SHOWN_LINE_CHARS]}… ({len(line):,} characters)"


def partition(text: str, n: int = 10) -> list[str]:
    """Cut a text into at most n parts of about the same size, at the ends of lines; joined, they are the text again.

    Only lines of more than 10,000 characters are cut inside. Raises ValueError if n is less than 1.
    Example: parts = partition(log, 20).
    """
    return [text[start:end] for start, end in partition_spans(text, n)]


def partition_spans(text: str, n: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the parts of `partition`, in characters. Raises `ValueError` if `n` is
    less than 1."""
    if n < 1:
        raise ValueError("n must be at least 1")
    start = 0
    for remaining_parts in range(n, 0, -1):
        if start >= len(text):
            return
        part_chars = -(-(len(text) - start) // remaining_parts)
        end = _cut_near(text, start, start + part_chars, max(part_chars, LONG_LINE_CHARS))
        yield start, end
        start = end


def _cut_near(text: str, start: int, aim: int, max_further_chars: int) -> int:
    """Return where a part ends: at the first line end from `aim` on, or after the last blank before
    it, or at `aim`.

    Args:
        text: The text.
        start: Where the part begins.
        aim: Where it should end.
        max_further_chars: How far the line end may be away.
    """
    if aim >= len(text):
        return len(text)
    line_end = text.find("\n", aim - 1, aim + max_further_chars)
    if line_end >= 0:
        return line_end + 1
    if aim + LONG_LINE_CHARS > len(text):
        return len(text)
    last_blank = text.rfind(" ", max(start, aim - _MAX_SHORTENED_CHARS), aim)
    return aim if last_blank < 0 else last_blank + 1
