"""Regular expressions that a person types: none of them holds the screen, however it backtracks."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator

AT_ONCE = 0.25
"""Seconds of computing that a search may take in one go."""
TOO_SLOW = "This pattern takes too long: it tries too many ways."


class PatternError(ValueError):
    """It cannot be searched for; the message is a sentence."""


class TooSlow(PatternError):
    """The time was up."""

    def __init__(self) -> None:
        super().__init__(TOO_SLOW)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ends what is computed here by `TooSlow`. Main thread only, and only around what nothing is left half done of: the engine of regular
    expressions, which keeps the interpreter to itself, looks for signals there."""
    armed = True

    def rings(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise TooSlow

    before = signal.signal(signal.SIGVTALRM, rings)
    timer = signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, *timer)
        if callable(before) or before is signal.SIG_IGN:  # the handler of a program that has opened the screen
            signal.signal(signal.SIGVTALRM, before)
        # Where there was none, ours stays: a signal that comes late would end the program.


def pattern_of(words: str, *, regex: bool, any_case: bool) -> re.Pattern[str]:
    """Words as they are, or a regular expression. Raises `PatternError`."""
    flags = (re.IGNORECASE if any_case else 0) | re.MULTILINE
    if not regex:
        return re.compile(re.escape(words), flags)
    try:
        with within(AT_ONCE):
            return re.compile(words, flags)
    except re.error as error:
        raise PatternError(f"This is no regular expression: {error.msg}{_where(error)}.") from None
    except (RecursionError, OverflowError, MemoryError):
        raise PatternError("This regular expression is too large.") from None


def spans(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Where it stands in a text; what it finds of no length is nothing that could be shown."""
    return (found.span() for found in pattern.finditer(text) if found.end() > found.start())


def _where(error: re.error) -> str:
    return "" if error.pos is None else f" (at character {error.pos + 1})"
