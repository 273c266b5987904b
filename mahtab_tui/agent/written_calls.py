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
_CALL = re.compile(
    r"<tool_call>(?P<tagged>.*?)(?:</tool_call>|\Z)"
    r"|^(?P<fence>```+)[ \t]*\w*[ \t]*\n(?P<fenced>[ \t]*[\[{].*?)\n[ \t]*(?P=fence)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_NAME = ("name", "tool", "function", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input")


def written_calls(text: str, tools: Collection[str]) -> tuple[str, list[ToolCall]]:
    """Return an answer without the calls that it contains as text, and the calls.

    A call is an object with a name and arguments, in JSON or as a Python dictionary, that fills a fence, a ``<tool_call>`` or the whole
    answer. tools: names of the tools; a call of another one has a `problem`.
    """
    calls: list[ToolCall] = []

    def remove(found: re.Match[str]) -> str:
        read = _read(found["tagged"] or found["fenced"] or "")
        calls.extend(_call(len(calls) + place, *one, tools) for place, one in enumerate(read))
        return "" if read else found[0]

    rest = _CALL.sub(remove, text)
    if not calls and (whole := _read(text)):
        rest, calls = "", [_call(place, *one, tools) for place, one in enumerate(whole)]
    return (rest.strip() if calls else text), calls


def _read(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return name and arguments of each call in a text that consists of calls; empty for other texts."""
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
    problem = "" if name in tools else f"There is no tool {encodable(name)!r}. Write a Python code block instead."
    try:
        arguments = json.loads(encodable(json.dumps(arguments, ensure_ascii=False)))
    except (TypeError, ValueError):
        arguments, problem = {}, "The arguments cannot be read as JSON."
    return ToolCall(id=f"written_{place}", name=encodable(name), arguments=arguments, problem=problem)
