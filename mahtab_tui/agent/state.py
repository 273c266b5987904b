"""The graph's state, and messages with tool calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import add_ai_message_chunks

from mahtab_tui.agent.host import ExecutionResult
from mahtab_tui.bus.records import AnswerFigure
from mahtab_tui.llm.messages import make_encodable

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


class ToolCall(TypedDict):
    id: str
    """The provider's id."""
    name: str
    arguments: dict[str, Any]
    problem: str
    """A sentence that tells the model why the call cannot be made; otherwise empty."""


def binding_arguments(
    llm: BaseChatModel, tools: Sequence[BaseTool], *, forbidden: bool = False
) -> dict[str, Any]:
    """Return the arguments that offer tools to a model; empty if it does not support tools.
    forbidden: list the tools, but forbid calling them."""
    try:
        bound: Any = llm.bind_tools(tools)
    except NotImplementedError:
        return {}
    anthropic = llm._llm_type == "anthropic-chat"  # LangChain's package
    return {
        **bound.kwargs,
        **({"tool_choice": {"type": "none"} if anthropic else "none"} if forbidden else {}),
    }


def call_message(text: str, calls: Sequence[ToolCall]) -> AIMessage:
    """Create the message that is sent back to a provider for tool calls."""
    return AIMessage(
        text,
        tool_calls=[
            {"id": call["id"], "name": call["name"], "args": call["arguments"], "type": "tool_call"}
            for call in calls
        ],
    )


def join_chunks(pieces: Iterable[BaseMessage]) -> tuple[AIMessage, list[ToolCall]] | None:
    """Join the chunks of an answer into the message to send back to the provider, and parse its
    tool calls; None if there are none.

    Arguments are parsed strictly: truncated ones are never completed by guessing.
    """
    lines = [
        piece
        for piece in pieces
        if piece.content
        or piece.additional_kwargs
        or getattr(piece, "tool_calls", None)
        or _chunks(piece)
    ]
    if not any(_raw(piece) for piece in lines):
        return None
    whole = lines[-1]
    if isinstance(first := lines[0], AIMessageChunk):
        whole = add_ai_message_chunks(
            first, *(piece for piece in lines[1:] if isinstance(piece, AIMessageChunk))
        )
    calls = [_call(index, *raw) for index, raw in enumerate(_raw(whole))]
    extra = {
        key: value
        for key, value in whole.additional_kwargs.items()
        if key not in ("tool_calls", "function_call")
    }
    message = call_message("", calls)
    return message.model_copy(update={"content": whole.content, "additional_kwargs": extra}), calls


def calls_as_text(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Convert messages with tool calls to plain text. Results become part of user messages, as the
    outputs of cells do."""
    result: list[AnyMessage] = []
    for message in messages:
        kind = AIMessage if message.type == "ai" else HumanMessage
        text = str(message.text)
        if isinstance(message, AIMessage) and message.tool_calls and not text.strip():
            continue
        if result and type(result[-1]) is kind:
            text = f"{result.pop().text}\n\n{text}"
        result.append(kind(text))
    return result


def _chunks(piece: BaseMessage) -> list[Any]:
    return list(getattr(piece, "tool_call_chunks", ()))


def _raw(piece: BaseMessage) -> list[tuple[str | None, str | None, str]]:
    """Return id, name and arguments (JSON) of each call."""
    if chunks := _chunks(piece):
        return [(chunk["id"], chunk["name"], chunk["args"] or "{}") for chunk in chunks]
    valid = [
        (call["id"], call["name"], json.dumps(call["args"]))
        for call in getattr(piece, "tool_calls", ())
    ]
    return valid + [
        (call["id"], call["name"], call["args"] or "{}")
        for call in getattr(piece, "invalid_tool_calls", ())
    ]


def _call(index: int, number: str | None, name: str | None, written: str) -> ToolCall:
    call = ToolCall(
        id=number or f"call_{index}", name=make_encodable(name or ""), arguments={}, problem=""
    )
    try:
        arguments = json.loads(written)
        if not isinstance(arguments, dict):
            raise ValueError("not an object")
        call["arguments"] = json.loads(make_encodable(json.dumps(arguments, ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        call["problem"] = f"The arguments cannot be read as JSON: {error}."
    return call


class ReflectionResult(TypedDict):
    """A judgement on whether the question has been answered."""

    is_complete: bool
    reasoning: str
    next_action: str
    """The next step if the question is not answered."""


class AgentState(TypedDict):
    """One turn of the conversation."""

    messages: list[AnyMessage]
    """The conversation including this turn, without the system prompt."""
    system_prompt: str
    original_prompt: str
    """The user's question."""
    turn: int
    """The number of the question."""
    about_data: bool
    """Whether the question is about a variable."""
    step: int
    """The number of the last answer within this turn, from 0; -1 before the first."""
    current_response: str
    """The model's last answer."""
    ended: bool
    """Whether the model completed it."""
    code_blocks: list[str]
    """Code blocks of the answer to run."""
    block: int
    """Index of the next block."""
    decision: dict[str, Any] | None
    """The user's `Decision` on that block."""
    execution_results: list[ExecutionResult]
    """Results of all blocks of the turn so far, including those that did not run."""
    turn_count: int
    """Number of answers with code."""
    next: Literal["approve", "generate", "close", "end"]
    """The node to run after the last answer."""
    repeated: bool
    """Whether an answer contained only code that had already run."""
    sent_back: bool
    """Whether the model was already asked to compute figures that it had stated."""
    figures: tuple[AnswerFigure, ...]
    """The figures in the words of the last answer."""
    tool_calls: list[ToolCall]
    """The tool calls of the last answer."""
    tool_count: int
    """Number of tool calls in the turn."""
    loaded_skills: list[str]
    """The loaded skills, if one was loaded in this turn."""
    skill_contexts: dict[str, str]
    """Results of `load_skill` in this turn, by the skill's name, or by ``name/path`` for a file of
    it."""
    search_results: list[dict[str, Any]]
    """Results of searches in this turn: tool, arguments, text."""
    file_contents: dict[str, str]
    """Results of `read_file` in this turn, by path."""
    reflection: ReflectionResult | None
    stopped: bool
    """Whether the user stopped the turn."""
    failure: str
    """A sentence that says why the model could not answer; otherwise empty."""


def create_initial_state(
    prompt: str,
    *,
    messages: Sequence[AnyMessage] | None = None,
    system_prompt: str = "",
    turn: int = 1,
    about_data: bool = False,
) -> AgentState:
    """Create the initial state of a turn. messages: the conversation, ending with the user's
    message; by default only the prompt."""
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


def step_results(state: AgentState) -> list[ExecutionResult]:
    return [result for result in state["execution_results"] if result["step"] == state["step"]]


_SHORT = 400
"""Maximum characters of an output that may be the answer."""

ReflectionMode = Literal["always", "on_error", "never"]


def after_generate(state: AgentState) -> Literal["tools", "extract_code"]:
    """Run tool calls first, before any code."""
    return "tools" if state["tool_calls"] else "extract_code"


def should_execute(state: AgentState) -> Literal["approve", "generate", "close", "end"]:
    """Ask for approval of new code; otherwise go where `Nodes.extract_code` says."""
    return "end" if state["stopped"] else state["next"]


def after_execute(
    state: AgentState, max_turns: int, reflection: ReflectionMode, output_answers: bool = False
) -> Literal["approve", "reflect", "instruct", "generate", "close", "end"]:
    """Go to the next block; after the last one, to a separate check if the settings want one, or
    else to the model, which answers from the output.

    If the user skipped or undid a block, the model responds to that. output_answers: whether the
    output of a single block ends the question.
    """
    if state["stopped"]:
        return "end"
    if state["block"] < len(state["code_blocks"]):
        return "approve"
    results = step_results(state)
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
    """Return whether an output may stand as the answer."""
    return 0 < len(output.strip()) <= _SHORT


def should_continue(state: AgentState, max_turns: int = 5) -> Literal["generate", "close", "end"]:
    """Continue, unless the question is answered or no turns are left."""
    if state["stopped"]:
        return "end"
    return "close" if is_complete(state) or state["turn_count"] >= max_turns else "generate"


def is_complete(state: AgentState) -> bool:
    """Return whether the last check found the question answered."""
    return state["reflection"] is not None and state["reflection"]["is_complete"]
