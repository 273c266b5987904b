"""Scripted searches: models and sandboxes that follow a test's script, and the events of both."""

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
from mahtab_tui.llm.search_prompt_words import LAST_CALL, PLAIN, QUERY
from mahtab_tui.sandbox.base import Sandbox, SandboxHost, TurnResult
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.search.search import FanOutPolicy, Search, SearchSettings
from mahtab_tui.search.search_answers import SearchAnswer
from mahtab_tui.search.tree import SearchTree
from mahtab_tui.worker.rlm.answers import FORM
from mahtab_tui.worker.sandbox.engine import Final
from tests import tags

TEXT = "".join(f"line {number}\n" for number in range(1_000))

STOPPED = "[failed: The call was stopped.]"
Messages = Sequence[BaseMessage]
Reply = Callable[[Messages], "Awaitable[str] | str"]
"""Return a model's answer to a conversation."""


class ScriptedModel(BaseChatModel):
    """Answers by a function on the loop. Each call costs a cent, reads 100 tokens and writes 10."""

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


class TurnAccess:
    """A scripted turn's access to its node's text and to the engine."""

    def __init__(self, text: SearchedText, host: SandboxHost) -> None:
        self.text = text.text
        self.host = host
        self.output: list[str] = []

    def print(self, *values: object) -> None:
        self.output.append(" ".join(map(str, values)) + "\n")

    async def rlm(self, query: str, *parts: str | tuple[int, int]) -> list[str]:
        return await self._call("rlm", query, parts, True)

    async def llm(self, query: str, part: str | tuple[int, int] = "") -> str:
        return (await self._call("llm", query, [part], False))[0]

    def partition(self, n: int) -> list[tuple[int, int]]:
        size = -(-len(self.text) // n)
        return [
            (start, min(len(self.text), start + size)) for start in range(0, len(self.text), size)
        ]

    def final(self, text: str, *spans: tuple[int, int]) -> None:
        self.host.send("final", {"text": text, "spans": [list(span) for span in spans]})
        raise Final

    async def _call(
        self, name: str, query: str, parts: Sequence[str | tuple[int, int]], many: bool
    ) -> list[str]:
        sent = [{"text": part} if isinstance(part, str) else {"span": list(part)} for part in parts]
        reply = await self.host.call(name, {"query": query, "parts": sent, "map": many})
        return [
            f"[failed: {answer['text']}]" if answer["failed"] else str(answer["text"])
            for answer in reply["answers"]
        ]


Turn = Callable[[TurnAccess], Awaitable[None]]
"""A turn's code."""


class ScriptedSandboxes:
    """Sandboxes for code that names a turn: ``look()`` runs the function `look` of `turns`."""

    name = "scripted"
    unsupported_features = ""
    slow = False
    """Whether they never start."""

    def __init__(self, turns: Sequence[Turn] = ()) -> None:
        self._turns = {cast("Any", turn).__name__: turn for turn in turns}
        self.open = 0
        self.most = 0
        """The most that were open at a time."""
        self.closed = False

    async def start(
        self, text: SearchedText, host: SandboxHost, max_answer_chars: int = 40_000, tools: Any = ()
    ) -> Sandbox:
        if self.slow:
            await asyncio.Event().wait()
        self.open += 1
        self.most = max(self.most, self.open)
        return _ScriptedSandbox(self, self._turns, TurnAccess(text, host))

    async def close(self) -> None:
        self.closed = True


class _ScriptedSandbox:
    def __init__(
        self, home: ScriptedSandboxes, turns: Mapping[str, Turn], access: TurnAccess
    ) -> None:
        self._home = home
        self._turns = turns
        self._access = access
        self._running: asyncio.Task[None] | None = None

    async def run(self, code: str, seconds: float) -> TurnResult:
        began = time.monotonic()
        self._access.output.clear()
        task = self._running = asyncio.ensure_future(
            cast("Any", self._turns[code.split("(")[0]](self._access))
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
            self._access.print(f"{type(error).__name__}: {error}")
        finally:
            task.cancel()
        output = "".join(self._access.output)
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
    """Return an answer that runs a turn. note: distinguishes blocks that run the same turn."""
    comment = f"  # {note}" if note else ""
    return f"I look.\n\n```python\n{call}(){comment}\n```\n"


def query_of(messages: Messages) -> str:
    """Return the query of a conversation."""
    match = re.search(rf"<{QUERY}>\n(.*?)\n</{QUERY}>", str(messages[1].content), re.DOTALL)
    assert match
    return match[1]


def is_plain(messages: Messages) -> bool:
    return PLAIN in str(messages[0].content)


def is_last_call(messages: Messages) -> bool:
    return LAST_CALL in str(messages[-1].content)


def count_answers(messages: Messages) -> int:
    return sum(message.type == "ai" for message in messages)


def replies(
    script: Mapping[str, str | Sequence[str]], final_reply: str = "the best there is"
) -> Reply:
    """Answer each query with its answers in order, one a turn, and a last call with `last`."""

    def reply(messages: Messages) -> str:
        if is_last_call(messages):
            return final_reply
        entry = script[query_of(messages).partition(FORM)[0]]
        return entry if isinstance(entry, str) else entry[count_answers(messages)]

    return reply


class SearchEvents(list[Record]):
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

    def calls(self, event: str, node: str | None = None, **attrs: Any) -> list[Record]:
        return self.of(tags.RLM_CALL, node, event=event, **attrs)

    def finals(self) -> dict[str, tuple[str, str]]:
        return {
            record.attrs["node"]: (record.attrs["state"], record.text)
            for record in self.of(tags.RLM_FINAL)
        }

    def begun(self) -> list[str]:
        return [record.attrs["node"] for record in self.calls("begin")]


class ScriptedSearches:
    """Scripted searches, with their events."""

    def __init__(self) -> None:
        self.events = SearchEvents()
        self.sandboxes = ScriptedSandboxes()
        self._searches: list[Search] = []

    def search(self, *turns: Turn) -> Search:
        self.sandboxes = ScriptedSandboxes(turns)
        self.running = Search(self.events.append, lambda: self.sandboxes)
        self._searches.append(self.running)
        return self.running

    def run(
        self,
        reply: Reply | ScriptedModel,
        *turns: Turn,
        text: Any = TEXT,
        sub_model: ScriptedModel | None = None,
        asking: FanOutPolicy = "run",
        **limits: Any,
    ) -> SearchAnswer:
        return self.search(*turns).run(
            "what?",
            text,
            model=reply if isinstance(reply, ScriptedModel) else ScriptedModel(reply=reply),
            sub_model=sub_model,
            limits=SearchLimits(**{"small": 0, "max_depth": 3, **limits}),
            settings=SearchSettings(fan_out_policy=asking),
        )

    def start(self, reply: Reply, *turns: Turn, **options: Any) -> Future[SearchAnswer]:
        """Run it on a thread, so that the test can act meanwhile."""
        pool = ThreadPoolExecutor(1)
        running = pool.submit(self.run, reply, *turns, **{"asking": "ask", **options})
        pool.shutdown(wait=False)
        return running

    def stop(self, node: str) -> None:
        self.running.stop(self.events[0].attrs["tree"], node)

    def close(self) -> None:
        for search in self._searches:
            search.close()
        check(self.events)


def check(search_events: SearchEvents) -> None:
    """Check that events are numbered without a gap, that every node has begun once and ended once,
    and that the pane's tree shows the same."""
    for name in {record.attrs["tree"] for record in search_events if "tree" in record.attrs}:
        records = [record for record in search_events if record.attrs.get("tree") == name]
        numbers = [record.attrs["seq"] for record in records if "seq" in record.attrs]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        begun_nodes = [
            record.attrs["node"] for record in records if record.attrs.get("event") == "begin"
        ]
        ended_nodes = [record.attrs["node"] for record in records if record.tag == tags.RLM_FINAL]
        assert sorted(begun_nodes) == sorted(set(begun_nodes)) == sorted(ended_nodes)
        tree = SearchTree(name)
        for record in records:
            tree.fold(record)
        assert tree.finished
        assert sorted(tree.nodes) == sorted(begun_nodes)
        assert not tree.questions
        assert {node.id: (node.state, node.answer) for node in tree.nodes.values()} == SearchEvents(
            records
        ).finals()
