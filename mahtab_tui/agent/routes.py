"""Chooses the next node of the graph."""

from __future__ import annotations

from typing import Literal

from mahtab_tui.agent.state import AgentState, results_of_step

_SHORT = 400
"""Characters of an output that may be an answer by itself."""

ReflectionMode = Literal["always", "on_error", "never"]


def after_generate(state: AgentState) -> Literal["tools", "extract_code"]:
    """Run tool calls first; code comes after them."""
    return "tools" if state["tool_calls"] else "extract_code"


def should_execute(state: AgentState) -> Literal["approve", "generate", "close", "end"]:
    """Approve new code; otherwise go where `Nodes.extract_code` says."""
    return "end" if state["stopped"] else state["next"]


def after_execute(
    state: AgentState, max_turns: int, reflection: ReflectionMode, output_answers: bool = False
) -> Literal["approve", "reflect", "instruct", "generate", "close", "end"]:
    """Go to the next block, otherwise to a separate check if the setting wants one, otherwise to
    the model, which answers from the output.

    If the user skipped or undid a block, the model answers what they said. output_answers: what one
    block printed ends the question.
    """
    if state["stopped"]:
        return "end"
    if state["block"] < len(state["code_blocks"]):
        return "approve"
    results = results_of_step(state)
    failed = any(result["is_error"] for result in results)
    declined = any(result["status"] == "skipped" or result.get("undone") for result in results)
    if (failed or not declined) and (
        reflection == "always" or (reflection == "on_error" and failed)
    ):
        return "reflect"
    if (
        output_answers
        and not failed
        and not declined
        and len(results) == 1
        and is_short(results[0]["output"])
    ):
        return "end"
    if state["turn_count"] >= max_turns:
        return "close"
    return "instruct" if failed or not declined else "generate"


def is_short(output: str) -> bool:
    """Tell whether an output can stand for an answer."""
    return 0 < len(output.strip()) <= _SHORT


def should_continue(state: AgentState, max_turns: int = 5) -> Literal["generate", "close", "end"]:
    """Continue, unless the question is answered or the turns are used up."""
    if state["stopped"]:
        return "end"
    return "close" if is_complete(state) or state["turn_count"] >= max_turns else "generate"


def is_complete(state: AgentState) -> bool:
    """Tell whether the last check found the question answered."""
    return state["reflection"] is not None and state["reflection"]["is_complete"]
