"""Searches with a hostile sandbox, with endless requests, and with random events."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.llm.base import ModelBusy, ModelError
from mahtab_tui.sandbox.base import CallRefusedError
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.search.engine import MAX_RECORDED_QUERY_CHARS
from mahtab_tui.search.logs import LogFile
from mahtab_tui.search.memo import _digest
from mahtab_tui.search.nodes import LiveNode, NodeSource, TreeServices
from mahtab_tui.search.requests import read_call
from mahtab_tui.search.turns import Exploration
from tests import tags
from tests.recursion_scripts import (
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

# Forged requests are refused, and code that has given its answer can do nothing more.

PART = {"text": "a"}
FORGED: list[Any] = [
    None,
    {"text": 1},
    {"span": [0, True]},
    {"span": [5, 2]},
    {"span": [-1, 2]},
    {"span": [10**30, 10**31]},
    {"spans": []},
    {"spans": [[0, 5], [5]]},
    {"spans": [[0, 1]] * 1_001},
]
CALL = {"query": "q", "parts": [PART], "map": True}
SPANS = [{"span": [0, 5]}, {"span": [5, 9]}]

LARGE = 1_000_000


async def answer(access: TurnAccess) -> None:
    access.final("it is in line 0", (0, 6))


def test_later_code_cannot_swallow_an_answer(searches: ScriptedSearches) -> None:
    async def swallow(access: TurnAccess) -> None:
        try:
            await answer(access)
        except BaseException:
            await asyncio.Event().wait()

    result = searches.run(replies({"what?": code("swallow")}), swallow)
    assert (result.text, result.state) == ("it is in line 0", "done")
    assert searches.events.of(tags.RLM_REPL_OUT)[0].attrs["status"] == "final"


def test_children_of_answered_code_are_stopped(searches: ScriptedSearches) -> None:
    async def leave(access: TurnAccess) -> None:
        pending = asyncio.ensure_future(access.rlm("half", *access.partition(2)))
        while len(searches.events.begun()) < 3:
            await asyncio.sleep(0.001)
        assert not pending.done()
        access.final("I know it")

    async def reply(messages: Messages) -> str:
        if query_of(messages) == "half":
            await asyncio.Event().wait()
        return code("leave")

    result = searches.run(reply, leave)
    assert result.text == "I know it"
    assert list(searches.events.finals().items()) == [
        ("1.1", ("stopped", "The call was stopped.")),
        ("1.2", ("stopped", "The call was stopped.")),
        ("1", ("done", "I know it")),
    ]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("rm", CALL),
        ("rlm", []),
        ("rlm", {**CALL, "query": 1}),
        ("rlm", {**CALL, "query": ["q"]}),
        ("rlm", {**CALL, "query": " "}),
        ("rlm", {**CALL, "query": "q" * 200_000}),
        ("rlm", {**CALL, "parts": {}}),
        ("rlm", {**CALL, "parts": [PART] * 2, "map": False}),
        ("rlm", {**CALL, "parts": [PART] * 5_001}),
        *(("rlm", {**CALL, "parts": [part]}) for part in FORGED),
        ("llm", {**CALL, "parts": [3], "map": False}),
        ("llm", {**CALL, "query": ["q"], "map": False}),
        ("llm", {**CALL, "query": ["q", ""], "parts": SPANS}),
        ("llm", {**CALL, "query": ["q"], "parts": SPANS}),
    ],
)
def test_forged_sandbox_calls_are_refused(searches: ScriptedSearches, name: str, args: Any) -> None:
    read_call("rlm", CALL, SearchedText.root(TEXT))  # valid

    async def forge(access: TurnAccess) -> None:
        await access.host.call(name, args)

    result = searches.run(replies({"what?": [code("forge"), code("answer")]}), forge, answer)
    assert result.text == "it is in line 0"
    assert "CallRefusedError" in searches.events.of(tags.RLM_REPL_OUT)[0].text
    assert searches.events.begun() == ["1"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"parts": {}}, "The parts must be a list."),
        ({"map": 1}, "`map` must be True or False."),
        ({"parts": [PART] * 2, "map": False}, "There are 2 parts; a call that is not a fan-out"),
        ({"parts": [3]}, "A part must be a text, or spans of `context`."),
        ({"parts": [{"spans": []}]}, "A part must be a text, or spans of `context`."),
        ({"parts": [{"spans": [[0, 1]] * 1_001}]}, "A part has 1,001 spans; at most 1,000"),
        ({"parts": [{"span": [0, True]}]}, "A span must be its start and its end in `context`."),
    ],
)
def test_refusal_says_what_is_wrong_with_a_call(args: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CallRefusedError) as error:
        read_call("rlm", {**CALL, **args}, SearchedText.root(TEXT))
    assert str(error.value).startswith(sentence)


def test_forged_sandbox_messages_are_ignored(searches: ScriptedSearches) -> None:
    async def forge(access: TurnAccess) -> None:
        access.host.send("final", {"text": 5})
        access.host.send("final", {"text": "x" * 1_000_001, "spans": []})
        access.host.send("nothing", {})

    result = searches.run(replies({"what?": [code("forge"), code("answer")]}), forge, answer)
    assert result.text == "it is in line 0"


def test_unsendable_characters_are_replaced(searches: ScriptedSearches) -> None:
    async def odd(access: TurnAccess) -> None:
        access.final(await access.llm("which \ud83c?") + " half \ud83c")

    def reply(messages: Messages) -> str:
        return query_of(messages) if is_plain(messages) else code("odd")

    assert searches.run(reply, odd).text == "which \ufffd? half \ufffd"


def test_tree_has_a_limited_number_of_nodes(
    searches: ScriptedSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.search.engine._MAX_SUB_CALLS", 10)

    async def endless(access: TurnAccess) -> None:
        while True:
            await access.llm("same")

    script = replies({"what?": [code("endless"), code("answer")], "same": "read"})
    result = searches.run(script, endless, answer)
    assert (result.text, result.usage.calls) == ("it is in line 0", 3)
    assert "10 have been made" in searches.events.of(tags.RLM_REPL_OUT)[0].text


@pytest.mark.parametrize(("allows", "remaining"), [(True, 4), (False, 5)], ids=["yes", "no"])
def test_sub_calls_that_wait_for_consent_count(
    searches: ScriptedSearches, monkeypatch: pytest.MonkeyPatch, allows: bool, remaining: int
) -> None:
    async def work(access: TurnAccess) -> None:
        calls = (access.rlm("half", *access.partition(6)) for _ in range(2))
        for answers in await asyncio.gather(*calls, return_exceptions=True):
            access.print(answers)
        access.final(str(len(await access.rlm("half", *access.partition(remaining)))))

    monkeypatch.setattr("mahtab_tui.search.engine._MAX_SUB_CALLS", 10)
    script = replies({"what?": code("work"), "half": "read"})
    running = searches.start(script, work, max_depth=1, ask_above=5)
    wait_for(lambda: searches.events.calls("fan-out", state="waiting"))
    (question,) = searches.events.calls("fan-out", state="waiting")
    searches.running.answer(question.attrs["request"], allows)
    assert running.result().text == str(remaining)
    assert "at most 10 sub-calls, and 6 have been" in searches.events.of(tags.RLM_REPL_OUT)[0].text
    assert len(searches.events.begun()) == 1 + 6 * allows + remaining


def test_node_that_cannot_explore_does_not_stop_others(
    searches: ScriptedSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explore(services: TreeServices, node: LiveNode) -> Exploration:
        if node.query == "broken":
            raise RuntimeError("no conversation")
        return Exploration(services, node)

    async def work(access: TurnAccess) -> None:
        for query in ("broken", "half"):
            access.print(await access.rlm(query, access.text))
        access.final("enough")

    monkeypatch.setattr("mahtab_tui.search.engine.Exploration", explore)
    script = replies({"what?": code("work"), "half": code("answer")})
    searches.run(script, work, answer, concurrency=1, max_seconds=20)
    output = searches.events.of(tags.RLM_REPL_OUT, "1")[0].text
    assert "no conversation" in output
    assert "it is in line 0" in output


# The memory and log of a search stay small whatever its code makes.


class Made(str):
    __slots__ = ("__weakref__",)


def test_call_refused_for_its_size_uses_no_memory(searches: ScriptedSearches) -> None:
    texts: list[weakref.ref[Made]] = []

    async def flood(access: TurnAccess) -> None:
        for number in range(20):
            large_text = Made(f"{number}" + "x" * LARGE)
            texts.append(weakref.ref(large_text))
            access.print((await access.llm("read", large_text))[:80])

    result = searches.run(replies({"what?": [code("flood")]}), flood, max_turns=1)
    gc.collect()
    assert result.usage.calls == 2
    assert "too long for one call" in searches.events.of(tags.RLM_REPL_OUT)[0].text
    assert [text() for text in texts] == [None] * 20
    assert searches.events.begun() == ["1"]


def test_text_of_an_ended_call_is_released_at_once(searches: ScriptedSearches) -> None:
    texts: list[weakref.ref[Made]] = []
    in_memory: list[int] = []

    async def many(access: TurnAccess) -> None:
        for number in range(10):
            large_text = Made(f"{number}" + "x" * LARGE)
            texts.append(weakref.ref(large_text))
            await access.rlm("read", large_text)
            del large_text
            in_memory.append(sum(text() is not None for text in texts))
        access.final("end")

    gc.disable()
    try:
        script = replies({"what?": code("many"), "read": "read"})
        searches.run(script, many, max_depth=1, plain=2 * LARGE)
    finally:
        gc.enable()
    assert len(in_memory) == 10
    assert max(in_memory) <= 2


def test_texts_created_by_code_have_a_limit_for_the_whole_tree(
    searches: ScriptedSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.search.engine._MAX_MADE_BYTES", 3 * LARGE)

    async def flood(access: TurnAccess) -> None:
        await access.rlm("part", *["x" * LARGE] * 2)
        await access.rlm("part", *["x" * LARGE] * 4)

    script = replies({"what?": code("flood"), "part": "read"})
    searches.run(script, flood, max_depth=1, plain=2 * LARGE, max_turns=1)
    assert "at a time in the whole search" in searches.events.of(tags.RLM_REPL_OUT)[0].text
    assert searches.events.begun() == ["1", "1.1", "1.2"]


@pytest.mark.parametrize("parts", [None, (), ((2, 4),), ((0, 4), (8, 11))])
def test_size_of_a_nodes_text_is_known_without_making_it(
    parts: tuple[tuple[int, int], ...] | None,
) -> None:
    source = NodeSource(SearchedText.root("äbc\n" * 3), parts)
    assert source.chars == len(source.make_text().text)


def test_hashing_a_part_makes_no_copy() -> None:
    import tracemalloc

    text = SearchedText.root("äbc\n" * 5_000_000)
    half = NodeSource(text, ((1, 19_999_999),))
    copy_digest = _digest(NodeSource(SearchedText(text.text[1:19_999_999])))
    tracemalloc.start()
    try:
        assert _digest(half) == copy_digest
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    joined = NodeSource(text, ((0, 4), (8, 11)))
    assert _digest(joined) == _digest(NodeSource(joined.make_text()))


def test_log_stores_offsets_into_the_root_text_and_not_its_text(
    searches: ScriptedSearches, tmp_path: Path
) -> None:
    async def quote(access: TurnAccess) -> None:
        for number in range(100):
            await access.llm(f"{number}: {access.text[:99_000]}")
        await access.llm("y" * 90_000)
        access.final("end")

    text = TEXT * 12
    log = LogFile(tmp_path / "log.jsonl")

    def reply(messages: Messages) -> str:
        return "read" if is_plain(messages) else code("quote")

    searches.run(reply, quote, text=text, max_calls=None)
    for record in searches.events:
        log.write(record)
    log.close()
    first_call, last_call = (
        searches.events.calls("begin", node)[0].text for node in ("1.1", "1.101")
    )
    assert "… 95,003 characters left out …" in first_call
    assert text[1_997:97_000] not in first_call
    assert "86,000 characters left out …" in last_call
    assert (tmp_path / "log.jsonl").stat().st_size < 101 * (MAX_RECORDED_QUERY_CHARS + 2_000)


# Random trees: what nodes do, which fail, and when one is stopped.


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.search.gates._FIRST_PAUSE_S", 0.002)


def waiting(searches: ScriptedSearches) -> list[str]:
    request_states: dict[str, str] = {}
    for record in list(searches.events):
        if record.attrs.get("event") == "fan-out":
            request_states[record.attrs["request"]] = record.attrs["state"]
    return [request for request, state in request_states.items() if state == "waiting"]


@pytest.mark.parametrize("seed", range(40))
def test_every_tree_ends_and_leaves_nothing(searches: ScriptedSearches, seed: int) -> None:
    chance = random.Random(seed)
    queries = ["a", "b", "c"]

    async def split(access: TurnAccess) -> None:
        parts: list[Any] = access.partition(chance.randint(1, 4)) if access.text else ["made up"]
        access.print(await access.rlm(chance.choice(queries), *parts))

    async def ask(access: TurnAccess) -> None:
        access.print(
            await asyncio.gather(
                *(access.llm(chance.choice(queries), (0, chance.randint(0, 50))) for _ in range(3))
            )
        )

    async def end(access: TurnAccess) -> None:
        access.final("known", (0, chance.randint(0, 100)))

    async def leave(access: TurnAccess) -> None:
        tasks.append(asyncio.ensure_future(split(access)))
        tasks[-1].add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.sleep(chance.random() / 200)

    async def fail(access: TurnAccess) -> None:
        raise chance.choice([ValueError("no"), TurnStatusError("died"), TurnStatusError("killed")])

    async def reply(messages: Messages) -> str:
        await asyncio.sleep(chance.random() / 200)
        if chance.random() < 0.1:
            raise chance.choice([ModelBusy("busy"), ModelError("down"), ValueError("odd")])
        calls = [code(call) for call in ("split", "ask", "end", "end", "leave", "fail")]
        return chance.choice([*calls, "", "words"])

    tasks: list[asyncio.Future[None]] = []
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
    limits |= {"max_depth": chance.choice([1, 2, 3]), "max_seconds": 10}
    running = searches.start(reply, split, ask, end, leave, fail, **limits)

    def has_advanced(events: int) -> bool:
        return len(searches.events) >= events or running.done() or bool(waiting(searches))

    wait_for(lambda: searches.events or running.done())
    while not running.done():
        wait_for(partial(has_advanced, len(searches.events) + chance.randint(1, 60)))
        for request in waiting(searches):
            searches.running.answer(request, chance.random() < 0.7)
        node_ids = searches.events.begun()
        searches.stop(chance.choice(node_ids[1:] or node_ids) if chance.random() < 0.95 else "1")
    assert running.result(30).state in ("done", "partial", "error", "stopped")
    searches.running.close()
    assert searches.sandboxes.open == 0
    ledger = searches.running._trees[searches.events[0].attrs["tree"]].calls.ledger
    assert ledger._reserved[:2] == (0, 0), "nothing stays reserved"
    assert ledger._reserved.usd == pytest.approx(0)
