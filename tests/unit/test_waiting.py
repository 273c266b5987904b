"""Waiting for a result gives the result, whatever it is, and however late."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from threading import Timer

import pytest

from mahtab_tui.system import processes
from mahtab_tui.system.processes import wait_for_result


def test_late_result_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_AGAIN", 0.001)
    future: Future[str] = Future()
    Timer(0.05, future.set_result, ("late",)).start()
    assert wait_for_result(future) == "late"


def test_own_error_and_cancelled_future_are_raised() -> None:
    failed: Future[str] = Future()
    failed.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        wait_for_result(failed)
    cancelled: Future[str] = Future()
    cancelled.cancel()
    with pytest.raises(CancelledError):
        wait_for_result(cancelled)
