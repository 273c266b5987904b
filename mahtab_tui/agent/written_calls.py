"""Finds tool calls that a model has written as text instead of making them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection
from typing import Any

from mahtab_tui.agent.tool_messages import ToolCall
from mahtab_tui.llm.chunks import encodable

_LONGEST = 20_000
"""Characters of a text that is read as a call."""
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FENCE = re.compile(r"[ \t]*`{3,}\w*[ \t]*")
_NAME = ("name", "tool", "function", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input")


def written_calls(text: str, tools: Collection[str]) -> tuple[str, list[ToolCall]]:
    """Return an answer without the calls that it contains as text, and the calls.

    A call is an object with a name and arguments, in JSON or as a Python dictionary, that fills a
    fence, a ``<tool_call>`` or the whole answer. tools: names of the tools; a call of another one
    has a `problem`.
    """
    calls: list[ToolCall] = []

    def take(written: str) -> bool:
        read = _read(written)
        calls.extend(_call(len(calls) + place, *one, tools) for place, one in enumerate(read))
        return bool(read)

    rest = _TAGGED.sub(lambda found: "" if take(found[1]) else found[0], text)
    kept, fence = list[str](), list[str]()
    for line in rest.split("\n"):
        if not fence and not _FENCE.fullmatch(line):
            kept.append(line)
            continue
        fence.append(line)
        if len(fence) > 1 and line.strip("` \t") == "" and line.strip():
            kept += [] if take("\n".join(fence[1:-1])) else fence
            fence = []
    rest = "\n".join([*kept, *fence])
    if not calls and take(text):
        rest = ""
    return (rest.strip(), calls) if calls else (text, [])


def _read(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return name and arguments of each call in a text that consists of calls; empty for other
    texts."""
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
    read = [_name_and_arguments(one) for one in (value if isinstance(value, list) else [value])]
    return [one for one in read if one is not None] if all(read) else []


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


def _call(place: int, name: str, arguments: dict[str, Any], tools: Collection[str]) -> ToolCall:
    problem = (
        ""
        if name in tools
        else f"There is no tool {encodable(name)!r}. Write a Python code block instead."
    )
    try:
        arguments = json.loads(encodable(json.dumps(arguments, ensure_ascii=False)))
    except (TypeError, ValueError):
        arguments, problem = {}, "The arguments cannot be read as JSON."
    return ToolCall(
        id=f"written_{place}", name=encodable(name), arguments=arguments, problem=problem
    )
