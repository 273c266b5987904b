"""Where the graph goes on."""

from __future__ import annotations

from typing import Literal

from mahtab_tui.agent.state import AgentState, results_of_step

ReflectionMode = Literal["always", "on_error", "never"]


def after_generate(state: AgentState) -> Literal["tools", "extract_code"]:
    """Whether the answer calls tools; its code comes after them."""
    return "tools" if state["tool_calls"] else "extract_code"


def should_execute(state: AgentState) -> Literal["approve", "generate", "end"]:
    """Whether the answer has code to run; else whether the model waits for what tools gave."""
    if state["code_blocks"]:
        return "approve"
    return "generate" if state["tool_calls"] and not state["stopped"] else "end"


def after_execute(
    state: AgentState, max_turns: int, reflection: ReflectionMode
) -> Literal["approve", "reflect", "judge", "generate", "close", "end"]:
    """The next block; else a check of its own, where the setting wants one; else the model again, which judges what ran.

    What the person skipped is for the model to answer, and not to be judged.
    """
    if state["stopped"]:
        return "end"
    if state["block"] < len(state["code_blocks"]):
        return "approve"
    results = results_of_step(state)
    failed = any(result["is_error"] for result in results)
    skipped = any(result["status"] == "skipped" for result in results)
    to_judge = failed or not skipped
    if to_judge and (reflection == "always" or (reflection == "on_error" and failed)):
        return "reflect"
    if state["turn_count"] >= max_turns:
        return "close"
    return "judge" if to_judge else "generate"


def should_continue(state: AgentState, max_turns: int = 5) -> Literal["generate", "close", "end"]:
    """On, unless the question is answered or the turns are used up."""
    if state["stopped"]:
        return "end"
    return "close" if is_complete(state) or state["turn_count"] >= max_turns else "generate"


def is_complete(state: AgentState) -> bool:
    """Whether the last check found the question answered."""
    return state["reflection"] is not None and state["reflection"]["is_complete"]
