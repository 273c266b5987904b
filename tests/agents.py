"""An agent in a test: prepared answers, a real namespace, and the records of its bus."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, Field

from mahtab_tui.agent import ReplAgent, create_initial_state, create_repl_graph, run_graph
from mahtab_tui.agent.model_calls import ModelAnswer, make_answer
from mahtab_tui.agent.nodes import Nodes
from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Decision, Record
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.llm.answer_readers import AnswerListener, OnText
from mahtab_tui.llm.calls import ModelCall
from mahtab_tui.llm.scripted import ChatReplay
from mahtab_tui.session.agent import SessionAgent
from mahtab_tui.session.api import SessionState
from tests import tags
from tests.records import RecordList

COMPLETE = {
    "match": "is_complete",
    "text": '{"is_complete": true, "reasoning": "It is right.", "next_action": ""}',
}
INCOMPLETE = {
    "match": "is_complete",
    "text": '{"is_complete": false, "reasoning": "Half is missing.", "next_action": "Do the rest."}',
}


def code(*blocks: str, words: str = "Let me see.") -> dict[str, Any]:
    """A prepared answer with code."""
    return {"text": "\n\n".join([words, *(f"```python\n{block}\n```" for block in blocks)])}


def words(text: str, **fields: Any) -> dict[str, Any]:
    """A prepared answer in words."""
    return {"text": text, **fields}


class FakeModel(BaseChatModel):
    """Streams texts and chunks, or the fields of chunks; calls the functions between them, and
    raises the errors."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    script: Any = ()
    """The pieces of every answer, or a function that returns them for the messages."""
    window: int | None = None
    asked: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "fake"

    def pieces(self, messages: list[BaseMessage]) -> Iterable[Any]:
        pieces: Iterable[Any] = self.script(messages) if callable(self.script) else self.script
        return pieces

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.asked.append(messages)
        for piece in self.pieces(messages):
            if isinstance(piece, Exception):
                raise piece
            if callable(piece):
                piece()
                continue
            fields = {"content": piece} if isinstance(piece, str) else piece
            chunk = fields if isinstance(fields, AIMessageChunk) else AIMessageChunk(**fields)
            yield ChatGenerationChunk(message=chunk)

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError


class RecordedSession(RecordList):
    """A session in this process, with all the records of its bus."""

    def __init__(
        self, folder: Path, namespace: dict[str, Any] | None = None, kernel: Kernel | None = None
    ) -> None:
        super().__init__()
        self._folder = folder
        self.namespace: dict[str, Any] = {} if namespace is None else namespace
        self.session = SessionState(kernel=kernel)
        self.session.init_namespace(self.namespace)
        host = self.session.agent_host("replay:file")
        assert isinstance(host, SessionAgent)
        self.host = host
        self._reactions: list[tuple[Callable[[Record], bool], Callable[[Record], object]]] = []
        self.session.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        value = self.records[-1]
        for matches, action in list(self._reactions):
            if matches(value):
                action(value)

    def replay(self, *lines: dict[str, Any]) -> ChatReplay:
        path = self._folder / f"answers-{len(list(self._folder.glob('answers-*')))}.jsonl"
        path.write_text("\n".join(map(json.dumps, lines or [words("")])), "utf-8")
        return ChatReplay.from_file(path)

    def when(
        self, tag: str, action: Callable[[Record], object], text: str = "", **attrs: Any
    ) -> None:
        """Call `action` for each record that has this tag, these attributes, and `text` in it."""

        def matches(record: Record) -> bool:
            return (
                record.tag == tag and text in record.text and attrs.items() <= record.attrs.items()
            )

        self._reactions.append((matches, action))

    def decide(self, *decisions: Decision) -> None:
        """Ask for approval, and answer the requests in this order."""
        self.host.info.approval = "ask"
        remaining_decisions = list(decisions)
        self.when(
            tags.APPROVAL,
            lambda record: self.host.approvals.answer(
                record.attrs["request"], remaining_decisions.pop(0)
            ),
            state="waiting",
        )

    def nodes(self, *lines: dict[str, Any], max_turns: int = 5) -> Nodes:
        return Nodes(self.replay(*lines), self.host, max_turns)

    def agent(self, *lines: dict[str, Any], **options: Any) -> ReplAgent:
        return ReplAgent(self.host, self.replay(*lines), **options)

    def run(
        self,
        *lines: dict[str, Any],
        llm: BaseChatModel | None = None,
        prompt: str = "what is it?",
        max_turns: int = 5,
        **options: Any,
    ) -> AgentState:
        options = {"reflection": "always", **options}
        graph = create_repl_graph(llm or self.replay(*lines), self.host, max_turns, **options)
        return run_graph(graph, create_initial_state(prompt), self.host)

    def of(self, tag: str) -> list[Record]:
        return [record for record in self.records if record.tag == tag]

    def agent_states(self) -> list[str]:
        return [str(record.attrs["state"]) for record in self.of(tags.AGENT)]

    def approvals(self) -> list[str]:
        return [str(record.attrs["state"]) for record in self.of(tags.APPROVAL)]

    def notices(self, level: str) -> list[str]:
        return [record.text for record in self.of(tags.NOTICE) if record.attrs["level"] == level]


def read(
    llm: BaseChatModel,
    messages: Sequence[AnyMessage] = (HumanMessage("hi"),),
    cancelled: threading.Event | None = None,
    on_token: OnText = lambda words: None,
    on_pause: Callable[[str], object] = lambda sentence: None,
    on_reading: Callable[[float], object] = lambda share: None,
    options: Mapping[str, Any] | None = None,
) -> ModelAnswer:
    """Read an answer of a model."""
    call = ModelCall(
        llm,
        messages,
        secrets=Secrets(),
        stopped=cancelled or threading.Event(),
        listener=AnswerListener(on_token, on_reading=on_reading),
        options=options,
        on_pause=on_pause,
    )
    call.read()
    return make_answer(call)


def without_surroundings(text: str) -> str:
    return re.sub(r"<surroundings>\n.*?\n</surroundings>\n*", "", text, flags=re.DOTALL)


def last_text(state: AgentState, kind: str) -> str:
    """The text of the last message of a kind ("human", "ai")."""
    return next(
        str(message.text) for message in reversed(state["messages"]) if message.type == kind
    )
