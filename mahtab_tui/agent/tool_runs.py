"""Runs the tools that a model calls, each until it ends or the user stops the turn."""

from __future__ import annotations

import queue
import threading
from typing import Literal, NamedTuple

from mahtab_tui.agent.host import ToolCall
from mahtab_tui.bus.escaping import escape_controls
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.llm import prompts
from mahtab_tui.system import start_thread
from mahtab_tui.tools import ToolError
from mahtab_tui.tools.toolset import Toolset

MAX_TOOL_RESULT_CHARS = 12_000
"""Characters of a result; the middle of a longer one is left out."""
MAX_CALLS = 25
"""Maximum number of tool calls per question."""
_STOP_CHECK_S = 0.1
"""Seconds between two checks whether the turn was stopped."""


class ToolOutcome(NamedTuple):
    """How a tool call has ended."""

    state: Literal["ok", "error", "refused", "stopped"]
    text: str
    """The result, or why there is none, for the model."""


def run_call(call: ToolCall, tools: Toolset, cancelled: threading.Event) -> ToolOutcome:
    """Run a tool, and return what came of it.

    Args:
        call: What the model asks for.
        tools: The tools that it may call.
        cancelled: Set when the turn is stopped. A tool that ignores that is abandoned.
    """
    if call["problem"]:
        return ToolOutcome("error", call["problem"])
    outcomes: queue.SimpleQueue[ToolOutcome] = queue.SimpleQueue()
    abandoned = threading.Event()
    """Not `cancelled`, which is cleared when the next turn starts."""

    def work() -> None:
        outcomes.put(_run_tool(call, tools, abandoned))

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


def _run_tool(call: ToolCall, tools: Toolset, abandoned: threading.Event) -> ToolOutcome:
    """Run a tool to its end, on a thread of its own."""
    try:
        result = tools.run(call["name"], call["arguments"], abandoned)
    except ToolError as error:
        return ToolOutcome("error", str(error))
    except BaseException as error:  # the thread's outermost frame
        return ToolOutcome("error", f"{call['name']} failed: {type(error).__name__}.")
    return ToolOutcome("ok", result)
