"""A session's records for those who watch it."""

from __future__ import annotations

import logging

import pytest

from mahtab_tui.bus.records import Input, Namespace, ReplIn, ReplOut
from mahtab_tui.session import sharing
from mahtab_tui.session.sharing import Broadcast, Feed, past_for_watchers
from tests import tags
from tests.records import emit, made
from tests.tui.story import change


@pytest.fixture
def log() -> logging.Logger:
    made = logging.Logger("test")
    made.addHandler(Broadcast())
    return made


def handler(log: logging.Logger) -> Broadcast:
    found = log.handlers[0]
    assert isinstance(found, Broadcast)
    return found


def texts(feed: Feed) -> list[str]:
    return [record.text for record in list(feed.queue) if record is not None]


def test_watcher_gets_the_past_without_streams_and_then_everything_new(
    log: logging.Logger,
) -> None:
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


def test_late_watcher_gets_the_printed_text_and_pictures_of_a_running_cell(
    log: logging.Logger,
) -> None:
    emit(log, tags.USER_REPL_IN, "code", cell=1)
    emit(log, tags.USER_REPL_OUT_STREAM, "one ", cell=1)
    emit(log, tags.USER_REPL_OUT_STREAM, "two", cell=1)
    emit(log, tags.DISPLAY, "<P>", cell=1, mime="image/png", data="x")
    emit(log, tags.USER_REPL_OUT_STREAM, "<P>", cell=1, kind="display")
    emit(log, tags.USER_REPL_OUT_STREAM, "three", cell=1)
    assert texts(handler(log).watch()) == ["code", "one two", "<P>", "<P>", "three"]
    emit(log, tags.USER_REPL_OUT, "one two<P>three", cell=1)
    assert texts(handler(log).watch()) == ["code", "<P>", "one two<P>three"]


def test_stream_backlog_is_limited_to_its_end(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "GROWING", 10)
    for number in range(100):
        emit(log, tags.USER_REPL_OUT_STREAM, f"{number} ", cell=1)
    assert texts(handler(log).watch()) == ["97 98 99 "]


def test_restarted_answer_drops_its_pieces_and_searches_are_not_replayed(
    log: logging.Logger,
) -> None:
    emit(log, tags.ASSISTANT_CHAT_STREAM, "no", turn=1, step=0)
    emit(log, tags.ASSISTANT_CHAT_STREAM, "", turn=1, step=0, fresh=True)
    emit(log, tags.ASSISTANT_CHAT_STREAM, "yes", turn=1, step=0)
    emit(log, tags.RLM_CHAT_STREAM, "searching", tree="t", node="1", turn=1, seq=0)
    assert texts(handler(log).watch()) == ["yes"]


PAST = [
    made(tags.USER_REPL_IN, "first", {"cell": 1}),
    made(tags.NAMESPACE, "", {"cell": 1, "party": "you", "changes": [change("n", "int", "1")]}),
    made(tags.USER_REPL_OUT, "done", {"cell": 1, "status": "ok"}),
    made(tags.USER_REPL_IN, "second", {"cell": 2}),
    made(tags.INPUT, "name?", {"request": "1", "cell": 2, "state": "waiting"}),
]


@pytest.mark.parametrize("same_kernel", [False, True])
def test_past_of_a_resumed_session_has_no_running_entries(
    same_kernel: bool,
) -> None:
    feed = Broadcast(past_for_watchers(PAST, same_kernel=same_kernel)).watch()
    seen = [record for record in feed.queue if record is not None]
    ended = [record.cell for record in seen if isinstance(record, ReplOut)]
    assert ended == ([1] if same_kernel else [1, 2])
    assert [record.text for record in seen if isinstance(record, ReplIn)] == ["first", "second"]
    assert not any(isinstance(record, Input) for record in seen)
    assert isinstance(seen[-1], Namespace), "variables of an earlier kernel are forgotten"
    assert seen[-1].fresh
    assert list(past_for_watchers([], same_kernel=False)) == []


def test_only_the_newest_past_records_are_replayed(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "BACKLOG", 3)
    monkeypatch.setattr(sharing, "CHARACTERS", 100)
    for number in range(5):
        emit(log, tags.NOTICE, str(number))
    assert texts(handler(log).watch()) == ["2", "3", "4"]
    emit(log, tags.NOTICE, "x" * 99)
    assert texts(handler(log).watch()) == ["4", "x" * 99]
    emit(log, tags.NOTICE, "y" * 101)
    assert texts(handler(log).watch()) == []


def test_past_pictures_count_by_their_data_size(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "CHARACTERS", 100)
    for number in range(3):
        emit(log, tags.DISPLAY, str(number), cell=1, mime="image/png", data="x" * 60)
    assert texts(handler(log).watch()) == ["2"]


def test_slow_watcher_misses_records_and_blocks_nobody(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "WAITING", 2)
    feed = handler(log).watch()
    for number in range(5):
        emit(log, tags.NOTICE, str(number))
    assert texts(feed) == ["0", "1"]
