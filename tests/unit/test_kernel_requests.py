"""Requests to a kernel that may not answer: few wait at a time, and none for good."""

from __future__ import annotations

import threading

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.operations import Operations
from mahtab_tui.kernel.requests import MOST, ControlRequests
from mahtab_tui.worker.frames import Frame
from tests.waiting import wait_for


def test_completion_is_sent_only_after_the_previous_reply() -> None:
    sent: list[Frame] = []
    requests = ControlRequests(sent.append)
    for _ in range(60):
        with pytest.raises(KernelError, match="does not answer"):
            requests.ask(Operations.complete, 0.001, code="os.pa", cursor=5)
    assert len(sent) == 1
    requests.on_reply({"op": "reply", "id": sent[0]["id"], "value": "too late for anybody"})
    with pytest.raises(KernelError, match="does not answer"):
        requests.ask(Operations.complete, 0.001, code="os.pat", cursor=6)
    assert [frame["code"] for frame in sent] == ["os.pa", "os.pat"]


def test_completion_waits_for_the_previous_reply_within_its_time_limit() -> None:
    sent: list[Frame] = []
    requests = ControlRequests(sent.append)
    starts: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: starts.append(requests.ask(Operations.complete, 60).start), daemon=True
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    value = {"items": [], "more": 0}
    for number in (1, 2):
        wait_for(lambda number=number: len(sent) == number)  # type: ignore[misc]
        requests.on_reply(
            {"op": "reply", "id": sent[-1]["id"], "value": {**value, "start": number}}
        )
    for thread in threads:
        thread.join(60)
    assert sorted(starts) == [1, 2]


def test_requests_are_limited_to_what_a_kernel_can_answer() -> None:
    sent: list[Frame] = []
    requests = ControlRequests(sent.append)
    for _ in range(2 * MOST):
        with pytest.raises(KernelError, match="does not answer"):
            requests.ask(Operations.variables, 0)
    assert len(sent) == MOST


def test_reply_without_a_value_is_refused_and_waiters_learn_of_the_end() -> None:
    errors: list[str] = []
    sent: list[Frame] = []
    requests = ControlRequests(sent.append)

    def ask() -> None:
        try:
            requests.ask(Operations.variables, 60)
        except KernelError as error:
            errors.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    wait_for(lambda: sent)
    bad: list[Frame] = [{"id": sent[0]["id"]}, {"id": []}, {}]
    for frame in bad:
        with pytest.raises((KeyError, TypeError)):
            requests.on_reply({"op": "reply", **frame})
    requests.end("The kernel died.")
    thread.join(60)
    assert errors == ["The kernel died."]
    with pytest.raises(KernelError, match="died"):
        requests.ask(Operations.variables, 60)
