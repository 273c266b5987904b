"""The limits of a search, and how many calls run at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mahtab_tui.llm.base import is_busy, retry_after
from mahtab_tui.worker.sandbox.names import ANSWER_LIMIT


@dataclass(frozen=True)
class Limits:
    """Limits of a tree; None means no limit."""

    max_turns: int = 20
    max_depth: int = 1
    """Calls at this depth are plain; the root is at depth 0."""
    max_calls: int | None = 200
    """Model calls of the whole tree; so are the following limits."""
    max_tokens: int | None = None
    """Read and written."""
    max_usd: float | None = None
    max_seconds: float | None = None
    max_answer: int = 1_000_000
    """Characters of the search's answer; those of sub-calls are shorter."""
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
        return self.max_answer if depth == 0 else ANSWER_LIMIT

    def is_plain(self, depth: int, chars: int) -> bool:
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


def merge_limits(settings: Mapping[str, Any] | None = None, /, **given: Any) -> Limits:
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


T = TypeVar("T")

_TRIES = 6
"""Attempts of one call while its service is busy."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_EARLY = 0.005
"""Seconds by which a loop's timer may fire too early."""


class Gate:
    """Lets a number of calls run at a time, in order; fewer after an overload, and one more again
    with each success."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._width = limit
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._resume_at = 0.0
        self._failures = 0

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    async def enter(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it got a place before it was cancelled
                self.leave()
            raise

    def widen(self, limit: int) -> None:
        self._limit = self._width = limit

    def overloaded(self, at_least: float = 0.0) -> float:
        """Make all calls wait because the service is busy. Returns the seconds."""
        loop = asyncio.get_running_loop()
        if self._resume_at <= loop.time():  # calls that ran together fail for the same reason
            self._failures += 1
            self._width = max(1, self._width // 2)
        pause = min(_LONGEST_PAUSE, max(at_least, _FIRST_PAUSE * 2.0 ** (self._failures - 1)))
        self._resume_at = max(self._resume_at, loop.time() + pause)
        loop.call_at(self._resume_at, self._admit)
        return pause

    def succeeded(self) -> None:
        self._failures = 0
        self._width = min(self._limit, self._width + 1)

    def leave(self) -> None:
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        now = asyncio.get_running_loop().time() + _EARLY
        while self._waiting and self._running < self._width and now >= self._resume_at:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)


async def run_scheduled(
    everyone: Gate, gate: Gate, work: Callable[[], Awaitable[T]], on_pause: Callable[[float], None]
) -> T:
    """Make a call when it has a place in both gates, and again after a pause in seconds if the
    service was busy."""
    tries = 0
    while True:
        tries += 1
        async with gate, everyone:
            try:
                result = await work()
            except Exception as error:
                if not is_busy(error) or tries == _TRIES:
                    raise
                on_pause(gate.overloaded(retry_after(error)))
            else:
                gate.succeeded()
                return result
