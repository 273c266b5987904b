"""The outcome of a question."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

_ADJECTIVES = "above|corrected|first|given|last|previous|provided|python|same|second"
_SPEAKS_OF_CODE = re.compile(
    rf"\b(?:(?:the|this|your) (?:(?:{_ADJECTIVES}) )*(?:code|script|snippet|output)|(?:{_ADJECTIVES}) (?:code|output)|(?:code|output) (?:above|block))\b",
    re.IGNORECASE,
)


@dataclass
class Outcome:
    """The answer to a question, and its cost in seconds, model calls and tokens."""

    answer: str = ""
    codes: list[str] = field(default_factory=list)
    """The blocks that ran."""
    transcript: list[tuple[str, str]] = field(default_factory=list)
    """Kind and text of all that was written and printed, in order."""
    failure: str = ""
    seconds: float = 0.0
    calls: int = 0
    read: int = 0
    written: int = 0
    cached: int = 0
    """Read from the server's cache."""
    later_read: int = 0
    """Read by the calls after the first one of the conversation."""
    later_cached: int = 0
    not_computed: int | None = None
    """Figures of the answer that no code has computed, if the program counts them."""

    @property
    def repeated(self) -> int:
        return sum(count - 1 for count in Counter(code.strip() for code in self.codes).values())

    @property
    def speaks_of_code(self) -> bool:
        return bool(_SPEAKS_OF_CODE.search(self.answer))


class Talk(Protocol):
    """A conversation over some tables."""

    def ask(self, question: str) -> Outcome: ...
