"""Consent before many calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from mahtab_tui.recursion.budget import Amount, Limits
from mahtab_tui.recursion.calls import Calls
from mahtab_tui.recursion.events import Events
from mahtab_tui.recursion.live import Node, Source
from mahtab_tui.recursion.models import Model
from mahtab_tui.recursion.requests import Request
from mahtab_tui.recursion.sandbox.base import CallRefused

_CALLS_OF_AN_EXPLORATION = 3
"""What a node that explores its text is taken for."""
_CHARS_OF_A_CALL = 12_000
"""What each of its calls is thought to read."""


class FanOut(NamedTuple):
    """A fan-out that needs consent."""

    request: str
    """Its id."""
    parts: int
    estimate: Amount
    priced: bool
    """Whether the dollars mean anything."""


Consent = Callable[[FanOut], Awaitable[bool]]


class FanOuts:
    """Those of one tree."""

    def __init__(self, events: Events, limits: Limits, calls: Calls, model: Model, consent: Consent) -> None:
        self._events = events
        self._limits = limits
        self._calls = calls
        self._model = model
        self._consent = consent

    async def consented(self, parent: Node, request: Request, sources: Sequence[Source], batch: int) -> None:
        """Wait for consent where there are many parts, no longer than the parent lives. Raises `CallRefused`."""
        if len(sources) <= self._limits.ask_above:
            return
        fan_out = FanOut(f"{self._events.tree}-{parent.id}-{batch}", len(sources), self._estimate(parent, request, sources), self._model.priced)
        calls, tokens, usd = fan_out.estimate
        about: dict[str, Any] = {"request": fan_out.request, "batch": batch, "calls": calls, "tokens": tokens, "usd": usd if fan_out.priced else None}
        self._events.call(parent.id, "fan-out", **about, state="waiting")
        asking = asyncio.ensure_future(self._consent(fan_out))
        parent.asking.add(asking)
        run = False
        try:
            await asyncio.wait((asking,))
            run = not asking.cancelled() and asking.result()
        finally:  # also where nobody waits for an answer any more
            asking.cancel()
            parent.asking.discard(asking)
            self._events.call(parent.id, "fan-out", **about, state="run" if run else "refused")
        if not run:
            raise CallRefused(f"{len(sources):,} parts at once were not allowed. Filter by code first, or hand on at most {self._limits.ask_above}.")

    def _estimate(self, parent: Node, request: Request, sources: Sequence[Source]) -> Amount:
        read = [source.chars for source in sources if request.plain or self._limits.is_plain(parent.depth + 1, source.chars)]
        plain = self._calls.estimate(self._model, sum(read) + len(request.query) * len(read), len(read))
        calls = _CALLS_OF_AN_EXPLORATION * (len(sources) - len(read))
        return plain.plus(self._calls.estimate(self._model, calls * _CHARS_OF_A_CALL, calls))
