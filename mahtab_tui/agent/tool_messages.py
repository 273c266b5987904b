"""Reads the tool calls of an answer, and turns messages with calls into plain text for models
without tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import add_ai_message_chunks

from mahtab_tui.llm.chunks import encodable

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


class ToolCall(TypedDict):
    id: str
    """The provider's id."""
    name: str
    arguments: dict[str, Any]
    problem: str
    """A sentence for the model saying why it cannot be made; otherwise empty."""


def binding(
    llm: BaseChatModel, tools: Sequence[BaseTool], *, forbidden: bool = False
) -> dict[str, Any]:
    """Return the arguments that offer tools to a model; empty if it does not support tools.
    forbidden: they are shown, but none may be called."""
    try:
        bound: Any = llm.bind_tools(tools)
    except NotImplementedError:
        return {}
    anthropic = getattr(llm, "provider", llm._llm_type).startswith("anthropic")
    return {
        **bound.kwargs,
        **({"tool_choice": {"type": "none"} if anthropic else "none"} if forbidden else {}),
    }


def call_message(text: str, calls: Sequence[ToolCall]) -> AIMessage:
    """Make the message that goes back to a provider for tool calls."""
    return AIMessage(
        text,
        tool_calls=[
            {"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"}
            for call in calls
        ],
    )


def gathered(pieces: Iterable[BaseMessage]) -> tuple[AIMessage, list[ToolCall]] | None:
    """Join the chunks of an answer into the message to send back to the provider, and read its tool
    calls; None if it has none.

    Arguments are parsed strictly: truncated ones are never completed by a guess.
    """
    kept = [
        piece
        for piece in pieces
        if piece.content
        or piece.additional_kwargs
        or getattr(piece, "tool_calls", None)
        or _chunks(piece)
    ]
    if not any(_raw(piece) for piece in kept):
        return None
    whole = kept[-1]
    if isinstance(first := kept[0], AIMessageChunk):
        whole = add_ai_message_chunks(
            first, *(piece for piece in kept[1:] if isinstance(piece, AIMessageChunk))
        )
    calls = [_call(place, *raw) for place, raw in enumerate(_raw(whole))]
    extra = {
        key: value
        for key, value in whole.additional_kwargs.items()
        if key not in ("tool_calls", "function_call")
    }
    message = call_message("", calls)
    return message.model_copy(update={"content": whole.content, "additional_kwargs": extra}), calls


def in_words(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Convert messages with tool calls to plain text. Results become part of the user's messages,
    like the outputs of cells."""
    told: list[AnyMessage] = []
    for message in messages:
        kind = AIMessage if message.type == "ai" else HumanMessage
        text = str(message.text)
        if isinstance(message, AIMessage) and message.tool_calls and not text.strip():
            continue
        if told and type(told[-1]) is kind:
            text = f"{told.pop().text}\n\n{text}"
        told.append(kind(text))
    return told


def _chunks(piece: BaseMessage) -> list[Any]:
    return list(getattr(piece, "tool_call_chunks", ()))


def _raw(piece: BaseMessage) -> list[tuple[str | None, str | None, str]]:
    """Return id, name and arguments (JSON) of each call."""
    if chunks := _chunks(piece):
        return [(chunk["id"], chunk["name"], chunk["args"] or "{}") for chunk in chunks]
    valid = [
        (call["id"], call["name"], json.dumps(call["args"]))
        for call in getattr(piece, "tool_calls", ())
    ]
    return valid + [
        (call["id"], call["name"], call["args"] or "{}")
        for call in getattr(piece, "invalid_tool_calls", ())
    ]


def _call(place: int, number: str | None, name: str | None, written: str) -> ToolCall:
    call = ToolCall(
        id=number or f"call_{place}", name=encodable(name or ""), arguments={}, problem=""
    )
    try:
        arguments = json.loads(written)
        if not isinstance(arguments, dict):
            raise ValueError("not an object")
        call["arguments"] = json.loads(encodable(json.dumps(arguments, ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        call["problem"] = f"The arguments cannot be read as JSON: {error}."
    return call
