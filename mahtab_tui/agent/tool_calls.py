"""Tool calls of a model."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import BaseTool

from mahtab_tui.agent.host import ToolCall
from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.llm import prompts
from mahtab_tui.llm.base import make_encodable
from mahtab_tui.system import start_thread
from mahtab_tui.tools import ToolError
from mahtab_tui.tools.toolset import Toolset

MAX_TOOL_RESULT_CHARS = 12_000
"""Characters of a result; the middle of a longer one is left out."""
MAX_CALLS = 25
"""Maximum number of tool calls per question."""
_STOP_CHECK_S = 0.1
"""Seconds between two questions whether the turn was stopped."""


def binding_arguments(
    llm: BaseChatModel, tools: Sequence[BaseTool], *, forbidden: bool = False
) -> dict[str, Any]:
    """Return the arguments that offer tools to a model; empty if it supports none."""
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
    """Join the chunks of an answer into the message for the provider, and parse its tool calls;
    None if there are none. Truncated arguments are never completed by guessing."""
    pieces = [
        piece for piece in pieces if piece.content or piece.additional_kwargs or _raw_calls(piece)
    ]
    if not any(map(_raw_calls, pieces)):
        return None

    joined = pieces[-1]
    first_chunk = pieces[0]
    if isinstance(first_chunk, AIMessageChunk):
        other_chunks = [piece for piece in pieces[1:] if isinstance(piece, AIMessageChunk)]
        joined = add_ai_message_chunks(first_chunk, *other_chunks)
    calls = [_streamed_call(index, raw) for index, raw in enumerate(_raw_calls(joined))]
    additional_fields = {
        key: value
        for key, value in joined.additional_kwargs.items()
        if key not in ("tool_calls", "function_call")
    }
    update = {"content": joined.content, "additional_kwargs": additional_fields}
    return JoinedAnswer(call_message("", calls).model_copy(update=update), calls)


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


class ToolOutcome(NamedTuple):
    """How a tool call has ended."""

    state: Literal["ok", "error", "refused", "stopped"]
    text: str


def run_call(call: ToolCall, tools: Toolset, cancelled: threading.Event) -> ToolOutcome:
    """Run a tool call until it ends or the turn is stopped; a tool that ignores the stop is
    abandoned."""
    if call["problem"]:
        return ToolOutcome("error", call["problem"])
    outcomes: queue.SimpleQueue[ToolOutcome] = queue.SimpleQueue()
    abandoned = threading.Event()
    """Not `cancelled`, which is cleared when the next turn starts."""

    def work() -> None:
        try:
            outcomes.put(ToolOutcome("ok", tools.run(call["name"], call["arguments"], abandoned)))
        except ToolError as error:
            outcomes.put(ToolOutcome("error", str(error)))
        except BaseException as error:  # the thread's outermost frame
            outcomes.put(ToolOutcome("error", f"{call['name']} failed: {type(error).__name__}."))

    start_thread("tool", work)
    while not cancelled.is_set():
        try:
            outcome = outcomes.get(timeout=_STOP_CHECK_S)
        except queue.Empty:
            continue
        if not cancelled.is_set():
            text = shorten(escape_controls(outcome.text), MAX_TOOL_RESULT_CHARS)
            return outcome._replace(text=text)
    abandoned.set()
    return ToolOutcome("stopped", prompts.STOPPED_CALL)
