"""Other agents' cells in the transcript, in the queue and in what the model is told."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from mahtab_tui.bus.conversation import Cell
from mahtab_tui.bus.logger import close_logging, setup_logging
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.records import Decision, Record
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.agent_calls import AgentCall, JoinedAgents
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.info import HeadlessFrontend, SessionInfo, UserRequests
from mahtab_tui.settings.model import load_settings
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.records import emit, made

ABOUT: dict[str, Any] = {"call": "guest-1", "party": "codex", "guest": 2, "step": 0, "block": 0}


class RecordingInbox(Inbox):
    """Writes down whose cells it holds back."""

    def __init__(self, log: logging.Logger, changes: list[tuple[str, bool]]) -> None:
        super().__init__(log)
        self._pause_changes = changes

    def hold(self, party: str, on: bool) -> None:
        self._pause_changes.append((party, on))
        super().hold(party, on)


def guests_of(log: logging.Logger, pauses: list[tuple[str, bool]] | None = None) -> JoinedAgents:
    """The agents of a session that Claude answers in."""
    inbox = RecordingInbox(log, [] if pauses is None else pauses)
    return JoinedAgents(
        log,
        inbox,
        UserRequests(),
        SessionInfo(log, load_settings(model="claude"), "moon", "claude"),
    )


def record(tag: str, text: str = "", **attrs: Any) -> Record:
    return made(tag, text, {**ABOUT, **attrs}, time.time())


def cells(transcript: Transcript) -> list[Cell]:
    return [entry for entry in transcript.entries if isinstance(entry, Cell)]


def test_waiting_code_and_running_code_share_one_entry() -> None:
    transcript = Transcript(since=0)
    transcript.fold([record(tags.APPROVAL, "x = 1", state="waiting")])
    (waiting,) = cells(transcript)
    assert (waiting.approval, waiting.author, waiting.agent_index, waiting.code) == (
        "waiting",
        "codex",
        2,
        "x = 1",
    )
    transcript.fold([made(tags.USER_CHAT, "a question", {"turn": 1}, time.time())])
    transcript.fold(
        [
            record(tags.APPROVAL, "x = 2", state="edited"),
            record(tags.ASSISTANT_REPL_IN, "x = 2", cell=7),
        ]
    )
    transcript.fold(
        [record(tags.ASSISTANT_REPL_OUT, "", cell=7, status="ok", duration=0.1, kinds=[])]
    )
    assert cells(transcript) == [waiting]
    assert (waiting.approval, waiting.code, waiting.number, waiting.status) == (
        "",
        "x = 2",
        7,
        "ok",
    )


def test_declined_code_stays_in_the_transcript_with_its_reason() -> None:
    transcript = Transcript(since=0)
    transcript.fold(
        [
            record(tags.APPROVAL, "x = 1", state="waiting"),
            record(tags.APPROVAL, "x = 1", state="skipped", reason="not now"),
        ]
    )
    (declined,) = cells(transcript)
    assert (declined.approval, declined.reason) == ("skipped", "not now")


def test_auto_run_code_is_an_entry_too() -> None:
    transcript = Transcript(since=0)
    transcript.fold([record(tags.ASSISTANT_REPL_IN, "x", cell=1, call="guest-9")])
    assert [(cell.author, cell.person, cell.agent_index) for cell in cells(transcript)] == [
        ("codex", False, 2)
    ]


def test_model_sees_code_of_other_agents_but_not_its_own_again() -> None:
    log = logging.Logger("test")
    prompt = PromptHandler()
    log.addHandler(prompt)
    emit(log, tags.ASSISTANT_REPL_IN, "its_own = 1", cell=1, party="claude")
    emit(log, tags.ASSISTANT_REPL_IN, "of_another = 1", cell=2, party="codex", guest=0)
    context = prompt.get_context()
    assert "of_another" in context
    assert "its_own" not in context


def test_each_agent_has_its_own_name_and_colour() -> None:
    log, _ = setup_logging(None)
    try:
        guests = guests_of(log)
        joined = [
            guests.join(name, lambda text: None, None)
            for name in ("Claude Code", "claude-code", "you", "", "é" * 50, "claude")
        ]
        assert [guest.name for guest in joined] == [
            "claude-code",
            "claude-code-2",
            "you-2",
            "agent",
            "agent-2",
            "claude-2",
        ]
        assert [guest.colour for guest in joined[:4]] == [0, 1, 2, 3]
        guests.remove(joined[1], stop=False)
        assert guests.join("codex", lambda text: None, None).colour == 1
    finally:
        close_logging(log)


def test_rejoining_under_any_name_does_not_lift_a_pause() -> None:
    log, _ = setup_logging(None)
    pauses: list[tuple[str, bool]] = []
    try:
        guests = guests_of(log, pauses)
        first = guests.join("codex", lambda text: None, None)
        assert not first.paused
        guests.pause("codex")
        while_there = guests.join("other", lambda text: None, None)
        guests.remove(first, stop=False)
        again = guests.join("codex", lambda text: None, None)
        renamed = guests.join("somebody", lambda text: None, None)
        assert [guest.paused for guest in (while_there, again, renamed)] == [True, True, True]
        assert [on for party, on in pauses if party == "codex"] == [True, False, True]
        guests.remove(again, stop=False)
        assert guests.sentence().endswith(
            "Paused, but not connected: codex; /pause NAME clears the pause."
        )
        assert "Resumed" in guests.pause("somebody")
        assert guests.join("third", lambda text: None, None).paused
        assert guests.pause("codex") == "codex is not connected; pause cleared."
        assert not guests.join("codex", lambda text: None, None).paused
        assert while_there.paused
    finally:
        close_logging(log)


def test_queued_calls_of_a_paused_agent_are_withdrawn_before_it_leaves() -> None:
    log, _ = setup_logging(None)
    pauses: list[tuple[str, bool]] = []
    order: list[str] = []
    try:
        guests = guests_of(log, pauses)
        guest = guests.join("codex", lambda text: None, None)
        guests.pause("codex")
        call = AgentCall(lambda message: None)
        guest.calls.add(call)
        with call.stoppable(lambda: order.append(f"withdrawn while {pauses}")):
            guests.remove(guest, stop=False)
        assert order == ["withdrawn while [('codex', True)]"]
        assert pauses == [("codex", True), ("codex", False)]
    finally:
        close_logging(log)


def test_unresponsive_agent_is_disconnected_without_waiting() -> None:
    log, _ = setup_logging(None)
    read = threading.Event()
    try:
        guests = guests_of(log)
        guests.join("codex", lambda text: [read.wait()].clear(), None)
        assert guests.disconnect("codex") == "Disconnected codex."
    finally:
        read.set()
        close_logging(log)


def test_user_inputs_queue_before_those_of_agents() -> None:
    log, _ = setup_logging(None)
    try:
        inbox = Inbox(log)
        withdrawn: list[str] = []
        first, _ = inbox.put_agent_cell("codex", "a", lambda: None, lambda: withdrawn.append("a"))
        inbox.put("python", "mine")
        _, before = inbox.put_agent_cell("codex", "b", lambda: None, lambda: None)
        inbox.put("python", "mine too")
        assert before == 2
        assert inbox.cancel(first) is not None
        assert withdrawn == ["a"]
        items = [inbox.next_item("python") for _ in range(3)]
        assert [item and item.text for item in items] == ["mine", "mine too", "b"]
    finally:
        close_logging(log)


def test_paused_agents_cell_is_shown_waiting_while_others_are_served() -> None:
    log, _ = setup_logging(None)
    queues: list[list[str]] = []

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            queues.append([item.code for item in record.__dict__["record"].items])

    log.addHandler(Watch())
    try:
        inbox = Inbox(log)
        inbox.hold("codex", True)
        inbox.put_agent_cell("codex", "held", lambda: None, lambda: None)
        assert queues == [["held"]], "though nothing is served before it"
        inbox.put_agent_cell("other", "served", lambda: None, lambda: None)
        assert [item and item.text for item in (inbox.next_item("python"),)] == ["served"]
        inbox.hold("codex", False)
        assert [item and item.text for item in (inbox.next_item("python"),)] == ["held"]
        assert queues[-1] == []
    finally:
        close_logging(log)


def test_interrupting_the_models_turn_leaves_an_agents_approval_waiting(project: Path) -> None:
    session = Session(load_settings(model="demo"), ProcessKernel(), HeadlessFrontend())
    try:
        guest = session.joined_agents.join("codex", lambda text: None, None)
        ran: Future[str] = Future()
        shown = threading.Event()
        call, request = AgentCall(lambda frame: shown.set()), session.joined_agents.new_call()
        threading.Thread(
            target=lambda: ran.set_result(
                session.joined_agents.request_approval(guest, call, request, "x = 1")
            ),
            daemon=True,
        ).start()
        assert shown.wait(60)
        session.turns.interrupt()
        assert session.decide(request, Decision("run"))
        assert ran.result(60) == "x = 1"
    finally:
        session.close()
