"""Calls of the kernel's code to its host, and interrupts of them at any moment."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from mahtab_tui.worker.link.frames import Frame
from mahtab_tui.worker.link.host_calls import HostCalls
from mahtab_tui.worker.link.interrupts import Interrupts


class AnsweringHost:
    """Answers each call at once, on the same thread, and notes what it is sent."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.nested_cells: list[tuple[str, str | None]] = []
        self.calls = HostCalls(self._receive, self._run_nested_cell)
        self.before_answer: Callable[[], object] = lambda: None
        self.after_answer: Callable[[], object] = lambda: None

    @property
    def ops(self) -> list[str]:
        return [frame["op"] for frame in self.frames]

    def _receive(self, frame: Frame) -> None:
        self.frames.append(frame)
        if frame["op"] == "call":
            self.before_answer()
            self.calls.deliver({"op": "answer", "id": frame["id"], "value": frame["name"]})
            self.after_answer()

    def _run_nested_cell(self, frame: Frame, refusal: str | None) -> None:
        self.nested_cells.append((frame["code"], refusal))

    def interrupt(self) -> None:
        self.calls.interrupt(1, self.fail)

    def fail(self) -> None:
        raise AssertionError("the call waits")


@pytest.fixture
def host() -> AnsweringHost:
    return AnsweringHost()


def test_a_call_returns_the_hosts_answer(host: AnsweringHost) -> None:
    assert host.calls.call("usage", {}) == "usage"
    assert host.ops == ["call"]


def test_an_interrupt_behind_the_answer_is_not_lost(host: AnsweringHost) -> None:
    host.after_answer = host.interrupt
    with pytest.raises(KeyboardInterrupt):
        host.calls.call("usage", {})


def test_an_interrupt_before_the_answer_cancels_the_call(host: AnsweringHost) -> None:
    host.before_answer = host.interrupt
    with pytest.raises(KeyboardInterrupt):
        host.calls.call("usage", {})
    assert host.ops == ["call", "cancelled"]


def test_the_host_is_told_although_a_second_signal_comes() -> None:
    interrupts = Interrupts()
    ops: list[str] = []

    def send(frame: Frame) -> None:
        # Before anything is written, as while the frame is encoded.
        interrupts.handle(signal.SIGINT, None)
        ops.append(frame["op"])

    calls = HostCalls(send, shielded=interrupts.shielded)
    with pytest.raises(KeyboardInterrupt), interrupts.allowed():
        calls.call("usage", {})
    assert ops == ["cancelled"]


def test_code_without_a_call_is_interrupted_itself(host: AnsweringHost) -> None:
    interrupted: list[str] = []
    host.calls.interrupt(1, lambda: interrupted.append("no call waits"))
    # The call of the outer cell waits, not that of the inner one.
    host.before_answer = lambda: host.calls.interrupt(2, lambda: interrupted.append("outer waits"))
    host.calls.call("usage", {})
    assert interrupted == ["no call waits", "outer waits"]


@pytest.mark.parametrize("error_class", [SystemExit, TimeoutError, GeneratorExit])
def test_the_host_is_told_whatever_ends_the_wait(
    host: AnsweringHost, error_class: type[BaseException]
) -> None:
    def raise_error() -> None:
        raise error_class

    # Such as a signal handler of the user's.
    host.before_answer = raise_error
    with pytest.raises(error_class):
        host.calls.call("usage", {})
    assert host.ops == ["call", "cancelled"]


def test_an_error_of_the_host_is_raised_and_not_cancelled(host: AnsweringHost) -> None:
    host.before_answer = lambda: host.calls.deliver({"op": "answer", "id": 1, "error": "no"})
    with pytest.raises(RuntimeError, match="no"):
        host.calls.call("usage", {})
    assert host.ops == ["call"]


def test_a_nested_cell_behind_the_answer_is_refused(host: AnsweringHost) -> None:
    host.before_answer = lambda: host.calls.deliver({"op": "execute", "code": "before"})
    host.after_answer = lambda: host.calls.deliver({"op": "execute", "code": "behind"})
    host.calls.call("usage", {})
    refusal = "the cell that asked for it no longer waits"
    assert host.nested_cells == [("before", None), ("behind", refusal)]
