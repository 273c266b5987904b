"""Finds a regular expression in a text of any length, line by line. Call it on a thread: it waits,
and `regex` lets other threads run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.patterns import MatchSpan, Pattern, PatternError
from mahtab_tui.tui.screens.inspector.text_source import BLOCK, TextSource

PART = 2.0
"""Seconds that one block may take."""
WHOLE = 20.0
"""Seconds that a search may take."""


def find_pattern(
    source: TextSource, words: str, start: int, *, backwards: bool
) -> MatchSpan | None:
    """Find the next match from a place on, or the last one before it; wraps around. A pattern
    without capitals ignores case.

    A match lies in one line, or in one block of a longer line. Raises `KernelError`.
    """
    until = time.monotonic() + WHOLE
    try:
        pattern = Pattern(
            words, regex=True, any_case=not any(map(str.isupper, re.sub(r"\\.", "", words)))
        )
        for block, first, last in _places(source.size, start, backwards=backwards):
            if time.monotonic() > until:
                raise KernelError(f"Not found within {WHOLE:.0f} s, because the text is very long.")
            text, begin = _lines(source, block)
            found = _match(
                pattern,
                text,
                range(max(0, first - begin), max(0, last - begin)),
                backwards=backwards,
            )
            if found is not None:
                return begin + found[0], begin + found[1]
    except PatternError as error:
        raise KernelError(str(error)) from None
    return None


def _match(pattern: Pattern, text: str, begins: range, *, backwards: bool) -> MatchSpan | None:
    """Find the first match (backwards: the last one) that begins in a range of places."""
    found = None
    for span in pattern.spans(text, PART, begins.start):
        if span[0] >= begins.stop:
            break
        found = span
        if not backwards:
            break
    return found


def _places(size: int, start: int, *, backwards: bool) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks in search order, each with the range in which a match may begin."""
    count, here = -(-size // BLOCK), min(start, max(0, size - 1)) // BLOCK
    if backwards:
        yield from ((block, 0, start) for block in range(here, -1, -1))
        yield from ((block, start, size) for block in range(count - 1, here - 1, -1))
    else:
        yield from ((block, start, size) for block in range(here, count))
        yield from ((block, 0, start) for block in range(here + 1))


def _lines(source: TextSource, block: int) -> tuple[str, int]:
    """Read the lines that begin in a block, and return where they begin; of a line longer than a
    block, only the block."""
    text, begin = source.fetch(block).text, block * BLOCK
    if block and not source.fetch(block - 1).text.endswith("\n") and "\n" in text:
        cut = text.index("\n") + 1
        text, begin = text[cut:], begin + cut
    if not text.endswith("\n") and begin + len(text) < source.size:
        rest, newline, _ = source.fetch(block + 1).text.partition("\n")
        text += rest if newline else ""
    return text, begin
