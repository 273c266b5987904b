"""The graph's state, which is plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.agent.tool_messages import ToolCall
from mahtab_tui.bus.records import AnswerFigure


class ReflectionResult(TypedDict):
    """A judgement whether the question has been answered."""

    is_complete: bool
    reasoning: str
    next_action: str
    """The next step if it has not."""


class ExecutionResult(TypedDict):
    """The result of one code block."""

    step: int
    """Number of its answer in the turn, from 0."""
    block: int
    """Number of the block in the answer, from 0."""
    cell: int | None
    """The cell's number; None if it did not run."""
    code: str
    """The code that ran, or that did not run."""
    output: str
    is_error: bool
    status: str
    """A `kernel.values.Status` value; ``skipped``; or ``repeated`` for code that has run before, so
    that it did not run again."""
    note: str
    """Tells the model why it did not run as written; otherwise empty."""
    rewritten: NotRequired[bool]
    """Whether `output` lacks text that was overwritten."""
    undone: NotRequired[bool]
    """Whether the user has undone what it changed."""
    variables: NotRequired[str]
    """Describes the variables that it made or changed."""


class AgentState(TypedDict):
    """One turn of the conversation."""

    messages: list[AnyMessage]
    """The conversation, this turn included, without the system prompt."""
    system_prompt: str
    original_prompt: str
    """The user's question."""
    turn: int
    """The question's number."""
    about_data: bool
    """Whether the question is about a variable."""
    step: int
    """The number of the last answer in this turn, from 0; -1 before the first."""
    current_response: str
    """The model's last answer."""
    ended: bool
    """Whether the model completed it."""
    code_blocks: list[str]
    """Its code to run."""
    block: int
    """Index of the next block."""
    decision: dict[str, Any] | None
    """The user's `Decision` on that block."""
    execution_results: list[ExecutionResult]
    """Results of all blocks of the turn so far, including those that did not run."""
    turn_count: int
    """How many answers had code."""
    next: Literal["approve", "generate", "close", "end"]
    """The node that follows the last answer."""
    repeated: bool
    """Whether an answer had only code that had run before."""
    sent_back: bool
    """Whether the model was asked to compute what it had stated."""
    figures: tuple[AnswerFigure, ...]
    """The figures in the words of the last answer."""
    tool_calls: list[ToolCall]
    """The tool calls of the last answer."""
    tool_count: int
    """How many tool calls the turn has had."""
    loaded_skills: list[str]
    """The loaded skills, if one was loaded in this turn."""
    skill_contexts: dict[str, str]
    """Results of `load_skill` in this turn, by the skill's name, or ``name/path`` for a file of
    it."""
    search_results: list[dict[str, Any]]
    """Results of searches in this turn: tool, arguments, text."""
    file_contents: dict[str, str]
    """Results of `read_file` in this turn, by path."""
    reflection: ReflectionResult | None
    stopped: bool
    """Whether the user stopped the turn."""
    failure: str
    """A sentence saying why the model could not answer; otherwise empty."""


def create_initial_state(
    prompt: str,
    *,
    messages: Sequence[AnyMessage] | None = None,
    system_prompt: str = "",
    turn: int = 1,
    about_data: bool = False,
) -> AgentState:
    """Make the initial state of a turn. messages: the conversation, ending with the user's message;
    by default only the prompt."""
    return AgentState(
        messages=[HumanMessage(prompt)] if messages is None else list(messages),
        system_prompt=system_prompt,
        original_prompt=prompt,
        turn=turn,
        about_data=about_data,
        step=-1,
        current_response="",
        ended=True,
        code_blocks=[],
        block=0,
        decision=None,
        execution_results=[],
        turn_count=0,
        next="end",
        repeated=False,
        sent_back=False,
        figures=(),
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
    return [result for result in state["execution_results"] if result["step"] == state["step"]]
