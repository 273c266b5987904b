"""Runs one turn of the graph and reports it to the session."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from mahtab_tui.agent.graph import ReplGraph
from mahtab_tui.agent.host import AgentHost, ApprovalRequest
from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.records import Agent, AssistantChat, Notice, Record, emit
from mahtab_tui.bus.stream import StreamingHandler

RECURSION_LIMIT = 10_000
"""Steps of one turn, so high that only `max_turns` ends a turn."""

_STATE_AFTER = {"run": "run", "all": "run", "skip": "skipped", "stop": "stopped"}


def run_graph(
    graph: ReplGraph, state: AgentState, session: AgentHost, callbacks: Callbacks | None = None
) -> AgentState:
    """Run one turn to its end, asking the session about each block, and report it to the bus and
    the callbacks.

    `state` is updated in place during the turn, and returned. If the model fails, the turn ends
    with ``failure`` set. Other exceptions (of callbacks or the session) are raised. The turn's
    checkpoints are dropped.
    """
    narration = Narration(state, session, callbacks or Callbacks())
    thread = uuid.uuid4().hex
    config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": RECURSION_LIMIT}
    given: Any = dict(state)
    try:
        while given is not None:
            for mode, data in graph.stream(given, config, stream_mode=["updates", "custom"]):
                try:
                    narration.tell(mode, data)
                except BaseException:
                    session.cancelled.set()  # otherwise the graph would wait for the running node
                    raise
            request, narration.request = narration.request, None
            given = None if request is None else Command(resume=_decide(session, request)._asdict())
    except BaseException:
        narration.end("failed")
        raise
    finally:
        assert isinstance(graph.checkpointer, InMemorySaver)
        graph.checkpointer.delete_thread(thread)
    if state["failure"]:
        emit(session.log, Notice(state["failure"], level="error"))
    narration.end("failed" if state["failure"] else "stopped" if state["stopped"] else "done")
    return state


def _decide(session: AgentHost, request: ApprovalRequest) -> Decision:
    """Decide about a block: alone, or by asking the user."""
    alone = session.decide_alone(request)
    if isinstance(alone, Decision):
        if alone.action == "refuse":
            emit(
                session.log,
                request.record(session.party).changed(state="refused", reason=alone.reason),
            )
            emit(
                session.log,
                Notice(f"Code from {session.party} was not run. {alone.reason}", level="warning"),
            )
        return alone
    asked = request.record(session.party).changed(why=alone or None)
    emit(session.log, asked.changed(state="waiting"))
    decision = session.decide(request)
    edited = decision.action in ("run", "all") and decision.code not in (None, request.code)
    text = decision.code if edited and decision.code is not None else request.code
    decided = "edited" if edited else _STATE_AFTER[decision.action]
    emit(session.log, asked.changed(text=text, state=decided, reason=decision.reason))
    return decision


_SPEAKING = ("generate", "close")
"""Nodes whose answers the user sees."""


class Callbacks(NamedTuple):
    """Callbacks for a program that asks, called on the turn's thread."""

    on_token: Callable[[str], object] = lambda token: None
    on_code_block: Callable[[str, int], object] = lambda code, i: None
    """Gets the code of a block before it runs, and its number in the turn, from 0."""
    on_execution: Callable[[str, bool, int], object] = lambda output, is_error, i: None
    """Gets the output of a block that ran, whether it failed, and its number in the turn."""


class Narration:
    """Reports one turn, and updates its `state`, from the items of `graph.stream`."""

    def __init__(self, state: AgentState, session: AgentHost, callbacks: Callbacks) -> None:
        self._state = state
        self._session = session
        self._callbacks = callbacks
        self._stream: StreamingHandler | None = None
        self.request: ApprovalRequest | None = None
        """The block that waits for the user."""

    def tell(self, mode: str, data: Any) -> None:
        """Process one item of the stream modes ``custom`` and ``updates``."""
        if mode == "custom":
            if isinstance(data, Record):
                emit(self._session.log, data)
                if isinstance(data, Agent) and data.state == "thinking":
                    self._stream = StreamingHandler(
                        self._session.log, data.turn, data.step, data.party
                    )
            elif data is not None:
                if self._stream is not None:
                    self._stream.process_token(data)
                self._callbacks.on_token(data)
            elif self._stream is not None:  # the answer that is being streamed starts again
                self._stream = self._stream.anew()
        else:
            for node, update in data.items():
                if node == "__interrupt__":
                    self.request = ApprovalRequest(**update[0].value)
                else:
                    self._update(node, update)

    def end(self, state: str) -> None:
        self._end_stream()
        emit(
            self._session.log,
            Agent(
                state=state,
                turn=self._state["turn"],
                step=self._state["step"],
                party=self._session.party,
            ),
        )

    def _update(self, node: str, update: Mapping[str, Any]) -> None:
        ran = len(self._state["execution_results"])
        self._state.update(update)  # type: ignore[typeddict-item]
        if node in _SPEAKING:
            self._answered()
        elif node == "extract_code":
            for place, code in enumerate(self._state["code_blocks"], ran):
                self._callbacks.on_code_block(code, place)
        elif node == "execute":
            for place, result in enumerate(self._state["execution_results"][ran:], ran):
                if result["cell"] is not None:
                    self._callbacks.on_execution(result["output"], result["is_error"], place)

    def _answered(self) -> None:
        self._end_stream()
        if text := self._state["current_response"]:
            stopped = self._state["stopped"] or bool(self._state["failure"])
            answer = AssistantChat(
                text,
                turn=self._state["turn"],
                step=self._state["step"],
                party=self._session.party,
                stopped=stopped,
            )
            emit(self._session.log, answer.changed(figures=self._state["figures"]))

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.flush()
            self._stream = None
