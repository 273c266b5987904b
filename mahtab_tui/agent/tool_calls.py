"""Parses, runs and describes a model's tool calls."""

from __future__ import annotations

import ast
import json
import queue
import re
import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mahtab_tui.agent.host import ExecutionResult
from mahtab_tui.agent.state import AgentState, ToolCall
from mahtab_tui.bus.prompt import shorten, to_xml
from mahtab_tui.bus.records import AssistantReplIn, AssistantReplOut
from mahtab_tui.bus.terminal_screen import escape_for_model, escape_output
from mahtab_tui.llm import prompts
from mahtab_tui.llm.messages import make_encodable
from mahtab_tui.tools import ToolError

if TYPE_CHECKING:
    from mahtab_tui.tools import Toolset

LIMIT = 12_000
"""Maximum characters of an output."""


def render_results(
    results: Sequence[ExecutionResult], *, with_code: bool = False, limit: int = LIMIT
) -> str:
    """Format outputs as escaped records. The code is included if the user edited it, or for a
    reader who did not write it (`with_code`)."""
    return "\n".join(_render_result(result, with_code, limit) for result in results)


def _render_result(result: ExecutionResult, with_code: bool, limit: int) -> str:
    parts = [result["note"]] if result["note"] else []
    ran = result["status"] not in ("skipped", "repeated")
    if with_code or (ran and result["note"]):
        parts.append(
            to_xml(
                AssistantReplIn(
                    shorten(escape_for_model(result["code"]), limit), cell=result["cell"]
                )
            )
        )
    if ran:
        output = (
            shorten(
                escape_output(result["output"], rewritten=result.get("rewritten", False)).rstrip(),
                limit,
            )
            or "(nothing was printed)"
        )
        output = "\n\n".join(
            [output, escape_for_model(made)] if (made := result.get("variables")) else [output]
        )
        parts.append(to_xml(AssistantReplOut(output, cell=result["cell"], status=result["status"])))
    return "\n".join(parts)


_LONGEST = 20_000
"""Maximum characters of a text that is parsed as a call."""
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FENCE = re.compile(r"[ \t]*`{3,}\w*[ \t]*")
_NAME = ("name", "tool", "function", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input")


def parse_written_calls(text: str, tools: Collection[str]) -> tuple[str, list[ToolCall]]:
    """Return an answer without the calls that it contains as text, and the calls.

    A call is an object with a name and arguments, in JSON or as a Python dict, that fills a code
    fence, a ``<tool_call>`` or the whole answer. tools: known names; a call to another tool gets a
    `problem`.
    """
    calls: list[ToolCall] = []

    def take(written: str) -> bool:
        read = _read(written)
        calls.extend(_call(len(calls) + index, *one, tools) for index, one in enumerate(read))
        return bool(read)

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


def _read(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return name and arguments of each call if the text consists only of calls; otherwise an empty
    list."""
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


def _call(index: int, name: str, arguments: dict[str, Any], tools: Collection[str]) -> ToolCall:
    problem = (
        ""
        if name in tools
        else f"There is no tool {make_encodable(name)!r}. Write a Python code block instead."
    )
    try:
        arguments = json.loads(make_encodable(json.dumps(arguments, ensure_ascii=False)))
    except (TypeError, ValueError):
        arguments, problem = {}, "The arguments cannot be read as JSON."
    return ToolCall(
        id=f"written_{index}", name=make_encodable(name), arguments=arguments, problem=problem
    )


MOST_CALLS = 25
"""Maximum number of tool calls per question."""
_CHECK_STOP = 0.1
"""Seconds between two checks whether the turn was stopped."""


class ToolOutcome(NamedTuple):
    state: Literal["ok", "error", "refused", "stopped"]
    text: str
    """The tool's result, or a sentence, as the model gets it."""


def run_call(call: ToolCall, tools: Toolset, cancelled: threading.Event) -> ToolOutcome:
    """Run a tool call until it ends or the turn is stopped. A tool that ignores the stop is
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

    threading.Thread(target=work, name="tool", daemon=True).start()
    while not cancelled.is_set():
        try:
            state, text = ended.get(timeout=_CHECK_STOP)
        except queue.Empty:
            continue
        if not cancelled.is_set():
            return ToolOutcome(state, shorten(escape_for_model(text), LIMIT))
    left.set()
    return ToolOutcome("stopped", prompts.STOPPED_CALL)


def stored_result(state: AgentState, call: ToolCall, text: str, tools: Toolset) -> dict[str, Any]:
    """Return the changes to the state after a result."""
    tool = tools.tools[call["name"]]
    asked = tool.with_defaults(call["arguments"])
    if tool.keeps == "searches":
        return {
            "search_results": [
                *state["search_results"],
                {"tool": tool.name, "arguments": asked, "text": text},
            ]
        }
    if tool.keeps == "files":
        return {"file_contents": {**state["file_contents"], str(asked["path"]): text}}
    if tool.keeps == "skills":
        contexts = {
            **state["skill_contexts"],
            "/".join(filter(None, (str(asked["name"]), str(asked.get("file", ""))))): text,
        }
        return {"skill_contexts": contexts, "loaded_skills": tools.loaded.names}
    return {}
