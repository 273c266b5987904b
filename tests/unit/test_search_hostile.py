"""Inventions of a search's sandbox are refused, and code that has given its answer goes on in
vain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from langchain_core.messages import BaseMessage

from mahtab_tui.sandbox.base import CallRefusedError
from tests import tags
from tests.recursion_scripts import TEXT, Bench, Seat, code, query_of, replies


async def answer(seat: Seat) -> None:
    seat.final("it is in line 0", (0, 6))


def test_later_code_cannot_swallow_an_answer(bench: Bench) -> None:
    async def swallow(seat: Seat) -> None:
        try:
            await answer(seat)
        except BaseException:
            await asyncio.Event().wait()

    found = bench.run(replies({"what?": code("swallow")}), {"swallow": swallow})
    assert (found.text, found.state) == ("it is in line 0", "done")
    assert bench.story.of(tags.RLM_REPL_OUT)[0].attrs["status"] == "final"


def test_children_of_answered_code_are_stopped(bench: Bench) -> None:
    async def leave(seat: Seat) -> None:
        pending = asyncio.ensure_future(seat.rlm("half", *seat.partition(2)))
        while len(bench.story.begun()) < 3:
            await asyncio.sleep(0.001)
        assert not pending.done()
        seat.final("I know it")

    async def reply(messages: Sequence[BaseMessage]) -> str:
        if query_of(messages) == "half":
            await asyncio.Event().wait()
        return code("leave")

    found = bench.run(reply, {"leave": leave})
    assert found.text == "I know it"
    assert list(bench.story.finals().items()) == [
        ("1.1", ("stopped", "The call was stopped.")),
        ("1.2", ("stopped", "The call was stopped.")),
        ("1", ("done", "I know it")),
    ]


def test_code_that_outlives_its_node_is_refused(bench: Bench) -> None:
    async def linger(seat: Seat) -> None:
        async def later() -> None:
            while "1" not in bench.story.finals():
                await asyncio.sleep(0.001)
            with pytest.raises(CallRefusedError, match="has ended"):
                await seat.llm("half")
            refused.set()

        seat.names["later"] = asyncio.ensure_future(later())
        await answer(seat)

    refused = threading.Event()
    bench.run(replies({"what?": code("linger")}), {"linger": linger})
    assert refused.wait(20)
    assert bench.story.begun() == ["1"]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("rm", {}),
        ("rlm", []),
        ("rlm", {"query": 1, "parts": [], "map": True}),
        ("rlm", {"query": " ", "parts": [{"text": "a"}], "map": False}),
        ("rlm", {"query": "q" * 200_000, "parts": [{"text": "a"}], "map": False}),
        ("rlm", {"query": "q", "parts": {}, "map": False}),
        ("rlm", {"query": "q", "parts": [{"text": "a"}] * 2, "map": False}),
        ("rlm", {"query": "q", "parts": [{"text": "a"}] * 5_001, "map": True}),
        ("rlm", {"query": "q", "parts": [{"text": 1}], "map": True}),
        ("rlm", {"query": "q", "parts": [{"span": [0, True]}], "map": True}),
        ("rlm", {"query": "q", "parts": [{"span": [5, 2]}], "map": True}),
        ("rlm", {"query": "q", "parts": [{"span": [-1, 2]}], "map": True}),
        ("rlm", {"query": "q", "parts": [{"span": [10**30, 10**31]}], "map": True}),
        ("rlm", {"query": "q", "parts": [{"spans": []}], "map": True}),
        ("rlm", {"query": "q", "parts": [{"spans": [[0, 5], [5]]}], "map": True}),
        ("rlm", {"query": "q", "parts": [{"spans": [[0, 1]] * 1_001}], "map": True}),
        ("rlm", {"query": "q", "parts": [None], "map": True}),
        ("llm", {"query": "q", "part": 3}),
        ("llm", {"query": ["q"], "part": None}),
        ("rlm", {"query": ["q"], "parts": [{"span": [0, 5]}], "map": True}),
        (
            "llm_map",
            {"query": ["q", ""], "parts": [{"span": [0, 5]}, {"span": [5, 9]}], "map": True},
        ),
        ("llm_map", {"query": ["q"], "parts": [{"span": [0, 5]}, {"span": [5, 9]}], "map": True}),
    ],
)
def test_forged_sandbox_calls_are_refused(bench: Bench, name: str, args: object) -> None:
    async def forge(seat: Seat) -> None:
        await seat.host.call(name, args)  # type: ignore[arg-type]

    found = bench.run(
        replies({"what?": [code("forge"), code("answer")]}), {"forge": forge, "answer": answer}
    )
    assert found.text == "it is in line 0"
    assert "CallRefusedError" in bench.story.of(tags.RLM_REPL_OUT)[0].text
    assert bench.story.begun() == ["1"]


def test_forged_sandbox_messages_are_ignored(bench: Bench) -> None:
    async def forge(seat: Seat) -> None:
        for how, spans in (
            ("answer", [[0, 1]]),
            ("peek", [[0]]),
            ("peek", "all"),
            ("grep", [[3, 1], [0, 10**9], ["a", "b"], None]),
        ):
            seat.host.send("touch", {"how": how, "spans": spans})
        seat.host.send("final", {"text": 5})
        seat.host.send("final", {"text": "x" * 1_000_001, "spans": []})
        seat.host.send("nothing", {})

    found = bench.run(
        replies({"what?": [code("forge"), code("answer")]}), {"forge": forge, "answer": answer}
    )
    assert found.text == "it is in line 0"
    touched = [
        (record.attrs["how"], record.attrs["spans"])
        for record in bench.story.of(tags.RLM_CALL, event="touch")
    ]
    assert touched == [("grep", [[0, len(TEXT)]]), ("answer", [[0, 6]])]


def test_node_reports_a_limited_number_of_reads(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.search.turns._MAX_TOUCHES", 5)

    async def flood(seat: Seat) -> None:
        for offset in range(0, 100, 10):
            seat.host.send("touch", {"how": "peek", "spans": [[offset, offset + 1]]})

    bench.run(
        replies({"what?": [code("flood"), code("answer")]}), {"flood": flood, "answer": answer}
    )
    assert len(bench.story.of(tags.RLM_CALL, event="touch", how="peek")) == 5


def test_text_too_long_for_a_plain_call_is_refused_with_advice(bench: Bench) -> None:
    async def all_of_it(seat: Seat) -> None:
        seat.final(await seat.llm("read", (0, len(seat.text))))

    found = bench.run(replies({"what?": code("all_of_it")}), {"all_of_it": all_of_it}, plain=1_000)
    assert found.text.startswith("[failed: A text of 8,890 characters is too long")
    assert found.usage.calls == 1


def test_unsendable_characters_are_replaced(bench: Bench) -> None:
    async def odd(seat: Seat) -> None:
        seat.final(await seat.llm("which \ud83c?") + " half \ud83c")

    found = bench.run(
        lambda messages: code("odd") if query_of(messages) == "what?" else query_of(messages),
        {"odd": odd},
    )
    assert found.text == "which \ufffd? half \ufffd"


def test_tree_has_a_limited_number_of_nodes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.search.engine._NODES", 10)

    async def endless(seat: Seat) -> None:
        while True:
            await seat.llm("same")

    found = bench.run(
        replies({"what?": [code("endless"), code("answer")], "same": "read"}),
        {"endless": endless, "answer": answer},
    )
    assert found.text == "it is in line 0"
    assert "10 have been made" in bench.story.of(tags.RLM_REPL_OUT)[0].text
    assert found.usage.calls == 3
