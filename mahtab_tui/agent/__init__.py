"""The agent: a graph that answers a question with words and with code that runs in the
namespace."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mahtab_tui.agent.graph import create_repl_graph, should_execute
    from mahtab_tui.agent.graph_runs import Callbacks, run_graph
    from mahtab_tui.agent.reflection import build_reflection_prompt
    from mahtab_tui.agent.repl_agent import ReplAgent, create_repl_agent
    from mahtab_tui.agent.state import (
        AgentState,
        ReflectionResult,
        create_initial_state,
        should_continue,
    )
    from mahtab_tui.llm.prompts import REFLECTION_PROMPT_TEMPLATE

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
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in (
        "agent.repl_agent",
        "agent.graph",
        "agent.reflection",
        "agent.state",
        "llm.prompts",
    ):
        names = vars(import_module(f"mahtab_tui.{module}"))
        if name in names:
            return names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
