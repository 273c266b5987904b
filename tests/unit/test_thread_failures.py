"""Errors that end a thread of the program are reported."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Callable

import pytest

from mahtab_tui.tui.terminal_driver import thread_failures_told


def run(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work, name="kernel reader")
    thread.start()
    thread.join()


def test_thread_failure_is_reported_with_its_name_and_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    told: list[str] = []
    before = threading.excepthook
    with thread_failures_told(told.append):
        run(lambda: [].pop())
        run(sys.exit)
    assert threading.excepthook is before
    assert len(told) == 1
    assert told[0].startswith(
        "Internal error in thread 'kernel reader'. If something breaks, restart with --continue.\n"
    )
    assert told[0].endswith("IndexError: pop from empty list")
    assert capfd.readouterr().err == ""


def test_write_error_of_a_closed_terminal_is_not_reported() -> None:
    """The next screen of the session would show it."""
    told: list[str] = []

    def write(error: int) -> None:
        raise OSError(error, "")

    with thread_failures_told(told.append):
        for error in (errno.EIO, errno.ENOSPC):
            thread = threading.Thread(target=write, args=(error,), name="textual-output")
            thread.start()
            thread.join()
    assert len(told) == 1
    assert f"Errno {errno.ENOSPC}" in told[0]
