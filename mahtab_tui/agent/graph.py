"""The graph that answers one question.

A reply with code is a step: its blocks run in order, and the model gets their results. A reply
without code is the answer.

generate -> tools (if it calls any) -> read_reply
read_reply -> approve (code) | generate (after tools, or to correct the answer) | end
approve -> execute -> approve (next block) | reflect (if checked) | instruct
reflect -> instruct | close
instruct -> generate | close (no more steps)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

# LangChain would import these on its own threads when a graph first runs; importing them here keeps
# the order of imports (`system.py`).
import langchain_core.tools
import langchain_core.tracers.run_collector
import langchain_core.tracers.stdout  # noqa: F401
from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mahtab_tui.agent.host import AgentHost
from mahtab_tui.agent.nodes import Nodes
from mahtab_tui.agent.output_answers import may_answer, tells_answer
from mahtab_tui.agent.state import (
    DEFAULT_MAX_TURNS,
    AgentState,
    ReflectionMode,
    is_complete,
    is_declined,
    should_continue,
    step_results,
)
from mahtab_tui.tools.toolset import Toolset

ReplGraph = CompiledStateGraph[AgentState, None, AgentState, AgentState]


def after_generate(state: AgentState) -> Literal["tools", "read_reply"]:
    return "tools" if state["tool_calls"] else "read_reply"


def should_execute(state: AgentState) -> Literal["approve", "generate", "end"]:
    """Ask for approval of code; otherwise go where `Nodes.read_reply` says."""
    return "end" if state["stopped"] else state["next"]


def after_execute(
    state: AgentState, nodes: Nodes
) -> Literal["approve", "reflect", "instruct", "end"]:
    """Go to the next block; after the last, to a separate check if the settings want one, or to the
    model."""
    if state["stopped"]:
        return "end"
    if state["next_block"] < len(state["code_blocks"]):
        return "approve"
    results = step_results(state)
    failed = any(result["is_error"] for result in results)
    declined = is_declined(results)
    checks = nodes.reflection == "always" or (nodes.reflection == "on_error" and failed)
    if checks and (failed or not declined):
        return "reflect"
    is_single_success = len(results) == 1 and not failed and not declined
    if is_single_success and may_answer(results[0]) and _output_answers(state, nodes):
        return "end"
    return "instruct"


def _output_answers(state: AgentState, nodes: Nodes) -> bool:
    """Return whether the short output of a single block is the answer.

    A small model is told to print what was asked, in the form that was asked, and loses both when
    it tells the output in words.
    """
    if nodes.output_answers:
        return True
    if not nodes.leads_small_model or not state["about_data"]:
        return False
    return tells_answer(step_results(state)[0], state["original_prompt"])


def after_reflect(state: AgentState) -> Literal["instruct", "close", "end"]:
    """Ask for the last words if the check is content with the results."""
    if state["stopped"]:
        return "end"
    return "close" if is_complete(state) else "instruct"


def build_graph(nodes: Nodes) -> ReplGraph:
    graph = StateGraph(AgentState)
    for node in (
        nodes.generate,
        nodes.tools,
        nodes.read_reply,
        nodes.approve,
        nodes.execute,
        nodes.reflect,
        nodes.instruct,
        nodes.close,
    ):
        graph.add_node(node.__name__, node)
    # Each node may lead to each other; the functions above decide.
    targets: dict[Hashable, str] = {"end": END}
    targets.update((name, name) for name in graph.nodes)
    graph.add_edge(START, "generate")
    graph.add_conditional_edges("generate", after_generate, targets)
    graph.add_edge("tools", "read_reply")
    graph.add_conditional_edges("read_reply", should_execute, targets)
    graph.add_edge("approve", "execute")
    graph.add_conditional_edges("execute", lambda state: after_execute(state, nodes), targets)
    graph.add_conditional_edges("reflect", after_reflect, targets)
    graph.add_conditional_edges(
        "instruct", lambda state: should_continue(state, nodes.max_turns), targets
    )
    graph.add_edge("close", END)
    return graph.compile()


def create_repl_graph(
    llm: BaseChatModel,
    session: AgentHost,
    max_turns: int = DEFAULT_MAX_TURNS,
    *,
    reflection: ReflectionMode = "never",
    reflection_llm: BaseChatModel | None = None,
    tools: Toolset | None = None,
    output_answers: bool = False,
) -> ReplGraph:
    """Create a graph that `run_graph` runs; the arguments are those of `ReplAgent`."""
    nodes = Nodes(
        llm,
        session,
        max_turns,
        reflection,
        reflection_llm=reflection_llm,
        toolset=tools,
        output_answers=output_answers,
    )
    return build_graph(nodes)
