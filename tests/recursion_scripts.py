"""Searches by script: models and sandboxes that do what a test says, and the events that come of
it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from mahtab_tui.bus.records import Record
from mahtab_tui.llm.prompts import LAST_CALL, QUERY
from mahtab_tui.sandbox.base import Sandbox, SandboxHost, Text, TurnResult
from mahtab_tui.search.api import Asking, Search, SearchAnswer
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.tree import Tree
from mahtab_tui.worker.sandbox.text import Final
from tests import tags

TEXT = "".join(f"line {number}\n" for number in range(1_000))

Reply = Callable[[Sequence[BaseMessage]], "Awaitable[str] | str"]
"""Return a model's answer to a conversation."""


class ScriptedModel(BaseChatModel):
    """Answers by a function, on the loop; each call costs a cent, and reads 100 tokens and writes
    10."""

    reports_cost: ClassVar[bool] = True

    reply: Any
    model: str = "scripted"
    cost: float | None = 0.01

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = self.reply(messages)
        text = reply if isinstance(reply, str) else await reply
        yield ChatGenerationChunk(message=AIMessageChunk(content=text))
        usage: Any = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                usage_metadata=usage,
                response_metadata={"cost_usd": self.cost, "model_name": "scripted"},
            )
        )


class Seat:
    """Objects for a scripted turn: the node's text, and the engine behind it."""

    def __init__(self, text: Text, host: SandboxHost) -> None:
        self.text = text.text
        self.host = host
        self.output: list[str] = []
        self.names: dict[str, Any] = {}
        """Variables that stay from turn to turn."""

    def print(self, *values: object) -> None:
        self.output.append(" ".join(map(str, values)) + "\n")

    async def rlm(self, query: str, *parts: str | tuple[int, int]) -> list[str]:
        return await self._call(
            "rlm_map", {"query": query, "parts": [_part(part) for part in parts], "map": True}
        )

    async def llm(self, query: str, part: str | tuple[int, int] | None = None) -> str:
        return (
            await self._call("llm", {"query": query, "part": None if part is None else _part(part)})
        )[0]

    def partition(self, n: int) -> list[tuple[int, int]]:
        size = -(-len(self.text) // n)
        return [
            (start, min(len(self.text), start + size)) for start in range(0, len(self.text), size)
        ]

    def final(self, text: str, *spans: tuple[int, int]) -> None:
        self.host.send("final", {"text": text, "spans": [list(span) for span in spans]})
        raise Final

    async def _call(self, name: str, args: dict[str, Any]) -> list[str]:
        reply = await self.host.call(name, args)
        return [
            f"[failed: {answer['text']}]" if answer["failed"] else str(answer["text"])
            for answer in reply["answers"]
        ]


def _part(part: str | tuple[int, int]) -> dict[str, Any]:
    return {"text": part} if isinstance(part, str) else {"span": list(part)}


Turn = Callable[[Seat], Awaitable[None]]
"""A turn's code."""


class ScriptedSandboxes:
    """Sandboxes whose code is the name of a turn: the model says ``look()``, and `turns["look"]`
    runs."""

    name = "scripted"
    gaps = ""

    def __init__(self, turns: Mapping[str, Turn]) -> None:
        self._turns = turns
        self.open = 0
        """Sandboxes that have not been closed."""
        self.most = 0
        """The most that were open at a time."""
        self.closed = False
        self.slow = False
        """They never start."""

    async def start(
        self, text: Text, host: SandboxHost, longest_answer: int = 40_000, tools: Any = ()
    ) -> Sandbox:
        if self.slow:
            await asyncio.Event().wait()
        self.open += 1
        self.most = max(self.most, self.open)
        return _ScriptedSandbox(self, self._turns, Seat(text, host))

    async def close(self) -> None:
        self.closed = True


class _ScriptedSandbox:
    def __init__(self, home: ScriptedSandboxes, turns: Mapping[str, Turn], seat: Seat) -> None:
        self._home = home
        self._turns = turns
        self._seat = seat
        self._running: asyncio.Task[None] | None = None

    async def run(self, code: str, seconds: float) -> TurnResult:
        began = time.monotonic()
        self._seat.output.clear()
        task = self._running = asyncio.ensure_future(
            cast("Any", self._turns[code.split("(")[0]](self._seat))
        )
        status: Any = "ok"
        try:
            await task
        except Final:
            status = "final"
        except TurnStatusError as error:
            status = error.status
        except Exception as error:
            status = "error"
            self._seat.print(f"{type(error).__name__}: {error}")
        finally:
            task.cancel()
        output = "".join(self._seat.output)
        return TurnResult(status, output, len(output), time.monotonic() - began)

    def interrupt(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def close(self) -> None:
        self.interrupt()
        self._home.open -= 1


class TurnStatusError(Exception):
    """Ends a turn with this status."""

    def __init__(self, status: str) -> None:
        self.status = status


def code(call: str, note: object = "") -> str:
    """A model's answer that runs a turn. note: makes its block differ from others that run the same."""
    comment = f"  # {note}" if note else ""
    return f"I look.\n\n```python\n{call}(){comment}\n```\n"


def query_of(messages: Sequence[BaseMessage]) -> str:
    """The query that a conversation is about."""
    found = re.search(rf"<{QUERY}>\n(.*?)\n</{QUERY}>", str(messages[1].content), re.DOTALL)
    assert found
    return found[1]


def replies(script: Mapping[str, str | Sequence[str]], last: str = "the best there is") -> Reply:
    """A model that says to each query these answers in order, one a turn; `last` when it is asked
    for its best answer."""

    def reply(messages: Sequence[BaseMessage]) -> str:
        if LAST_CALL in str(messages[-1].content):
            return last
        entry = script[query_of(messages)]
        return (
            entry
            if isinstance(entry, str)
            else entry[sum(1 for message in messages if message.type == "ai")]
        )

    return reply


class Story(list[Record]):
    """All events, in order."""

    def of(self, tag: str, node: str | None = None, **attrs: Any) -> list[Record]:
        """Return the records of a tag and a node with these attributes."""
        return [
            record
            for record in self
            if record.tag == tag
            and (node is None or record.attrs["node"] == node)
            and attrs.items() <= record.attrs.items()
        ]

    def finals(self) -> dict[str, tuple[str, str]]:
        return {
            record.attrs["node"]: (record.attrs["state"], record.text)
            for record in self.of(tags.RLM_FINAL)
        }

    def begun(self) -> list[str]:
        return [record.attrs["node"] for record in self.of(tags.RLM_CALL, event="begin")]


class Bench:
    """Searches by script, with their events."""

    def __init__(self) -> None:
        self.story = Story()
        self.sandboxes = ScriptedSandboxes({})
        self._searches: list[Search] = []

    def search(self, turns: Mapping[str, Turn]) -> Search:
        self.sandboxes = ScriptedSandboxes(turns)
        search = Search(self.story.append, lambda: self.sandboxes)
        self._searches.append(search)
        return search

    def run(
        self,
        reply: Reply | ScriptedModel,
        turns: Mapping[str, Turn],
        text: Any = TEXT,
        *,
        asking: Asking = "run",
        **limits: Any,
    ) -> SearchAnswer:
        model = reply if isinstance(reply, ScriptedModel) else ScriptedModel(reply=reply)
        within = Limits(**{"small": 0, "max_depth": 3, **limits})
        return self.search(turns).run("what?", text, model=model, limits=within, asking=asking)

    def start(
        self, reply: Reply, turns: Mapping[str, Turn], text: Any = TEXT, **limits: Any
    ) -> Future[SearchAnswer]:
        """Run it on a thread; the story goes on meanwhile."""
        search = self.search(turns)
        model, within = ScriptedModel(reply=reply), Limits(**{"small": 0, "max_depth": 3, **limits})
        pool = ThreadPoolExecutor(1)
        running = pool.submit(search.run, "what?", text, model=model, limits=within)
        pool.shutdown(wait=False)
        self.running = search
        return running

    def close(self) -> None:
        for search in self._searches:
            search.close()
        check(self.story)


def check(story: Story) -> None:
    """Events are numbered without a gap, every node has begun once and ended once, and the pane's
    tree comes to the same."""
    for name in {record.attrs["tree"] for record in story if "tree" in record.attrs}:
        records = [record for record in story if record.attrs.get("tree") == name]
        numbers = [record.attrs["seq"] for record in records if "seq" in record.attrs]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        begun = [record.attrs["node"] for record in records if record.attrs.get("event") == "begin"]
        ended = [record.attrs["node"] for record in records if record.tag == tags.RLM_FINAL]
        assert sorted(begun) == sorted(set(begun)) == sorted(ended)
        tree = Tree(name)
        for record in records:
            tree.fold(record)
        assert tree.finished
        assert sorted(tree.nodes) == sorted(begun)
        assert not tree.questions
        assert {node.id: (node.state, node.answer) for node in tree.nodes.values()} == Story(
            records
        ).finals()
