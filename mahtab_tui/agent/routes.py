"""Chooses the next node of the graph."""

from __future__ import annotations

from typing import Literal

from mahtab_tui.agent.state import AgentState, results_of_step

ReflectionMode = Literal["always", "on_error", "never"]


def after_generate(state: AgentState) -> Literal["tools", "extract_code"]:
    """Run tool calls first; code comes after them."""
    return "tools" if state["tool_calls"] else "extract_code"


def should_execute(state: AgentState) -> Literal["approve", "generate", "end"]:
    """Approve code if there is some; otherwise return to the model if it waits for tool results."""
    if state["code_blocks"]:
        return "approve"
    return "generate" if state["tool_calls"] and not state["stopped"] else "end"


def after_execute(
    state: AgentState, max_turns: int, reflection: ReflectionMode
) -> Literal["approve", "reflect", "judge", "generate", "close", "end"]:
    """Go to the next block, otherwise to a separate check if the setting wants one, otherwise to the model, which judges the results.

    If the user skipped or undid a block, the model answers without judging.
    """
    if state["stopped"]:
        return "end"
    if state["block"] < len(state["code_blocks"]):
        return "approve"
    results = results_of_step(state)
    failed = any(result["is_error"] for result in results)
    declined = any(result["status"] == "skipped" or result.get("undone") for result in results)
    to_judge = failed or not declined
    if to_judge and (reflection == "always" or (reflection == "on_error" and failed)):
        return "reflect"
    if state["turn_count"] >= max_turns:
        return "close"
    return "judge" if to_judge else "generate"


def should_continue(state: AgentState, max_turns: int = 5) -> Literal["generate", "close", "end"]:
    """Continue, unless the question is answered or the turns are used up."""
    if state["stopped"]:
        return "end"
    return "close" if is_complete(state) or state["turn_count"] >= max_turns else "generate"


def is_complete(state: AgentState) -> bool:
    """Tell whether the last check found the question answered."""
    return state["reflection"] is not None and state["reflection"]["is_complete"]
