"""A session's watchers, and the cells of other agents in it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.logger import close_logging, setup_logging
from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.records import Decision, Input, Namespace, Record, ReplIn, ReplOut
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session, broadcast
from mahtab_tui.session.broadcast import Broadcast, Feed, past_for_watchers
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.info import SessionInfo
from mahtab_tui.session.joined_agents import AgentCall, JoinedAgents
from mahtab_tui.session.user_requests import UserRequests
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import start_thread
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.records import emit, made
from tests.tui.scripted_session import change

PAST = [
    made(tags.USER_REPL_IN, "first", {"cell": 1}),
    made(tags.NAMESPACE, "", {"cell": 1, "party": "you", "changes": [change("n", "int", "1")]}),
    made(tags.USER_REPL_OUT, "done", {"cell": 1, "status": "ok"}),
    made(tags.USER_REPL_IN, "second", {"cell": 2}),
    made(tags.INPUT, "name?", {"request": "1", "cell": 2, "state": "waiting"}),
]

ABOUT: dict[str, Any] = {"call": "guest-1", "party": "codex", "guest": 2, "step": 0, "block": 0}


@pytest.fixture
def log() -> logging.Logger:
    logger = logging.Logger("test")
    logger.addHandler(Broadcast())
    return logger


def handler(log: logging.Logger) -> Broadcast:
    broadcast = log.handlers[0]
    assert isinstance(broadcast, Broadcast)
    return broadcast


def texts(feed: Feed) -> list[str]:
    return [record.text for record in list(feed.queue) if record is not None]


def unread_feed(log: logging.Logger, monkeypatch: pytest.MonkeyPatch, *, max_records: int) -> Feed:
    """Return a feed that keeps some records at most, after five have come: "0", "1" …"""
    monkeypatch.setattr(broadcast, "MAX_QUEUED_RECORDS", max_records)
    feed = handler(log).watch()
    for number in range(5):
        emit(log, tags.NOTICE, str(number))
    return feed


def test_watcher_gets_the_past_without_streams_and_then_everything_new(log: logging.Logger) -> None:
    emit(log, tags.USER_REPL_IN, "code", cell=1)
    emit(log, tags.USER_REPL_OUT_STREAM, "piece", cell=1)
    emit(log, tags.USER_REPL_OUT, "whole", cell=1)
    feed = handler(log).watch()
    emit(log, tags.USER_REPL_OUT_STREAM, "next", cell=2)
    assert texts(feed) == ["code", "whole", "next"]
    handler(log).unwatch(feed)
    emit(log, tags.NOTICE, "later")
    assert texts(feed) == ["code", "whole", "next"]
    assert list(feed.queue)[-1] is None


@pytest.mark.timeout(60)
def test_a_feed_that_nobody_reads_is_limited_and_ends(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = unread_feed(log, monkeypatch, max_records=3)
    handler(log).unwatch(feed)
    assert texts(feed) == ["0", "1", "2"]
    assert list(feed.queue)[-1] is None


def test_late_watcher_gets_the_printed_text_and_pictures_of_a_running_cell(
    log: logging.Logger,
) -> None:
    emit(log, tags.USER_REPL_IN, "code", cell=1)
    emit(log, tags.USER_REPL_OUT_STREAM, "one ", cell=1)
    emit(log, tags.USER_REPL_OUT_STREAM, "two", cell=1)
    emit(log, tags.DISPLAY, "<P>", cell=1, mime="image/png", data="x")
    emit(log, tags.USER_REPL_OUT_STREAM, "<P>", cell=1, kind="display")
    emit(log, tags.USER_REPL_OUT_STREAM, "three", cell=1)
    assert texts(handler(log).watch()) == ["code", "<P>", "one two", "<P>", "three"]
    emit(log, tags.USER_REPL_OUT, "one two<P>three", cell=1)
    assert texts(handler(log).watch()) == ["code", "<P>", "one two<P>three"]


def test_stream_backlog_is_limited_to_its_end(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "MAX_JOINED_CHARS", 4)
    monkeypatch.setattr(broadcast, "MAX_STREAM_RECORDS", 5)
    for number in range(100):
        emit(log, tags.USER_REPL_OUT_STREAM, f"{number} ", cell=1)
    assert "".join(texts(handler(log).watch())) == "90 91 92 93 94 95 96 97 98 99 "
    emit(log, tags.USER_REPL_OUT, "whole", cell=1)
    assert texts(handler(log).watch()) == ["whole"]


def test_restarted_answer_drops_its_pieces_and_searches_are_not_replayed(
    log: logging.Logger,
) -> None:
    emit(log, tags.ASSISTANT_CHAT_STREAM, "no", turn=1, step=0)
    emit(log, tags.ASSISTANT_CHAT_STREAM, "", turn=1, step=0, fresh=True)
    emit(log, tags.ASSISTANT_CHAT_STREAM, "yes", turn=1, step=0)
    emit(log, tags.RLM_CHAT_STREAM, "searching", tree="t", node="1", turn=1, seq=0)
    assert texts(handler(log).watch()) == ["yes"]


@pytest.mark.parametrize("same_kernel", [False, True])
def test_past_of_a_resumed_session_has_no_running_entries(same_kernel: bool) -> None:
    feed = Broadcast(past_for_watchers(PAST, same_kernel=same_kernel)).watch()
    records = [record for record in feed.queue if record is not None]
    ended_cells = [record.cell for record in records if isinstance(record, ReplOut)]
    assert ended_cells == ([1] if same_kernel else [1, 2])
    assert [record.text for record in records if isinstance(record, ReplIn)] == ["first", "second"]
    assert not any(isinstance(record, Input) for record in records)
    assert isinstance(records[-1], Namespace), "variables of an earlier kernel are dropped"
    assert records[-1].fresh
    assert list(past_for_watchers([], same_kernel=False)) == []


def test_only_the_newest_past_records_are_replayed(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "MAX_PAST_RECORDS", 3)
    monkeypatch.setattr(broadcast, "MAX_PAST_CHARS", 100)
    for number in range(5):
        emit(log, tags.NOTICE, str(number))
    assert texts(handler(log).watch()) == ["2", "3", "4"]
    emit(log, tags.NOTICE, "x" * 99)
    assert texts(handler(log).watch()) == ["4", "x" * 99]
    emit(log, tags.DISPLAY, "picture", cell=1, mime="image/png", data="x" * 101)
    assert texts(handler(log).watch()) == []


def test_slow_watcher_misses_records_and_blocks_nobody(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = unread_feed(log, monkeypatch, max_records=2)
    assert texts(feed) == ["0", "1"]


# Other agents' cells in the transcript, in the queue and in the model's prompt.


@pytest.fixture
def bus() -> Iterator[logging.Logger]:
    log = setup_logging(None)
    yield log
    close_logging(log)


def joined_agents(log: logging.Logger) -> JoinedAgents:
    info = SessionInfo(log, load_settings(model="claude"), "moon", "claude")
    runtime: Any = SimpleNamespace(log=log, approvals=UserRequests(), info=info)
    return JoinedAgents(runtime)


def record(tag: str, text: str = "", **attrs: Any) -> Record:
    return made(tag, text, {**ABOUT, **attrs}, time.time())


def cells(transcript: Transcript) -> list[Cell]:
    return [entry for entry in transcript.entries if isinstance(entry, Cell)]


def test_waiting_code_and_running_code_share_one_entry() -> None:
    transcript = Transcript(since=0)
    transcript.fold([record(tags.APPROVAL, "x = 1", state="waiting")])
    (cell,) = cells(transcript)
    assert (cell.approval, cell.author, cell.agent_index) == ("waiting", "codex", 2)
    assert cell.code == "x = 1"
    transcript.fold([made(tags.USER_CHAT, "a question", {"turn": 1}, time.time())])
    transcript.fold(
        [
            record(tags.APPROVAL, "x = 2", state="edited"),
            record(tags.ASSISTANT_REPL_IN, "x = 2", cell=7),
            record(tags.ASSISTANT_REPL_OUT, "", cell=7, status="ok", duration=0.1, kinds=[]),
        ]
    )
    assert cells(transcript) == [cell]
    assert (cell.approval, cell.code, cell.number, cell.status) == ("", "x = 2", 7, "ok")


def test_declined_code_stays_in_the_transcript_with_its_reason() -> None:
    transcript = Transcript(since=0)
    waiting = record(tags.APPROVAL, "x = 1", state="waiting")
    transcript.fold([waiting, waiting.changed(state="skipped", reason="not now")])
    (declined,) = cells(transcript)
    assert (declined.approval, declined.reason) == ("skipped", "not now")


def test_model_sees_code_of_other_agents_but_not_its_own_again() -> None:
    log = logging.Logger("test")
    prompt = PromptHandler()
    log.addHandler(prompt)
    emit(log, tags.ASSISTANT_REPL_IN, "its_own = 1", cell=1, party="claude")
    emit(log, tags.ASSISTANT_REPL_IN, "of_another = 1", cell=2, party="codex", guest=0)
    context = prompt.get_context()
    assert "of_another" in context
    assert "its_own" not in context


def test_each_agent_has_its_own_name_and_colour(bus: logging.Logger) -> None:
    agents = joined_agents(bus)
    joined = [
        agents.join(name, lambda text: None, None)
        for name in ("Claude Code", "claude-code", "you", "", "é" * 50, "claude")
    ]
    assert [(agent.name, agent.colour) for agent in joined] == [
        *(("claude-code", 0), ("claude-code-2", 1), ("you-2", 2), ("agent", 3)),
        *(("agent-2", 0), ("claude-2", 1)),
    ]


def test_unresponsive_agent_is_disconnected_without_waiting(bus: logging.Logger) -> None:
    read = threading.Event()
    agents = joined_agents(bus)
    agents.join("codex", lambda text: [read.wait()].clear(), None)
    try:
        assert agents.disconnect("codex") == "Disconnected codex."
    finally:
        read.set()


def test_user_inputs_queue_before_those_of_agents(bus: logging.Logger) -> None:
    inbox = Inbox(bus)
    cancelled: list[str] = []
    item_id, _ = inbox.put_agent_cell("codex", "a", lambda: None, lambda: cancelled.append("a"))
    inbox.put("python", "mine")
    _, cells_before = inbox.put_agent_cell("codex", "b", lambda: None, lambda: None)
    inbox.put("python", "mine too")
    assert cells_before == 2
    assert inbox.cancel(item_id) is not None
    assert cancelled == ["a"]
    items = [inbox.next_item("python") for _ in range(3)]
    assert [item and item.text for item in items] == ["mine", "mine too", "b"]


def test_cell_that_waits_for_cells_does_not_wait_for_itself(bus: logging.Logger) -> None:
    inbox = Inbox(bus)
    inbox.put("python", "mine")
    unfinished_counts: SimpleQueue[int] = SimpleQueue()

    def serve() -> None:
        inbox.next_item("python")
        unfinished_counts.put(inbox.wait_for_cells(1_000))

    start_thread("cells", serve)
    assert unfinished_counts.get(timeout=10) == 1


def test_cell_that_has_run_long_is_not_waited_for(bus: logging.Logger) -> None:
    times_s = iter((0.0, 1_001.0))
    inbox = Inbox(bus, times_s.__next__)
    inbox.put("python", "mine")
    inbox.put("python", "mine too")
    started = threading.Event()
    unfinished_counts: SimpleQueue[int] = SimpleQueue()

    def serve() -> None:
        inbox.next_item("python")
        started.set()

    start_thread("cells", serve)
    assert started.wait(10)
    start_thread("export", lambda: unfinished_counts.put(inbox.wait_for_cells(1_000)))
    assert unfinished_counts.get(timeout=10) == 2


def test_question_of_the_start_waits_until_the_cells_before_it_have_ended(
    bus: logging.Logger,
) -> None:
    inbox = Inbox(bus)
    first_id = inbox.put("python", "first")
    inbox.put("ask", "question")
    inbox.put("python", "second")
    served: SimpleQueue[str] = SimpleQueue()

    def serve() -> None:
        while (item := inbox.next_item("ask")) is not None:
            served.put(item.text)

    thread = start_thread("questions", serve)
    try:
        assert served.empty()
        item = inbox.next_item("python")
        assert item is not None
        assert item.id == first_id
        inbox.put("ask", "later, while the first cell runs")
        assert served.get(timeout=60) == "later, while the first cell runs"
        inbox.next_item("python")
        assert served.get(timeout=60) == "question"
    finally:
        inbox.close()
        thread.join(60)


def test_interrupting_the_models_turn_leaves_an_agents_approval_waiting(project: Path) -> None:
    session = Session(load_settings(model="demo"), ProcessKernel(), HeadlessFrontend())
    try:
        agents = session.joined_agents
        agent = agents.join("codex", lambda text: None, None)
        is_asked = threading.Event()
        call = AgentCall(agent, lambda frame: is_asked.set())
        request = agents.new_call_id()
        approved_code: Future[str] = Future()

        def request_approval() -> None:
            approved_code.set_result(agents.request_approval(call, request, "x = 1"))

        start_thread("agent", request_approval)
        assert is_asked.wait(60)
        session.agent.interrupt()
        assert session.approvals.answer(request, Decision("run"))
        assert approved_code.result(60) == "x = 1"
    finally:
        session.close()
