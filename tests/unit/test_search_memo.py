"""Questions that were asked before in a tree are not asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from tests import tags
from tests.recursion_scripts import TEXT, Bench, Seat, code, query_of, replies
from tests.waiting import wait_for


async def thrice(seat: Seat) -> None:
    seat.final(" ".join(await seat.rlm("part", *["the same"] * 3)))


def test_equal_calls_are_answered_once_even_concurrently(bench: Bench) -> None:
    asked: list[str] = []

    async def reply(messages: Sequence[BaseMessage]) -> str:
        asked.append(query_of(messages))
        if asked[-1] == "what?":
            return code("thrice")
        await asyncio.sleep(0)
        return f"answer {len(asked)}"

    found = bench.run(reply, {"thrice": thrice}, max_depth=1)
    assert found.text == "answer 2 answer 2 answer 2"
    assert asked == ["what?", "part"]
    assert [
        (record.attrs["node"], record.attrs["of_node"])
        for record in bench.story.of(tags.RLM_CALL, event="memo")
    ] == [
        ("1.2", "1.1"),
        ("1.3", "1.1"),
    ]
    assert {state for state, _ in bench.story.finals().values()} == {"done"}


def test_different_calls_are_all_made(bench: Bench) -> None:
    async def four(seat: Seat) -> None:
        same = (0, 10)
        answers = [
            await seat.llm("a", same),
            await seat.llm("b", same),
            await seat.llm("a", (0, 11)),
            await seat.llm("a", TEXT[:10]),
        ]
        seat.final(" ".join(answers))

    asked: list[str] = []

    def reply(messages: Sequence[BaseMessage]) -> str:
        asked.append(query_of(messages))
        return code("four") if asked[-1] == "what?" else str(len(asked))

    assert bench.run(reply, {"four": four}, max_depth=1).text == "2 3 4 2"


def test_call_whose_twin_was_stopped_is_made(bench: Bench) -> None:
    asked: list[str] = []

    async def reply(messages: Sequence[BaseMessage]) -> str:
        asked.append(query_of(messages))
        if asked[-1] == "what?":
            return code("thrice")
        if len(asked) == 2:
            await asyncio.Event().wait()
        return "made"

    running = bench.start(reply, {"thrice": thrice}, max_depth=1)
    wait_for(lambda: bench.story.of(tags.RLM_CALL, "1.1", event="turn"))
    bench.running.stop(bench.story[0].attrs["tree"], "1.1")
    assert running.result(20).text == "[failed: The call was stopped.] made made"
    assert len(asked) == 3


def test_rerun_call_may_be_answered_before_the_old_one_ends(
    bench: Bench,
) -> None:
    asked: list[str] = []
    let_go = asyncio.Event()

    async def reply(messages: Sequence[BaseMessage]) -> str:
        asked.append(query_of(messages))
        if asked[-1] == "what?":
            return code("thrice")
        if len(asked) == 2:
            try:
                await asyncio.Event().wait()
            finally:
                await let_go.wait()
        return "made"

    running = bench.start(reply, {"thrice": thrice}, max_depth=1)
    wait_for(lambda: bench.story.of(tags.RLM_CALL, "1.1", event="turn"))
    bench.running.retry(bench.story[0].attrs["tree"], "1.1")
    wait_for(lambda: bench.story.of(tags.RLM_FINAL, "1.4"))
    bench.running._loop.call_soon_threadsafe(let_go.set)
    assert running.result(20).text == "made made made"
    assert bench.story.finals()["1.1"] == ("stopped", "The call was stopped.")
    assert len(asked) == 3


def test_failures_are_not_cached(bench: Bench) -> None:
    async def twice(seat: Seat) -> None:
        seat.final(await seat.llm("part") + await seat.llm("part"))

    asked: list[str] = []

    def reply(messages: Sequence[BaseMessage]) -> str:
        asked.append(query_of(messages))
        if len(asked) == 2:
            raise ValueError("for once")
        return code("twice") if asked[-1] == "what?" else "made"

    assert (
        bench.run(reply, {"twice": twice}).text
        == "[failed: The model could not answer: ValueError: for once.]made"
    )


def test_partial_answers_are_not_cached(bench: Bench) -> None:
    async def twice(seat: Seat) -> None:
        seat.final(" ".join([*await seat.rlm("part", (0, 500)), *await seat.rlm("part", (0, 500))]))

    async def nothing(seat: Seat) -> None: ...

    found = bench.run(
        replies({"what?": code("twice"), "part": code("nothing")}, last="a guess"),
        {"twice": twice, "nothing": nothing},
        max_turns=1,
    )
    assert found.text == "[partial] a guess [partial] a guess"
    assert not bench.story.of(tags.RLM_CALL, event="memo")


def test_identical_nested_searches_do_not_deadlock(bench: Bench) -> None:
    """ "a" asks "b" on the same text and the other way round, until the depth limit."""

    async def both(seat: Seat) -> None:
        whole = (0, len(seat.text))
        answers = await asyncio.gather(seat.rlm("a", whole), seat.rlm("b", whole))
        seat.final("".join(answer for one in answers for answer in one))

    def reply(messages: Sequence[BaseMessage]) -> str:
        return code("both") if "context is a" in str(messages[1].content) else query_of(messages)

    assert bench.run(reply, {"both": both}).text == "abababab"


def test_large_text_is_recognised_again(bench: Bench) -> None:
    async def large(seat: Seat) -> None:
        text = "x" * 1_500_000
        seat.final(" ".join(await seat.rlm("part", text, text)))

    def reply(messages: Sequence[BaseMessage]) -> str:
        return code("large") if query_of(messages) == "what?" else "read"

    assert bench.run(reply, {"large": large}, max_depth=1, plain=2_000_000).text == "read read"
    assert len(bench.story.of(tags.RLM_CALL, event="memo")) == 1
