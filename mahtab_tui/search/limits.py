"""The limits of a search, and its calls within them."""

from __future__ import annotations

import asyncio
import math
import operator
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mahtab_tui.bus.records import SearchBackOff, SearchTurn, Usage
from mahtab_tui.llm.base import is_busy, retry_after
from mahtab_tui.llm.usage import OverBudget, Spending
from mahtab_tui.search.tree import BudgetLeft, Events
from mahtab_tui.worker.sandbox.names import ANSWER_LIMIT

if TYPE_CHECKING:
    from mahtab_tui.search.conversation import Model, NodeConversation, Reply


LONGEST_ANSWER = 1_000_000
"""Characters of a search's answer; those of sub-calls are shorter."""


@dataclass(frozen=True)
class Limits:
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
        return LONGEST_ANSWER if depth == 0 else ANSWER_LIMIT

    def is_plain(self, depth: int, chars: int) -> bool:
        return depth >= self.max_depth or chars <= self.small


_LEAST = {
    "max_turns": 1,
    "max_depth": 0,
    "max_calls": 1,
    "max_tokens": 1,
    "concurrency": 1,
    "small": 0,
    "ask_above": 0,
}


def merge_limits(settings: Mapping[str, Any] | None = None, /, **given: Any) -> Limits:
    """Combine the given limits with the settings, which replace those that are None. Raises
    `ValueError` with a sentence for the user."""
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        least, problem = _LEAST.get(name), ""
        if isinstance(value, bool) or not isinstance(value, (int, float) if least is None else int):
            problem = f"a {'number' if least is None else 'whole number'}, not {value!r}"
        elif least is None and not value > 0:
            problem = f"more than 0, not {value}"
        elif least is not None and value < least:
            problem = f"at least {least}, not {value}"
        if problem:
            raise ValueError(f"{name} must be {problem}.")
    return Limits(**{**(settings or {}), **chosen})


T = TypeVar("T")

_TRIES = 6
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_EARLY = 0.005
"""Seconds by which a loop's timer may fire too early."""


class Gate:
    """Lets a number of calls run at a time, in order; fewer after an overload, then one more with
    each success."""

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
            if turn.done() and not turn.cancelled():  # it was admitted before
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
    """Make a call when both gates admit it, and again after a pause (seconds) if the service was
    busy."""
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


def tokens(characters: int) -> int:
    """Estimate how many tokens a text has, before a model has counted."""
    return -(-characters // 4)


_SPENT = "The budget of {} for the whole search is used up or promised."
_ANSWER_TOKENS = 600
"""Assumed length of an answer before there has been one."""
_LIMITED_TOKENS = 4_096
"""Most tokens of an answer if calls could not run at the same time otherwise."""
_FEWEST_TOKENS = 256
"""A call that can afford fewer is not made."""
_MARGIN = 2.0
"""By how much a call may be more expensive than those before it."""


class Amount(NamedTuple):
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def plus(self, other: Amount) -> Amount:
        return Amount(*map(operator.add, self, other))

    def minus(self, other: Amount) -> Amount:
        return Amount(*map(operator.sub, self, other))


class Deadline(NamedTuple):
    """Times on the event loop's clock; None means no limit."""

    work: float | None = None
    end: float | None = None

    @classmethod
    def after(cls, seconds: float | None, now: float) -> Deadline:
        """Keep a fifth of the time, at most 30 s, for the last call."""
        if seconds is None:
            return cls()
        return cls(now + seconds - min(30.0, seconds / 5), now + seconds)


class BudgetSpent(Exception):
    """The budget does not allow a call; the message is a sentence."""


class Budget:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.spending = Spending(lambda: limits.max_usd)
        self.usage = self.spending.total
        self.failed = 0  # calls that used no tokens
        self._reserved = Amount()

    @property
    def spent(self) -> Amount:
        usage = self.usage
        tokens = usage.input_tokens + usage.output_tokens
        return Amount(usage.calls + self.failed, tokens, usage.cost)

    def hold(self, amount: Amount) -> Amount:
        """Reserve an amount. Raises `BudgetSpent` and reserves nothing if it exceeds a limit."""
        if self.usage.unpriced_calls and self._limits.max_usd is not None:
            raise BudgetSpent(
                "A call did not report its price, so the limit in dollars can no longer be enforced."
            )
        wanted = self.spent.plus(self._reserved).plus(amount)
        calls, tokens, usd = self._limits.max_calls, self._limits.max_tokens, self._limits.max_usd
        if calls is not None and wanted.calls > calls:
            raise BudgetSpent(_SPENT.format(f"{calls:,} model call{'' if calls == 1 else 's'}"))
        if tokens is not None and wanted.tokens > tokens:
            raise BudgetSpent(_SPENT.format(f"{tokens:,} tokens"))
        if usd is not None and wanted.usd > usd:
            raise BudgetSpent(_SPENT.format(f"${usd:.2f}"))
        self._reserved = self._reserved.plus(amount)
        return amount

    def free(self, amount: Amount) -> None:
        self._reserved = self._reserved.minus(amount)

    @property
    def usd_left(self) -> float | None:
        return None if self._limits.max_usd is None else self._limits.max_usd - self.spent.usd

    def check_usd(self, usd: float) -> None:
        if self.usd_left is not None and usd > self.usd_left:
            raise BudgetSpent(_SPENT.format(f"${self._limits.max_usd:.2f}"))

    def left(self) -> BudgetLeft:
        used, limits = self.spent.plus(self._reserved), self._limits
        return BudgetLeft(
            calls=None if limits.max_calls is None else max(0, limits.max_calls - used.calls),
            tokens=None if limits.max_tokens is None else max(0, limits.max_tokens - used.tokens),
            usd=None if limits.max_usd is None else max(0.0, limits.max_usd - used.usd),
        )


class Estimates:
    def __init__(self, usd_per_token: tuple[float, float]) -> None:
        read, written = usd_per_token
        self._read_rate = read
        self._weight = written / read if read else 1.0
        self._calls = 0
        self._written = 0
        self._longest = 0
        self._weighted = 0.0
        self._usd = 0.0
        self._highest_rate = 0.0

    def learn(self, read: int, written: int, usd: float | None) -> None:
        self._calls += 1
        self._written += written
        self._longest = max(self._longest, written)
        if usd is not None:
            weighted = read + self._weight * written
            self._usd += usd
            self._weighted += weighted
            self._highest_rate = max(self._highest_rate, usd / max(1.0, weighted))

    def estimate(self, chars: int, calls: int = 1) -> Amount:
        read = tokens(chars)
        written = calls * (self._written // self._calls if self._calls else _ANSWER_TOKENS)
        rate = self._usd / self._weighted if self._weighted else self._read_rate
        return Amount(calls, read + written, (read + self._weight * written) * rate)

    def most(self, chars: int, left: float) -> float:
        """Return the US dollars that a call may cost at most. Few calls prove little, so each
        allows for two more at a time."""
        if not self._calls:
            return math.inf
        highest = (tokens(chars) + self._weight * self._longest) * self._highest_rate
        return max(_MARGIN * highest, left / (2 * self._calls))


_AGAIN = 0.05
"""Seconds before a call that the session cannot afford yet is tried again."""


@dataclass(eq=False)
class Calls:
    _events: Events
    budget: Budget
    _everyone: Gate
    _spending: Spending
    _estimates: dict[Model, Estimates] = field(default_factory=dict)

    def estimate(self, model: Model, chars: int, calls: int = 1) -> Amount:
        return self._estimates_of(model).estimate(chars, calls)

    async def ask(
        self,
        node: str,
        turn: int,
        turns: int,
        conversation: NodeConversation,
        reserved: Amount | None = None,
    ) -> Reply:
        """Ask the model when it is its turn. reserved: released after the call. Raises
        `BudgetSpent` and `ModelError`."""

        async def work() -> Reply:  # again after each back-off
            self._events.send(SearchTurn(node=node, turn=turn, turns=turns))
            return await self._within_budget(node, turn, conversation, reserved)

        def back_off(seconds: float) -> None:
            self._events.send(SearchBackOff(node=node, seconds=seconds))

        try:
            return await run_scheduled(self._everyone, conversation.model.gate, work, back_off)
        finally:
            if reserved is not None:
                self.budget.free(reserved)

    async def _within_budget(
        self, node: str, turn: int, conversation: NodeConversation, reserved: Amount | None
    ) -> Reply:
        """If dollars are limited, limit the answer so that calls can run at the same time; ask
        again without that limit if it has cut the answer and there is enough."""
        model, conversation.max_tokens = conversation.model, None
        left = self._usd_left() if model.takes_max_tokens else None
        longest = None if left is None else conversation.worst_cost()
        if left is None or longest is None:
            return await self._call(node, turn, conversation, reserved)
        if longest * model.concurrency > left:
            conversation.max_tokens = _LIMITED_TOKENS
        reply = await self._call(node, turn, conversation, reserved)
        was_limited = (conversation.worst_cost() or 0.0) < longest
        if not (reply.cut and was_limited and longest <= (self._usd_left() or 0.0)):
            return reply
        conversation.max_tokens = None
        self._events.stream(node, turn, None)
        try:
            return await self._call(node, turn, conversation, None)
        except BudgetSpent:
            return reply

    def _usd_left(self) -> float | None:
        left, limit = self.budget.usd_left, self._spending.max_usd
        if limit is not None:
            left = min(math.inf if left is None else left, limit - self._spending.total.cost)
        return left

    async def _call(
        self, node: str, turn: int, conversation: NodeConversation, reserved: Amount | None
    ) -> Reply:
        model, read = conversation.model, tokens(conversation.chars)
        estimated, begun = self.estimate(model, conversation.chars), False
        # If it ends before the model reports what it has used.
        assumed = Usage(
            input_tokens=read,
            output_tokens=estimated.tokens - read,
            cost=estimated.usd if model.priced else None,
            estimated=True,
        )

        def on_words(words: str | None) -> None:
            nonlocal begun
            begun = True
            self._events.stream(node, turn, words)

        if reserved is None:
            self.budget.hold(estimated)
        try:
            async with self._within_limits(conversation, (reserved or estimated).usd):
                self._shorten_answer(conversation)
                try:
                    reply = await conversation.ask(on_words)
                except asyncio.CancelledError:
                    self._count(node, turn, model, assumed)
                    raise
                except Exception as error:
                    if conversation.used is not None or begun:
                        self._count(node, turn, model, conversation.used or assumed)
                    elif not is_busy(error):
                        self.budget.failed += 1
                    raise
                written = Usage(input_tokens=read, output_tokens=tokens(len(reply.text)))
                self._count(node, turn, model, reply.usage or written)
        finally:
            if reserved is None:
                self.budget.free(estimated)
        return reply

    @asynccontextmanager
    async def _within_limits(
        self, conversation: NodeConversation, expected: float
    ) -> AsyncIterator[None]:
        """Enclose a call that search and session can afford; wait while other calls hold the money
        for it. expected: US dollars."""
        name = conversation.model.name
        most = partial(self._most, conversation)  # known better after a model's first calls
        limits = (
            partial(self.budget.spending.within_limit, name, most, expected),
            partial(self._spending.within_limit, name, conversation.worst_cost),
        )
        with ExitStack() as stack:
            for limit in limits:
                while True:
                    try:
                        stack.enter_context(limit())
                        break
                    except OverBudget as refusal:
                        if not refusal.later:
                            self.budget.check_usd(expected)
                            raise BudgetSpent(str(refusal)) from None
                    await asyncio.sleep(_AGAIN)
            yield

    def _count(self, node: str, turn: int, model: Model, used: Usage) -> None:
        if not used.estimated:
            self._estimates_of(model).learn(used.input_tokens, used.output_tokens, used.cost)
        used = used.changed(node=node, turn=turn, source="rlm", model=used.model or model.name)
        self.budget.usage.add(used)
        self._events.send(used)

    def _most(self, conversation: NodeConversation) -> float:
        """Return the most US dollars of a call: by the prices of its tokens, or, if its answer
        cannot be limited, by the model's calls before it."""
        model, worst = conversation.model, conversation.worst_cost()
        if worst is None or (worst and not model.takes_max_tokens):
            return self._estimates_of(model).most(conversation.chars, self.budget.usd_left or 0.0)
        return max(worst, self.estimate(model, conversation.chars).usd)

    def _shorten_answer(self, conversation: NodeConversation) -> None:
        """Limit the answer of a call that runs alone to what is left. Raises `BudgetSpent`."""
        model, worst, left = conversation.model, conversation.worst_cost(), self.budget.usd_left
        if left is None or worst is None or worst <= left or not model.takes_max_tokens:
            return
        fewest = model.worst_cost(conversation.messages, _FEWEST_TOKENS) or 0.0
        self.budget.check_usd(fewest)
        affordable = _FEWEST_TOKENS + int((left - fewest) / model.usd_per_token[1])
        conversation.max_tokens = min(_LIMITED_TOKENS, affordable)

    def _estimates_of(self, model: Model) -> Estimates:
        if model not in self._estimates:
            self._estimates[model] = Estimates(model.usd_per_token)
        return self._estimates[model]
