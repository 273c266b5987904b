"""Records reach the panes at a pace that leaves the main thread time for keys."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from mahtab_tui.bus.records import Notice, Record
from mahtab_tui.tui import terminal_app
from mahtab_tui.tui.terminal_app import MAX_DELAY, RATE, RecordPump


class Drawing:
    """A drain, and a clock of its own; what is folded takes the time of the thread that `cost`
    says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
        self.now = self.worked = 1000.0
        self.cost = cost
        self.texts: list[str] = []
        self.log = logging.Logger("test")
        self.drain = RecordPump()
        self.drain.folds = [self._fold]
        self.drain.begin(self.log)
        monkeypatch.setattr(terminal_app, "monotonic", lambda: self.now)
        monkeypatch.setattr(terminal_app, "thread_time", lambda: self.worked)

    def _fold(self, records: Sequence[Record]) -> None:
        self.texts += [record.text for record in records]
        self.worked += self.cost

    def log_text(self, text: str) -> None:
        self.log.handle(
            logging.makeLogRecord({"msg": text, "levelno": logging.INFO, "record": Notice(text)})
        )

    def second(self) -> int:
        """How often something was handed on in a second in which something is said before each
        look."""
        handed = 0
        for look in range(round(1 / RATE)):
            before = len(self.texts)
            self.log_text(str(look))
            self.drain.tick()
            self.now += RATE
            handed += len(self.texts) > before
        return handed


def test_fast_drawing_gets_records_at_every_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing(monkeypatch, 0.005)
    assert drawing.second() == 30
    assert drawing.texts == [str(number) for number in range(30)]


def test_slow_drawing_skips_ticks_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing = Drawing(monkeypatch, 0.015)
    assert drawing.second() == 15
    drawing.now += RATE
    drawing.drain.tick()
    assert drawing.texts == [str(number) for number in range(30)]


def test_record_waits_no_longer_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing = Drawing(monkeypatch, 10)
    drawing.log_text("first")
    drawing.drain.tick()
    drawing.log_text("second")
    drawing.now += MAX_DELAY - 0.01
    drawing.drain.tick()
    assert drawing.texts == ["first"]
    drawing.now += 0.011
    drawing.drain.tick()
    assert drawing.texts == ["first", "second"]


def test_nothing_waits_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = Drawing(monkeypatch, 10)
    drawing.log_text("first")
    drawing.drain.tick()
    drawing.now += 60
    drawing.log_text("second")
    drawing.drain.tick()
    assert drawing.texts == ["first", "second"]
