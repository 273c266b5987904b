"""Tool calls of a model."""

from __future__ import annotations

import ast
import json
import queue
import re
import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import BaseTool

from mahtab_tui.agent.host import ExecutionResult, ToolCall
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.record_xml import format_attributes, to_xml
from mahtab_tui.bus.records import AssistantReplIn, AssistantReplOut
from mahtab_tui.bus.terminal_screen import escape_controls, escape_output
from mahtab_tui.llm import prompts
from mahtab_tui.llm.base import make_encodable
from mahtab_tui.llm.prompt_sections import escape_sections
from mahtab_tui.system import start_thread
from mahtab_tui.tools import ToolError, Toolset

MAX_TOOL_RESULT_CHARS = 12_000
MIN_OUTPUT_TOKENS = 2_000
"""Longest output for a model that reads `SMALL_WINDOW_TOKENS`."""
MAX_OUTPUT_TOKENS = 8_000
"""Longest output for a model that reads `LARGE_WINDOW_TOKENS` or more."""
SMALL_WINDOW_TOKENS = 8_000
LARGE_WINDOW_TOKENS = 100_000
CHARS_PER_TOKEN = 4
MAX_CALLS = 25
"""Maximum number of tool calls per question."""
_MAX_WRITTEN_CALL_CHARS = 20_000
"""Maximum characters of a text that is parsed as a call."""
_MAX_CALL_KEYS = 4
"""Keys of an object that may be a call; one with more is data."""
_STOP_CHECK_S = 0.1
_TAGGED_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_OPENING_FENCE = re.compile(r"[ \t]*`{3,}\w*[ \t]*")
_CLOSING_FENCE = re.compile(r"[ \t]*`[` \t]*")
_NAME_KEYS = ("name", "tool", "function", "tool_name")
_ARGUMENTS_KEYS = ("arguments", "parameters", "args", "input", "tool_input")


def max_output_chars(window_tokens: int) -> int:
    """Return how many characters of a block's output a model gets, by what it can read."""
    if window_tokens < SMALL_WINDOW_TOKENS:
        # A quarter of the window, as at the limit.
        return window_tokens // 4 * CHARS_PER_TOKEN
    share = (window_tokens - SMALL_WINDOW_TOKENS) / (LARGE_WINDOW_TOKENS - SMALL_WINDOW_TOKENS)
    additional_tokens = (MAX_OUTPUT_TOKENS - MIN_OUTPUT_TOKENS) * min(1.0, share)
    return (MIN_OUTPUT_TOKENS + int(additional_tokens)) * CHARS_PER_TOKEN


def render_results(
    results: Sequence[ExecutionResult], max_chars: int, *, with_code: bool = False
) -> str:
    """Format outputs as escaped records.

    Args:
        max_chars: Characters of each output and each code; the middle of a longer one is left out.
        with_code: Whether to include all code, not only code that the user edited.
    """
    return "\n".join(_render_result(result, with_code, max_chars) for result in results)


def _render_result(result: ExecutionResult, with_code: bool, max_chars: int) -> str:
    note = result["note"]
    has_run = result["status"] not in ("skipped", "repeated")
    texts = [note] if note else []
    # A note about code that ran says that the user edited it.
    if with_code or (has_run and note):
        code = shorten(escape_controls(result["code"]), max_chars)
        element = to_xml(AssistantReplIn(code, cell=result["cell"]))
        texts.append(escape_sections(element))
    if has_run:
        texts.append(escape_sections(_output_element(result, max_chars)))
    return "\n".join(texts)


def _output_element(result: ExecutionResult, max_chars: int) -> str:
    """Format an output, with the variables that changed and the ids of the figures that were
    drawn."""
    cell = result["cell"]
    output = escape_output(result["output"], rewritten=result.get("rewritten", False)).rstrip()
    if len(output) > max_chars:
        output = shorten(output, max_chars, prompts.see_whole_output(cell))
    output = output or "(nothing was printed)"
    if variables := result.get("variables"):
        output = f"{output}\n\n{escape_controls(variables)}"

    element = to_xml(AssistantReplOut(output, cell=cell, status=result["status"]))
    if picture_ids := result.get("pictures"):
        names = format_attributes({"pictures": " ".join(picture_ids)})
        element = element.replace(">", f"{names}>", 1)
    return element


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
    return AIMessage(
        text,
        tool_calls=[
            {"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"}
            for call in calls
        ],
    )


class _RawCall(NamedTuple):
    """A tool call as a service sends it."""

    id: str | None
    name: str | None
    arguments: str
    """As JSON, which may be incomplete."""


def join_chunks(pieces: Iterable[BaseMessage]) -> tuple[AIMessage, list[ToolCall]] | None:
    """Join the chunks of an answer into the message for the provider, and parse its tool calls;
    None if there are none. Truncated arguments are never completed by guessing."""
    pieces = [
        piece for piece in pieces if piece.content or piece.additional_kwargs or _raw_calls(piece)
    ]
    if not any(map(_raw_calls, pieces)):
        return None

    joined = pieces[-1]
    if isinstance(first_chunk := pieces[0], AIMessageChunk):
        other_chunks = [piece for piece in pieces[1:] if isinstance(piece, AIMessageChunk)]
        joined = add_ai_message_chunks(first_chunk, *other_chunks)
    calls = [_streamed_call(index, raw) for index, raw in enumerate(_raw_calls(joined))]
    additional_fields = {
        key: value
        for key, value in joined.additional_kwargs.items()
        if key not in ("tool_calls", "function_call")
    }
    update = {"content": joined.content, "additional_kwargs": additional_fields}
    return call_message("", calls).model_copy(update=update), calls


def _raw_calls(piece: BaseMessage) -> list[_RawCall]:
    """Return the tool calls of a whole answer, or the pieces of them in a chunk."""
    if chunks := getattr(piece, "tool_call_chunks", ()):
        return [_RawCall(chunk["id"], chunk["name"], chunk["args"] or "{}") for chunk in chunks]
    raw_calls: list[_RawCall] = []
    for call in getattr(piece, "tool_calls", ()):
        raw_calls.append(_RawCall(call["id"], call["name"], json.dumps(call["args"])))
    for call in getattr(piece, "invalid_tool_calls", ()):
        raw_calls.append(_RawCall(call["id"], call["name"], call["args"] or "{}"))
    return raw_calls


def _streamed_call(index: int, raw: _RawCall) -> ToolCall:
    arguments: dict[str, Any] = {}
    problem = ""
    try:
        parsed = json.loads(raw.arguments)
        if not isinstance(parsed, dict):
            raise ValueError("not an object")
        arguments = _encodable(parsed)
    except (ValueError, RecursionError) as error:
        problem = f"The arguments cannot be read as JSON: {error}."
    return ToolCall(
        id=raw.id or f"call_{index}",
        name=make_encodable(raw.name or ""),
        arguments=arguments,
        problem=problem,
    )


def _encodable(arguments: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(make_encodable(json.dumps(arguments, ensure_ascii=False))))


def calls_as_text(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Convert messages with tool calls to plain text."""
    result: list[AnyMessage] = []
    for message in messages:
        message_class = AIMessage if message.type == "ai" else HumanMessage
        text = str(message.text)
        if isinstance(message, AIMessage) and message.tool_calls and not text.strip():
            continue
        if result and type(result[-1]) is message_class:
            text = f"{result.pop().text}\n\n{text}"
        result.append(message_class(text))
    return result


class _WrittenCall(NamedTuple):
    """A call that a model wrote into its answer instead of making it."""

    name: str
    arguments: dict[str, Any]


def parse_written_calls(text: str, tools: Collection[str]) -> tuple[str, list[ToolCall]]:
    """Find calls that an answer contains as text: objects with a name and arguments, in JSON or
    Python, that fill a code fence, a ``<tool_call>`` or the whole answer.

    Returns:
        The answer without the calls, and the calls.
    """
    written_calls: list[_WrittenCall] = []

    def remove_tagged(match: re.Match[str]) -> str:
        tagged_calls = _read_calls(match[1])
        written_calls.extend(tagged_calls)
        return "" if tagged_calls else match[0]

    words = _remove_fenced_calls(_TAGGED_CALL.sub(remove_tagged, text), written_calls)
    if not written_calls:
        written_calls = _read_calls(text)
        words = ""
    if not written_calls:
        return text, []
    calls = [_checked_call(index, call, tools) for index, call in enumerate(written_calls)]
    return words.strip(), calls


def _remove_fenced_calls(text: str, written_calls: list[_WrittenCall]) -> str:
    """Return a text without the code fences that hold only calls, which are added to
    `written_calls`."""
    kept_lines: list[str] = []
    fence_lines: list[str] = []
    """The lines of the open fence, with its first."""
    for line in text.split("\n"):
        if not fence_lines and not _OPENING_FENCE.fullmatch(line):
            kept_lines.append(line)
            continue
        fence_lines.append(line)
        if len(fence_lines) > 1 and _CLOSING_FENCE.fullmatch(line):
            fenced_calls = _read_calls("\n".join(fence_lines[1:-1]))
            written_calls += fenced_calls
            if not fenced_calls:
                kept_lines += fence_lines
            fence_lines = []
    return "\n".join([*kept_lines, *fence_lines])


def _read_calls(text: str) -> list[_WrittenCall]:
    """Read a text that is nothing but calls; return an empty list if it has anything else."""
    text = text.strip()
    if len(text) > _MAX_WRITTEN_CALL_CHARS or text[:1] not in ("{", "["):
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return []

    calls: list[_WrittenCall] = []
    for item in value if isinstance(value, list) else [value]:
        call = _read_call(item)
        if call is None:
            return []
        calls.append(call)
    return calls


def _read_call(value: object) -> _WrittenCall | None:
    """Read an object as a call, in one of the forms that models use."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or len(value) > _MAX_CALL_KEYS:
        return None
    names = [value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)]
    arguments = next((value[key] for key in _ARGUMENTS_KEYS if key in value), None)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    if not names or not names[0] or not isinstance(arguments, dict):
        return None
    return _WrittenCall(names[0], arguments)


def _checked_call(index: int, call: _WrittenCall, tools: Collection[str]) -> ToolCall:
    """Return a written call, with the problem that prevents it."""
    name = make_encodable(call.name)
    problem = ""
    if call.name not in tools:
        problem = f"There is no tool {name!r}. Write a Python code block instead."
    arguments: dict[str, Any] = {}
    try:
        arguments = _encodable(call.arguments)
    except (TypeError, ValueError):
        problem = "The arguments cannot be read as JSON."
    return ToolCall(id=f"written_{index}", name=name, arguments=arguments, problem=problem)


class ToolOutcome(NamedTuple):
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
