"""The model calls of a search, within its limits and those of the session.

Several amounts in US dollars belong to a call. They differ if its answer is not yet known:

    estimated     what it probably costs, from the prices and the calls so far
    reserved      an estimate that the ledger of the search holds back for the call before it runs
    worst cost    what it costs if its answer is as long as it may be; None if a price is unknown
    maximum       what both ledgers hold back while it runs: the worst cost, or, where there is none,
                  a careful guess from the calls so far
"""

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
class BudgetedCalls:
    """Makes the model calls of one search, which wait for their turn and keep to its budget.

    A call goes through four functions:

        ask                       waits for its turn, and asks again if the service was busy
        _ask_within_budget        limits its answer, and asks again if that has cut the answer
        _ask_within_limits        waits until both ledgers can afford it
        _ask_and_count            asks the model, and counts what the call used
    """

    _events: Events
    ledger: Ledger
    """The ledger of the search, which all its nodes share."""
    _search_gate: Gate
    """Limits the calls of all models that run at a time."""
    _session_ledger: Ledger
    """The ledger of the session, in which the models of questions count as well."""
    _estimates: dict[Model, Estimates] = field(default_factory=dict)

    def estimate(self, model: Model, chars: int, calls: int = 1) -> Amount:
        """Estimate what some calls take together.

        Args:
            model: The model that is asked.
            chars: Characters that the calls read together.
            calls: The number of calls.
        """
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
            node: The id of the node that asks.
            turn: The number of its turn, from 1.
            turns: How many turns it may make.
            conversation: Its messages.
            reserved: What the search's ledger has reserved for this call, which is released in any
                case; None reserves an estimate while the call runs.

        Returns:
            The answer, which is not added to the conversation.

        Raises:
            OverBudget: The call would exceed a limit.
            ModelError: The model failed.
        """

        async def ask_now() -> ModelReply:  # runs again after each pause
            self._events.send(SearchTurn(node=node, turn=turn, turns=turns))
            return await self._ask_within_budget(node, turn, conversation, reserved)

        def report_pause(seconds: float) -> None:
            self._events.send(SearchBackOff(node=node, seconds=seconds))

        try:
            return await run_scheduled(
                self._search_gate, conversation.model.gate, ask_now, report_pause
            )
        finally:
            if reserved is not None:
                self.ledger.release(reserved)

    async def _ask_within_budget(
        self, node: str, turn: int, conversation: NodeConversation, reserved: Amount | None
    ) -> ModelReply:
        """Ask the model, with a limited answer if dollars are limited.

        The limit lets other calls run at the same time. If it has cut the answer, and there is enough
        for a whole one, the model is asked again without it.
        """
        model = conversation.model
        usd_left = self._usd_left()
        whole_answer_usd: float | None = None
        # Without a limit, nobody waits for the table of prices.
        if usd_left is not None and model.takes_max_tokens:
            whole_answer_usd = model.worst_cost(conversation.messages)
        if usd_left is None or whole_answer_usd is None:
            return await self._ask_within_limits(node, turn, conversation, reserved, None)

        max_tokens: int | None = None
        # Each of the calls that run at the same time could have the worst cost.
        if whole_answer_usd * model.concurrency > usd_left:
            max_tokens = _LIMITED_ANSWER_TOKENS
        reply = await self._ask_within_limits(node, turn, conversation, reserved, max_tokens)

        # `_shorten_answer` may have lowered the limit that stands in the conversation.
        was_limited = (conversation.worst_cost() or 0.0) < whole_answer_usd
        can_afford_whole = whole_answer_usd <= (self._usd_left() or 0.0)
        if not (reply.cut and was_limited and can_afford_whole):
            return reply

        # With None, those who listen drop the text of the cut answer.
        self._events.stream(node, turn, None)
        try:
            return await self._ask_within_limits(node, turn, conversation, None, None)
        except OverBudget:
            return reply

    def _usd_left(self) -> float | None:
        """Return the US dollars that both the search and the session have left.

        None if neither has a limit.
        """
        search_usd_left = self.ledger.usd_left
        session_usd_left = self._session_ledger.usd_left
        if session_usd_left is None:
            return search_usd_left
        if search_usd_left is None:
            return session_usd_left
        return min(search_usd_left, session_usd_left)

    async def _ask_within_limits(
        self,
        node: str,
        turn: int,
        conversation: NodeConversation,
        reserved: Amount | None,
        max_tokens: int | None,
    ) -> ModelReply:
        """Ask the model once, as soon as the search and the session can afford it.

        Args:
            node: The id of the node that asks.
            turn: The number of its turn.
            conversation: Its messages.
            reserved: What has been reserved for the call; None reserves an estimate while it runs.
            max_tokens: The most tokens that the answer may have, or fewer if there is not enough;
                None for the model's own limit.
        """
        conversation.max_tokens = max_tokens
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
        """Ask the model, and count the usage of the call even if it fails.

        Args:
            node: The id of the node that asks.
            turn: The number of its turn.
            conversation: Its messages.
            assumed_usage: What is counted if the call ends before the model reports its usage.
        """
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

        usage = reply.usage
        if usage is None:
            # The tokens of the answer can be estimated, but its price is not known.
            answer_tokens = estimate_tokens(len(reply.text))
            usage = Usage(input_tokens=assumed_usage.input_tokens, output_tokens=answer_tokens)
        self._count(node, turn, model, usage)
        return reply

    @asynccontextmanager
    async def _within_limits(
        self, conversation: NodeConversation, reserved_usd: float
    ) -> AsyncIterator[None]:
        """Enclose a call, for which both ledgers hold back its maximum; wait while the maximums of
        running calls leave too little.

        Args:
            conversation: The messages of the call.
            reserved_usd: US dollars that the ledger of the search has reserved for the call.
        """
        name = conversation.model.name
        # Computed again at each attempt, because it is more precise after a model's first calls.
        max_usd = partial(self._max_usd, conversation)
        limits = (
            partial(self.ledger.within_limit, name, max_usd, reserved_usd),
            partial(self._session_ledger.within_limit, name, conversation.worst_cost),
        )
        with ExitStack() as stack:
            for limit in limits:
                await self._enter_limit(stack, limit, reserved_usd)
            yield

    async def _enter_limit(
        self,
        stack: ExitStack,
        limit: Callable[[], AbstractContextManager[None]],
        reserved_usd: float,
    ) -> None:
        """Enter a limit as soon as the running calls leave enough for a call.

        Args:
            stack: Leaves the limit at its end.
            limit: Returns the limit of a ledger. Entering it raises `OverBudget`.
            reserved_usd: US dollars that the ledger of the search has reserved for the call.
        """
        while True:
            try:
                stack.enter_context(limit())
                return
            except OverBudget as refusal:
                if not refusal.later:
                    # If the budget of the search is the reason, this raises a sentence that says so.
                    self.ledger.check_usd(reserved_usd)
                    raise
            await asyncio.sleep(_AFFORD_RETRY_S)

    def _count(self, node: str, turn: int, model: Model, usage: Usage) -> None:
        """Count the usage of a call. If the model has reported it, it improves later estimates."""
        if not usage.estimated:
            estimates = self._estimates_of(model)
            estimates.add_call(usage.input_tokens, usage.output_tokens, usage.cost)
        usage = usage.changed(node=node, turn=turn, source="rlm", model=usage.model or model.name)
        self.ledger.count(usage)
        self._events.send(usage)

    def _max_usd(self, conversation: NodeConversation) -> float:
        """Return the US dollars to hold back for a call: its worst cost, or, if a price is unknown or
        its answer cannot be limited, a careful guess from the model's earlier calls."""
        model = conversation.model
        worst_usd = conversation.worst_cost()
        # A worst cost of zero is right even if the answer cannot be limited: the model is free.
        is_unbounded = bool(worst_usd) and not model.takes_max_tokens
        if worst_usd is None or is_unbounded:
            usd_left = self.ledger.usd_left or 0.0
            return self._estimates_of(model).max_usd(conversation.chars, usd_left)
        return max(worst_usd, self.estimate(model, conversation.chars).usd)

    def _shorten_answer(self, conversation: NodeConversation) -> None:
        """Limit the answer of a call to what the search can pay.

        The call is already within the limits. If it runs alone, its worst cost may nevertheless
        exceed what is left.

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
        """Return the estimates of a model, which are made at its first call."""
        if model not in self._estimates:
            self._estimates[model] = Estimates(model.usd_per_token)
        return self._estimates[model]
