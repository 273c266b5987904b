"""The limits of a search, and its deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mahtab_tui.llm.ledger import Ledger
from mahtab_tui.worker.sandbox.functions import MAX_ANSWER_CHARS

_MAX_ROOT_ANSWER_CHARS = 1_000_000
"""Characters of a search's answer; those of sub-calls are shorter."""

_MIN_VALUES = {
    "max_turns": 1,
    "max_depth": 0,
    "max_calls": 1,
    "max_tokens": 1,
    "concurrency": 1,
    "small": 0,
    "plain": 1,
    "ask_above": 0,
}
"""Lowest values of the limits that are whole numbers."""

_LAST_CALL_SHARE = 1 / 5
"""Share of the time that is kept for the last call."""
_MAX_LAST_CALL_S = 30.0


@dataclass(frozen=True)
class SearchLimits:
    """Limits of a tree; None means no limit."""

    max_turns: int = 20
    max_depth: int = 1
    """Calls at this depth are plain; the root is at depth 0."""
    max_calls: int | None = 200
    """Model calls. This limit and the next four hold for the whole tree."""
    max_tokens: int | None = None
    """Read and written."""
    max_usd: float | None = None
    max_seconds: float | None = None
    concurrency: int | None = None
    """Model calls at a time; None for the number that suits the model."""
    turn_seconds: float = 30.0
    """Run time of one turn's code, without its sub-calls."""
    small: int = 20_000
    """Texts up to this many characters are given to the model whole."""
    plain: int = 400_000
    """Characters that one plain call may read."""
    ask_above: int = 50
    """How many sub-calls of the tree need no consent."""

    def max_answer_chars(self, depth: int) -> int:
        return _MAX_ROOT_ANSWER_CHARS if depth == 0 else MAX_ANSWER_CHARS

    def is_plain(self, depth: int, chars: int) -> bool:
        return depth >= self.max_depth or chars <= self.small

    def open_ledger(self) -> Ledger:
        """Return a ledger that keeps to these limits."""
        return Ledger(lambda: self.max_usd, max_calls=self.max_calls, max_tokens=self.max_tokens)


def merge_limits(settings: Mapping[str, Any] | None = None, /, **options: Any) -> SearchLimits:
    """Combine the caller's limits with the settings, which replace those that are None.

    Raises:
        ValueError: A limit is invalid or unknown; the message is a sentence for the user.
    """
    for name in options:
        if name not in SearchLimits.__dataclass_fields__:
            raise ValueError(f"There is no limit {name!r}.")
    explicit_limits = {name: value for name, value in options.items() if value is not None}
    for name, value in explicit_limits.items():
        if name in _MIN_VALUES:
            _check_whole_number(name, value)
        else:
            _check_positive(name, value)
    return SearchLimits(**{**(settings or {}), **explicit_limits})


def _check_whole_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, not {value!r}.")
    min_value = _MIN_VALUES[name]
    if value < min_value:
        raise ValueError(f"{name} must be at least {min_value}, not {value}.")


def _check_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, not {value!r}.")
    # Not `value <= 0`, which a NaN would pass.
    if not value > 0:
        raise ValueError(f"{name} must be more than 0, not {value}.")


class SearchDeadline(NamedTuple):
    """Times on the event loop's clock; None means no limit."""

    work: float | None = None
    """When no more turns may run, so that there is time for a last call."""
    end: float | None = None
    """When the last call must have ended."""

    @classmethod
    def after(cls, seconds: float | None, now: float) -> SearchDeadline:
        """Return the deadline of a search.

        Args:
            seconds: The run time of the whole search, with its last call; None for no limit.
            now: The event loop's time at its start.
        """
        if seconds is None:
            return cls()
        end = now + seconds
        last_call_s = min(_MAX_LAST_CALL_S, seconds * _LAST_CALL_SHARE)
        return cls(work=end - last_call_s, end=end)
