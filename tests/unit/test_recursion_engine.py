"""Trees by script: what a search does with what its models say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mahtab_tui.recursion.budget import Limits
from mahtab_tui.recursion.search import Answer, Search
from tests.recursion_scripts import Reply, ScriptedModel, ScriptedSandboxes, Seat, Story, Turn, code, opener

TEXT = "".join(f"line {number}\n" for number in range(1_000))


class Bench:
    """A search by script, with its events."""

    def __init__(self) -> None:
        self.story = Story()
        self._searches: list[Search] = []

    def search(self, turns: Mapping[str, Turn]) -> Search:
        self.sandboxes = ScriptedSandboxes(turns)
        search = Search(self.story.append, opener(self.sandboxes))
        self._searches.append(search)
        return search

    def run(self, reply: Reply, turns: Mapping[str, Turn], text: Any = TEXT, query: str = "what?", **limits: Any) -> Answer:
        limits = {"small": 0, **limits}
        return self.search(turns).run(query, text, model=ScriptedModel(reply=reply), limits=Limits(**limits), asking="run")

    def close(self) -> None:
        for search in self._searches:
            search.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


async def look(seat: Seat) -> None:
    seat.print(len(seat.text))


async def answer(seat: Seat) -> None:
    seat.final("there it is", (0, 6))


def test_turns_go_on_until_the_answer(bench: Bench) -> None:
    replies = iter([code("look"), code("answer")])
    found = bench.run(lambda messages: next(replies), {"look": look, "answer": answer})
    assert (found.text, found.state) == ("there it is", "done")
    assert found.usage.calls == 2
    tags = [(record.tag, record.attrs.get("event")) for record in bench.story if not record.tag.endswith("stream")]
    turn = [("rlm-call", "turn"), ("usage", None), ("rlm-chat", None), ("rlm-repl-in", None), ("rlm-repl-out", None)]
    assert tags == [("rlm-call", "begin"), *turn, *turn, ("rlm-call", "touch"), ("rlm-final", None)]
    assert [record.attrs["seq"] for record in bench.story if "seq" in record.attrs] == list(range(len(tags)))
