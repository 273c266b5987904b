"""Tools for texts that are too long to print. Results are recognised by identity, because
libraries (yaml) reject subclasses of str."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Literal

Form = Literal["markdown", "plain"]

_TEXTS = 100
_CHARACTERS = 10_000_000


_RETURNED: deque[tuple[str, Form]] = deque(maxlen=_TEXTS)
"""Kept alive, so that no other object gets their identity."""

MAX_SHOWN_LINE_CHARS = 500

LONG_LINE_CHARS = 10_000


def mark_as_text(text: str, form: Form = "plain") -> str:
    _RETURNED.append((text, form))
    size = sum(len(known_text) for known_text, _ in list(_RETURNED))
    while len(_RETURNED) > 1 and size > _CHARACTERS:
        size -= len(_RETURNED.popleft()[0])
    return text


def text_form(value: object) -> Form | None:
    return next((form for text, form in list(_RETURNED) if text is value), None)


def forget_short_texts() -> None:
    """Forget texts of one character: Python shares such objects with the user's code."""
    for known_text in list(_RETURNED):
        if len(known_text[0]) < 2:
            _RETURNED.remove(known_text)


def peek(text: str, n: int = 2000, start: int = 0) -> str:
    """Return n characters of a text, from a start (negative: from the end), with a line that says where they are.

    text: the text; of other objects, their str().
    Example: print(peek(log, 500)), print(peek(log, 500, -500)).
    """
    text = str(text)
    if start < 0:
        begin = max(0, len(text) + start)
    else:
        begin = min(start, len(text))
    end = min(len(text), begin + max(0, n))
    return mark_as_text(f"[characters {begin:,} to {end:,} of {len(text):,}]\n{text[begin:end]}")


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
    hits = [number for number, line in enumerate(lines) if compiled.search(line)]
    shown_hits = hits[:max_matches]
    matching = frozenset(shown_hits)
    result: list[str] = []
    last_line = -1
    for hit in shown_hits:
        first_line = max(last_line + 1, hit - context)
        if context and result and first_line > last_line + 1:
            result.append("--")
        until = min(len(lines), hit + context + 1)
        for number in range(first_line, until):
            mark = ":" if number in matching else "-"
            line = lines[number]
            if len(line) > MAX_SHOWN_LINE_CHARS:
                line = f"{line[:MAX_SHOWN_LINE_CHARS]}… ({len(line):,} characters)"
            result.append(f"{number + 1}{mark} {line}")
        last_line = max(last_line, until - 1)
    if len(hits) > len(shown_hits):
        result.append(
            f"… {len(hits) - len(shown_hits):,} more matching lines; narrow the pattern or raise max_matches"
        )
    return mark_as_text("\n".join(result) if result else f"no line matches {pattern!r}")


def partition(text: str, n: int = 10) -> list[str]:
    """Cut a text into at most n parts of about the same size, at the ends of lines; joined, they are the text again.

    Only lines of more than 10,000 characters are cut inside. Raises ValueError if n is less than 1.
    Example: parts = partition(log, 20).
    """
    return [text[start:end] for start, end in partition_spans(text, n)]


def partition_spans(text: str, n: int) -> Iterator[tuple[int, int]]:
    if n < 1:
        raise ValueError("n must be at least 1")
    start = 0
    for parts_left in range(n, 0, -1):
        if start >= len(text):
            return
        size = -(-(len(text) - start) // parts_left)
        end = _cut_near(text, start, start + size, max(size, LONG_LINE_CHARS))
        yield start, end
        start = end


def _cut_near(text: str, start: int, aim: int, reach: int) -> int:
    """Return the first line end within reach from `aim` on, or the last blank before it, or `aim`."""
    if aim >= len(text):
        return len(text)
    line_end = text.find("\n", aim - 1, aim + reach)
    if line_end >= 0:
        return line_end + 1
    if aim + LONG_LINE_CHARS > len(text):
        return len(text)
    return (text.rfind(" ", max(start, aim - 100), aim) + 1) or aim
