"""Limits in dollars: calls run concurrently within them, and do not exceed them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from mahtab_tui.llm.ledger import Ledger
from tests import tags
from tests.recursion_scripts import (
    Messages,
    ScriptedModel,
    ScriptedSearches,
    TurnAccess,
    code,
    query_of,
)

PARTS = 20


class PricedModel(ScriptedModel):
    """Has a price for each token, and cuts its answers at the limit of a call; a word is a token."""

    reports_cost: ClassVar[bool] = False
    priced_as: ClassVar[str] = "openai"

    model: str = "gpt-4o"
    max_tokens: int | None = None

    async def _astream(
        self, messages: Messages, *args: Any, max_tokens: int | None = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = self.reply(messages)
        words = (reply if isinstance(reply, str) else await reply).split(" ")
        written = len(words)
        token_limit = self.max_tokens if max_tokens is None else max_tokens
        cut = token_limit is not None and written > token_limit
        read = sum(len(str(message.content)) for message in messages) // 4
        words, written = (
            (words[:token_limit], token_limit)
            if cut and token_limit is not None
            else (words, written)
        )
        yield ChatGenerationChunk(message=AIMessageChunk(content=" ".join(words)))
        usage: Any = {"input_tokens": read, "output_tokens": written, "total_tokens": 0}
        about = {"model_name": self.model, "finish_reason": "length" if cut else "stop"}
        yield ChatGenerationChunk(
            message=AIMessageChunk(content="", usage_metadata=usage, response_metadata=about)
        )


async def read_parts(access: TurnAccess) -> None:
    answers = await access.rlm("part", *(f"{number} {'x' * 400}" for number in range(PARTS)))
    access.final(f"{sum(not answer.startswith('[failed') for answer in answers)} answers")


@pytest.mark.parametrize(
    ("kind", "at_a_time", "of_session"),
    [(PricedModel, 10, False), (PricedModel, 10, True), (ScriptedModel, 2, False)],
)
def test_calls_run_at_the_same_time_within_a_limit_in_dollars(
    searches: ScriptedSearches,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[ScriptedModel],
    at_a_time: int,
    of_session: bool,
) -> None:
    """Only the first kind can limit its answers; for the other, a first call shows the cost."""
    together = asyncio.Barrier(at_a_time)

    async def reply(messages: Messages) -> str:
        if query_of(messages) == "what?":
            return code("read_parts")
        async with asyncio.timeout(20):
            await together.wait()
        return "yes"

    limits: dict[str, Any] = {"max_depth": 1, "max_usd": 0.5}
    if of_session:
        del limits["max_usd"]
        monkeypatch.setattr("mahtab_tui.search.search.Ledger", lambda: Ledger(lambda: 0.5))
    result = searches.run(kind(reply=reply), read_parts, text="text", **limits)
    assert (result.text, result.state) == (f"{PARTS} answers", "done")
    assert result.usage.cost < 0.5


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", [PricedModel, ScriptedModel])
def test_limit_in_dollars_is_not_exceeded(
    searches: ScriptedSearches, kind: type[ScriptedModel], seed: int
) -> None:
    """It is by the last call at most if calls cannot limit their answers."""
    chance = random.Random(seed)
    max_usd = chance.choice([0.15, 0.25, 0.4])

    async def reply(messages: Messages) -> str:
        if query_of(messages) == "what?":
            return code("read_parts")
        await asyncio.sleep(0)
        model.cost = chance.uniform(0.005, 0.02)
        return "word " * chance.choice([1, 50, 2_000, 7_000])

    model = kind(reply=reply)
    result = searches.run(model, read_parts, text="text", max_depth=1, max_usd=max_usd)
    costs = [record.attrs["cost"] for record in searches.events.of(tags.USAGE)]
    assert sum(costs) == pytest.approx(result.usage.cost)
    assert result.usage.cost <= max_usd + (0 if kind is PricedModel else max(costs))
    assert len(costs) > 2


@pytest.mark.parametrize(("cost", "max_usd"), [(0.5, 7.0), (3.0, 7.0)])
def test_a_dearer_model_of_sub_calls_exceeds_the_limit_by_one_call_at_most(
    searches: ScriptedSearches, cost: float, max_usd: float
) -> None:
    async def reply(messages: Messages) -> str:
        await asyncio.sleep(0.001)
        return "yes"

    root = ScriptedModel(reply=lambda messages: code("read_parts"), cost=0.001)
    sub_model = ScriptedModel(reply=reply, cost=cost)
    limits: dict[str, Any] = {"max_depth": 1, "max_usd": max_usd}
    result = searches.run(root, read_parts, text="text", sub_model=sub_model, **limits)
    assert max_usd - cost < result.usage.cost <= max_usd + cost


def test_answer_that_the_limit_has_cut_is_asked_for_again(searches: ScriptedSearches) -> None:
    long = "word " * 5_000

    def ask(max_usd: float, max_tokens: int | None = None) -> tuple[str, int]:
        model = PricedModel(reply=lambda messages: long, max_tokens=max_tokens)
        result = searches.run(model, text="text", small=9, max_usd=max_usd)
        assert result.state == "partial" or result.text == long
        return result.state, result.usage.calls

    assert ask(0.5) == ("done", 2)
    streamed = [record.attrs.get("fresh") for record in searches.events.of(tags.RLM_CHAT_STREAM)]
    assert True in streamed, "the first answer no longer counts"
    assert ask(0.1) == ("partial", 1), "a longer one cannot be afforded"
    assert ask(0.1, max_tokens=1_000) == ("partial", 1), "the model's own limit has cut it"
    assert ask(100.0) == ("done", 1), "no limit is needed"
