"""Garbage is collected when nobody feels it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mahtab_tui.tui.collector import QUIET, WORTH_IT, Collector


@pytest.fixture(autouse=True)
def own_collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.enable()


def whole_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def make_garbage_worth_it() -> None:
    for _ in range(WORTH_IT + 1):
        gc.collect(0)


def test_nothing_is_collected_before_the_first_picture() -> None:
    collector = Collector()
    assert not gc.isenabled()
    collector.settle()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_the_old_are_collected_in_a_quiet_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    collector = Collector()
    collector.settle()
    gc.collect()
    make_garbage_worth_it()
    before = whole_collections()
    collector.key()
    collector.tick()
    assert whole_collections() == before
    now += QUIET
    collector.tick()
    assert whole_collections() == before + 1
    collector.tick()
    assert whole_collections() == before + 1, "there is nothing new to look at"
