"""Model calls within the budget and the schedule, reported as events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from mahtab_tui.bus.records import SearchBackOff, SearchTurn, Usage
from mahtab_tui.llm.failures import is_busy
from mahtab_tui.llm.spending import OverBudget, Spending, UsageStats
from mahtab_tui.search.budget import Amount, Budget, BudgetSpent, Dollars, Prices
from mahtab_tui.search.conversation import Model, NodeConversation, Reply
from mahtab_tui.search.events import Events
from mahtab_tui.search.prompts import tokens
from mahtab_tui.search.schedule import Gate, scheduled

_AGAIN = 0.05
"""Seconds before a call that the session cannot afford yet is tried again."""


class Calls:
    """The calls of one tree."""

    def __init__(
        self,
        events: Events,
        budget: Budget,
        everyone: Gate,
        gates: dict[Model, Gate],
        spending: Spending,
    ) -> None:
        """everyone: the gate of all calls. gates: of each model's calls."""
        self.budget = budget
        self.usage = UsageStats()
        self._events = events
        self._everyone = everyone
        self._gates = gates
        self._spending = spending
        self._dollars = Dollars(budget)
        self._prices: dict[Model, Prices] = {}

    def estimate(self, model: Model, chars: int, calls: int = 1) -> Amount:
        """Estimate what calls that together read so many characters will use."""
        return self._prices_of(model).estimate(chars, calls)

    async def say(
        self,
        node: str,
        turn: int,
        turns: int,
        conversation: NodeConversation,
        kept: Amount | None = None,
    ) -> Reply:
        """Ask the model when it is its turn. kept: reserved for this call, and released after it.
        Raises `BudgetSpent`, `ModelError`."""

        async def work() -> Reply:
            self._events.send(
                SearchTurn(node=node, turn=turn, turns=turns)
            )  # again after each back-off
            return await self._within_budget(node, turn, conversation, kept)

        def back_off(seconds: float) -> None:
            self._events.send(SearchBackOff(node=node, seconds=seconds))

        try:
            return await scheduled(self._everyone, self._gates[conversation.model], work, back_off)
        finally:
            if kept is not None:
                self.budget.free(kept)

    async def _within_budget(
        self, node: str, turn: int, conversation: NodeConversation, kept: Amount | None
    ) -> Reply:
        model, chars = conversation.model, conversation.chars
        held, heard = self.estimate(model, chars), False

        def hear(words: str | None) -> None:
            nonlocal heard
            heard = True
            self._events.stream(node, turn, words)

        if kept is None:
            self.budget.hold(held)
        try:
            async with (
                self._dollars.paying((kept or held).usd, lambda: self._worst(conversation)),
                self._affording(conversation),
            ):
                try:
                    said = await conversation.say(hear)
                except asyncio.CancelledError:
                    self._guess(
                        node, turn, model, chars, held
                    )  # tokens were used, but the model will not report them
                    raise
                except Exception as error:
                    if conversation.used is not None:
                        self._count(node, turn, model, conversation.used)
                    elif heard:
                        self._guess(node, turn, model, chars, held)
                    elif not is_busy(error):
                        self.budget.spend(Amount(1))
                    raise
                used = said.usage or Usage(
                    input_tokens=tokens(chars), output_tokens=tokens(len(said.text))
                )
                self._count(node, turn, model, used)
        finally:
            if kept is None:
                self.budget.free(held)
        return said

    @asynccontextmanager
    async def _affording(self, conversation: NodeConversation) -> AsyncIterator[None]:
        """Enclose a call that the session can afford; wait while other calls hold the money for it.
        Raises `BudgetSpent`."""
        while True:
            with ExitStack() as held:
                try:
                    held.enter_context(
                        self._spending.afford(conversation.model.name, conversation.worst_cost)
                    )
                except OverBudget as refusal:
                    if not refusal.later:
                        raise BudgetSpent(str(refusal)) from None
                else:
                    yield
                    return
            await asyncio.sleep(_AGAIN)

    def _count(self, node: str, turn: int, model: Model, used: Usage) -> None:
        """Count what a call has used, as the model reported it."""
        used = used.changed(node=node, turn=turn, source="rlm", model=used.model or model.name)
        read, written, cost = used.input_tokens, used.output_tokens, used.cost
        self._prices_of(model).learn(read, written, cost)
        self.budget.spend(Amount(1, read + written, cost or 0.0))
        if cost is None:
            self.budget.unpriced()
        self.usage.add(used)
        self._events.send(used)

    def _guess(self, node: str, turn: int, model: Model, chars: int, amount: Amount) -> None:
        """Count a call that ended before the model reported what it used."""
        read = tokens(chars)
        cost = amount.usd if model.priced else None
        used = Usage(
            node=node,
            turn=turn,
            source="rlm",
            model=model.name,
            input_tokens=read,
            output_tokens=amount.tokens - read,
            cost=cost,
            estimated=True,
        )
        self.budget.spend(amount)
        self.usage.add(used)
        self._events.send(used)

    def _worst(self, conversation: NodeConversation) -> float:
        """Return the most that a call may cost in US dollars; infinite if unknown, and before the
        model's first call has ended."""
        dearest, worst = self._prices_of(conversation.model).dearest, conversation.worst_cost()
        return math.inf if worst is None or dearest is None else max(worst, dearest)

    def _prices_of(self, model: Model) -> Prices:
        return self._prices.setdefault(model, Prices(model.usd_per_token))
