"""How many calls of models run at a time, and how long all wait while a service is busy.

A question asks one model once, so its call waits by itself and tells the user (`llm/calls.py`). A
search makes many calls together: if each waited by itself, they would overload the service again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mahtab_tui.llm.failures import is_busy, retry_after

T = TypeVar("T")

_MAX_TRIES = 6
"""How often a call is made while the service is busy."""
_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 60.0
_TIMER_TOLERANCE_S = 0.005
"""Seconds by which a loop's timer may fire too early."""


class Gate:
    """Lets a number of calls run at a time, in order.

    There are fewer after an overload, then one more with each success.
    """

    def __init__(self, concurrency: int) -> None:
        self._max_concurrency = concurrency
        self._concurrency = concurrency
        """How many calls may run now."""
        self._running_count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Done when the call that waits is admitted; the first in line first."""
        self._resume_time = 0.0
        """Nothing is admitted before this time on the loop's clock."""
        self._overload_count = 0
        """Overloads since the last success."""

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    async def enter(self) -> None:
        """Wait until a call may run. Whoever has entered must call `leave`."""
        admission = asyncio.get_running_loop().create_future()
        self._waiting.append(admission)
        self._admit()
        try:
            await admission
        except asyncio.CancelledError:
            was_admitted = admission.done() and not admission.cancelled()
            if was_admitted:
                self.leave()
            raise

    def leave(self) -> None:
        """Let the next call run."""
        self._running_count -= 1
        self._admit()

    def widen(self, concurrency: int) -> None:
        """Replace the number of calls that may run at a time."""
        self._max_concurrency = concurrency
        self._concurrency = concurrency

    def report_overload(self, min_pause_s: float = 0.0) -> float:
        """Make all calls wait because the service is busy.

        Args:
            min_pause_s: Seconds that the service asked for.

        Returns:
            The seconds for which nothing is admitted.
        """
        loop = asyncio.get_running_loop()
        # Calls that ran together fail for the same reason, which counts once.
        if self._resume_time <= loop.time():
            self._overload_count += 1
            self._concurrency = max(1, self._concurrency // 2)

        backoff_s = _FIRST_PAUSE_S * 2.0 ** (self._overload_count - 1)
        pause_s = min(_MAX_PAUSE_S, max(min_pause_s, backoff_s))
        self._resume_time = max(self._resume_time, loop.time() + pause_s)
        loop.call_at(self._resume_time, self._admit)
        return pause_s

    def report_success(self) -> None:
        self._overload_count = 0
        self._concurrency = min(self._max_concurrency, self._concurrency + 1)

    def _admit(self) -> None:
        """Admit the calls that may run now."""
        current_time = asyncio.get_running_loop().time() + _TIMER_TOLERANCE_S
        if current_time < self._resume_time:
            return
        while self._waiting and self._running_count < self._concurrency:
            admission = self._waiting.popleft()
            if not admission.done():  # a call that was cancelled no longer waits
                self._running_count += 1
                admission.set_result(None)


async def run_scheduled(
    search_gate: Gate,
    model_gate: Gate,
    work: Callable[[], Awaitable[T]],
    on_pause: Callable[[float], None],
) -> T:
    """Make a call when both gates admit it, and again after a pause if the service was busy.

    Args:
        search_gate: Limits the calls of the search, of all models together.
        model_gate: Limits the calls of the model; an overload makes all of them wait.
        work: Makes the call.
        on_pause: Called with the seconds of a pause.

    Raises:
        Exception: What the call raises: if the service is busy, the last time.
    """
    try_count = 0
    while True:
        try_count += 1
        async with model_gate, search_gate:
            try:
                result = await work()
            except Exception as error:
                if not is_busy(error) or try_count == _MAX_TRIES:
                    raise
                on_pause(model_gate.report_overload(retry_after(error)))
            else:
                model_gate.report_success()
                return result
