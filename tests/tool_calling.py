"""A model that streams calls of tools, cut into pieces as providers cut them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import ConfigDict, Field


def calls(*asked: tuple[str, dict[str, Any] | str], words: str = "") -> list[AIMessageChunk]:
    """An answer that calls tools: name, and arguments (a text is sent as it is)."""
    pieces = [AIMessageChunk(content=words)] if words else []
    written = [
        arguments if isinstance(arguments, str) else json.dumps(arguments) for _, arguments in asked
    ]
    for index, (name, _) in enumerate(asked):
        pieces.append(
            AIMessageChunk(
                content="",
                tool_call_chunks=[
                    tool_call_chunk(name=name, args="", id=f"id-{index}", index=index)
                ],
            )
        )
    for start in (0, 1):
        for index, text in enumerate(written):
            part = text[: len(text) // 2] if start == 0 else text[len(text) // 2 :]
            pieces.append(
                AIMessageChunk(
                    content="",
                    tool_call_chunks=[tool_call_chunk(name=None, args=part, id=None, index=index)],
                )
            )
    return pieces


def text_answer(text: str) -> list[AIMessageChunk]:
    """An answer in words."""
    return [AIMessageChunk(content=text)]


class Caller(BaseChatModel):
    """Gives the answers in order; what it was asked, and with which tools, is kept."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    answers: list[list[AIMessageChunk] | Exception]
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    tools: list[list[str]] = Field(default_factory=list)
    """Names of the tools that each call got."""
    forbidden: list[bool] = Field(default_factory=list)
    """Whether each call was forbidden to use tools."""
    before: Callable[[int], object] = lambda number: None
    """Called with the number of each answer before it is given."""

    @property
    def _llm_type(self) -> str:
        return "caller"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=[tool.name for tool in tools])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.asked.append(messages)
        self.tools.append(kwargs.get("tools", []))
        self.forbidden.append(kwargs.get("tool_choice") == "none")
        self.before(len(self.asked))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for piece in answer:
            yield ChatGenerationChunk(message=piece)

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError
