"""Stopping at any node and state."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from mahtab_tui.bus.records import Record
from mahtab_tui.llm.base import ModelBusy
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.search.search import Search, SearchSettings
from mahtab_tui.search.search_answers import SearchAnswer
from tests import tags
from tests.recursion_scripts import (
    STOPPED,
    TEXT,
    Messages,
    Reply,
    ScriptedModel,
    ScriptedSandboxes,
    ScriptedSearches,
    TurnAccess,
    TurnStatusError,
    code,
    query_of,
    replies,
)
from tests.waiting import wait_for

STATES: dict[str, tuple[str | ModelBusy | None, str, str]] = {
    "thinking": (None, "1.1", "turn"),
    "running": (code("work"), "1.1", ""),
    "waiting for children": (code("quarters"), "1.1.2", "turn"),
    "waiting for consent": (code("ask_many"), "1.1", "fan-out"),
    "backing off": (ModelBusy("It is busy."), "1.1", "back-off"),
}


async def halves(access: TurnAccess) -> None:
    access.final("|".join(await access.rlm("half", *access.partition(2))))


async def quarters(access: TurnAccess) -> None:
    access.final("+".join(await access.rlm("quarter", *access.partition(2))))


async def work(access: TurnAccess) -> None:
    await asyncio.Event().wait()


async def ask_many(access: TurnAccess) -> None:
    await access.rlm("quarter", *map(str, range(20)))


TURNS = (halves, quarters, work, ask_many)


def tree(first_reply: str | BaseException | None) -> Reply:
    """Answer a root with two halves, and a half with `first` (None: with nothing, ever)."""

    async def reply(messages: Messages) -> str:
        query = query_of(messages)
        if query == "what?":
            return code("halves")
        if query == "quarter" or first_reply is None:
            await asyncio.Event().wait()
        if isinstance(first_reply, BaseException):
            raise first_reply
        return str(first_reply)

    return reply


def start(searches: ScriptedSearches, state: str) -> Future[SearchAnswer]:
    """Start a tree, and wait until its first half is in a state."""
    first_reply, node, event = STATES[state]
    running = searches.start(tree(first_reply), *TURNS, max_turns=1, ask_above=10)
    search_events = searches.events
    wait_for(
        lambda: (
            search_events.calls(event, node) if event else search_events.of(tags.RLM_REPL_IN, node)
        )
    )
    wait_for(lambda: "1.2" in search_events.begun())
    return running


@pytest.mark.parametrize("state", STATES)
def test_node_can_be_stopped_in_any_state_and_siblings_continue(
    searches: ScriptedSearches, state: str
) -> None:
    running = start(searches, state)
    searches.stop("1.1")
    wait_for(lambda: "1.1" in searches.events.finals())
    assert searches.events.finals()["1.1"] == ("stopped", "The call was stopped.")
    assert "1.2" not in searches.events.finals()
    assert all(
        child in searches.events.finals()
        for child in searches.events.begun()
        if child.startswith("1.1")
    )
    searches.stop("1.2")
    assert running.result(20).text == f"{STOPPED}|{STOPPED}"
    wait_for(lambda: searches.sandboxes.open == 0)


@pytest.mark.parametrize("state", STATES)
def test_stopping_the_root_stops_all_descendants(searches: ScriptedSearches, state: str) -> None:
    running = start(searches, state)
    searches.stop("1")
    assert running.result(20).state == "stopped"
    assert {state for state, _ in searches.events.finals().values()} == {"stopped"}
    assert set(searches.events.finals()) == set(searches.events.begun())
    wait_for(lambda: searches.sandboxes.open == 0)


def test_queued_node_can_be_stopped(
    searches: ScriptedSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.search.conversation.Model.concurrency", 1)
    running = searches.start(tree(None), *TURNS)
    wait_for(lambda: len(searches.events.begun()) == 3)
    searches.stop("1.2")
    searches.stop("1.1")
    assert running.result(20).text == f"{STOPPED}|{STOPPED}"


def test_node_with_a_starting_sandbox_can_be_stopped(
    searches: ScriptedSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedSandboxes, "slow", True)
    running = searches.start(tree(None), *TURNS)
    wait_for(lambda: searches.events.of(tags.RLM_CHAT))
    searches.stop("1")
    assert running.result(20).state == "stopped"


def test_node_waiting_for_its_twin_is_stopped_alone(searches: ScriptedSearches) -> None:
    async def halves(access: TurnAccess) -> None:
        access.final("|".join(await access.rlm("quarter", "same", "same")))

    running = searches.start(tree(None), halves, max_depth=1)
    wait_for(lambda: searches.events.calls("turn", "1.1"))
    searches.stop("1.2")
    wait_for(lambda: "1.2" in searches.events.finals())
    assert "1.1" not in searches.events.finals()
    searches.stop("1.1")
    assert running.result(20).text == f"{STOPPED}|{STOPPED}"


def test_running_code_of_an_ended_node_leaves_no_question(searches: ScriptedSearches) -> None:
    pending_calls: list[asyncio.Future[list[str]]] = []

    async def leave(access: TurnAccess) -> None:
        async def late() -> list[str]:
            while not searches.events.finals():
                await asyncio.sleep(0.001)
            return await access.rlm("late", *access.partition(4))

        pending_calls.extend(
            asyncio.ensure_future(call)
            for call in (access.rlm("half", *access.partition(4)), late())
        )
        while not searches.events.calls("fan-out"):
            await asyncio.sleep(0.001)
        access.final("ended")

    running = searches.start(replies({"what?": code("leave")}), leave, ask_above=2)
    assert running.result(20).text == "ended"
    wait_for(lambda: all(call.done() for call in pending_calls))
    refusal, refused = (str(call.exception()) for call in pending_calls)
    assert "were not allowed" in refusal
    assert "has ended" in refused
    assert searches.events.begun() == ["1"]
    states = [record.attrs["state"] for record in searches.events.calls("fan-out")]
    assert states == ["waiting", "refused"]


def test_closing_a_search_stops_what_runs(searches: ScriptedSearches) -> None:
    running = searches.start(tree(code("work")), *TURNS)
    wait_for(lambda: len(searches.events.of(tags.RLM_REPL_IN)) == 3)
    searches.running.close()
    assert running.result(20).state == "stopped"
    assert searches.sandboxes.open == 0
    assert searches.sandboxes.closed
    searches.running.stop("tree", "1")
    searches.running.close()


def test_nobody_waits_for_a_closed_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.search.search._CLOSE_TIMEOUT_S", 0.2)
    was_asked = threading.Event()
    may_end = threading.Event()
    call_ended = threading.Event()

    async def reply(messages: Messages) -> str:
        was_asked.set()
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        call_ended.set()
        return "late"

    model = ScriptedModel(reply=reply)
    search = Search(lambda record: None, ScriptedSandboxes)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(search.run, "what?", TEXT, model=model)
        assert was_asked.wait(20)
        search.close()
        assert waiting.result(20).state == "stopped"
    assert search.run("what?", TEXT, model=model).state == "stopped"
    search.close()
    may_end.set()
    assert call_ended.wait(20), "its loop was taken away"


def test_calls_of_killed_code_are_stopped(searches: ScriptedSearches) -> None:
    async def leave(access: TurnAccess) -> None:
        asking = asyncio.ensure_future(access.rlm("half", *access.partition(2)))
        while len(searches.events.calls("turn")) < 3:
            await asyncio.sleep(0.001)
        asking.cancel()
        raise TurnStatusError("killed")

    async def done(access: TurnAccess) -> None:
        while len(searches.events.finals()) < 2:
            await asyncio.sleep(0.001)
        access.final("alone")

    async def reply(messages: Messages) -> str:
        if query_of(messages) == "half":
            await asyncio.Event().wait()
        return code("done" if len(messages) > 2 else "leave")

    assert searches.run(reply, leave, done, max_depth=1).text == "alone"
    assert {searches.events.finals()[node][0] for node in ("1.1", "1.2")} == {"stopped"}


def test_unknown_trees_nodes_and_questions_are_ignored(searches: ScriptedSearches) -> None:
    result = searches.run(replies({"what?": code("halves"), "half": "read"}), *TURNS, max_depth=1)
    search = searches.running
    for tree_name, node in (("no such", "1"), (result.tree, "1.7"), (result.tree, "x")):
        search.stop(tree_name, node)
    search.answer("no such", True)
    assert search.text("no such", 0, 5) is None
    assert search.text(result.tree, 5, 12) == TEXT[5:12]
    assert search.run("what?", "a", model=ScriptedModel(reply=lambda messages: "b")).text == "b"


def test_user_answers_the_question_before_a_fan_out(searches: ScriptedSearches) -> None:
    script = {"what?": [code("ask_many"), code("ask_many", "again")], "quarter": "read"}
    running = searches.start(replies(script), *TURNS, ask_above=10, max_depth=1, max_turns=2)
    waiting = partial(searches.events.calls, "fan-out", state="waiting")
    wait_for(waiting)
    searches.running.answer(waiting()[0].attrs["request"], False)
    wait_for(lambda: len(waiting()) == 2)
    searches.running.answer(waiting()[1].attrs["request"], True)
    running.result(20)
    states = [record.attrs["state"] for record in searches.events.calls("fan-out")]
    assert states == ["waiting", "refused", "waiting", "run"]
    assert len(searches.events.begun()) == 21


def test_a_search_is_closed_while_its_trees_are_forgotten() -> None:
    trees = [f"{number:08}" for number in range(3)]
    sandboxes = ScriptedSandboxes(TURNS)
    working = threading.Semaphore(0)

    def on_event(record: Record) -> None:
        if record.tag == tags.RLM_REPL_IN:
            working.release()
        elif record.tag == tags.RLM_FINAL:
            for name in trees:
                search.forget(name)

    search = Search(on_event, lambda: sandboxes)
    model = ScriptedModel(reply=lambda messages: code("work"))
    limits = SearchLimits(small=0)
    with ThreadPoolExecutor(len(trees)) as pool:
        callers = [
            pool.submit(
                search.run,
                "what?",
                TEXT,
                model=model,
                limits=limits,
                settings=SearchSettings(tree=name),
            )
            for name in trees
        ]
        for _ in trees:
            assert working.acquire(timeout=20)
        search.close()
        assert [caller.result(20).state for caller in callers] == ["stopped"] * len(trees)
    assert sandboxes.open == 0
    assert sandboxes.closed


def test_a_search_whose_id_is_in_use_is_refused(searches: ScriptedSearches) -> None:
    running = searches.start(tree(code("work")), *TURNS)
    wait_for(lambda: len(searches.events.of(tags.RLM_REPL_IN)) == 3)
    name = searches.events[0].attrs["tree"]
    model = ScriptedModel(reply=lambda messages: "an answer")
    with pytest.raises(ValueError, match=r"^There is already a search with the id \w+\.$"):
        searches.running.run("again?", TEXT, model=model, settings=SearchSettings(tree=name))
    searches.stop("1")
    assert running.result(20).state == "stopped", "it cannot be stopped any more"
