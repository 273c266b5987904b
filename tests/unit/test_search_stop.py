"""Stopping at any node and state."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from langchain_core.messages import BaseMessage

from mahtab_tui.llm.base import ModelBusy
from mahtab_tui.search.api import Search
from mahtab_tui.search.limits import Limits
from tests import tags
from tests.recursion_scripts import (
    TEXT,
    Bench,
    Reply,
    ScriptedModel,
    ScriptedSandboxes,
    Seat,
    TurnStatusError,
    code,
    query_of,
    replies,
)
from tests.waiting import wait_for


async def halves(seat: Seat) -> None:
    seat.final("|".join(await seat.rlm("half", *seat.partition(2))))


async def quarters(seat: Seat) -> None:
    seat.final("+".join(await seat.rlm("quarter", *seat.partition(2))))


async def work(seat: Seat) -> None:
    await asyncio.Event().wait()


async def ask_many(seat: Seat) -> None:
    await seat.rlm("quarter", *map(str, range(20)))


TURNS = {"halves": halves, "quarters": quarters, "work": work, "ask_many": ask_many}


def tree(first: str | BaseException | None) -> Reply:
    """A root with two halves: the first says `first` (None: it thinks for ever), the second ends
    well; so do the quarters, unless `first` asks."""

    async def reply(messages: Sequence[BaseMessage]) -> str:
        query = query_of(messages)
        if query == "what?":
            return code("halves")
        if query == "quarter" or first is None:
            await asyncio.Event().wait()
        if isinstance(first, BaseException):
            raise first
        return str(first)

    return reply


STATES = {
    "thinking": (None, {"event": "turn"}),
    "running": (code("work"), {}),
    "waiting for children": (code("quarters"), {"event": "begin"}),
    "waiting for consent": (code("ask_many"), {"event": "fan-out"}),
    "backing off": (ModelBusy("It is busy."), {"event": "back-off"}),
}


def is_so(bench: Bench, state: str) -> bool:
    if state == "running":
        return bool(bench.story.of(tags.RLM_REPL_IN, "1.1"))
    if state == "waiting for children":
        return bool(bench.story.of(tags.RLM_CALL, "1.1.2", event="turn"))
    return bool(bench.story.of(tags.RLM_CALL, "1.1", **STATES[state][1]))


@pytest.mark.parametrize("state", STATES)
def test_node_can_be_stopped_in_any_state_and_siblings_continue(bench: Bench, state: str) -> None:
    running = bench.start(tree(STATES[state][0]), TURNS, max_turns=1, ask_above=10)
    wait_for(lambda: is_so(bench, state) and "1.2" in bench.story.begun())
    name = bench.story[0].attrs["tree"]
    bench.running.stop(name, "1.1")
    wait_for(lambda: "1.1" in bench.story.finals())
    assert bench.story.finals()["1.1"] == ("stopped", "The call was stopped.")
    assert "1.2" not in bench.story.finals()
    assert all(
        child in bench.story.finals() for child in bench.story.begun() if child.startswith("1.1")
    )
    bench.running.stop(name, "1.2")
    assert (
        running.result(20).text == "[failed: The call was stopped.]|[failed: The call was stopped.]"
    )
    wait_for(lambda: bench.sandboxes.open == 0)


@pytest.mark.parametrize("state", STATES)
def test_stopping_the_root_stops_all_descendants(bench: Bench, state: str) -> None:
    running = bench.start(tree(STATES[state][0]), TURNS, max_turns=1, ask_above=10)
    wait_for(lambda: is_so(bench, state))
    bench.running.stop(bench.story[0].attrs["tree"], "1")
    assert running.result(20).state == "stopped"
    assert {state for state, _ in bench.story.finals().values()} == {"stopped"}
    assert set(bench.story.finals()) == set(bench.story.begun())
    wait_for(lambda: bench.sandboxes.open == 0)


def test_queued_node_can_be_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.search.conversation.Model.concurrency", 1)
    running = bench.start(tree(None), TURNS)
    wait_for(lambda: len(bench.story.begun()) == 3)
    name = bench.story[0].attrs["tree"]
    for node in ("1.2", "1.1"):
        bench.running.stop(name, node)
    assert (
        running.result(20).text == "[failed: The call was stopped.]|[failed: The call was stopped.]"
    )


def test_node_with_a_starting_sandbox_can_be_stopped(bench: Bench) -> None:
    search = bench.search(TURNS)
    bench.sandboxes.slow = True

    def stop() -> None:
        wait_for(lambda: bench.story.of(tags.RLM_CHAT))
        search.stop(bench.story[0].attrs["tree"], "1")

    threading.Thread(target=stop).start()
    assert (
        search.run(
            "what?",
            TEXT,
            model=ScriptedModel(reply=tree(None)),
            limits=Limits(small=0, max_depth=3),
        ).state
        == "stopped"
    )


def test_node_waiting_for_its_twin_is_stopped_alone(bench: Bench) -> None:
    async def twice(seat: Seat) -> None:
        seat.final("|".join(await seat.rlm("quarter", "same", "same")))

    running = bench.start(tree(None), {"halves": twice}, max_depth=1)
    wait_for(lambda: bench.story.of(tags.RLM_CALL, "1.1", event="turn"))
    name = bench.story[0].attrs["tree"]
    bench.running.stop(name, "1.2")
    wait_for(lambda: "1.2" in bench.story.finals())
    assert "1.1" not in bench.story.finals()
    bench.running.stop(name, "1.1")
    assert (
        running.result(20).text == "[failed: The call was stopped.]|[failed: The call was stopped.]"
    )


def test_code_that_outlives_its_node_leaves_no_question(bench: Bench) -> None:
    """Neither one that was asked before the end, nor one that would be asked after it."""
    left: list[asyncio.Future[list[str]]] = []

    async def leave(seat: Seat) -> None:
        async def late() -> list[str]:
            while not bench.story.finals():
                await asyncio.sleep(0.001)
            return await seat.rlm("late", *seat.partition(4))

        left.extend(
            asyncio.ensure_future(call) for call in (seat.rlm("half", *seat.partition(4)), late())
        )
        while not bench.story.of(tags.RLM_CALL, event="fan-out"):
            await asyncio.sleep(0.001)
        seat.final("ended")

    running = bench.start(replies({"what?": code("leave")}), {"leave": leave}, ask_above=2)
    assert running.result(20).text == "ended"
    wait_for(lambda: all(call.done() for call in left))
    assert all(
        "has ended" in str(call.exception()) or "were not allowed" in str(call.exception())
        for call in left
    )
    assert [record.attrs["state"] for record in bench.story.of(tags.RLM_CALL, event="fan-out")] == [
        "waiting",
        "refused",
    ]


def test_closing_a_search_stops_what_runs(bench: Bench) -> None:
    running = bench.start(tree(code("work")), TURNS)
    wait_for(lambda: len(bench.story.of(tags.RLM_REPL_IN)) == 3)
    bench.running.close()
    assert running.result(20).state == "stopped"
    assert bench.sandboxes.open == 0
    assert bench.sandboxes.closed
    bench.running.stop("tree", "1")
    bench.running.close()


def test_nobody_waits_for_a_closed_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.search.api._CLOSING", 0.2)
    asked = threading.Event()

    async def reply(messages: Sequence[BaseMessage]) -> str:
        asked.set()
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    model = ScriptedModel(reply=reply)
    search = Search(lambda record: None, lambda: ScriptedSandboxes({}))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(search.run, "what?", TEXT, model=model)
        assert asked.wait(20)
        search.close()
        assert waiting.result(20).state == "stopped"
    assert search.run("what?", TEXT, model=model).state == "stopped"
    search.close()


def test_calls_of_killed_code_are_stopped(bench: Bench) -> None:
    async def leave(seat: Seat) -> None:
        asking = asyncio.ensure_future(seat.rlm("half", *seat.partition(2)))
        while len(bench.story.of(tags.RLM_CALL, event="turn")) < 3:
            await asyncio.sleep(0.001)
        asking.cancel()
        raise TurnStatusError("killed")

    async def done(seat: Seat) -> None:
        while len(bench.story.finals()) < 2:
            await asyncio.sleep(0.001)
        seat.final("alone")

    async def reply(messages: Sequence[BaseMessage]) -> str:
        if query_of(messages) == "half":
            await asyncio.Event().wait()
        return code("done" if len(messages) > 2 else "leave")

    assert bench.run(reply, {"leave": leave, "done": done}, max_depth=1).text == "alone"
    assert {bench.story.finals()[node][0] for node in ("1.1", "1.2")} == {"stopped"}


def test_unknown_trees_nodes_and_questions_are_ignored(bench: Bench) -> None:
    found = bench.run(replies({"what?": code("halves"), "half": "read"}), TURNS, max_depth=1)
    search = bench._searches[0]
    for tree_name, node in (("no such", "1"), (found.tree, "1.7"), (found.tree, "x")):
        search.stop(tree_name, node)
    search.answer("no such", True)
    assert search.text("no such", 0, 5) is None
    assert search.text(found.tree, 5, 12) == TEXT[5:12]
    assert search.run("what?", "a", model=ScriptedModel(reply=lambda messages: "b")).text == "b"


def test_user_answers_the_question_before_a_fan_out(bench: Bench) -> None:
    running = bench.start(
        replies({"what?": [code("ask_many"), code("ask_many", "again")], "quarter": "read"}),
        TURNS,
        ask_above=10,
        max_depth=1,
        max_turns=2,
    )
    waiting = partial(bench.story.of, tags.RLM_CALL, event="fan-out", state="waiting")
    wait_for(waiting)
    bench.running.answer(waiting()[0].attrs["request"], False)
    wait_for(lambda: len(waiting()) == 2)
    bench.running.answer(waiting()[1].attrs["request"], True)
    running.result(20)
    assert [record.attrs["state"] for record in bench.story.of(tags.RLM_CALL, event="fan-out")] == [
        "waiting",
        "refused",
        "waiting",
        "run",
    ]
    assert len(bench.story.begun()) == 21
