"""The graph that answers one question.

START -> generate -> [calls tools?] yes -> tools -+
            ^              | no                    |
            |              +------ extract_code <--+
            |                           |
            +- [tool results, uncomputed figures, failed code repeated?] yes
            |                           | no
            |            [code that ran before?] yes -> close
            |                           | no
            |                      [new code?] no -> END
            |                           | yes
            |           approve (block by block) -> execute -> [blocks left?] yes -> approve
            |                                        | no
            |                     [a separate check?] yes   -> reflect -> [complete, or turns used up?] yes -> close -> END
            |                                        | no                         | no
            +-------------------------------------- instruct                      |
            +---------------------------------------------------------------------+
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

# LangChain would import these on its own threads when a graph first runs; importing them here keeps
# the order of imports (`system/imports.py`).
import langchain_core.tools
import langchain_core.tracers.run_collector
import langchain_core.tracers.stdout  # noqa: F401
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from mahtab_tui.agent.host import AgentHost
from mahtab_tui.agent.nodes import Nodes
from mahtab_tui.agent.state import (
    AgentState,
    ReflectionMode,
    after_execute,
    after_generate,
    should_continue,
    should_execute,
)
from mahtab_tui.bus.records import AnswerFigure

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.tools import Toolset

ReplGraph = CompiledStateGraph[AgentState, None, AgentState, AgentState]


def build_graph(nodes: Nodes) -> ReplGraph:
    def after_blocks(state: AgentState) -> str:
        return after_execute(state, nodes.max_turns, nodes.reflection, nodes.output_answers)

    def after_check(state: AgentState) -> str:
        return should_continue(state, nodes.max_turns)

    graph = StateGraph(AgentState)
    for name in (
        "generate",
        "tools",
        "extract_code",
        "approve",
        "execute",
        "reflect",
        "instruct",
        "close",
    ):
        graph.add_node(name, getattr(nodes, name))
    graph.add_edge(START, "generate")
    graph.add_conditional_edges(
        "generate", after_generate, {"tools": "tools", "extract_code": "extract_code"}
    )
    graph.add_edge("tools", "extract_code")
    graph.add_conditional_edges(
        "extract_code",
        should_execute,
        {"approve": "approve", "generate": "generate", "close": "close", "end": END},
    )
    graph.add_edge("approve", "execute")
    after: dict[Hashable, str] = {
        **{name: name for name in ("approve", "reflect", "instruct", "generate", "close")},
        "end": END,
    }
    graph.add_conditional_edges("execute", after_blocks, after)
    graph.add_edge("instruct", "generate")
    graph.add_conditional_edges(
        "reflect", after_check, {"generate": "generate", "close": "close", "end": END}
    )
    graph.add_edge("close", END)
    # The only class of ours in the state. Classes that are not named here cannot be read back in
    # later versions.
    serde = JsonPlusSerializer(
        allowed_msgpack_modules=[(AnswerFigure.__module__, AnswerFigure.__name__)]
    )
    return graph.compile(checkpointer=InMemorySaver(serde=serde))


def create_repl_graph(
    llm: BaseChatModel,
    session: AgentHost,
    max_turns: int = 5,
    *,
    reflection: ReflectionMode = "never",
    reflection_llm: BaseChatModel | None = None,
    tools: Toolset | None = None,
    output_answers: bool = False,
) -> ReplGraph:
    """Create a graph that answers questions with a model in a session; `run_graph` runs it.

    max_turns: the maximum number of answers with code per question. reflection: when a separate
    call checks the results for completeness; otherwise the next answer reports them. tools: for
    models that call tools. output_answers: whether a short output of a single block ends the
    question.
    """
    return build_graph(
        Nodes(
            llm,
            session,
            max_turns,
            reflection,
            reflection_llm=reflection_llm,
            tools=tools,
            output_answers=output_answers,
        )
    )
