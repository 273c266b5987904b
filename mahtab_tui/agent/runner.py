"""Runs one turn of the graph and reports it to the session."""

from __future__ import annotations

import uuid
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from mahtab_tui.agent.graph import ReplGraph
from mahtab_tui.agent.host import AgentHost, ApprovalRequest
from mahtab_tui.agent.narration import Callbacks, Narration
from mahtab_tui.agent.state import AgentState
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.records import Notice, emit

RECURSION_LIMIT = 10_000
"""Steps of one turn, so high that only `max_turns` ends a turn."""

_STATE_AFTER = {"run": "run", "all": "run", "skip": "skipped", "stop": "stopped"}


def run_graph(graph: ReplGraph, state: AgentState, session: AgentHost, callbacks: Callbacks | None = None) -> AgentState:
    """Run one turn to its end, asking the session about each block, and report it to the bus and the callbacks.

    `state` is updated in place during the turn, and returned. If the model fails, the turn ends with ``failure`` set. Other exceptions (of
    callbacks or the session) are raised. The turn's checkpoints are dropped.
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
            request = narration.take_request()
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
    """Decide about a block. The user's hook sees it before the user does, and what the user writes instead before that runs."""
    approved: Decision | None = None
    code = request.code
    while True:
        checked = session.before_cell(code)
        if isinstance(checked, Decision):
            state = "refused" if checked.action == "refuse" else "stopped"
            emit(session.log, request.record(session.party).changed(text=code, state=state, reason=checked.reason))
            return checked
        if approved is not None and checked == code:
            return approved
        decision = _approval(session, request._replace(code=checked))
        if decision.code in (None, checked):
            return decision if checked == request.code else decision._replace(code=checked)
        code, approved = decision.code, decision


def _approval(session: AgentHost, request: ApprovalRequest) -> Decision:
    alone = session.decide_alone(request.code)
    if isinstance(alone, Decision):
        if alone.action == "refuse":
            emit(session.log, request.record(session.party).changed(state="refused", reason=alone.reason))
            emit(session.log, Notice(f"Code from {session.party} was not run. {alone.reason}", level="warning"))
        return alone
    asked = request.record(session.party).changed(why=alone or None)
    emit(session.log, asked.changed(state="waiting"))
    decision = session.decide(request)
    edited = decision.action in ("run", "all") and decision.code not in (None, request.code)
    text = decision.code if edited and decision.code is not None else request.code
    decided = "edited" if edited else _STATE_AFTER[decision.action]
    emit(session.log, asked.changed(text=text, state=decided, reason=decision.reason))
    return decision
