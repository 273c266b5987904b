"""Garbage is collected when nobody feels it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mahtab_tui.tui.terminal_app import (
    HEAVY,
    LONG_OVERDUE,
    OVERDUE,
    PAUSE,
    QUIET,
    SLICE,
    WORTH_IT,
    Collector,
)


@pytest.fixture(autouse=True)
def own_collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.enable()


def collections(generation: int) -> int:
    return int(gc.get_stats()[generation]["collections"])


class Clock:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr("time.thread_time", lambda: 0.0)


def grow_old(collector: Collector, young: int) -> None:
    """Let so many collections of the youngest pass, then a tick."""
    for _ in range(young):
        gc.collect(0)
    collector.tick()


def settled() -> Collector:
    collector = Collector()
    collector.settle()
    gc.collect()
    return collector


def test_nothing_is_collected_before_the_first_screen() -> None:
    collector = Collector()
    assert not gc.isenabled()
    collector.settle()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_slice_is_collected_between_keys_when_worthwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, collector = Clock(monkeypatch), settled()
    slices, whole = collections(1), collections(2)
    collector.note_key()
    grow_old(collector, SLICE)
    assert collections(1) == slices, "the echo of the key is not drawn yet"
    clock.now += PAUSE
    collector.tick()
    assert collections(1) == slices + 1
    grow_old(collector, SLICE - 1)
    assert (collections(1), collections(2)) == (slices + 1, whole)


def test_constant_typing_still_triggers_slices_and_full_collections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Clock(monkeypatch)
    collector = settled()
    slices, whole = collections(1), collections(2)
    for _ in range(LONG_OVERDUE):
        collector.note_key()
        grow_old(collector, OVERDUE)
    assert (collections(1), collections(2)) == (slices + LONG_OVERDUE, whole + 1)


def test_full_collection_runs_in_a_quiet_moment_if_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, collector = Clock(monkeypatch), settled()
    whole = collections(2)
    collector.note_key()
    clock.now += PAUSE
    for _ in range(WORTH_IT):
        grow_old(collector, SLICE)
    assert collections(2) == whole
    clock.now += QUIET
    collector.tick()
    assert collections(2) == whole + 1
    collector.tick()
    assert collections(2) == whole + 1, "there is nothing new to look at"


def test_survivors_of_a_long_collection_are_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, collector = Clock(monkeypatch), settled()
    libraries = [[number] for number in range(1_000)]
    times = iter([0.0, HEAVY])
    monkeypatch.setattr("time.thread_time", lambda: next(times))
    clock.now += QUIET
    for _ in range(WORTH_IT):
        grow_old(collector, SLICE)
    assert set(map(id, libraries)).isdisjoint(map(id, gc.get_objects())), (
        "what is frozen is not among them"
    )
