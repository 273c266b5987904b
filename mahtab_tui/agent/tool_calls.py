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
from mahtab_tui.bus.prompt import attributes, shorten, to_xml
from mahtab_tui.bus.records import AssistantReplIn, AssistantReplOut
from mahtab_tui.bus.terminal_screen import escape_for_model, escape_output
from mahtab_tui.llm import prompts
from mahtab_tui.llm.base import make_encodable
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


def max_output_chars(window_tokens: int) -> int:
    """Return how many characters of a block's output a model gets, by what it can read."""
    if window_tokens < SMALL_WINDOW_TOKENS:
        return window_tokens // 4 * CHARS_PER_TOKEN  # a quarter, as at the limit
    share = (window_tokens - SMALL_WINDOW_TOKENS) / (LARGE_WINDOW_TOKENS - SMALL_WINDOW_TOKENS)
    more_tokens = (MAX_OUTPUT_TOKENS - MIN_OUTPUT_TOKENS) * min(1.0, share)
    return (MIN_OUTPUT_TOKENS + int(more_tokens)) * CHARS_PER_TOKEN


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
    parts = [note] if note else []
    if with_code or (has_run and note):
        code = shorten(escape_for_model(result["code"]), max_chars)
        element = to_xml(AssistantReplIn(code, cell=result["cell"]))
        parts.append(prompts.escape_sections(element))
    if has_run:
        parts.append(prompts.escape_sections(_output_element(result, max_chars)))
    return "\n".join(parts)


def _output_element(result: ExecutionResult, max_chars: int) -> str:
    """Format an output, with the variables that changed and the ids of the figures that were
    drawn."""
    cell = result["cell"]
    output = escape_output(result["output"], rewritten=result.get("rewritten", False)).rstrip()
    if len(output) > max_chars:
        output = shorten(output, max_chars, prompts.see_whole_output(cell))
    output = output or "(nothing was printed)"
    if variables := result.get("variables"):
        output = f"{output}\n\n{escape_for_model(variables)}"

    element = to_xml(AssistantReplOut(output, cell=cell, status=result["status"]))
    if picture_ids := result.get("pictures"):
        names = attributes({"pictures": " ".join(picture_ids)})
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
    if not forbidden:
        return dict(bound.kwargs)
    anthropic = llm._llm_type == "anthropic-chat"  # LangChain's package
    return {**bound.kwargs, "tool_choice": {"type": "none"} if anthropic else "none"}


def call_message(text: str, calls: Sequence[ToolCall]) -> AIMessage:
    return AIMessage(
        text,
        tool_calls=[
            {"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"}
            for call in calls
        ],
    )


def join_chunks(pieces: Iterable[BaseMessage]) -> tuple[AIMessage, list[ToolCall]] | None:
    """Join the chunks of an answer into the message for the provider, and parse its tool calls;
    None if there are none. Truncated arguments are never completed by guessing."""
    pieces = [
        piece for piece in pieces if piece.content or piece.additional_kwargs or _raw_calls(piece)
    ]
    if not any(map(_raw_calls, pieces)):
        return None
    whole = pieces[-1]
    if isinstance(first := pieces[0], AIMessageChunk):
        whole = add_ai_message_chunks(
            first, *(piece for piece in pieces[1:] if isinstance(piece, AIMessageChunk))
        )
    calls = [_streamed_call(index, *raw) for index, raw in enumerate(_raw_calls(whole))]
    extra = {
        key: value
        for key, value in whole.additional_kwargs.items()
        if key not in ("tool_calls", "function_call")
    }
    update = {"content": whole.content, "additional_kwargs": extra}
    return call_message("", calls).model_copy(update=update), calls


def _raw_calls(piece: BaseMessage) -> list[tuple[str | None, str | None, str]]:
    if chunks := getattr(piece, "tool_call_chunks", ()):
        return [(chunk["id"], chunk["name"], chunk["args"] or "{}") for chunk in chunks]
    valid = getattr(piece, "tool_calls", ())
    invalid = getattr(piece, "invalid_tool_calls", ())
    return [
        *((call["id"], call["name"], json.dumps(call["args"])) for call in valid),
        *((call["id"], call["name"], call["args"] or "{}") for call in invalid),
    ]


def _streamed_call(index: int, number: str | None, name: str | None, written: str) -> ToolCall:
    arguments, problem = {}, ""
    try:
        parsed = json.loads(written)
        if not isinstance(parsed, dict):
            raise ValueError("not an object")
        arguments = _encodable(parsed)
    except (ValueError, RecursionError) as error:
        problem = f"The arguments cannot be read as JSON: {error}."
    name = make_encodable(name or "")
    return ToolCall(id=number or f"call_{index}", name=name, arguments=arguments, problem=problem)


def _encodable(arguments: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(make_encodable(json.dumps(arguments, ensure_ascii=False))))


def calls_as_text(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Convert messages with tool calls to plain text."""
    result: list[AnyMessage] = []
    for message in messages:
        kind = AIMessage if message.type == "ai" else HumanMessage
        text = str(message.text)
        if isinstance(message, AIMessage) and message.tool_calls and not text.strip():
            continue
        if result and type(result[-1]) is kind:
            text = f"{result.pop().text}\n\n{text}"
        result.append(kind(text))
    return result


_LONGEST = 20_000
"""Maximum characters of a text that is parsed as a call."""
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FENCE = re.compile(r"[ \t]*`{3,}\w*[ \t]*")
_NAME = ("name", "tool", "function", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input")


def parse_written_calls(text: str, tools: Collection[str]) -> tuple[str, list[ToolCall]]:
    """Return an answer without the calls that it contains as text, and the calls: objects with a
    name and arguments, in JSON or Python, that fill a code fence, a ``<tool_call>`` or the whole
    answer."""
    calls: list[ToolCall] = []

    def take(written: str) -> bool:
        found = _read_calls(written)
        for name, arguments in found:
            calls.append(_written_call(len(calls), name, arguments, tools))
        return bool(found)

    rest = _TAGGED.sub(lambda found: "" if take(found[1]) else found[0], text)
    lines, fence = list[str](), list[str]()
    for line in rest.split("\n"):
        if not fence and not _FENCE.fullmatch(line):
            lines.append(line)
            continue
        fence.append(line)
        if len(fence) > 1 and line.strip("` \t") == "" and line.strip():
            lines += [] if take("\n".join(fence[1:-1])) else fence
            fence = []
    rest = "\n".join([*lines, *fence])
    if not calls and take(text):
        rest = ""
    return (rest.strip(), calls) if calls else (text, [])


def _read_calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    text = text.strip()
    if len(text) > _LONGEST or text[:1] not in ("{", "["):
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return []
    found = [_name_and_arguments(one) for one in (value if isinstance(value, list) else [value])]
    return [one for one in found if one is not None] if all(found) else []


def _name_and_arguments(value: object) -> tuple[str, dict[str, Any]] | None:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or len(value) > 4:
        return None
    name = next((value[key] for key in _NAME if isinstance(value.get(key), str)), None)
    arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return (name, arguments) if name and isinstance(arguments, dict) else None


def _written_call(
    index: int, name: str, arguments: dict[str, Any], tools: Collection[str]
) -> ToolCall:
    encodable, problem = make_encodable(name), ""
    if name not in tools:
        problem = f"There is no tool {encodable!r}. Write a Python code block instead."
    try:
        arguments = _encodable(arguments)
    except (TypeError, ValueError):
        arguments, problem = {}, "The arguments cannot be read as JSON."
    return ToolCall(id=f"written_{index}", name=encodable, arguments=arguments, problem=problem)


MOST_CALLS = 25
"""Maximum number of tool calls per question."""
_CHECK_STOP = 0.1


class ToolOutcome(NamedTuple):
    state: Literal["ok", "error", "refused", "stopped"]
    text: str


def run_call(call: ToolCall, tools: Toolset, cancelled: threading.Event) -> ToolOutcome:
    """Run a tool call until it ends or the turn is stopped; a tool that ignores the stop is
    abandoned."""
    if call["problem"]:
        return ToolOutcome("error", call["problem"])
    ended: queue.SimpleQueue[ToolOutcome] = queue.SimpleQueue()
    left = threading.Event()
    """A separate event, because `cancelled` is cleared when the next turn starts."""

    def work() -> None:
        try:
            ended.put(ToolOutcome("ok", tools.run(call["name"], call["arguments"], left)))
        except ToolError as error:
            ended.put(ToolOutcome("error", str(error)))
        except BaseException as error:  # the thread's outermost frame
            ended.put(ToolOutcome("error", f"{call['name']} failed: {type(error).__name__}."))

    start_thread("tool", work)
    while not cancelled.is_set():
        try:
            state, text = ended.get(timeout=_CHECK_STOP)
        except queue.Empty:
            continue
        if not cancelled.is_set():
            return ToolOutcome(state, shorten(escape_for_model(text), MAX_TOOL_RESULT_CHARS))
    left.set()
    return ToolOutcome("stopped", prompts.STOPPED_CALL)
