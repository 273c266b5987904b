"""The model calls of a search, within its limits and those of the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from mahtab_tui.bus.records import SearchBackOff, SearchTurn, Usage
from mahtab_tui.llm.failures import is_busy
from mahtab_tui.llm.ledger import Amount, Ledger, OverBudget
from mahtab_tui.search.conversation import Model, ModelReply, NodeConversation
from mahtab_tui.search.estimates import Estimates, estimate_tokens
from mahtab_tui.search.events import Events
from mahtab_tui.search.gates import Gate, run_scheduled

_AFFORD_RETRY_S = 0.05
"""Seconds before a call that the session cannot afford yet is tried again."""
_LIMITED_ANSWER_TOKENS = 4_096
"""Maximum tokens of an answer if the calls of a model could not run at the same time otherwise."""
_MIN_ANSWER_TOKENS = 256
"""A call that can afford fewer tokens is not made."""


@dataclass(eq=False)
class Calls:
    """The model calls of one search, which wait for their turn and keep to its budget."""

    _events: Events
    ledger: Ledger
    """The ledger of the search, which all its nodes share."""
    _search_gate: Gate
    """Limits the calls of all models that run at a time."""
    _session_ledger: Ledger
    _estimates: dict[Model, Estimates] = field(default_factory=dict)

    def estimate(self, model: Model, chars: int, calls: int = 1) -> Amount:
        """Estimate what calls of a model take that read `chars` characters together."""
        return self._estimates_of(model).estimate(chars, calls)

    async def ask(
        self,
        node: str,
        turn: int,
        turns: int,
        conversation: NodeConversation,
        reserved: Amount | None = None,
    ) -> ModelReply:
        """Ask the model as soon as the gates admit the call, and again if the service was busy.

        Args:
            node: id of the node that asks.
            turn: number of its turn, from 1.
            turns: how many turns it may make.
            conversation: its messages.
            reserved: what the search's ledger has reserved for this call, which is released in any
                case; None: an estimate is reserved while it runs.

        Raises:
            OverBudget: The call would exceed a limit.
            ModelError: The model failed.
        """

        async def work() -> ModelReply:  # runs again after each back-off
            self._events.send(SearchTurn(node=node, turn=turn, turns=turns))
            return await self._ask_within_budget(node, turn, conversation, reserved)

        def report_pause(seconds: float) -> None:
            self._events.send(SearchBackOff(node=node, seconds=seconds))

        try:
            return await run_scheduled(
                self._search_gate, conversation.model.gate, work, report_pause
            )
        finally:
            if reserved is not None:
                self.ledger.release(reserved)

    async def _ask_within_budget(
        self, node: str, turn: int, conversation: NodeConversation, reserved: Amount | None
    ) -> ModelReply:
        """Make the call. If dollars are limited, its answer is limited so that other calls can run
        at the same time; if that has cut the answer, and there is enough for a whole one, the model
        is asked again without this limit."""
        model = conversation.model
        conversation.max_tokens = None
        usd_left = self._usd_left()
        if usd_left is None or not model.takes_max_tokens:
            return await self._call(node, turn, conversation, reserved)
        whole_answer_usd = conversation.worst_cost()
        if whole_answer_usd is None:
            return await self._call(node, turn, conversation, reserved)

        # Each of the calls that run at the same time could have the worst cost.
        if whole_answer_usd * model.concurrency > usd_left:
            conversation.max_tokens = _LIMITED_ANSWER_TOKENS
        reply = await self._call(node, turn, conversation, reserved)

        # The call itself may have shortened its answer further.
        was_limited = (conversation.worst_cost() or 0.0) < whole_answer_usd
        can_afford_whole = whole_answer_usd <= (self._usd_left() or 0.0)
        if not (reply.cut and was_limited and can_afford_whole):
            return reply

        # The listeners drop the text of the cut answer.
        conversation.max_tokens = None
        self._events.stream(node, turn, None)
        try:
            return await self._call(node, turn, conversation, None)
        except OverBudget:
            return reply

    def _usd_left(self) -> float | None:
        """Return the US dollars that both the search and the session have left; None if neither has
        a limit."""
        search_usd_left = self.ledger.usd_left
        session_usd_left = self._session_ledger.usd_left
        if session_usd_left is None:
            return search_usd_left
        if search_usd_left is None:
            return session_usd_left
        return min(search_usd_left, session_usd_left)

    async def _call(
        self, node: str, turn: int, conversation: NodeConversation, reserved: Amount | None
    ) -> ModelReply:
        """Make one call within the limits. Without `reserved`, an estimate is reserved while it
        runs."""
        model = conversation.model
        read_tokens = estimate_tokens(conversation.chars)
        estimate = self.estimate(model, conversation.chars)
        assumed_usage = Usage(
            input_tokens=read_tokens,
            output_tokens=estimate.tokens - read_tokens,
            cost=estimate.usd if model.priced else None,
            estimated=True,
        )
        if reserved is None:
            self.ledger.reserve(estimate)
        try:
            async with self._within_limits(conversation, (reserved or estimate).usd):
                self._shorten_answer(conversation)
                return await self._ask_and_count(node, turn, conversation, assumed_usage)
        finally:
            if reserved is None:
                self.ledger.release(estimate)

    async def _ask_and_count(
        self, node: str, turn: int, conversation: NodeConversation, assumed_usage: Usage
    ) -> ModelReply:
        """Ask the model, and count the usage of the call even if it fails. assumed_usage: counted
        if the call ends before the model reports its usage."""
        model = conversation.model
        has_text = False

        def on_text(text: str | None) -> None:
            nonlocal has_text
            has_text = True
            self._events.stream(node, turn, text)

        try:
            reply = await conversation.ask(on_text)
        except asyncio.CancelledError:
            self._count(node, turn, model, assumed_usage)
            raise
        except Exception as error:
            # A call that failed after its first text has cost something, too.
            if conversation.used is not None or has_text:
                self._count(node, turn, model, conversation.used or assumed_usage)
            elif not is_busy(error):
                self.ledger.count_failure()
            raise

        # A model that reports no usage has at least an answer, whose tokens can be estimated.
        unpriced_usage = Usage(
            input_tokens=assumed_usage.input_tokens, output_tokens=estimate_tokens(len(reply.text))
        )
        self._count(node, turn, model, reply.usage or unpriced_usage)
        return reply

    @asynccontextmanager
    async def _within_limits(
        self, conversation: NodeConversation, expected_usd: float
    ) -> AsyncIterator[None]:
        """Enclose a call that search and session can afford; wait while running calls hold the
        budget for it. expected_usd: what has been reserved for it."""
        name = conversation.model.name
        # Computed again at each attempt, because it is more precise after a model's first calls.
        max_usd = partial(self._max_usd, conversation)
        limits = (
            partial(self.ledger.within_limit, name, max_usd, expected_usd),
            partial(self._session_ledger.within_limit, name, conversation.worst_cost),
        )
        with ExitStack() as stack:
            for limit in limits:
                await self._enter_limit(stack, limit, expected_usd)
            yield

    async def _enter_limit(
        self,
        stack: ExitStack,
        limit: Callable[[], AbstractContextManager[None]],
        expected_usd: float,
    ) -> None:
        """Enter a limit as soon as the running calls leave enough for a call."""
        while True:
            try:
                stack.enter_context(limit())
                return
            except OverBudget as refusal:
                if not refusal.later:
                    # If the budget of the search is the reason, this raises a sentence that says so.
                    self.ledger.check_usd(expected_usd)
                    raise
            await asyncio.sleep(_AFFORD_RETRY_S)

    def _count(self, node: str, turn: int, model: Model, usage: Usage) -> None:
        """Count the usage of a call. If the model has reported it, later estimates consider it."""
        if not usage.estimated:
            estimates = self._estimates_of(model)
            estimates.add_call(usage.input_tokens, usage.output_tokens, usage.cost)
        usage = usage.changed(node=node, turn=turn, source="rlm", model=usage.model or model.name)
        self.ledger.count(usage)
        self._events.send(usage)

    def _max_usd(self, conversation: NodeConversation) -> float:
        """Return the most US dollars that a call may cost: by the prices of its tokens, or, if its
        answer cannot be limited, by the model's earlier calls."""
        model = conversation.model
        worst_usd = conversation.worst_cost()
        # A worst cost of zero holds without a limit of the answer, too.
        is_unbounded = bool(worst_usd) and not model.takes_max_tokens
        if worst_usd is None or is_unbounded:
            usd_left = self.ledger.usd_left or 0.0
            return self._estimates_of(model).max_usd(conversation.chars, usd_left)
        return max(worst_usd, self.estimate(model, conversation.chars).usd)

    def _shorten_answer(self, conversation: NodeConversation) -> None:
        """Limit the answer of a call to what the search has left. Only a call that runs alone is
        admitted although its worst cost is higher.

        Raises:
            OverBudget: There is not enough for a short answer either.
        """
        model = conversation.model
        worst_usd = conversation.worst_cost()
        usd_left = self.ledger.usd_left
        if usd_left is None or worst_usd is None or not model.takes_max_tokens:
            return
        if worst_usd <= usd_left:
            return

        # Each token beyond a short answer costs the price of a token written.
        short_usd = model.worst_cost(conversation.messages, _MIN_ANSWER_TOKENS) or 0.0
        self.ledger.check_usd(short_usd)
        _, usd_per_written = model.usd_per_token
        affordable_tokens = _MIN_ANSWER_TOKENS + int((usd_left - short_usd) / usd_per_written)
        conversation.max_tokens = min(_LIMITED_ANSWER_TOKENS, affordable_tokens)

    def _estimates_of(self, model: Model) -> Estimates:
        if model not in self._estimates:
            self._estimates[model] = Estimates(model.usd_per_token)
        return self._estimates[model]
