"""The graph that answers one question, and its state.

generate -> tools (if it calls any) -> extract_code
extract_code -> generate (after tools, for uncomputed figures or repeated code) | close | approve
approve -> execute -> approve (next block) | reflect (if checked) | instruct | generate | close
instruct -> generate
reflect -> generate | close
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

# LangChain would import these on its own threads when a graph first runs; importing them here keeps
# the order of imports (`system.py`).
import langchain_core.tools
import langchain_core.tracers.run_collector
import langchain_core.tracers.stdout  # noqa: F401
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mahtab_tui.agent.host import ExecutionResult, ToolCall
from mahtab_tui.bus.records import AnswerFigure, Decision

if TYPE_CHECKING:
    from mahtab_tui.agent.nodes import Nodes


class ReflectionResult(TypedDict):
    """A judgement on whether the question has been answered."""

    is_complete: bool
    reasoning: str
    next_action: str


class AgentState(TypedDict):
    """One turn of the conversation."""

    messages: list[AnyMessage]
    """With this turn, without the system prompt."""
    system_prompt: str
    original_prompt: str
    turn: int
    about_data: bool
    """Whether the question is about a variable."""
    step: int
    """The number of the last answer in this turn, from 0; -1 before the first."""
    current_response: str
    ended: bool
    """Whether the model completed it."""
    code_blocks: list[str]
    block: int
    decision: Decision | None
    execution_results: list[ExecutionResult]
    """Results of the whole turn, with blocks that did not run."""
    turn_count: int
    """Number of answers with code."""
    next: Literal["approve", "generate", "close", "end"]
    repeated: bool
    """Whether an answer contained only code that had already run."""
    sent_back: bool
    """Whether the model was already asked to compute stated figures."""
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
) -> AgentState:
    """messages: the conversation, ending with the user's message; by default only the prompt."""
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
        reflection=None,
        stopped=False,
        failure="",
    )


def step_results(state: AgentState) -> list[ExecutionResult]:
    return [result for result in state["execution_results"] if result["step"] == state["step"]]


_SHORT = 400

ReflectionMode = Literal["always", "on_error", "never"]
ReplGraph = CompiledStateGraph[AgentState, None, AgentState, AgentState]


def after_generate(state: AgentState) -> Literal["tools", "extract_code"]:
    return "tools" if state["tool_calls"] else "extract_code"


def should_execute(state: AgentState) -> Literal["approve", "generate", "close", "end"]:
    """Ask for approval of new code; otherwise go where `Nodes.extract_code` says."""
    return "end" if state["stopped"] else state["next"]


def after_execute(
    state: AgentState, nodes: Nodes
) -> Literal["approve", "reflect", "instruct", "generate", "close", "end"]:
    """Go to the next block; after the last, to a separate check if the settings want one, or to the
    model."""
    if state["stopped"]:
        return "end"
    if state["block"] < len(state["code_blocks"]):
        return "approve"
    results = step_results(state)
    failed = any(result["is_error"] for result in results)
    declined = any(result["status"] == "skipped" or result.get("undone") for result in results)
    checks = nodes.reflection == "always" or (nodes.reflection == "on_error" and failed)
    if checks and (failed or not declined):
        return "reflect"
    sizes = [len(result["output"].strip()) for result in results]
    alone = len(results) == 1 and not failed and not declined
    if nodes.output_answers and alone and 0 < sizes[0] <= _SHORT:
        return "end"
    if state["turn_count"] >= nodes.max_turns:
        return "close"
    return "instruct" if failed or not declined else "generate"


def should_continue(state: AgentState, max_turns: int = 5) -> Literal["generate", "close", "end"]:
    if state["stopped"]:
        return "end"
    return "close" if is_complete(state) or state["turn_count"] >= max_turns else "generate"


def is_complete(state: AgentState) -> bool:
    return state["reflection"] is not None and state["reflection"]["is_complete"]


def build_graph(nodes: Nodes) -> ReplGraph:
    graph = StateGraph(AgentState)
    for node in (
        nodes.generate,
        nodes.tools,
        nodes.extract_code,
        nodes.approve,
        nodes.execute,
        nodes.reflect,
        nodes.instruct,
        nodes.close,
    ):
        graph.add_node(node.__name__, node)
    onward: dict[Hashable, str] = {"end": END}
    onward.update((name, name) for name in graph.nodes)
    graph.add_edge(START, "generate")
    graph.add_conditional_edges("generate", after_generate, onward)
    graph.add_edge("tools", "extract_code")
    graph.add_conditional_edges("extract_code", should_execute, onward)
    graph.add_edge("approve", "execute")
    graph.add_conditional_edges("execute", lambda state: after_execute(state, nodes), onward)
    graph.add_edge("instruct", "generate")
    graph.add_conditional_edges(
        "reflect", lambda state: should_continue(state, nodes.max_turns), onward
    )
    graph.add_edge("close", END)
    return graph.compile()
