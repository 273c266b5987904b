"""Runs the graph of a question, and reports what it does to the bus and to a program's
callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mahtab_tui.agent.graph import ReplGraph
from mahtab_tui.agent.host import AgentHost
from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.logger import StreamingHandler
from mahtab_tui.bus.records import Agent, AssistantChat, Notice, Record, emit

RECURSION_LIMIT = 10_000
"""Steps of the graph; so high that only `max_turns` ends a turn."""


class Callbacks(NamedTuple):
    """Callbacks of a program, called on the turn's thread."""

    on_token: Callable[[str], object] = lambda token: None
    """Gets each piece of an answer as it comes."""
    on_code_block: Callable[[str, int], object] = lambda code, number: None
    """Gets a block's code before it runs, and its number in the turn, from 0."""
    on_execution: Callable[[str, bool, int], object] = lambda output, is_error, number: None
    """Gets a block's output, whether it failed, and its number."""


@dataclass(eq=False, repr=False)
class _GraphRun:
    """Runs the graph for one question, and reports what its nodes do."""

    _state: AgentState
    """Updated by the nodes."""
    _host: AgentHost
    _callbacks: Callbacks
    _stream: StreamingHandler | None = None
    """Shows the answer that is being written; None while there is none."""

    def run(self, graph: ReplGraph) -> None:
        """Run the graph to its end. Its failures are raised, those of the model reported."""
        try:
            self._handle_events(graph)
        except BaseException:
            self._end("failed")
            raise

        if failure := self._state["failure"]:
            emit(self._host.log, Notice(failure, level="error"))
            self._end("failed")
        else:
            self._end("stopped" if self._state["stopped"] else "done")

    def _handle_events(self, graph: ReplGraph) -> None:
        # LangGraph types its input and configuration more narrowly than it reads them.
        graph_input: Any = dict(self._state)
        config: Any = {"recursion_limit": RECURSION_LIMIT}
        events: Any = graph.stream(graph_input, config, stream_mode=["updates", "custom"])
        for mode, data in events:
            try:
                if mode == "custom":
                    self._show(data)
                else:
                    for node, update in data.items():
                        self._update(node, update)
            except BaseException:
                # Otherwise the graph would wait for the running node.
                self._host.cancelled.set()
                raise

    def _show(self, data: Record | str | None) -> None:
        """Report a record or a token; None if the answer starts over."""
        log = self._host.log
        if isinstance(data, Record):
            emit(log, data)
            if isinstance(data, Agent) and data.state == "thinking":
                self._stream = StreamingHandler(log, data.turn, data.step, data.party)
        elif data is not None:
            if self._stream is not None:
                self._stream.process_token(data)
            self._callbacks.on_token(data)
        elif self._stream is not None:
            self._stream = self._stream.restart()

    def _end(self, state: str) -> None:
        self._end_stream()
        turn = self._state["turn"]
        step = self._state["step"]
        emit(self._host.log, Agent(state=state, turn=turn, step=step, party=self._host.party))

    def _update(self, node: str, update: Mapping[str, Any]) -> None:
        """Take over what a node has changed, and report it."""
        state = self._state
        result_count = len(state["execution_results"])
        state.update(update)  # type: ignore[typeddict-item]
        if node in ("generate", "close"):
            self._end_stream()
            self._report_answer()
        elif node == "read_reply":
            for index, code in enumerate(state["code_blocks"], result_count):
                self._callbacks.on_code_block(code, index)
        elif node == "execute":
            new_results = state["execution_results"][result_count:]
            for index, result in enumerate(new_results, result_count):
                if result["cell"] is not None:
                    self._callbacks.on_execution(result["output"], result["is_error"], index)

    def _report_answer(self) -> None:
        """Report the complete answer of a model, if there is one."""
        state = self._state
        text = state["current_response"]
        if not text:
            return
        answer = AssistantChat(
            text,
            turn=state["turn"],
            step=state["step"],
            party=self._host.party,
            stopped=state["stopped"] or bool(state["failure"]),
            figures=state["figures"],
        )
        emit(self._host.log, answer)

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.flush()
            self._stream = None


def run_graph(
    graph: ReplGraph, state: AgentState, host: AgentHost, callbacks: Callbacks | None = None
) -> AgentState:
    """Run a turn to its end, and report it to the bus and the callbacks.

    Args:
        graph: What `build_graph` returned.
        state: The question; updated in place.
        host: The host of the session.
        callbacks: LangChain's callbacks of a program that uses the agent.

    Returns:
        The state; if the model has failed, it has a ``failure``.
    """
    _GraphRun(state, host, callbacks or Callbacks()).run(graph)
    return state
