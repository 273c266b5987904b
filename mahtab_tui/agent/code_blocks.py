"""Makes the request to run a code block of an answer, and reads and makes the results of blocks."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mahtab_tui.agent.host import ApprovalRequest, ExecutionResult
from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.answers import ParsedResponse
from mahtab_tui.bus.records import Decision


def find_code(reply: ParsedResponse) -> tuple[str, ...]:
    """Return the code blocks of a reply that are to run. There are none if it has words, and nothing
    but comments as code."""
    blocks = reply.code_blocks
    if reply.prose.strip() and not any(map(has_statements, blocks)):
        return ()
    return blocks


def has_statements(code: str) -> bool:
    """Return whether code has more than comments."""
    try:
        return bool(ast.parse(code).body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # of IPython, or wrong
        return True


def make_request(state: AgentState) -> ApprovalRequest:
    """Return the request to run the next block of the newest answer."""
    turn = state["turn"]
    step = state["step"]
    block = state["next_block"]
    codes = state["code_blocks"]
    return ApprovalRequest(
        request=f"{turn}.{step}.{block}",
        turn=turn,
        step=step,
        block=block,
        blocks=len(codes),
        code=codes[block],
    )


def describe_obstacle(result: ExecutionResult, decision: Decision) -> str:
    """Return what has happened to a block that keeps the later ones from running: it "was undone",
    "was refused", or "failed".

    Args:
        result: The result of the block.
        decision: The decision about the block.

    Returns:
        A verb; empty if the blocks after it may run.
    """
    if result.get("undone", False):
        return "was undone"
    if decision.action == "refuse":
        return "was refused"
    if result["is_error"]:
        return "failed"
    return ""


def make_unrun_result(
    state: AgentState, block: int, note: str, status: str = "skipped"
) -> ExecutionResult:
    """Return the result of a block of the newest answer that did not run.

    Args:
        state: The state of the question.
        block: The number of the block within the answer, from 0.
        note: Tells the model why the block did not run.
        status: ``skipped``, ``repeated`` for code that had already run, or ``empty`` for a block
            of comments.
    """
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
    """Return the result of the block that ran last; None if none of the blocks ran.

    Args:
        results: The results of a question, in the order of the blocks.
    """
    for result in reversed(results):
        has_run = result["cell"] is not None
        if has_run:
            return result
    return None


def is_same_code(code: str, other_code: str) -> bool:
    """Return whether two codes differ at most in comments, blank lines and spacing; of code
    that Python cannot parse, only in blank lines and spaces at the ends of lines."""
    return _comparable_form(code) == _comparable_form(other_code)


def _comparable_form(code: str) -> str:
    """Return the syntax tree of code as text; if Python cannot parse it, its lines that are not
    blank, without the spaces at their ends."""
    try:
        return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        # The code is wrong, nests too deeply, or has magic commands of IPython.
        return "\n".join(line.rstrip() for line in code.splitlines() if line.strip())
