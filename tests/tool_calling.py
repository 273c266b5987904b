"""A model that streams calls of tools, cut into pieces as providers cut them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import Runnable
from pydantic import Field

from mahtab_tui.agent import ReplAgent
from mahtab_tui.settings.model import LoopMode
from tests.agents import FakeModel, RecordedSession

Answer = str | list[AIMessageChunk] | Exception


def calls(
    *requested_calls: tuple[str, dict[str, Any] | str], words: str = ""
) -> list[AIMessageChunk]:
    """An answer that calls tools: name, and arguments (a text is sent as it is)."""

    def piece(index: int, name: str | None, args: str) -> AIMessageChunk:
        id = None if name is None else f"id-{index}"
        call = tool_call_chunk(name=name, args=args, id=id, index=index)
        return AIMessageChunk(content="", tool_call_chunks=[call])

    written = [
        call_arguments if isinstance(call_arguments, str) else json.dumps(call_arguments)
        for _, call_arguments in requested_calls
    ]
    return [
        *([AIMessageChunk(content=words)] if words else []),
        *(piece(index, name, "") for index, (name, _) in enumerate(requested_calls)),
        *(piece(index, None, text[: len(text) // 2]) for index, text in enumerate(written)),
        *(piece(index, None, text[len(text) // 2 :]) for index, text in enumerate(written)),
    ]


class Caller(FakeModel):
    """Gives the answers in order, and records each request."""

    answers: list[Answer]
    tools: list[list[str]] = Field(default_factory=list)
    """Names of the tools that each request offered."""
    forbidden: list[bool] = Field(default_factory=list)
    """Whether each request forbade tools."""
    before: Callable[[int], object] = lambda number: None
    """Called with the number of each answer before it is given."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=[tool.name for tool in tools])

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.tools.append(kwargs.get("tools", []))
        self.forbidden.append(kwargs.get("tool_choice") == "none")
        self.before(len(self.asked) + 1)
        answer = self.answers.pop(0)
        self.script = answer if isinstance(answer, list) else [answer]
        yield from super()._stream(messages)


def calling_agent(
    recorded_session: RecordedSession, *answers: Answer, loop: LoopMode = "auto"
) -> tuple[ReplAgent, Caller]:
    """An agent with the session's tools, and its model."""
    model = Caller(answers=list(answers))
    return ReplAgent(
        recorded_session.host, model, tools=recorded_session.session.tools(), loop=loop
    ), model
