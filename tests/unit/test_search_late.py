"""A model that fails late loses nothing: what was found comes back, marked as partial."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from mahtab_tui.llm.base import ContextTooLong, ModelBusy, ModelError
from mahtab_tui.llm.prompts import LAST_CALL
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.live import MOST, Findings
from tests import tags
from tests.recursion_scripts import TEXT, Bench, ScriptedModel, Seat, code, query_of

FAILURES = [
    ContextTooLong("It is too long."),
    ModelError("The account cannot pay."),
    ValueError("bad luck"),
    ModelBusy("It is busy."),
]


async def look(seat: Seat) -> None:
    seat.print("the culprit is line 17")


async def ask(seat: Seat) -> None:
    seat.names["kept"] = await seat.rlm("part", *seat.partition(3))


TURNS = {"look": look, "ask": ask}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.search.limits._FIRST_PAUSE", 0.001)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_permanent_model_failure_keeps_the_findings(bench: Bench, failure: Exception) -> None:
    def reply(messages: Sequence[BaseMessage]) -> str:
        if query_of(messages) == "part":
            return "it was the disk"
        replies = sum(message.type == "ai" for message in messages)
        if replies < 2 and LAST_CALL not in str(messages[-1].content):
            return code("look" if replies == 0 else "ask")
        raise failure

    found = bench.run(reply, TURNS, max_depth=1)
    assert found.state == "partial"
    assert found.text.startswith("The search ended before it had an answer. ")
    assert "culprit is line 17" in found.text
    assert "part (part 3 of 3): it was the disk" in found.text, (
        "what its code got and never printed"
    )


def test_too_long_conversation_is_restarted_from_its_findings(bench: Bench) -> None:
    requests: list[Sequence[BaseMessage]] = []

    def reply(messages: Sequence[BaseMessage]) -> str:
        requests.append(list(messages))
        if len(messages) > 4:
            raise ContextTooLong("It is too long.")
        return "it was line 17" if LAST_CALL in str(messages[-1].content) else code("look")

    found = bench.run(reply, TURNS)
    assert (found.text, found.state) == ("it was line 17", "partial")
    assert [message.type for message in requests[-1]] == ["system", "human", "human"]
    assert "culprit is line 17" in str(requests[-1][-1].content)


def test_too_long_last_call_is_retried_shorter(bench: Bench) -> None:
    def reply(messages: Sequence[BaseMessage]) -> str:
        if LAST_CALL not in str(messages[-1].content):
            return code("look")
        if len(messages) > 3:
            raise ContextTooLong("It is too long.")
        return "it was line 17"

    found = bench.run(reply, TURNS, max_turns=2)
    assert (found.text, found.state) == ("it was line 17", "partial")


@pytest.mark.parametrize("busy", [False, True])
def test_last_call_running_out_of_time_leaves_the_findings(bench: Bench, busy: bool) -> None:
    async def reply(messages: Sequence[BaseMessage]) -> str:
        if LAST_CALL not in str(messages[-1].content) and len(messages) < 3:
            return code("look")
        if busy:
            raise ModelBusy("It is busy.", 1_000)
        await asyncio.Event().wait()
        return ""

    found = bench.run(reply, TURNS, max_seconds=0.5)
    assert found.state == "partial"
    assert "The time for the search is up." in found.text
    assert "culprit is line 17" in found.text


def test_last_call_gets_the_finished_sub_calls_when_others_take_too_long(
    bench: Bench,
) -> None:
    last: list[str] = []

    async def reply(messages: Sequence[BaseMessage]) -> str:
        if LAST_CALL in str(messages[-1].content):
            last.append(str(messages[-1].content))
            return "most of it"
        if query_of(messages) == "what?":
            return code("ask")
        if "line 999" in str(messages[-1].content):
            await asyncio.Event().wait()
        return "it was the disk"

    found = bench.run(reply, TURNS, max_seconds=0.5, max_depth=1)
    assert (found.text, found.state) == ("most of it", "partial")
    assert "part (part 1 of 3): it was the disk" in last[0]
    assert "part 3 of 3" not in last[0]


def test_failure_without_findings_is_an_error(bench: Bench) -> None:
    def reply(messages: Sequence[BaseMessage]) -> str:
        raise ModelError("The account cannot pay.")

    found = bench.run(reply, TURNS)
    assert (found.text, found.state) == ("The account cannot pay.", "error")


def test_interrupted_answer_is_returned_partially(bench: Bench) -> None:
    class Breaking(ScriptedModel):
        async def _astream(
            self, messages: list[BaseMessage], *args: Any, **kwargs: Any
        ) -> AsyncIterator[ChatGenerationChunk]:
            yield ChatGenerationChunk(message=AIMessageChunk(content="It began at noon "))
            raise ValueError("the line went dead")

    found = bench.search({}).run("what?", TEXT, model=Breaking(reply=None), limits=Limits())
    assert found.state == "partial"
    assert (
        found.text
        == "It began at noon \n\n[The answer broke off here. The model could not answer: ValueError: the line went dead.]"
    )


def test_findings_are_bounded_and_note_what_is_missing() -> None:
    found = Findings()
    assert not found
    for number in range(1_000):
        found.add_output(f"output {number} " + "x" * 1_000)
        found.add_answer("q" * 90_000, number, 1_000, "a" * 90_000)
    assert found
    assert len(found.as_answer("")) < 2 * MOST + 1_000
    assert "output 999" in found.text
    assert "earlier left out" in found.text
    assert "part 1000 of 1000" in found.text


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("apart", [False, True])
def test_model_raising_system_exit_ends_its_call_and_not_the_search(
    bench: Bench, error: BaseException, apart: bool
) -> None:
    """Also where it does so in a task of its own, which the loop hears of."""

    async def leave() -> str:
        await asyncio.sleep(0)
        raise error

    async def reply(messages: Sequence[BaseMessage]) -> str:
        if query_of(messages) == "what?":
            return code("answer")
        return await (asyncio.ensure_future(leave()) if apart else leave())

    async def answer(seat: Seat) -> None:
        seat.final((await seat.rlm("part", "a text"))[0])

    running = bench.start(reply, {"answer": answer}, max_depth=1)
    assert (
        running.result(60).text
        == f"[failed: The model could not answer: {type(error).__name__} {error}".rstrip() + ".]"
    )
    assert (
        bench.running.run("again?", "a", model=ScriptedModel(reply=lambda messages: "here")).text
        == "here"
    )
    assert bench.story.of(tags.RLM_FINAL, "1.1")[0].attrs["state"] == "error"
