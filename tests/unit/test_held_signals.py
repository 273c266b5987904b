"""Signals that come while a process is made: nothing stays behind."""

from __future__ import annotations

import gc
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from mahtab_tui.worker.guard import trial
from mahtab_tui.worker.link import held_signals
from mahtab_tui.worker.link.held_signals import HeldSignals
from mahtab_tui.worker.undo import checkpoint_process

STRESS_ROUNDS = 150
STEP_S = 0.00004
"""The time by which a signal comes later in each round."""


def _wait_for_ever() -> NoReturn:
    while True:
        select.select([], [], [])


_made: list[checkpoint_process.Checkpoint] = []
"""Checkpoints that `_fork_checkpoint` has handed over."""


def _fork_checkpoint() -> None:
    _made.append(checkpoint_process.fork(str))


def _end_made() -> None:
    """End what was handed over: only what was not is left behind."""
    while _made:
        checkpoint = _made.pop()
        checkpoint.end()
        checkpoint.wait()


MAKERS = {
    "trial": lambda: trial.ends_within_limits(_wait_for_ever),
    "checkpoint": _fork_checkpoint,
}


def _children_and_descriptors() -> set[str]:
    """Return what the process has. What other tests have left behind may go at any time."""
    thread = threading.get_native_id()
    children = Path(f"/proc/self/task/{thread}/children").read_text().split()
    listed = os.listdir("/proc/self/fd")
    # Listing takes a descriptor, which is closed by now.
    descriptors = [name for name in listed if os.path.lexists(f"/proc/self/fd/{name}")]
    return {*children, *(f"descriptor {name}" for name in descriptors)}


def _raise(*_: object) -> NoReturn:
    raise TimeoutError


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Signals that a function has handled."""
    handled_signals: list[int] = []

    def handle(number: int, frame: object) -> None:
        handled_signals.append(number)
        raise KeyboardInterrupt

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGALRM, _raise)
    yield handled_signals
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Processes that are forked, each of which is interrupted at once, as the one that forks it is."""
    pids: list[int] = []
    fork = os.fork

    def fork_and_interrupt() -> int:
        pid = fork()
        pids.append(pid)
        os.kill(os.getpid(), signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return pid

    monkeypatch.setattr(os, "fork", fork_and_interrupt)
    return pids


@pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
def test_an_interrupt_right_after_a_fork_leaves_no_process(
    handled: list[int], forks: list[int], make: Callable[[], object]
) -> None:
    before = _children_and_descriptors()
    with pytest.raises(KeyboardInterrupt):
        make()
    _end_made()
    assert len(forks) == 1
    assert handled == [signal.SIGINT]
    assert _children_and_descriptors() <= before


@pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
@pytest.mark.usefixtures("handled")
def test_an_exception_of_a_signal_at_any_time_leaves_no_process(make: Callable[[], object]) -> None:
    gc.collect()
    before = _children_and_descriptors()
    raised = 0
    for count in range(1, STRESS_ROUNDS):
        try:
            signal.setitimer(signal.ITIMER_REAL, count * STEP_S)
            make()
        except TimeoutError:
            raised += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        _end_made()
        assert _children_and_descriptors() <= before
    assert raised > 1


def test_a_signal_is_handled_although_the_function_of_another_ends_the_start_of_a_block(
    handled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    getsignal = held_signals._getsignal

    def signal_both(number: int) -> object:
        # The function of the first has been replaced by now, that of the second has not.
        if number == signal.SIGALRM:
            monkeypatch.setattr(held_signals, "_getsignal", getsignal)
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGALRM)
        return getsignal(number)

    monkeypatch.setattr(held_signals, "_getsignal", signal_both)
    with pytest.raises(KeyboardInterrupt), HeldSignals():
        pass
    assert handled == [signal.SIGINT]
    assert signal.getsignal(signal.SIGALRM) is _raise


def test_a_process_ignores_interrupts_and_has_the_other_handlers(handled: list[int]) -> None:
    reader, writer = os.pipe()

    def report() -> None:
        signal.raise_signal(signal.SIGINT)
        is_restored = signal.getsignal(signal.SIGALRM) is _raise
        os.write(writer, b"restored" if is_restored else b"other")

    with HeldSignals() as held:
        # Concerns this process only.
        signal.raise_signal(signal.SIGALRM)
        pid = held.fork(report)
        os.close(writer)
        assert os.read(reader, 100) == b"restored"
        os.waitpid(pid, 0)
        os.close(reader)
        with pytest.raises(TimeoutError), held.passed_on():
            pass
    assert handled == []


def test_signals_wait_for_the_end_of_the_block_and_come_once(handled: list[int]) -> None:
    outer_handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)]

    def hold_two() -> None:
        with HeldSignals(), HeldSignals():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert handled == []

    with pytest.raises(KeyboardInterrupt):
        hold_two()
    assert handled == [signal.SIGINT]

    def interrupt_twice() -> None:
        with HeldSignals() as held, held.passed_on():
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                # The code that handles the first is not interrupted.
                signal.raise_signal(signal.SIGINT)
                handled.append(0)

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert handled == [signal.SIGINT, signal.SIGINT, 0]
    for number, handler in zip((signal.SIGINT, signal.SIGALRM), outer_handlers, strict=True):
        assert signal.getsignal(number) == handler
