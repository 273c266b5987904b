"""Tool calls that a model has written into its answer instead of making them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from mahtab_tui.agent.host import ToolCall
from mahtab_tui.agent.tool_calls import encodable_arguments
from mahtab_tui.llm.base import make_encodable

_MAX_WRITTEN_CALL_CHARS = 20_000
"""Maximum characters of a text that is parsed as a call."""
_MAX_CALL_KEYS = 4
"""Keys of an object that may be a call; one with more is data."""
_TAGGED_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_OPENING_FENCE = re.compile(r"[ \t]*`{3,}\w*[ \t]*")
_CLOSING_FENCE = re.compile(r"[ \t]*`[` \t]*")
_NAME_KEYS = ("name", "tool", "function", "tool_name")
_ARGUMENTS_KEYS = ("arguments", "parameters", "args", "input", "tool_input")


class _WrittenCall(NamedTuple):
    """A call that a model wrote into its answer instead of making it."""

    name: str
    arguments: dict[str, Any]


class ParsedAnswer(NamedTuple):
    """An answer in which calls may be written."""

    words: str
    """The answer without the calls."""
    calls: list[ToolCall]


def parse_written_calls(text: str, tools: Collection[str]) -> ParsedAnswer:
    """Find calls of tools that an answer contains as text.

    Small models write calls as objects with a name and arguments, in JSON or Python. Such an object
    counts only if it fills a code fence, a ``<tool_call>`` or the whole answer.

    Args:
        text: The answer.
        tools: The names of all tools.
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
        return ParsedAnswer(text, [])
    calls = [_checked_call(index, call, tools) for index, call in enumerate(written_calls)]
    return ParsedAnswer(words.strip(), calls)


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
    value = _read_value(text)
    calls: list[_WrittenCall] = []
    for item in value if isinstance(value, list) else [value]:
        call = _read_call(item)
        if call is None:
            return []
        calls.append(call)
    return calls


def _read_value(text: str) -> object:
    """Read a value of JSON or Python; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


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
        arguments = encodable_arguments(call.arguments)
    except (TypeError, ValueError):
        problem = "The arguments cannot be read as JSON."
    return ToolCall(id=f"written_{index}", name=name, arguments=arguments, problem=problem)
