"""From the bus to a store, also one that fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from mahtab_tui.bus import logger
from mahtab_tui.bus.logger import DisplayHandler, StoreError, close_logging, setup_logging
from mahtab_tui.bus.records import Record
from mahtab_tui.store.sqlite import MemoryStore
from tests import tags
from tests.records import emit


class FailingStore(MemoryStore):
    """A store that works or not, as a test says, and tells of every attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = False
        self.never = False
        self.attempts = 0
        self.written = threading.Condition()

    def append(self, record: Record) -> None:
        with self.written:
            self.attempts += 1
            self.written.notify_all()
            if self.failing:
                raise StoreError("The disk is full.")
            if record.text == "never" or (self.never and record.tag == tags.NOTICE):
                raise ValueError(record.text)
            super().append(record)

    def partial(self, key: str, record: Record | None) -> None:
        with self.written:
            super().partial(key, record)
            self.written.notify_all()


Bus = tuple[logging.Logger, FailingStore, DisplayHandler]


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    monkeypatch.setattr(logger, "INTERVAL", 0.01)
    monkeypatch.setattr(logger, "SHARE", 1)
    store, display = FailingStore(), DisplayHandler()
    log, _ = setup_logging(store)
    log.addHandler(display)
    yield log, store, display
    close_logging(log)


def notices(log: logging.Logger, display: DisplayHandler) -> list[str]:
    emit(log, tags.QUEUE, items=[])  # waits for the record that another thread is just logging
    return [record.text for record in display.pop_records() if record.tag == tags.NOTICE]


def test_records_are_stored_in_order_without_streams(bus: Bus) -> None:
    log, store, _ = bus
    emit(log, tags.USER_REPL_IN, "x", cell=1)
    emit(log, tags.USER_REPL_OUT_STREAM, "1", cell=1, kind="value")
    emit(log, tags.QUEUE, items=[])
    emit(log, tags.USER_REPL_OUT, "1", cell=1)
    assert [record.tag for record in store.records] == [tags.USER_REPL_IN, tags.USER_REPL_OUT]


def test_running_output_is_stored_even_if_nothing_more_is_logged(bus: Bus) -> None:
    log, store, _ = bus
    emit(log, tags.USER_REPL_OUT_STREAM, "one ", cell=7, kind="stdout")
    emit(log, tags.USER_REPL_OUT_STREAM, "two", cell=7, kind="traceback")
    with store.written:
        assert store.written.wait_for(
            lambda: [record.text for record in store.partials.values()] == ["one two"], timeout=60
        )
        (record,) = store.partials.values()
    assert (record.tag, record.attrs) == (
        tags.USER_REPL_OUT,
        {"cell": 7, "kinds": [["stdout", 4], ["traceback", 3]]},
    )
    emit(log, tags.USER_REPL_OUT, "late", cell=7, late=True)
    assert store.partials
    emit(log, tags.USER_REPL_OUT, "one two", cell=7)
    assert store.partials == {}
    assert [record.text for record in store.records] == ["late", "one two"]


def test_running_answer_is_stored_with_its_fences(bus: Bus) -> None:
    log, store, _ = bus
    for kind, block, text in (
        ("chat", 0, "So:"),
        ("code", 0, "x = 1\n"),
        ("chat", 1, "and\n"),
        ("code", 1, "y"),
    ):
        emit(
            log,
            tags.ASSISTANT_CHAT_STREAM,
            text,
            turn=1,
            step=0,
            party="claude",
            kind=kind,
            block=block,
        )
    whole = "So:\n```python\nx = 1\n```\nand\n```python\ny"
    with store.written:
        assert store.written.wait_for(
            lambda: [record.text for record in store.partials.values()] == [whole], timeout=60
        )
        (record,) = store.partials.values()
    assert (record.tag, record.attrs) == (
        tags.ASSISTANT_CHAT,
        {"turn": 1, "step": 0, "party": "claude", "stopped": False},
    )


def test_only_the_restarted_answer_is_stored() -> None:
    store = MemoryStore()
    log, _ = setup_logging(store)
    about = {"turn": 1, "step": 0, "party": "claude"}
    emit(log, tags.ASSISTANT_CHAT_STREAM, "Hello fr", **about, kind="chat", block=0)
    emit(log, tags.ASSISTANT_CHAT_STREAM, **about, fresh=True)
    emit(log, tags.ASSISTANT_CHAT_STREAM, "Hello from", **about, kind="chat", block=0)
    close_logging(log)
    assert [record.text for record in store.partials.values()] == ["Hello from"]


def test_unfinished_stream_is_stored_on_close() -> None:
    store = MemoryStore()
    log, _ = setup_logging(store)
    emit(log, tags.USER_REPL_OUT_STREAM, "half", cell=1, kind="stdout")
    close_logging(log)
    assert [record.text for record in store.partials.values()] == ["half"]


def test_failing_store_gives_one_notice_and_loses_nothing(bus: Bus) -> None:
    log, store, display = bus
    emit(log, tags.USER_REPL_IN, "before", cell=1)
    store.failing = True
    for number in range(50):
        emit(log, tags.USER_REPL_IN, f"{number}", cell=number)
    with store.written:
        seen = store.attempts
        assert store.written.wait_for(
            lambda: store.attempts > seen + 2, timeout=60
        )  # it goes on trying by itself
    assert notices(log, display) == [
        "The disk is full. The session continues; new records stay in memory until they can be saved."
    ]
    store.failing = False
    with store.written:
        assert store.written.wait_for(
            lambda: "Saving the session works again." in [record.text for record in store.records],
            timeout=60,
        )
    assert notices(log, display) == ["Saving the session works again."]
    assert [record.text for record in store.records if record.tag == tags.USER_REPL_IN] == [
        "before",
        *map(str, range(50)),
    ]


def test_each_series_of_failures_is_reported_once(bus: Bus) -> None:
    log, store, display = bus
    for _ in range(3):
        store.failing = True
        emit(log, tags.USER_REPL_IN, "x", cell=1)
        emit(log, tags.USER_REPL_IN, "y", cell=2)
        assert len(notices(log, display)) == 1
        store.failing = False
        wanted = len(store.records) + 4
        with store.written:
            while len(store.records) < wanted:
                assert store.written.wait(timeout=60)
        assert len(notices(log, display)) == 1


def test_backlog_is_bounded_and_lost_records_are_reported(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logger, "BACKLOG", 1_000)
    log, store, display = bus
    store.failing = True
    for number in range(30):
        emit(log, tags.USER_REPL_OUT, f"{number:03}" + "x" * 97, cell=number)
    emit(log, tags.USER_REPL_OUT, "y" * 5_000, cell=99)
    emit(log, tags.USER_REPL_OUT, "last", cell=100)
    store.failing = False
    with store.written:
        assert store.written.wait_for(
            lambda: any("missing" in record.text for record in store.records), timeout=60
        )
    stored = [record.text for record in store.records if record.tag == tags.USER_REPL_OUT]
    assert stored == ["last"]
    assert any("32 records did not fit" in text for text in notices(log, display))


def test_backlog_is_written_on_close() -> None:
    store = FailingStore()
    log, _ = setup_logging(store)
    store.failing = True
    emit(log, tags.USER_REPL_IN, "x", cell=1)
    store.failing = False
    close_logging(log)
    assert [record.text for record in store.records if record.tag == tags.USER_REPL_IN] == ["x"]


def test_unstorable_record_is_reported_and_the_others_are_stored(bus: Bus) -> None:
    log, store, display = bus
    store.never = True
    for text in ("before", "never", "after", "never"):
        emit(log, tags.USER_REPL_IN, text, cell=1)
    [notice] = notices(log, display)
    assert "A record could not be saved (ValueError)" in notice
    assert [record.text for record in store.records] == ["before", "after"]
