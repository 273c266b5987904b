"""Asks whether a node of a search may make sub-calls, once there are many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from mahtab_tui.bus.records import SearchFanOut
from mahtab_tui.llm.ledger import Amount
from mahtab_tui.sandbox.base import CallRefusedError
from mahtab_tui.search.calls import BudgetedCalls
from mahtab_tui.search.conversation import Model
from mahtab_tui.search.events import Events
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.search.nodes import LiveNode, NodeSource
from mahtab_tui.search.requests import Request

Consent = Callable[[str], Awaitable[bool]]
"""Gets the id of a fan-out's question, and returns whether the user allows the fan-out."""

_CALLS_PER_EXPLORATION = 3
"""Model calls that an exploring node is estimated to make."""
_CHARS_PER_EXPLORATION_CALL = 12_000
"""Characters that each of these calls is estimated to read."""


class FanOuts:
    """The fan-outs of one tree. Consent counts for the whole tree."""

    def __init__(
        self,
        events: Events,
        limits: SearchLimits,
        calls: BudgetedCalls,
        model: Model,
        consent: Consent,
    ) -> None:
        """
        Args:
            events: Where questions and their answers are logged.
            limits: How many sub-calls need no consent, and which texts are read at once.
            calls: Estimates what calls take.
            model: Answers the sub-calls.
            consent: Asks the user.
        """
        self._events = events
        self._limits = limits
        self._calls = calls
        self._model = model
        self._consent = consent
        self._started_count = 0
        """Sub-calls that have been allowed."""
        self._free_count = limits.ask_above
        """Sub-calls that need no consent."""
        self._refused_turns: set[tuple[str, int]] = set()
        """Nodes and turns in which the user refused: the rest of such a turn is refused unasked."""
        self._asking = asyncio.Lock()

    async def wait_for_consent(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], fan_out_number: int
    ) -> None:
        """Wait for consent if the tree has used up its free sub-calls.

        It covers these parts, and as many sub-calls again as there were.

        Args:
            parent: The node whose code asks.
            request: Its request.
            sources: The texts of the sub-calls.
            fan_out_number: Which fan-out of the node it is, from 1.

        Raises:
            CallRefusedError: The user, or nobody, has answered with yes.
        """
        part_count = len(sources)
        if self._take_free(part_count):
            return

        asking = asyncio.ensure_future(self._ask(parent, request, sources, fan_out_number))
        parent.consent_requests.add(asking)
        try:
            await asyncio.wait((asking,))
        finally:  # also if nobody waits for an answer any more
            asking.cancel()
            parent.consent_requests.discard(asking)

        if asking.cancelled() or not asking.result():
            raise CallRefusedError(self._refusal(part_count))

    def _refusal(self, part_count: int) -> str:
        """Tell a node that its sub-calls are not allowed, and how it may go on."""
        subject = "Another sub-call was"
        if part_count > 1:
            subject = f"{part_count:,} parts at once were"
        allowance = "no more sub-calls are allowed in this search"
        if self._free_count:
            allowance = f"at most {self._free_count:,} more may be handed on in this search"
        made = f"{self._started_count:,} sub-calls have been made"
        if self._started_count == 1:
            made = "1 sub-call has been made"
        return f"{subject} not allowed. {made}, and {allowance}. Filter by code first, or answer with what you have found."

    def _take_free(self, part_count: int) -> bool:
        """Count sub-calls if they need no consent; return whether they do not."""
        if part_count > self._free_count:
            return False
        self._free_count -= part_count
        self._started_count += part_count
        return True

    async def _ask(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], fan_out_number: int
    ) -> bool:
        """Ask the user, unless an earlier answer covers these sub-calls.

        Return whether they are allowed.
        """
        # One question at a time: its answer may cover those that wait.
        async with self._asking:
            if self._take_free(len(sources)):
                return True
            turn = (parent.id, parent.turn)
            if turn in self._refused_turns:
                return False

            question = self._question(parent, request, sources, fan_out_number)
            self._events.send(question.changed(state="waiting"))
            allowed = False
            try:
                allowed = await self._consent(question.request)
            finally:
                state = "run" if allowed else "refused"
                self._events.send(question.changed(made=self._started_count, state=state))

            if allowed:
                self._started_count += len(sources)
                self._free_count = max(self._limits.ask_above, self._started_count)
            else:
                self._refused_turns.add(turn)
            return allowed

    def _question(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource], fan_out_number: int
    ) -> SearchFanOut:
        """Return the record that asks the user, with an estimate of what the sub-calls take."""
        estimate = self._estimate(parent, request, sources)
        return SearchFanOut(
            node=parent.id,
            request=f"{self._events.tree}-{parent.id}-{fan_out_number}",
            batch=fan_out_number,
            calls=estimate.calls,
            tokens=estimate.tokens,
            usd=estimate.usd if self._model.priced else None,
            made=self._started_count,
        )

    def _estimate(
        self, parent: LiveNode, request: Request, sources: Sequence[NodeSource]
    ) -> Amount:
        """Estimate what a fan-out takes: plain calls read their text, others explore it."""
        plain_chars = [
            len(query) + source.chars
            for query, source in zip(request.queries, sources, strict=True)
            if request.must_read_at_once or self._limits.is_plain(parent.depth + 1, source.chars)
        ]
        plain_estimate = self._calls.estimate(self._model, sum(plain_chars), len(plain_chars))

        explored_calls = _CALLS_PER_EXPLORATION * (len(sources) - len(plain_chars))
        explored_chars = explored_calls * _CHARS_PER_EXPLORATION_CALL
        explored_estimate = self._calls.estimate(self._model, explored_chars, explored_calls)
        return plain_estimate.plus(explored_estimate)
