"""A session's logger: its own, in one order, and gone without a trace."""

from __future__ import annotations

import logging
import logging.config
import threading
from collections.abc import Iterator

import pytest

from mahtab_tui.bus.logger import DisplayHandler, close_logging, setup_logging
from mahtab_tui.bus.records import KINDS, Record
from mahtab_tui.store.sqlite import MemoryStore
from tests import tags
from tests.records import emit


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    log, _ = setup_logging()
    yield log
    close_logging(log)


def texts(records: list[Record]) -> list[str]:
    return [record.text for record in records]


def test_streams_are_not_stored() -> None:
    assert any(tag.endswith("-stream") for tag, _ in KINDS)
    assert not any(kind.in_store for (tag, _), kind in KINDS.items() if tag.endswith("-stream"))


def test_everything_in_the_prompt_is_also_stored() -> None:
    assert all(kind.in_store for kind in KINDS.values() if kind.in_prompt)


def test_a_plain_log_call_is_a_notice(log: logging.Logger) -> None:
    display = DisplayHandler()
    log.addHandler(display)
    log.debug("no one's business")
    log.warning("%d files", 3)
    assert [(record.tag, record.text, record.attrs) for record in display.pop_records()] == [
        ("notice", "3 files", {"level": "warning"})
    ]


def test_two_sessions_do_not_mix() -> None:
    first_store, second_store = MemoryStore(), MemoryStore()
    first, first_prompt = setup_logging(first_store)
    second, second_prompt = setup_logging(second_store)
    emit(first, tags.USER_REPL_IN, "alpha", cell=1)
    emit(second, tags.USER_REPL_IN, "beta", cell=1)
    assert (texts(first_store.records), texts(second_store.records)) == (["alpha"], ["beta"])
    assert "alpha" not in second_prompt.get_context()
    close_logging(first)
    emit(second, tags.USER_REPL_IN, "gamma", cell=2)
    assert texts(second_store.records) == ["beta", "gamma"]
    assert "gamma" not in first_prompt.get_context()
    close_logging(second)


def test_process_logger_writes_to_the_newest_open_session() -> None:
    outer = logging.getLogger("mahtab")
    first_store, second_store = MemoryStore(), MemoryStore()
    first, _ = setup_logging(first_store)
    second, _ = setup_logging(second_store)
    emit(outer, tags.NOTICE, "to the second")
    close_logging(second)
    emit(outer, tags.NOTICE, "to the first")
    close_logging(first)
    assert texts(second_store.records) == ["to the second"]
    assert texts(first_store.records) == ["to the first"]


def test_closing_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    outer = logging.getLogger("mahtab")
    monkeypatch.setattr(outer, "level", logging.ERROR)
    monkeypatch.setattr(outer, "propagate", True)
    before = (list(outer.handlers), outer.level, outer.propagate, threading.active_count())
    for _ in range(3):
        log, _ = setup_logging(MemoryStore())
        log.addHandler(DisplayHandler())
        emit(log, tags.USER_REPL_OUT_STREAM, "begun", cell=1, kind="stdout")
        close_logging(log)
        close_logging(log)
        assert log.handlers == []
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()  # cancelled: ends at once
    assert (list(outer.handlers), outer.level, outer.propagate, threading.active_count()) == before


def test_the_configuration_of_the_process_does_not_reach_a_session() -> None:
    store = MemoryStore()
    log, _ = setup_logging(store)
    logging.disable(logging.CRITICAL)
    try:
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": True})
        emit(log, tags.USER_REPL_IN, "heard", cell=1)
    finally:
        logging.disable(logging.NOTSET)
        logging.getLogger("mahtab").disabled = False
        close_logging(log)
    assert texts(store.records) == ["heard"]


def test_a_record_factory_of_the_process_does_not_reach_a_session(log: logging.Logger) -> None:
    def broken(*args: object, **kwargs: object) -> logging.LogRecord:
        raise RuntimeError

    display = DisplayHandler()
    log.addHandler(display)
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(broken)
    try:
        emit(log, tags.NOTICE, "heard")
    finally:
        logging.setLogRecordFactory(before)
    assert texts(display.pop_records()) == ["heard"]


def test_records_of_several_threads_have_one_order_for_all_handlers(log: logging.Logger) -> None:
    first, second = DisplayHandler(), DisplayHandler()
    log.addHandler(first)
    log.addHandler(second)

    def work(number: int) -> None:
        for count in range(300):
            emit(log, tags.NOTICE, f"{number} {count}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    order = texts(first.pop_records())
    assert order == texts(second.pop_records())
    for number in range(6):
        assert [text for text in order if text.startswith(f"{number} ")] == [
            f"{number} {count}" for count in range(300)
        ]


def test_record_reaches_every_handler_before_the_next_one_is_logged(log: logging.Logger) -> None:
    begun, logged = threading.Event(), threading.Event()
    reached: list[bool] = []

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg == "slow":
                begun.set()
                logged.wait(0.2)  # in vain: the other thread's record has to wait for this one

    display = DisplayHandler()
    log.addHandler(Slow())
    log.addHandler(display)

    def other() -> None:
        begun.wait()
        emit(log, tags.NOTICE, "other")
        reached.append("other" in texts(display.pop_records()))
        logged.set()

    thread = threading.Thread(target=other)
    thread.start()
    emit(log, tags.NOTICE, "slow")
    thread.join()
    assert reached == [True]


def test_record_logged_by_a_handler_follows_the_record_it_handles(log: logging.Logger) -> None:
    class Answering(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg == "question":
                emit(log, tags.NOTICE, "answer")

    display = DisplayHandler()
    log.addHandler(Answering())
    log.addHandler(display)
    emit(log, tags.NOTICE, "question")
    assert texts(display.pop_records()) == ["question", "answer"]


def test_raising_handler_does_not_silence_the_bus(log: logging.Logger) -> None:
    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError

    raising, display = Raising(), DisplayHandler()
    log.addHandler(raising)
    with pytest.raises(ValueError):  # noqa: PT011
        emit(log, tags.NOTICE, "one")
    log.removeHandler(raising)
    log.addHandler(display)
    emit(log, tags.NOTICE, "two")
    assert texts(display.pop_records()) == ["two"]


def test_pieces_of_one_stream_are_joined_and_others_are_not(log: logging.Logger) -> None:
    display = DisplayHandler()
    log.addHandler(display)
    for text, kind in (("a", "stdout"), ("b", "stdout"), ("c", "traceback"), ("d", "stdout")):
        emit(log, tags.USER_REPL_OUT_STREAM, text, cell=1, kind=kind)
    emit(log, tags.USER_REPL_OUT_STREAM, "e", cell=2, kind="stdout")
    emit(log, tags.NOTICE, "n")
    emit(log, tags.USER_REPL_OUT_STREAM, "f", cell=2, kind="stdout")
    assert texts(display.pop_records()) == ["ab", "c", "d", "e", "n", "f"]
    emit(log, tags.USER_REPL_OUT_STREAM, "g", cell=2, kind="stdout")
    assert texts(display.pop_records()) == ["g"]
    assert display.pop_records() == []


def test_nothing_is_lost_between_logging_threads_and_the_reader(log: logging.Logger) -> None:
    display = DisplayHandler()
    log.addHandler(display)

    def work(cell: int) -> None:
        for _ in range(2_000):
            emit(log, tags.USER_REPL_OUT_STREAM, "x", cell=cell, kind="stdout")

    threads = [threading.Thread(target=work, args=(cell,)) for cell in range(3)]
    for thread in threads:
        thread.start()
    received: list[Record] = []
    while any(thread.is_alive() for thread in threads):
        received += display.pop_records()
    received += display.pop_records()
    assert sum(len(record.text) for record in received) == 6_000
