"""The state that the graph carries from node to node; plain data only."""

from __future__ import annotations

from typing import Any, TypedDict

from langchain_core.messages import AnyMessage


class ReflectionResult(TypedDict):
    """Whether the question has been answered."""

    is_complete: bool
    reasoning: str
    next_action: str
    """What to do next, where it has not."""


class ExecutionResult(TypedDict):
    """What became of one code block."""

    cell: int
    code: str
    output: str
    is_error: bool
    status: str
    note: str
    """What the person did: edited it, or skipped it and why."""


class AgentState(TypedDict):
    """One turn of the conversation."""

    messages: list[AnyMessage]
    """The conversation, this turn included, without the system prompt."""
    system_prompt: str
    original_prompt: str
    """The person's question."""
    turn: int
    """The question's number."""
    current_response: str
    """The last answer of the model's."""
    code_blocks: list[str]
    """What of it is to run."""
    block: int
    """The block that is next."""
    decision: dict[str, Any] | None
    """The person's `Decision` on that block."""
    execution_results: list[ExecutionResult]
    """Of the last answer's blocks."""
    turn_count: int
    """How many answers had code."""
    reflection: ReflectionResult | None
    stopped: bool
    """The person ended the turn."""


def create_initial_state(prompt: str, *, messages: list[AnyMessage], system_prompt: str, turn: int = 1) -> AgentState:
    """The state a turn begins with; `messages` ends with the person's."""
    return AgentState(
        messages=messages,
        system_prompt=system_prompt,
        original_prompt=prompt,
        turn=turn,
        current_response="",
        code_blocks=[],
        block=0,
        decision=None,
        execution_results=[],
        turn_count=0,
        reflection=None,
        stopped=False,
    )
