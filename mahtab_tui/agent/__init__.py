"""The agent: a graph that answers a question with words and with code that runs in the
namespace."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mahtab_tui.agent.graph import create_repl_graph
    from mahtab_tui.agent.nodes import build_reflection_prompt
    from mahtab_tui.agent.repl_agent import Callbacks, ReplAgent, create_repl_agent, run_graph
    from mahtab_tui.agent.state import (
        AgentState,
        ReflectionResult,
        create_initial_state,
        should_continue,
        should_execute,
    )
    from mahtab_tui.llm.prompts import REFLECTION_PROMPT_TEMPLATE

_HOMES = {
    "AgentState": "mahtab_tui.agent.state",
    "Callbacks": "mahtab_tui.agent.repl_agent",
    "REFLECTION_PROMPT_TEMPLATE": "mahtab_tui.llm.prompts",
    "ReflectionResult": "mahtab_tui.agent.state",
    "ReplAgent": "mahtab_tui.agent.repl_agent",
    "build_reflection_prompt": "mahtab_tui.agent.nodes",
    "create_initial_state": "mahtab_tui.agent.state",
    "create_repl_agent": "mahtab_tui.agent.repl_agent",
    "create_repl_graph": "mahtab_tui.agent.graph",
    "run_graph": "mahtab_tui.agent.repl_agent",
    "should_continue": "mahtab_tui.agent.state",
    "should_execute": "mahtab_tui.agent.state",
}

__all__ = [
    "REFLECTION_PROMPT_TEMPLATE",
    "AgentState",
    "Callbacks",
    "ReflectionResult",
    "ReplAgent",
    "build_reflection_prompt",
    "create_initial_state",
    "create_repl_agent",
    "create_repl_graph",
    "run_graph",
    "should_continue",
    "should_execute",
]


def __getattr__(name: str) -> Any:
    """Load public names on first use, because importing langgraph takes long."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
