"""Memory and log of a search do not grow with the inventions of its code."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage

from mahtab_tui.sandbox.base import Text
from mahtab_tui.search import live
from mahtab_tui.search.live import NodeSource, _digest
from mahtab_tui.search.log import LONGEST_QUERY, Log
from mahtab_tui.search.tree import ENDS, LONGEST_TEXTS, Tree
from tests import tags
from tests.records import made
from tests.recursion_scripts import TEXT, Bench, Seat, code, query_of, replies

LARGE = 1_000_000


class Made(str):
    """A text that code has made, which can be watched."""

    __slots__ = ("__weakref__",)


def stored_bytes(bench: Bench) -> int:
    """Bytes of texts and queries that the search's nodes hold."""
    engine = next(iter(bench._searches[-1]._trees.values()))
    nodes = engine._nodes.values()
    return sum(
        sys.getsizeof(node.query)
        + (node.source.text is not engine._text) * sys.getsizeof(node.source.text.text)
        for node in nodes
    )


def test_call_refused_for_its_size_uses_no_memory(bench: Bench) -> None:
    texts: list[weakref.ref[Made]] = []

    async def flood(seat: Seat) -> None:
        for number in range(20):
            made = Made(f"{number}" + "x" * LARGE)
            texts.append(weakref.ref(made))
            seat.print((await seat.llm("read", made))[:80])

    found = bench.run(replies({"what?": [code("flood")]}), {"flood": flood}, max_turns=1)
    gc.collect()
    assert found.usage.calls == 2
    assert "too long for one call" in bench.story.of(tags.RLM_REPL_OUT)[0].text
    assert [text() for text in texts] == [None] * 20
    assert bench.story.begun() == ["1"]


def test_texts_of_ended_nodes_are_released_above_a_limit(bench: Bench) -> None:
    async def many(seat: Seat) -> None:
        for number in range(60):
            await seat.rlm(f"part {number}" + "q" * 90_000, "x" * LARGE)
        seat.final("end")

    bench.run(
        lambda messages: code("many") if query_of(messages) == "what?" else "read",
        {"many": many},
        max_depth=1,
        plain=2 * LARGE,
        ask_above=99,
    )
    assert 0 < stored_bytes(bench) <= live.MEMO_BYTES
    search, tree = bench._searches[-1], bench.story[0].attrs["tree"]
    search.retry(tree, "1.1")
    search.retry(tree, "1.60")
    assert search.run("?", "a", model="demo").state == "done", "the loop has come round"
    assert "Call 1.1 of the search cannot be run again" in bench.story.of(tags.NOTICE)[0].text
    assert bench.story.of(tags.RLM_CALL, "1.61", event="begin")[0].attrs["replaces"] == "1.60"


def test_texts_created_by_code_have_a_limit_for_the_whole_tree(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.search.engine._MADE", 3 * LARGE)

    async def flood(seat: Seat) -> None:
        seat.names["found"] = await seat.rlm("part", *["x" * LARGE] * 2)
        await seat.rlm("part", *["x" * LARGE] * 4)

    bench.run(
        lambda messages: code("flood") if query_of(messages) == "what?" else "read",
        {"flood": flood},
        max_depth=1,
        plain=2 * LARGE,
        max_turns=1,
    )
    assert "at a time in the whole search" in bench.story.of(tags.RLM_REPL_OUT)[0].text
    assert bench.story.begun() == ["1", "1.1", "1.2"]


def test_hashing_a_part_makes_no_copy() -> None:
    import asyncio
    import tracemalloc

    text = Text.root("äbc\n" * 5_000_000)
    half = NodeSource(text, ((1, 19_999_999),))
    whole = asyncio.run(_digest(NodeSource(Text(text.text[1:19_999_999]))))
    tracemalloc.start()
    try:
        assert asyncio.run(_digest(half)) == whole
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    joined = NodeSource(text, ((0, 4), (8, 11)))
    assert asyncio.run(_digest(joined)) == asyncio.run(_digest(NodeSource(joined.release_text())))


def test_log_stores_offsets_into_the_root_text_and_not_its_text(
    bench: Bench, tmp_path: Path
) -> None:
    async def quote(seat: Seat) -> None:
        for number in range(100):
            await seat.llm(f"{number}: {seat.text[:99_000]}")
        await seat.llm("y" * 90_000)
        seat.final("end")

    text = TEXT * 12
    log = Log(tmp_path / "log.jsonl")

    def reply(messages: Sequence[BaseMessage]) -> str:
        return (
            code("quote")
            if len(messages) > 1 and "context is a" in str(messages[1].content)
            else "read"
        )

    bench.run(reply, {"quote": quote}, text, max_calls=None)
    for record in bench.story:
        log.write(record)
    log.close()
    begun = bench.story.of(tags.RLM_CALL, "1.1", event="begin")[0].text
    assert "characters 1,997 to 97,000 of the text" in begun
    assert text[1_997:97_000] not in begun
    assert (
        "86,000 characters left out …"
        in bench.story.of(tags.RLM_CALL, "1.101", event="begin")[0].text
    )
    assert (tmp_path / "log.jsonl").stat().st_size < 101 * (LONGEST_QUERY + 2_000)


def test_tree_display_shows_the_ends_of_long_queries_and_answers() -> None:
    tree = Tree("t")
    attrs = {"tree": "t"}
    tree.fold(
        made(tags.RLM_CALL, "what?", {**attrs, "kind": "llm", "node": "1", "event": "begin"}, 0.0)
    )
    count = 2 * LONGEST_TEXTS // 40_000
    for number in range(count):
        name = {**attrs, "node": f"1.{number}"}
        tree.fold(
            made(
                tags.RLM_CALL,
                "q" * 30_000,
                {**name, "kind": "llm", "event": "begin", "parent": "1"},
                0.0,
            )
        )
        tree.fold(
            made(tags.RLM_FINAL, "a" * 30_000, {**name, "state": "done", "duration": 0.0}, 0.0)
        )
    stored = sum(len(node.query) + len(node.answer) for node in tree.nodes.values())
    assert stored <= LONGEST_TEXTS + count * 2 * (ENDS + 100)
    assert "characters left out" in tree.nodes["1.0"].answer
    assert tree.nodes[f"1.{count - 1}"].answer == "a" * 30_000
