"""Tool calls in the messages of a conversation: how tools are offered to a model, how its calls are read
from the chunks of an answer, and how they are sent back or written as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import BaseTool

from mahtab_tui.agent.host import ToolCall
from mahtab_tui.llm.base import make_encodable


def binding_arguments(
    llm: BaseChatModel, tools: Sequence[BaseTool], *, forbidden: bool = False
) -> dict[str, Any]:
    """Return the arguments that offer tools to a model; empty if it supports none.

    Args:
        llm: The model.
        tools: The tools.
        forbidden: Whether it must call none of them this time.
    """
    try:
        bound: Any = llm.bind_tools(tools)
    except NotImplementedError:
        return {}
    arguments = dict(bound.kwargs)
    if forbidden:
        # LangChain's package for Anthropic passes this on as it is.
        is_anthropic = llm._llm_type == "anthropic-chat"
        arguments["tool_choice"] = {"type": "none"} if is_anthropic else "none"
    return arguments


def call_message(text: str, calls: Sequence[ToolCall]) -> AIMessage:
    """Return the message of an answer that calls tools.

    Args:
        text: What the model says besides.
        calls: The calls.
    """
    return AIMessage(
        text,
        tool_calls=[
            {"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"}
            for call in calls
        ],
    )


class JoinedAnswer(NamedTuple):
    """An answer that calls tools."""

    message: AIMessage
    """The answer as it is sent back to the provider."""
    calls: list[ToolCall]


class _RawCall(NamedTuple):
    """A tool call as a service sends it."""

    id: str | None
    name: str | None
    arguments: str
    """The arguments as JSON, which may be incomplete."""


def join_chunks(pieces: Iterable[BaseMessage]) -> JoinedAnswer | None:
    """Join the chunks of an answer into the message for the provider, and parse its tool calls.

    Truncated arguments are never completed by guessing.

    Args:
        pieces: The chunks; a single message if the service does not stream.

    Returns:
        None if the answer calls no tools.
    """
    pieces = [
        piece for piece in pieces if piece.content or piece.additional_kwargs or _raw_calls(piece)
    ]
    if not any(map(_raw_calls, pieces)):
        return None

    joined = _join_messages(pieces)
    calls = [_streamed_call(index, raw) for index, raw in enumerate(_raw_calls(joined))]
    additional_fields = {
        key: value
        for key, value in joined.additional_kwargs.items()
        if key not in ("tool_calls", "function_call")
    }
    update = {"content": joined.content, "additional_kwargs": additional_fields}
    return JoinedAnswer(call_message("", calls).model_copy(update=update), calls)


def _join_messages(pieces: Sequence[BaseMessage]) -> BaseMessage:
    """Return one message for chunks; the last piece if they are whole messages."""
    first_piece = pieces[0]
    if not isinstance(first_piece, AIMessageChunk):
        return pieces[-1]
    other_chunks = [piece for piece in pieces[1:] if isinstance(piece, AIMessageChunk)]
    return add_ai_message_chunks(first_piece, *other_chunks)


def _raw_calls(piece: BaseMessage) -> list[_RawCall]:
    """Return the tool calls of a whole answer, or the pieces of them in a chunk."""
    chunks = getattr(piece, "tool_call_chunks", ())
    if chunks:
        return [_RawCall(chunk["id"], chunk["name"], chunk["args"] or "{}") for chunk in chunks]
    raw_calls: list[_RawCall] = []
    for call in getattr(piece, "tool_calls", ()):
        raw_calls.append(_RawCall(call["id"], call["name"], json.dumps(call["args"])))
    for call in getattr(piece, "invalid_tool_calls", ()):
        raw_calls.append(_RawCall(call["id"], call["name"], call["args"] or "{}"))
    return raw_calls


def _streamed_call(index: int, raw: _RawCall) -> ToolCall:
    """Return a call that a service has sent, with the problem that prevents it.

    Args:
        index: The call's place in the answer, from 0.
        raw: What the service has sent.
    """
    arguments: dict[str, Any] = {}
    problem = ""
    try:
        parsed = json.loads(raw.arguments)
        if not isinstance(parsed, dict):
            raise ValueError("not an object")
        arguments = encodable_arguments(parsed)
    except (ValueError, RecursionError) as error:
        problem = f"The arguments cannot be read as JSON: {error}."
    return ToolCall(
        id=raw.id or f"call_{index}",
        name=make_encodable(raw.name or ""),
        arguments=arguments,
        problem=problem,
    )


def encodable_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments whose texts can be encoded.

    Raises `TypeError` and `ValueError` if they are not JSON.
    """
    return dict(json.loads(make_encodable(json.dumps(arguments, ensure_ascii=False))))


def calls_as_text(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Convert messages with tool calls to plain text. They keep their ids."""
    result: list[AnyMessage] = []
    for message in messages:
        message_class = AIMessage if message.type == "ai" else HumanMessage
        text = str(message.text)
        if isinstance(message, AIMessage) and message.tool_calls and not text.strip():
            continue
        if result and type(result[-1]) is message_class:
            text = f"{result.pop().text}\n\n{text}"
        result.append(message_class(text, id=message.id))
    return result
