"""A session's records for those who watch it."""

from __future__ import annotations

import logging

import pytest

from mahtab_tui.bus import tags
from mahtab_tui.session import broadcast
from mahtab_tui.session.broadcast import Broadcast, Feed
from tests.records import emit


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


def test_a_watcher_gets_the_past_without_its_streams_and_then_all_that_comes(log: logging.Logger) -> None:
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


def test_pieces_of_streams_are_not_kept_for_who_comes_later(log: logging.Logger) -> None:
    first = handler(log).watch()
    emit(log, tags.USER_REPL_OUT_STREAM, "piece", cell=1)
    assert texts(first) == ["piece"]
    assert texts(handler(log).watch()) == []


def test_the_newest_of_the_past_is_kept(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "KEPT", 3)
    monkeypatch.setattr(broadcast, "CHARACTERS", 100)
    for number in range(5):
        emit(log, tags.NOTICE, str(number))
    assert texts(handler(log).watch()) == ["2", "3", "4"]
    emit(log, tags.NOTICE, "x" * 99)
    assert texts(handler(log).watch()) == ["4", "x" * 99]
    emit(log, tags.NOTICE, "y" * 101)
    assert texts(handler(log).watch()) == []


def test_pictures_of_the_past_count_by_their_data(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "CHARACTERS", 100)
    for number in range(3):
        emit(log, tags.DISPLAY, str(number), cell=1, mime="image/png", data="x" * 60)
    assert texts(handler(log).watch()) == ["2"]


def test_a_watcher_that_reads_too_slowly_misses_some_and_holds_nobody_up(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "WAITING", 2)
    feed = handler(log).watch()
    for number in range(5):
        emit(log, tags.NOTICE, str(number))
    assert texts(feed) == ["0", "1"]
