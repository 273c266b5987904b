"""Asks for consent before many sub-calls, whether they come at once or one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from mahtab_tui.bus.records import SearchFanOut
from mahtab_tui.sandbox.base import CallRefusedError
from mahtab_tui.search.budget import Amount
from mahtab_tui.search.calls import Calls
from mahtab_tui.search.conversation import Model
from mahtab_tui.search.events import Events
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.live import LiveNode, NodeSource
from mahtab_tui.search.requests import Request

_CALLS_OF_AN_EXPLORATION = 3
"""Estimated calls of a node that explores its text."""
_CHARS_OF_A_CALL = 12_000
"""Characters that each of these calls is estimated to read."""


class ConsentRequest(NamedTuple):
    """A fan-out that needs consent."""

    request: str
    """Its id."""
    parts: int
    estimate: Amount
    priced: bool
    """Whether the estimate in dollars is meaningful."""


Consent = Callable[[ConsentRequest], Awaitable[bool]]


class FanOuts:
    """The fan-outs of one tree. Consent counts for the whole tree, however its code spreads
    sub-calls over parts, threads, turns and depths."""

    def __init__(
        self, events: Events, limits: Limits, calls: Calls, model: Model, consent: Consent
    ) -> None:
        self._events = events
        self._limits = limits
        self._calls = calls
        self._model = model
        self._consent = consent
        self._made = 0
        """Sub-calls allowed so far."""
        self._free = limits.ask_above
        """Sub-calls that need no further consent."""
        self._refused: set[tuple[str, int]] = set()
        """Nodes and turns in which the user refused; the rest of such a turn's code is refused
        without asking."""
        self._asking = asyncio.Lock()

    async def consented(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], batch: int
    ) -> None:
        """Wait for consent if the tree has used up its free sub-calls, at most until the parent
        ends. Raises `CallRefusedError`.

        Consent covers these parts, and then as many sub-calls again as there have been.
        """
        parts = len(sources)
        if self._take_free(parts):
            return
        asking = asyncio.ensure_future(self._ask(parent, request, sources, batch))
        parent.asking.add(asking)
        try:
            await asyncio.wait((asking,))
        finally:  # also if nobody waits for an answer any more
            asking.cancel()
            parent.asking.discard(asking)
        if asking.cancelled() or not asking.result():
            raise CallRefusedError(self._refusal(parts))

    def _take_free(self, parts: int) -> bool:
        """Count sub-calls that need no consent; False if they need it."""
        if parts > self._free:
            return False
        self._free -= parts
        self._made += parts
        return True

    async def _ask(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], batch: int
    ) -> bool:
        parts = len(sources)
        async with self._asking:  # one question at a time: its answer may cover those that wait
            if self._take_free(parts):
                return True
            if (turn := (parent.id, parent.turn)) in self._refused:
                return False
            run = await self._question(parent, request, sources, batch)
            if run:
                self._made += parts
                self._free = max(self._limits.ask_above, self._made)
            else:
                self._refused.add(turn)
            return run

    async def _question(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], batch: int
    ) -> bool:
        fan_out = ConsentRequest(
            f"{self._events.tree}-{parent.id}-{batch}",
            len(sources),
            self._estimate(parent, request, sources),
            self._model.priced,
        )
        calls, tokens, usd = fan_out.estimate
        asked = SearchFanOut(
            node=parent.id,
            request=fan_out.request,
            batch=batch,
            calls=calls,
            tokens=tokens,
            usd=usd if fan_out.priced else None,
        )
        self._events.send(asked.changed(made=self._made, state="waiting"))
        run = False
        try:
            run = await self._consent(fan_out)
        finally:
            self._events.send(asked.changed(made=self._made, state="run" if run else "refused"))
        return run

    def _refusal(self, parts: int) -> str:
        what = f"{parts:,} parts at once were" if parts > 1 else "Another sub-call was"
        rest = (
            f"at most {self._free:,} more may be handed on in this search"
            if self._free
            else "no more sub-calls are allowed in this search"
        )
        return f"{what} not allowed. {self._made:,} sub-calls have been made, and {rest}. Filter by code first, or answer with what you have found."

    def _estimate(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource]
    ) -> Amount:
        calls = zip(request.queries, (source.chars for source in sources), strict=True)
        read = [
            len(query) + chars
            for query, chars in calls
            if request.plain or self._limits.is_plain(parent.depth + 1, chars)
        ]
        plain = self._calls.estimate(self._model, sum(read), len(read))
        explored = _CALLS_OF_AN_EXPLORATION * (len(sources) - len(read))
        return plain.plus(self._calls.estimate(self._model, explored * _CHARS_OF_A_CALL, explored))
