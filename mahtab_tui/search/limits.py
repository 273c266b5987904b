"""The limits of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mahtab_tui.kernel.worker.sandbox.names import ANSWER_LIMIT

MAX_CALLS = 200
"""Model calls of one search, by default."""


@dataclass(frozen=True)
class Limits:
    """Limits of a tree; None means no limit."""

    max_turns: int = 20
    """Most turns of one node."""
    max_depth: int = 1
    """Calls at this depth are plain; the root is at depth 0."""
    max_calls: int | None = MAX_CALLS
    """Model calls of the whole tree; so are the following limits."""
    max_tokens: int | None = None
    """Read and written."""
    max_usd: float | None = None
    max_seconds: float | None = None
    max_answer: int = 1_000_000
    """Characters of the whole search's answer; those of sub-calls are shorter, since there may be
    many."""
    concurrency: int | None = None
    """Model calls at a time; None: what suits the model."""
    turn_seconds: float = 30.0
    """Run time of one turn's code, without its sub-calls."""
    small: int = 20_000
    """Texts up to this many characters are given to the model whole."""
    plain: int = 400_000
    """Characters that one plain call may read."""
    ask_above: int = 50
    """How many sub-calls of the tree need no consent."""

    def answer_at(self, depth: int) -> int:
        """Return the most characters of an answer at this depth."""
        return self.max_answer if depth == 0 else ANSWER_LIMIT

    def is_plain(self, depth: int, chars: int) -> bool:
        """Tell whether a text of this size is given to the model whole at this depth."""
        return depth >= self.max_depth or chars <= self.small


_LEAST = {
    "max_turns": 1,
    "max_depth": 0,
    "max_calls": 1,
    "max_tokens": 1,
    "max_answer": 1,
    "concurrency": 1,
    "small": 0,
    "ask_above": 0,
}


def limits_of(settings: Mapping[str, Any] | None = None, /, **given: Any) -> Limits:
    """Combine the given limits with the settings, which replace those that are None. Raises
    `ValueError` with a sentence for the user."""
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        whole = name in _LEAST
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise ValueError(
                f"{name} must be a {'whole number' if whole else 'number'}, not {value!r}."
            )
        if whole and value < _LEAST[name]:
            raise ValueError(f"{name} must be at least {_LEAST[name]}, not {value}.")
        if not whole and not value > 0:
            raise ValueError(f"{name} must be more than 0, not {value}.")
    return Limits(**{**(settings or {}), **chosen})
