"""The state of one question while it is answered, and what can be read from it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, takewhile
from typing import Literal, TypedDict

from langchain_core.messages import AnyMessage, HumanMessage

from mahtab_tui.agent.host import ExecutionResult, ToolCall
from mahtab_tui.bus.records import AnswerFigure, Decision

DEFAULT_MAX_TURNS = 40
"""Number of answers with code for a question before the user is asked."""
MAX_ALIKE_STEPS = 3
"""Steps in a row that may fail in the same way, or bring what another step has brought."""
MAX_IDLE_STEPS = 6
"""Steps in a row that may fail in any way, or bring what another step has brought."""
_TRACEBACK_HEADER = "Traceback (most recent call last):\n"

ReflectionMode = Literal["always", "on_error", "never"]


class ReflectionResult(TypedDict):
    """A judgement on whether the question has been answered."""

    is_complete: bool
    reasoning: str
    next_action: str


class AgentState(TypedDict):
    """One turn of the conversation."""

    messages: list[AnyMessage]
    """The conversation up to now, without the system prompt."""
    system_prompt: str
    original_prompt: str
    earlier_questions: Sequence[str]
    """What the user asked before."""
    added_words: list[str]
    """What the user sent while the model worked."""
    turn: int
    about_data: bool
    """Whether the question is about a variable."""
    step: int
    """The number of the last answer in this turn, from 0; -1 before the first."""
    current_response: str
    ended: bool
    """Whether the model completed `current_response`; true before the first answer."""
    code_blocks: list[str]
    next_block: int
    """Index in `code_blocks` of the block that runs next."""
    decision: Decision | None
    execution_results: list[ExecutionResult]
    """Results of the whole turn, with blocks that did not run."""
    step_count: int
    """Number of answers with code, which `max_turns` limits."""
    granted_steps: int
    """Number of answers with code that the user has allowed beyond `max_turns`."""
    next: Literal["approve", "generate", "end"]
    repeated: bool
    """Whether the last answer only repeated the code that had run last."""
    was_challenged: bool
    """Whether the model was already asked to correct its answer."""
    figures: tuple[AnswerFigure, ...]
    tool_calls: list[ToolCall]
    tool_count: int
    reflection: ReflectionResult | None
    stopped: bool
    failure: str
    """Why the model could not answer, as a sentence."""


def create_initial_state(
    prompt: str,
    *,
    messages: Sequence[AnyMessage] | None = None,
    system_prompt: str = "",
    turn: int = 1,
    about_data: bool = False,
    earlier_questions: Sequence[str] = (),
) -> AgentState:
    """Return the state in which a turn begins.

    Args:
        messages: The conversation, ending with the user's message; by default only the prompt.
    """
    return AgentState(
        messages=[HumanMessage(prompt)] if messages is None else list(messages),
        system_prompt=system_prompt,
        original_prompt=prompt,
        earlier_questions=earlier_questions,
        added_words=[],
        turn=turn,
        about_data=about_data,
        step=-1,
        current_response="",
        ended=True,
        code_blocks=[],
        next_block=0,
        decision=None,
        execution_results=[],
        step_count=0,
        granted_steps=0,
        next="end",
        repeated=False,
        was_challenged=False,
        figures=(),
        tool_calls=[],
        tool_count=0,
        reflection=None,
        stopped=False,
        failure="",
    )


def step_results(state: AgentState) -> list[ExecutionResult]:
    """Return the results of the newest answer's code."""
    return [result for result in state["execution_results"] if result["step"] == state["step"]]


def is_declined(results: Sequence[ExecutionResult]) -> bool:
    """Tell whether the user skipped or undid a block."""
    return any(result["status"] == "skipped" or result.get("undone") for result in results)


def is_stalled(results: Sequence[ExecutionResult]) -> bool:
    """Tell whether the last steps of a question brought nothing new, failed in the same way, or, if
    there are more of them, each did one or the other."""
    steps = [list(group) for _, group in groupby(results, key=lambda result: result["step"])]
    alike_steps = steps[-MAX_ALIKE_STEPS:]
    if len(alike_steps) == MAX_ALIKE_STEPS:
        if all(_repeats_earlier(step, results) for step in alike_steps):
            return True
        failure_messages = {_failure_message(step) for step in alike_steps}
        if len(failure_messages) == 1 and failure_messages != {""}:
            return True
    idle_steps = steps[-MAX_IDLE_STEPS:]
    return len(idle_steps) == MAX_IDLE_STEPS and all(
        _failure_message(step) or _repeats_earlier(step, results) for step in idle_steps
    )


def _repeats_earlier(step: Sequence[ExecutionResult], results: Sequence[ExecutionResult]) -> bool:
    """Tell whether each block of a step has only comments, was refused as a repetition, or had run
    before with the same effect."""
    earlier = [result for result in results if result["step"] < step[0]["step"]]
    earlier_effects = set(map(_effect, earlier))
    return all(
        result["status"] in ("empty", "repeated") or _effect(result) in earlier_effects
        for result in step
    )


def _effect(result: ExecutionResult) -> tuple[str, str, str]:
    """Return a block's code, output and changed variables."""
    return result["code"], result["output"], result.get("variables", "")


def _failure_message(step: Sequence[ExecutionResult]) -> str:
    """Return the message of a step's error without its frames, such as "KeyError: 'price'"; empty
    without one."""
    failed_output = next((result["output"] for result in step if result["is_error"]), "")
    _, header, traceback = failed_output.rstrip().rpartition(_TRACEBACK_HEADER)
    lines = traceback.split("\n")
    if not header:
        return lines[-1]
    # Frames are indented. A message may have several lines, of which the last says little.
    frame_lines = list(takewhile(lambda line: not line or line.startswith(" "), lines))
    return "\n".join(lines[len(frame_lines) :] or lines)


def should_continue(
    state: AgentState, max_turns: int = DEFAULT_MAX_TURNS
) -> Literal["generate", "close", "end"]:
    """Return whether the model is asked for the next step ("generate") or for its last words
    ("close"); "end" after a stop.

    Args:
        max_turns: The number of answers with code after which the user must have allowed more.
    """
    if state["stopped"]:
        return "end"
    has_ended = (
        is_complete(state)
        or state["step_count"] >= max_turns + state["granted_steps"]
        or is_stalled(state["execution_results"])
    )
    return "close" if has_ended else "generate"


def is_complete(state: AgentState) -> bool:
    return state["reflection"] is not None and state["reflection"]["is_complete"]
