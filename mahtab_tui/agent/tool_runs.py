"""Runs a tool call, and selects what the state keeps of its result."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mahtab_tui.agent.results import LIMIT
from mahtab_tui.agent.state import AgentState
from mahtab_tui.agent.tool_messages import ToolCall
from mahtab_tui.bus.escaping import escape_for_model
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.llm import prompts
from mahtab_tui.tools.definition import ToolError

if TYPE_CHECKING:
    from mahtab_tui.tools.toolset import Toolset

CALLS = 25
"""Tool calls that one question may have."""
_CHECK_STOP = 0.1
"""Seconds between two checks whether the turn was stopped."""


class ToolOutcome(NamedTuple):
    state: Literal["ok", "error", "refused", "stopped"]
    text: str
    """The tool's result, or a sentence; as the model is told it."""


def run_call(call: ToolCall, tools: Toolset, cancelled: threading.Event) -> ToolOutcome:
    """Run a tool call until it ends or the turn is stopped. A tool that ignores the stop is
    abandoned."""
    if call["problem"]:
        return ToolOutcome("error", call["problem"])
    ended: queue.SimpleQueue[ToolOutcome] = queue.SimpleQueue()
    left = threading.Event()
    """Not `cancelled`, which is cleared when the next turn begins."""

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


def kept(state: AgentState, call: ToolCall, text: str, tools: Toolset) -> dict[str, Any]:
    """Return the changes of the state after a result."""
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
