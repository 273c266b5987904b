"""Consent and limits count for a whole search, however its code spreads its sub-calls."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
from langchain_core.messages import BaseMessage

from mahtab_tui.search.api import rlm
from mahtab_tui.search.limits import Limits, merge_limits
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.recursion_scripts import Bench, ScriptedModel, Seat, code, query_of, replies
from tests.waiting import wait_for

ASK_ABOVE = 50


async def threads(seat: Seat) -> int:
    """1,000 single calls side by side."""
    answers = await asyncio.gather(
        *(seat.llm("part", str(number)) for number in range(1_000)), return_exceptions=True
    )
    return sum(isinstance(answer, str) and not answer.startswith("[failed") for answer in answers)


async def one_by_one(seat: Seat) -> int:
    """200 single calls, one after the other."""
    answered = 0
    for number in range(200):
        try:
            answered += not (await seat.llm("part", str(number))).startswith("[failed")
        except Exception:
            seat.names["refused"] = True
    return answered


async def fan_outs(seat: Seat) -> int:
    """60 fan-outs of as many parts as one may have."""
    answered = 0
    for number in range(60):
        try:
            found = await seat.rlm("part", *(f"{number} {part}" for part in range(ASK_ABOVE)))
        except Exception:
            continue
        answered += sum(not answer.startswith("[failed") for answer in found)
    return answered


@pytest.mark.parametrize("spread", [threads, one_by_one, fan_outs])
def test_search_without_consent_stops_at_the_sub_call_limit(
    bench: Bench, spread: Callable[[Seat], Awaitable[int]]
) -> None:
    async def work(seat: Seat) -> None:
        seat.final(str(await spread(seat)))

    search = bench.search({"work": work})
    model = ScriptedModel(reply=replies({"what?": code("work"), "part": "read"}))
    found = search.run(
        "what?",
        "text",
        model=model,
        limits=Limits(small=0, max_depth=1, max_calls=None),
        asking="refuse",
    )
    assert found.text == str(ASK_ABOVE)
    assert len(bench.story.begun()) == ASK_ABOVE + 1
    assert len(bench.story.of(tags.RLM_CALL, event="fan-out", state="waiting")) == 1, (
        "one turn's code is refused once"
    )


def test_calls_of_all_depths_share_one_count(bench: Bench) -> None:
    async def split(seat: Seat) -> None:
        seat.final(",".join(await seat.rlm("deeper", *seat.partition(3))))

    def reply(messages: Sequence[BaseMessage]) -> str:
        return code("split") if "context" in str(messages[0].content) else "read"

    search = bench.search({"split": split})
    search.run(
        "what?",
        "text " * 100,
        model=ScriptedModel(reply=reply),
        limits=Limits(small=0, max_depth=3, ask_above=10),
        asking="refuse",
    )
    assert len(bench.story.begun()) <= 11
    assert bench.story.of(tags.RLM_CALL, event="fan-out", state="refused")


def test_consent_allows_the_same_number_again_one_question_at_a_time(
    bench: Bench,
) -> None:
    async def work(seat: Seat) -> None:
        seat.final(str(await threads(seat)))

    running = bench.start(
        replies({"what?": code("work"), "part": "read"}),
        {"work": work},
        max_depth=1,
        ask_above=100,
        max_calls=None,
    )
    waiting = partial(bench.story.of, tags.RLM_CALL, event="fan-out", state="waiting")
    made: list[int] = []
    while not running.done():
        wait_for(lambda: running.done() or len(waiting()) > len(made))
        if len(waiting()) > len(made):
            assert len(waiting()) == len(made) + 1
            made.append(waiting()[-1].attrs["made"])
            bench.running.answer(waiting()[-1].attrs["request"], True)
    assert running.result().text == "1000"
    assert made == [100, 202, 406, 814]


def test_default_search_makes_200_model_calls(bench: Bench) -> None:
    async def work(seat: Seat) -> None:
        seat.final(str(await fan_outs(seat)))

    search = bench.search({"work": work})
    model = ScriptedModel(reply=replies({"what?": code("work"), "part": "read"}))
    found = search.run(
        "what?", "text", model=model, limits=Limits(small=0, max_depth=1), asking="run"
    )
    assert found.usage.calls <= 200
    assert Limits().max_calls == merge_limits(load_settings().rlm_limits()).max_calls == 200
    assert (
        Limits().max_depth
        == merge_limits(load_settings().rlm_limits()).max_depth
        == inspect.signature(rlm).parameters["max_depth"].default
        == 1
    )
    assert len(bench.story.begun()) <= 202, "what would come to nothing makes no node"


@pytest.mark.parametrize("cost", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("max_usd", [0.02, 1.0, 7.0, 20.0])
def test_dollar_limit_is_exceeded_by_one_call_at_most(
    bench: Bench, cost: float, max_usd: float
) -> None:
    """Whatever a call costs, and however many could run side by side."""
    most, running, lock = 0, 0, threading.Lock()

    async def reply(messages: Sequence[BaseMessage]) -> str:
        nonlocal most, running
        if query_of(messages) == "what?":
            return code("work")
        with lock:
            running += 1
            most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return "read"

    async def work(seat: Seat) -> None:
        await seat.rlm("part", *map(str, range(40)))
        seat.final("end")

    root = ScriptedModel(reply=reply, cost=0.001)
    parts = ScriptedModel(reply=reply, cost=cost)  # dear only from its first call on
    search = bench.search({"work": work})
    found = search.run(
        "what?",
        "text",
        model=root,
        sub_model=parts,
        limits=Limits(small=0, max_depth=1, max_usd=max_usd),
        asking="run",
    )
    assert found.usage.cost <= max_usd + cost
    if cost == 0.01 and max_usd == 20.0:
        assert most > 1, "calls run side by side where they are sure to be affordable"
