"""The code blocks of an answer: the request to run one, the result of one that did not run, and
what ran last."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mahtab_tui.agent.host import ApprovalRequest, ExecutionResult
from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.records import Decision


def make_request(state: AgentState) -> ApprovalRequest:
    """Return the request to run the next block of the newest answer."""
    turn = state["turn"]
    step = state["step"]
    block = state["next_block"]
    return ApprovalRequest(
        f"{turn}.{step}.{block}",
        turn,
        step,
        block,
        len(state["code_blocks"]),
        state["code_blocks"][block],
    )


def describe_obstacle(result: ExecutionResult, decision: Decision) -> str:
    """Return what happened to a block so that those after it do not run; empty if they do."""
    if result.get("undone", False):
        return "was undone"
    if decision.action == "refuse":
        return "was refused"
    if result["is_error"]:
        return "failed"
    return ""


def skip_result(
    state: AgentState, block: int, note: str, status: str = "skipped"
) -> ExecutionResult:
    """Return the result of a block that did not run. note: why, for the model."""
    return ExecutionResult(
        step=state["step"],
        block=block,
        cell=None,
        code=state["code_blocks"][block],
        output="",
        is_error=False,
        status=status,
        note=note,
    )


def find_last_run(results: Sequence[ExecutionResult]) -> ExecutionResult | None:
    """Return the result of the block that ran last for a question; None if none ran."""
    for result in reversed(results):
        if result["cell"] is not None:
            return result
    return None


def normalize_code(code: str) -> str:
    """Return code without comments, blank lines and spacing."""
    try:
        return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # of IPython, or wrong
        return "\n".join(line.rstrip() for line in code.splitlines() if line.strip())
