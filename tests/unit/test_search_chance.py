"""Trees in which chance decides what nodes do, which fail, and who is stopped or run again when."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from mahtab_tui.llm.base import ModelBusy, ModelError
from mahtab_tui.search.search import SearchAnswer
from tests.recursion_scripts import Bench, Seat, TurnStatusError, code
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.search.limits._FIRST_PAUSE", 0.002)


def waiting(bench: Bench) -> list[str]:
    """Questions before a fan-out that nobody has answered."""
    asked: dict[str, str] = {}
    for record in list(bench.story):
        if record.attrs.get("event") == "fan-out":
            asked[record.attrs["request"]] = record.attrs["state"]
    return [request for request, state in asked.items() if state == "waiting"]


def has_come_so_far(bench: Bench, running: Future[SearchAnswer], events: int) -> bool:
    """Whether there are so many events, or there will not be for now."""
    return len(bench.story) >= events or running.done() or bool(waiting(bench))


@pytest.mark.parametrize("seed", range(40))
def test_every_tree_ends_and_leaves_nothing(bench: Bench, seed: int) -> None:
    """`Bench.close` looks at the events: every node has ended once, whatever happened to it."""
    chance = random.Random(seed)
    queries = ["a", "b", "c"]

    async def split(seat: Seat) -> None:
        parts: list[Any] = seat.partition(chance.randint(1, 4)) if seat.text else ["made up"]
        seat.print(await seat.rlm(chance.choice(queries), *parts))

    async def ask(seat: Seat) -> None:
        seat.print(
            await asyncio.gather(
                *(seat.llm(chance.choice(queries), (0, chance.randint(0, 50))) for _ in range(3))
            )
        )

    async def end(seat: Seat) -> None:
        seat.final("known", (0, chance.randint(0, 100)))

    async def leave(seat: Seat) -> None:
        """Its calls go on without it."""
        pending = seat.names["pending"] = asyncio.ensure_future(split(seat))
        pending.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.sleep(chance.random() / 200)

    async def fail(seat: Seat) -> None:
        raise chance.choice([ValueError("no"), TurnStatusError("died"), TurnStatusError("killed")])

    async def reply(messages: Sequence[BaseMessage]) -> str:
        await asyncio.sleep(chance.random() / 200)
        if chance.random() < 0.1:
            raise chance.choice([ModelBusy("busy"), ModelError("down"), ValueError("odd")])
        return chance.choice(
            [
                code("split"),
                code("ask"),
                code("end"),
                code("end"),
                code("leave"),
                code("fail"),
                "",
                "words",
            ]
        )

    turns = {"split": split, "ask": ask, "end": end, "leave": leave, "fail": fail}
    limits: dict[str, Any] = {
        "concurrency": chance.choice([1, 3, 16]),
        "max_turns": 4,
        "ask_above": 3,
        "small": chance.choice([0, 2_000]),
    }
    limits |= chance.choice(
        [
            {},
            {"max_calls": chance.randint(1, 60)},
            {"max_tokens": chance.randint(1_000, 200_000)},
            {"max_usd": 0.3},
        ]
    )
    running = bench.start(
        reply, turns, max_depth=chance.choice([1, 2, 3]), max_seconds=10, **limits
    )
    wait_for(lambda: bench.story or running.done())
    name = bench.story[0].attrs["tree"]
    while not running.done():
        wait_for(partial(has_come_so_far, bench, running, len(bench.story) + chance.randint(1, 60)))
        for request in waiting(bench):
            bench.running.answer(request, chance.random() < 0.7)
        begun = bench.story.begun()
        node = chance.choice(begun[1:] or begun) if chance.random() < 0.95 else "1"
        if chance.random() < 0.5:
            bench.running.stop(name, node)
        else:
            bench.running.retry(name, node, chance.choice([None, "a", "other"]))
    assert running.result(30).state in ("done", "partial", "error", "stopped")
    bench.running.close()
    assert bench.sandboxes.open == 0
    budget = bench.running._trees[name].calls.budget
    assert budget._reserved[:2] == (0, 0), "nothing stays reserved"
    assert budget._reserved.usd == pytest.approx(0)
