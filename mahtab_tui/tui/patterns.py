"""Patterns that the user types: plain words, or a regular expression with a time limit, because it
may backtrack."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

MatchSpan = tuple[int, int]
"""Start and end of a match."""

AT_ONCE = 0.25
"""Seconds that a search on the main thread may take."""
LARGEST = 500_000
"""Characters of an expression times its repetitions, which `regex` expands when it compiles (a
million take 300 MB)."""
LONGEST = 10_000
"""Characters of an expression."""
TOO_SLOW = "This pattern takes too long to search for: simplify it."

_REPEATED = re.compile(r"\{(\d+)")


class PatternError(ValueError):
    """The pattern cannot be searched for; the message is a sentence."""


class PatternTimeout(PatternError):
    """The search took longer than it may."""

    def __init__(self) -> None:
        super().__init__(TOO_SLOW)


class Pattern:
    """Finds words or a regular expression in texts. Empty matches are skipped, because there is
    nothing to show."""

    def __init__(self, words: str, *, regex: bool, any_case: bool) -> None:
        """Raises `PatternError` if the words are no valid regular expression."""
        self._compiled: Any = (
            _compiled(words, any_case=any_case)
            if regex
            else re.compile(re.escape(words), re.IGNORECASE if any_case else 0)
        )
        self._limited = regex

    def spans(self, text: str, seconds: float = AT_ONCE, start: int = 0) -> Iterator[MatchSpan]:
        """Yield the matches in a text from a place on. Raises `PatternTimeout` after so many
        seconds of computing."""
        # `concurrent` lets other threads run meanwhile.
        limits = {"timeout": max(seconds, 0.001), "concurrent": True} if self._limited else {}
        try:
            for match in self._compiled.finditer(text, start, **limits):
                if match.end() > match.start():
                    yield match.span()
        except TimeoutError:
            raise PatternTimeout from None

    def spans_of_all(
        self, texts: Iterable[str], seconds: float = AT_ONCE
    ) -> Iterator[list[MatchSpan]]:
        """Yield the matches in each text. Raises `PatternTimeout` after so many seconds of
        computing for all of them."""
        end = time.thread_time() + seconds
        for text in texts:
            yield list(self.spans(text, end - time.thread_time()))


def _compiled(words: str, *, any_case: bool) -> Any:
    import regex

    if (
        len(words) > LONGEST
        or len(words) * math.prod(int(count[:9]) or 1 for count in _REPEATED.findall(words))
        > LARGEST
    ):
        raise PatternError("This regular expression is too large.")
    try:
        return regex.compile(words, (regex.IGNORECASE if any_case else 0) | regex.MULTILINE)
    except regex.error as error:
        where = "" if error.pos is None else f" (at character {error.pos + 1})"
        raise PatternError(f"Invalid regular expression: {error.msg}{where}.") from None
    except (RecursionError, OverflowError, MemoryError):
        raise PatternError("This regular expression is too large.") from None
