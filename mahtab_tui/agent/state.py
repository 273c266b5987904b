"""The state that the graph carries from node to node; plain data only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.agent.tool_messages import Call


class ReflectionResult(TypedDict):
    """Whether the question has been answered."""

    is_complete: bool
    reasoning: str
    next_action: str
    """What to do next, where it has not."""


class ExecutionResult(TypedDict):
    """What became of one code block."""

    step: int
    """Which answer of the turn it stood in, from 0."""
    block: int
    """Which block of that answer, from 0."""
    cell: int | None
    """The cell's number; None where it did not run."""
    code: str
    """What ran, or would have."""
    output: str
    is_error: bool
    status: str
    """A `kernel.base.Status` value, or ``skipped``."""
    note: str
    """Why it did not run as it was written, for the model; else empty."""
    rewritten: NotRequired[bool]
    """More was printed than the output has: a part was written over."""


class AgentState(TypedDict):
    """One turn of the conversation."""

    messages: list[AnyMessage]
    """The conversation, this turn included, without the system prompt."""
    system_prompt: str
    original_prompt: str
    """The person's question."""
    turn: int
    """The question's number."""
    step: int
    """The number of the last answer in this turn, from 0; -1 before the first."""
    current_response: str
    """The last answer of the model's."""
    ended: bool
    """Whether the model ended it by itself."""
    code_blocks: list[str]
    """What of it is to run."""
    block: int
    """The block that is next."""
    decision: dict[str, Any] | None
    """The person's `Decision` on that block."""
    execution_results: list[ExecutionResult]
    """Of every block of the turn so far, whether it ran or not."""
    turn_count: int
    """How many answers had code."""
    tool_calls: list[Call]
    """The calls of tools in the last answer."""
    tool_count: int
    """How many calls the turn has had."""
    loaded_skills: list[str]
    """The skills that are loaded, after one was loaded in this turn."""
    skill_contexts: dict[str, str]
    """What `load_skill` gave in this turn, by the skill's name, and for one of its files by ``name/path``."""
    search_results: list[dict[str, Any]]
    """What searches gave in this turn: tool, arguments, text."""
    file_contents: dict[str, str]
    """What `read_file` gave in this turn, by path."""
    reflection: ReflectionResult | None
    stopped: bool
    """The person ended the turn."""
    failure: str
    """Why the model could not answer, as a sentence; else empty."""


def create_initial_state(prompt: str, *, messages: Sequence[AnyMessage] | None = None, system_prompt: str = "", turn: int = 1) -> AgentState:
    """The state a turn begins with. `messages` is the conversation and ends with the person's message; by default it is the prompt."""
    return AgentState(
        messages=[HumanMessage(prompt)] if messages is None else list(messages),
        system_prompt=system_prompt,
        original_prompt=prompt,
        turn=turn,
        step=-1,
        current_response="",
        ended=True,
        code_blocks=[],
        block=0,
        decision=None,
        execution_results=[],
        turn_count=0,
        tool_calls=[],
        tool_count=0,
        loaded_skills=[],
        skill_contexts={},
        search_results=[],
        file_contents={},
        reflection=None,
        stopped=False,
        failure="",
    )


def results_of_step(state: AgentState) -> list[ExecutionResult]:
    """What became of the blocks of the last answer."""
    return [result for result in state["execution_results"] if result["step"] == state["step"]]
