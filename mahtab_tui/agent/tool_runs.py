"""Running one call of a tool, so that whoever waits for it can leave; and what of its result the state keeps."""

from __future__ import annotations

import json
import queue
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mahtab_tui.agent.results import LIMIT
from mahtab_tui.agent.state import AgentState
from mahtab_tui.agent.tool_messages import Call
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.told import told
from mahtab_tui.llm import prompts
from mahtab_tui.tools.definition import ToolError

if TYPE_CHECKING:
    from mahtab_tui.tools.toolset import Toolset

CALLS = 25
"""Calls of tools that one question may have."""
_LOOK = 0.1
"""Seconds between two looks at whether the turn was stopped."""


class Ran(NamedTuple):
    """What became of a call."""

    state: Literal["ok", "error", "refused", "stopped"]
    text: str
    """What the tool gave, or a sentence; as the model is told it."""


def run_call(call: Call, tools: Toolset, cancelled: threading.Event) -> Ran:
    """Make a call and wait for its end, or until the turn is stopped; the tool is told, and one that does not notice is left to itself."""
    if call["problem"]:
        return Ran("error", call["problem"])
    ended: queue.SimpleQueue[Ran] = queue.SimpleQueue()
    left = threading.Event()
    """Its own: `cancelled` is cleared when the next turn begins."""

    def work() -> None:
        try:
            ended.put(Ran("ok", tools.run(call["name"], call["arguments"], left)))
        except ToolError as error:
            ended.put(Ran("error", str(error)))
        except BaseException as error:  # the thread's outermost frame: whoever waits shall know
            ended.put(Ran("error", f"{call['name']} failed: {type(error).__name__}."))

    threading.Thread(target=work, name="tool", daemon=True).start()
    while not cancelled.is_set():
        try:
            state, text = ended.get(timeout=_LOOK)
        except queue.Empty:
            continue
        if not cancelled.is_set():
            return Ran(state, shorten(told(text), LIMIT))
    left.set()
    return Ran("stopped", prompts.STOPPED_CALL)


def kept(state: AgentState, call: Call, text: str, tools: Toolset) -> dict[str, Any]:
    """What of the state a result changes."""
    tool = tools.tools[call["name"]]
    asked = tool.with_defaults(call["arguments"])
    if tool.keeps == "searches":
        return {"search_results": [*state["search_results"], {"tool": tool.name, "arguments": asked, "text": text}]}
    if tool.keeps == "files":
        return {"file_contents": {**state["file_contents"], str(asked["path"]): text}}
    if tool.keeps == "skills":
        contexts = {**state["skill_contexts"], "/".join(filter(None, (str(asked["name"]), str(asked.get("file", ""))))): text}
        return {"skill_contexts": contexts, "loaded_skills": tools.loaded.names}
    return {}


def arguments_text(call: Call) -> str:
    """The arguments as they are shown and told: exactly those that the tool gets."""
    return json.dumps(call["arguments"], ensure_ascii=False)
