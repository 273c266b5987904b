"""The graph that answers one question.

    START -> generate -> extract_code -> [code?] no -> END
                ^             | yes
                |          approve (block by block) -> execute -> [blocks left?] yes -> approve
                |                                        | no
                |                                     reflect -> [complete, or turns used up?] yes -> close -> END
                +------------------------------------------------- no
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from mahtab_tui.agent.host import AgentHost, ApprovalRequest
from mahtab_tui.agent.nodes import Nodes, ReflectionMode
from mahtab_tui.agent.state import AgentState

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

ReplGraph = CompiledStateGraph[AgentState, None, AgentState, AgentState]

RECURSION_LIMIT = 10_000
"""Steps of one turn; it is `max_turns` that ends a turn, not this."""


def build_graph(nodes: Nodes) -> ReplGraph:
    """The graph over its nodes."""
    graph = StateGraph(AgentState)
    for name in ("generate", "extract_code", "approve", "execute", "reflect", "close"):
        graph.add_node(name, getattr(nodes, name))
    graph.add_edge(START, "generate")
    graph.add_edge("generate", "extract_code")
    graph.add_conditional_edges("extract_code", nodes.should_execute, {"approve": "approve", "end": END})
    graph.add_edge("approve", "execute")
    onward = {name: name for name in ("approve", "reflect", "generate", "close")}
    graph.add_conditional_edges("execute", nodes.after_execute, {**onward, "end": END})
    graph.add_conditional_edges("reflect", nodes.should_continue, {"generate": "generate", "close": "close", "end": END})
    graph.add_edge("close", END)
    return graph.compile(checkpointer=InMemorySaver())


def create_repl_graph(
    llm: BaseChatModel,
    session: AgentHost,
    max_turns: int = 5,
    *,
    reflection: ReflectionMode = "always",
    reflection_llm: BaseChatModel | None = None,
) -> ReplGraph:
    """A graph that answers questions with a model, in a session."""
    return build_graph(Nodes(llm, session, max_turns, reflection=reflection, reflection_llm=reflection_llm))


def run_graph(graph: ReplGraph, state: AgentState, session: AgentHost) -> AgentState:
    """Run one turn to its end, asking the session about each block; returns the state it came to.

    What the model raises is raised as `TurnFailed`, with the state until then. The checkpoints of the turn are dropped.
    """
    thread = f"turn-{state['turn']}"
    config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": RECURSION_LIMIT}
    given: Any = state
    try:
        while given is not None:
            waiting = None
            for update in graph.stream(given, config, stream_mode="updates"):
                if "__interrupt__" in update:
                    waiting = ApprovalRequest(**update["__interrupt__"][0].value)
            given = Command(resume=session.decide(waiting)._asdict()) if waiting is not None else None
        return _state(graph, config)
    except Exception as error:
        raise TurnFailed(_state(graph, config)) from error
    finally:
        assert isinstance(graph.checkpointer, InMemorySaver)
        graph.checkpointer.delete_thread(thread)


def _state(graph: ReplGraph, config: Any) -> AgentState:
    values: Any = graph.get_state(config).values
    return values  # type: ignore[no-any-return]


class TurnFailed(Exception):
    """A turn that an error has ended; `state` is what it had come to, the cause is the error."""

    def __init__(self, state: AgentState) -> None:
        super().__init__("The turn failed")
        self.state = state
