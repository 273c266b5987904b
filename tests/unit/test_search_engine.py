"""Scripted trees: turns, sub-calls and failures, and answers that are reused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mahtab_tui.llm.base import ModelBusy
from mahtab_tui.search.nodes import NodeOutcome
from tests import tags
from tests.recursion_scripts import (
    STOPPED,
    TEXT,
    Messages,
    ScriptedSearches,
    TurnAccess,
    TurnStatusError,
    code,
    is_plain,
    query_of,
    replies,
)
from tests.waiting import wait_for


async def look(access: TurnAccess) -> None:
    access.print(len(access.text))


async def answer(access: TurnAccess) -> None:
    access.final("it is in line 0", (0, 6))


async def halves(access: TurnAccess) -> None:
    access.final("|".join(await access.rlm("half", *access.partition(2))))


def test_turns_continue_until_the_answer(searches: ScriptedSearches) -> None:
    result = searches.run(replies({"what?": [code("look"), code("answer")]}), look, answer)
    assert (result.text, result.state, result.usage.calls) == ("it is in line 0", "done", 2)
    events = [
        (record.attrs["seq"], record.attrs.get("event") or record.tag)
        for record in searches.events
        if not record.tag.endswith("stream")
    ]
    turn = ["turn", "usage", "rlm-chat", "rlm-repl-in", "rlm-repl-out"]
    assert events == list(enumerate(["begin", *turn, *turn, "rlm-final"]))
    assert searches.events.of(tags.RLM_FINAL)[0].attrs["spans"] == [[0, 6]]


def test_sub_calls_at_the_depth_limit_run_no_code(searches: ScriptedSearches) -> None:
    script = {"what?": code("halves"), "half": code("quarters"), "quarter": "read"}

    async def quarters(access: TurnAccess) -> None:
        access.final("+".join(await access.rlm("quarter", *access.partition(2))))

    result = searches.run(replies(script), halves, quarters, max_depth=2)
    assert result.text == "read+read|read+read"
    begin_events = [record.attrs for record in searches.events.calls("begin")]
    kinds = {event["node"]: (event["kind"], event["depth"]) for event in begin_events}
    assert [kinds[node] for node in ("1", "1.2", "1.2.2")] == [("rlm", 0), ("rlm", 1), ("llm", 2)]
    assert len(kinds) == 7


@pytest.mark.parametrize("concurrency", [1, 2, 16])
def test_tree_of_depth_three_finishes_at_any_concurrency(
    searches: ScriptedSearches, concurrency: int
) -> None:
    async def split(access: TurnAccess) -> None:
        access.final(",".join(await access.rlm("deeper", *access.partition(3))))

    def reply(messages: Messages) -> str:
        return "read" if is_plain(messages) else code("split")

    result = searches.run(reply, split, concurrency=concurrency)
    assert (result.state, result.text.count("read")) == ("done", 27)
    assert len(searches.events.begun()) == 40
    assert searches.sandboxes.most <= 3 * concurrency


def test_lines_from_several_spans_are_traced_through_a_child(searches: ScriptedSearches) -> None:
    lines = [(0, 6), (500, 508), (14, 20)]

    async def hand_down(access: TurnAccess) -> None:
        spans = [list(line) for line in lines] if access.text == TEXT else [[2, 4], [8, 16]]
        reply = await access.host.call(
            "rlm", {"query": "lines", "parts": [{"spans": spans}], "map": False}
        )
        access.final(reply["answers"][0]["text"], (0, 10))

    def reply(messages: Messages) -> str:
        if is_plain(messages):
            return str(messages[-1].content).split("search-text>\n")[1].split("\n</")[0]
        return code("hand_down")

    result = searches.run(reply, hand_down, max_depth=2)
    below = "\n".join(TEXT[start:end] for start, end in lines)
    assert result.text == f"{below[2:4]}\n{below[8:16]}"
    begin_events = [searches.events.calls("begin", node)[0].attrs for node in ("1.1", "1.1.1")]
    assert [(event["spans"], event["chars"]) for event in begin_events] == [
        ([list(line) for line in lines], len(below)),
        ([[2, 4], [501, 508]], 11),
    ]
    answered = searches.events.of(tags.RLM_FINAL, "1.1")[0].attrs["spans"]
    assert answered == [[2, 4], [501, 508]], "what the plain call has quoted"


def test_a_fan_out_of_200_keeps_its_order(searches: ScriptedSearches) -> None:
    async def many(access: TurnAccess) -> None:
        access.final(" ".join(await access.rlm("which?", *map(str, range(200)))))

    async def reply(messages: Messages) -> str:
        if query_of(messages) == "what?":
            return code("many")
        number = str(messages[-1].content).split("\n")[-2]
        await asyncio.sleep(0.001 * (int(number) % 7))  # they end in another order
        return number

    result = searches.run(reply, many, max_depth=1, ask_above=200, max_calls=None)
    assert result.text == " ".join(map(str, range(200)))
    begin_events = searches.events.calls("begin")[1:]
    assert [record.attrs["index"] for record in begin_events] == list(range(200))
    assert {(record.attrs["of"], record.attrs["batch"]) for record in begin_events} == {(200, 1)}


def test_failing_child_is_an_error_value_for_its_parent(searches: ScriptedSearches) -> None:
    async def reply(messages: Messages) -> str:
        if query_of(messages) == "what?":
            return code("halves")
        if "line 999" in str(messages[-1].content):
            raise ValueError("no such model")
        return "fine"

    result = searches.run(reply, halves, max_depth=1)
    reason = "The model could not answer: ValueError: no such model."
    assert (result.state, result.text) == ("done", f"fine|[failed: {reason}]")
    assert searches.events.finals()["1.2"] == ("error", reason)


def test_busy_service_is_retried_and_the_tree_finishes(
    searches: ScriptedSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.search.gates._FIRST_PAUSE_S", 0.01)
    failures = 3

    def reply(messages: Messages) -> str:
        nonlocal failures
        if query_of(messages) == "what?":
            return code("halves")
        if failures:
            failures -= 1
            raise ModelBusy("The service is overloaded.")
        return "fine"

    result = searches.run(reply, halves, max_depth=1)
    assert (result.text, result.usage.calls) == ("fine|fine", 3)
    paused = searches.events.calls("back-off")
    assert len(paused) == 3
    assert all(record.attrs["seconds"] > 0 for record in paused)
    calls = [record.attrs for record in searches.events.of(tags.RLM_CALL, paused[0].attrs["node"])]
    events = [(call["event"], call.get("turn")) for call in calls]
    assert events[1:3] == [("turn", 1), ("back-off", None)]
    assert events[3] in [("turn", 1), ("back-off", None)]


def test_failing_root_gives_the_reason(searches: ScriptedSearches) -> None:
    def reply(messages: Messages) -> str:
        raise ValueError("no such model")

    result = searches.run(reply)
    assert (result.text, result.state) == (
        "The model could not answer: ValueError: no such model.",
        "error",
    )


def test_missing_or_failing_code_is_reported_to_the_model(searches: ScriptedSearches) -> None:
    prompts: list[str] = []
    answers = iter(["", "I think about it.", code("fail"), code("die"), code("answer")])

    def reply(messages: Messages) -> str:
        prompts.append(str(messages[-1].content))
        return next(answers)

    async def fail(access: TurnAccess) -> None:
        raise ZeroDivisionError("by nought")

    async def die(access: TurnAccess) -> None:
        raise TurnStatusError("died")

    result = searches.run(reply, fail, die, answer)
    assert result.text == "it is in line 0"
    assert "answer was empty" in prompts[1]
    assert "no code" in prompts[2]
    assert "ZeroDivisionError: by nought" in prompts[3]
    assert "variables are gone" in prompts[4]
    statuses = [record.attrs["status"] for record in searches.events.of(tags.RLM_REPL_OUT)]
    assert statuses == ["error", "died", "final"]


def test_last_call_gives_the_best_answer_when_turns_run_out(searches: ScriptedSearches) -> None:
    result = searches.run(replies({"what?": [code("look")] * 3}), look, max_turns=3)
    assert (result.text, result.state, result.usage.calls) == ("the best there is", "partial", 4)
    turns = [record.attrs for record in searches.events.calls("turn")]
    assert [(turn["turn"], turn["turns"]) for turn in turns] == [(1, 3), (2, 3), (3, 3), (4, 3)]


def test_long_conversation_keeps_all_code_and_heads_of_old_outputs(
    searches: ScriptedSearches,
) -> None:
    prompts: list[list[str]] = []

    def reply(messages: Messages) -> str:
        prompts.append([str(message.content) for message in messages])
        turn = "print_much" if len(prompts) < 20 else "answer"
        return f"number {len(prompts)}\n{code(turn, len(prompts))}"

    async def print_much(access: TurnAccess) -> None:
        access.print(f"head {len(prompts)} ", "x" * 9_000, f" tail {len(prompts)}")

    result = searches.run(reply, print_much, answer)
    assert (result.text, result.usage.calls) == ("it is in line 0", 20), "twenty turns by default"
    last_prompt = "\n".join(prompts[-1])
    for turn in range(1, 20):
        assert f"number {turn}\nI look.\n\n```python\nprint_much()" in last_prompt
        assert f"head {turn} " in last_prompt
        assert (f" tail {turn}\n" in last_prompt) == (turn >= 17), turn
    assert max(sum(map(len, messages)) for messages in prompts) < 90_000
    assert " tail 1\n" in "\n".join(prompts[4]), "nothing is shortened before it must be"


def test_a_partial_answer_is_marked_for_the_parent(searches: ScriptedSearches) -> None:
    script = replies({"what?": code("halves"), "half": [code("look")] * 2})
    result = searches.run(script, halves, look, max_turns=2)
    assert result.text == "[partial] the best there is|[partial] the best there is"


def test_text_after_the_code_is_dropped(searches: ScriptedSearches) -> None:
    requests: list[Messages] = []
    answers = iter([code("look") + "\nIt printed 12, so the answer is 13.", code("answer")])

    def reply(messages: Messages) -> str:
        requests.append(list(messages))
        return next(answers)

    searches.run(reply, look, answer)
    assert "13" not in str(requests[1][2].content)
    assert "dropped" in str(requests[1][3].content)
    assert [record.attrs["cut"] for record in searches.events.of(tags.RLM_CHAT)] == [True, False]


def test_outcome_without_an_answer_is_a_failure() -> None:
    failed = [NodeOutcome("", state).failed for state in ("done", "partial", "error", "stopped")]
    assert failed == [False, False, True, True]


async def count(access: TurnAccess) -> None:
    access.print("12 lines of 'vault' in all")


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ("There are 12 lines.", 2),
        ("There are 12 lines of the kind 'vault'.", 2),
        ("Twelve lines.", 3),
        ("There are 13 lines.", 3),
    ],
)
def test_words_are_an_answer_at_once_if_their_values_were_printed_or_else_when_repeated(
    searches: ScriptedSearches, words: str, calls: int
) -> None:
    result = searches.run(replies({"what?": [code("count"), words, words]}), count)
    assert (result.state, result.text, result.usage.calls) == ("done", words, calls)


def test_a_block_is_never_run_twice(searches: ScriptedSearches) -> None:
    runs: list[int] = []
    sent: list[list[str]] = []

    async def once(access: TurnAccess) -> None:
        runs.append(1)
        access.print("nothing")

    def reply(messages: Messages) -> str:
        sent.append([str(message.content) for message in messages])
        return code("once") if len(sent) < 4 else "It is not there."

    result = searches.run(reply, once)
    assert (result.state, result.text, len(runs)) == ("partial", "It is not there.", 1)
    assert "the same code again" in result.why
    assert "did not run again" in sent[2][-1]
    assert len(sent[2]) == len(sent[1]), "the repetition is not shown to the model"


# A tree asks each question once.


async def thrice(access: TurnAccess) -> None:
    access.final(" ".join(await access.rlm("part", *["the same"] * 3)))


def test_equal_calls_are_answered_once_even_concurrently(searches: ScriptedSearches) -> None:
    queries: list[str] = []

    async def reply(messages: Messages) -> str:
        queries.append(query_of(messages))
        if queries[-1] == "what?":
            return code("thrice")
        await asyncio.sleep(0)
        return f"answer {len(queries)}"

    result = searches.run(reply, thrice, max_depth=1)
    assert result.text == "answer 2 answer 2 answer 2"
    assert queries == ["what?", "part"]
    assert {state for state, _ in searches.events.finals().values()} == {"done"}


def test_different_calls_are_all_made(searches: ScriptedSearches) -> None:
    async def four(access: TurnAccess) -> None:
        calls: list[Any] = [("a", (0, 10)), ("b", (0, 10)), ("a", (0, 11)), ("a", TEXT[:10])]
        access.final(" ".join([await access.llm(*call) for call in calls]))

    queries: list[str] = []

    def reply(messages: Messages) -> str:
        queries.append(query_of(messages))
        return code("four") if queries[-1] == "what?" else str(len(queries))

    assert searches.run(reply, four, max_depth=1).text == "2 3 4 2"


def test_call_whose_twin_was_stopped_is_made(searches: ScriptedSearches) -> None:
    queries: list[str] = []

    async def reply(messages: Messages) -> str:
        queries.append(query_of(messages))
        if queries[-1] == "what?":
            return code("thrice")
        if len(queries) == 2:
            await asyncio.Event().wait()
        return "made"

    running = searches.start(reply, thrice, max_depth=1)
    wait_for(lambda: searches.events.calls("turn", "1.1"))
    searches.stop("1.1")
    assert running.result(20).text == f"{STOPPED} made made"
    assert len(queries) == 3


def test_failures_and_partial_answers_are_not_cached(searches: ScriptedSearches) -> None:
    async def twice(access: TurnAccess) -> None:
        access.final(
            " ".join([*await access.rlm("part", (0, 500)), *await access.rlm("part", (0, 500))])
        )

    async def nothing(access: TurnAccess) -> None: ...

    queries: list[str] = []

    def reply(messages: Messages) -> str:
        queries.append(query_of(messages))
        if len(queries) == 2:
            raise ValueError("for once")
        return code("twice") if queries[-1] == "what?" else "made"

    assert (
        searches.run(reply, twice, max_depth=1).text
        == "[failed: The model could not answer: ValueError: for once.] made"
    )
    script = replies({"what?": code("twice"), "part": code("nothing")}, final_reply="a guess")
    result = searches.run(script, twice, nothing, max_turns=1)
    assert (result.text, result.usage.calls) == ("[partial] a guess [partial] a guess", 5)


def test_identical_nested_searches_do_not_deadlock(searches: ScriptedSearches) -> None:
    async def both(access: TurnAccess) -> None:
        full_span = (0, len(access.text))
        answers = await asyncio.gather(access.rlm("a", full_span), access.rlm("b", full_span))
        access.final("".join(answer for answer_list in answers for answer in answer_list))

    def reply(messages: Messages) -> str:
        return query_of(messages) if is_plain(messages) else code("both")

    assert searches.run(reply, both).text == "abababab"


def test_a_block_that_is_only_a_literal_is_an_answer(searches: ScriptedSearches) -> None:
    block = "```python\n'negative'\n```"
    result = searches.run(replies({"what?": [block, block]}))
    assert (result.state, result.text, result.usage.calls) == ("done", "negative", 2)
