"""Runs the graph of a question, and reports what it does to the bus and to a program's
callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mahtab_tui.agent.graph import ReplGraph
from mahtab_tui.agent.host import AgentHost
from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.answer_stream import StreamingHandler
from mahtab_tui.bus.records import Agent, AssistantChat, Notice, Record, emit

RECURSION_LIMIT = 10_000
"""Maximum steps of the graph; so high that only `max_turns` ends a turn."""

_EndState = Literal["done", "failed", "stopped"]
"""How a turn has ended."""


class Callbacks(NamedTuple):
    """Functions of a program that uses the agent. They are called on the turn's thread."""

    on_token: Callable[[str], object] = lambda token: None
    """Gets each piece of an answer as it comes."""
    on_code_block: Callable[[str, int], object] = lambda code, number: None
    """Gets a block's code before it runs, and its number in the turn, from 0."""
    on_execution: Callable[[str, bool, int], object] = lambda output, is_error, number: None
    """Gets a block's output, whether it failed, and its number in the turn, from 0."""


def run_graph(
    graph: ReplGraph, state: AgentState, host: AgentHost, callbacks: Callbacks | None = None
) -> AgentState:
    """Run a turn to its end, and report it to the bus and the callbacks.

    Args:
        graph: What `build_graph` returned.
        state: The question. It is updated in place.
        host: The session, as the agent sees it.
        callbacks: Functions that are told what happens meanwhile; None for none.

    Returns:
        The state. If the model has failed, it has a ``failure``.
    """
    _GraphRun(state, host, callbacks or Callbacks()).run(graph)
    return state


@dataclass(eq=False, repr=False)
class _GraphRun:
    """Runs the graph for one question, and reports what its nodes do."""

    _state: AgentState
    """The state of the question, with what the nodes have changed up to now."""
    _host: AgentHost
    _callbacks: Callbacks
    _stream: StreamingHandler | None = None
    """Logs the answer that is being written; None while none is written."""

    def run(self, graph: ReplGraph) -> None:
        """Run the graph to its end. A failure of the model is reported; any other is raised."""
        try:
            self._handle_events(graph)
        except BaseException:
            self._report_end("failed")
            raise

        failure = self._state["failure"]
        if failure:
            emit(self._host.log, Notice(failure, level="error"))
            self._report_end("failed")
        elif self._state["stopped"]:
            self._report_end("stopped")
        else:
            self._report_end("done")

    def _handle_events(self, graph: ReplGraph) -> None:
        # LangGraph types its input and configuration more narrowly than it reads them.
        graph_input: Any = dict(self._state)
        config: Any = {"recursion_limit": RECURSION_LIMIT}
        events: Any = graph.stream(graph_input, config, stream_mode=["updates", "custom"])
        for mode, data in events:
            try:
                if mode == "custom":
                    self._handle_written(data)
                else:
                    for node, update in data.items():
                        self._apply_update(node, update)
            except BaseException:
                # Otherwise the graph would wait for the running node.
                self._host.cancelled.set()
                raise

    def _handle_written(self, data: Record | str | None) -> None:
        """Report what a running node has written.

        Args:
            data: A record, a token of the answer, or None if the answer starts over.
        """
        if isinstance(data, Record):
            self._report_record(data)
        elif data is not None:
            if self._stream is not None:
                self._stream.process_token(data)
            self._callbacks.on_token(data)
        elif self._stream is not None:
            self._stream = self._stream.restart()

    def _report_record(self, record: Record) -> None:
        """Log a record. If it says that the model begins to think, its answer follows."""
        log = self._host.log
        emit(log, record)
        if isinstance(record, Agent) and record.state == "thinking":
            self._stream = StreamingHandler(log, record.turn, record.step, record.party)

    def _apply_update(self, node: str, update: Mapping[str, Any]) -> None:
        """Take over what a node that has ended has changed, and report it.

        Args:
            node: The name of the node.
            update: The new values of the state, by key.
        """
        state = self._state
        earlier_result_count = len(state["execution_results"])
        state.update(update)  # type: ignore[typeddict-item]
        if node in ("generate", "close"):
            self._end_stream()
            self._report_answer()
        elif node == "read_reply":
            for number, code in enumerate(state["code_blocks"], earlier_result_count):
                self._callbacks.on_code_block(code, number)
        elif node == "execute":
            self._report_results(earlier_result_count)

    def _report_answer(self) -> None:
        """Log the complete answer of the model, unless it is empty."""
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

    def _report_results(self, reported_count: int) -> None:
        """Tell the callbacks the results of the blocks that have run.

        Args:
            reported_count: The number of the turn's results that were reported before.
        """
        new_results = self._state["execution_results"][reported_count:]
        for number, result in enumerate(new_results, reported_count):
            has_run = result["cell"] is not None
            if has_run:
                self._callbacks.on_execution(result["output"], result["is_error"], number)

    def _report_end(self, end_state: _EndState) -> None:
        """Log that the turn has ended, after the last of its answer."""
        self._end_stream()
        end = Agent(
            state=end_state,
            turn=self._state["turn"],
            step=self._state["step"],
            party=self._host.party,
        )
        emit(self._host.log, end)

    def _end_stream(self) -> None:
        """Log what is left of the answer that was being written, if any was."""
        if self._stream is not None:
            self._stream.flush()
            self._stream = None
