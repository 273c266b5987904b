"""Errors that end a thread of the program are reported."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Callable

import pytest

from mahtab_tui.tui.terminal_driver import report_thread_failures


def run(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work, name="kernel reader")
    thread.start()
    thread.join()


def test_thread_failure_is_reported_with_its_name_and_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    reports: list[str] = []
    before = threading.excepthook
    with report_thread_failures(reports.append):
        run(lambda: [].pop())
        run(sys.exit)
    assert threading.excepthook is before
    assert len(reports) == 1
    assert reports[0].startswith(
        "Internal error in thread 'kernel reader'. If something breaks, restart with --continue.\n"
    )
    assert reports[0].endswith("IndexError: pop from empty list")
    assert capfd.readouterr().err == ""


def test_write_error_of_a_closed_terminal_is_not_reported() -> None:
    """The next screen of the session would show it."""
    reports: list[str] = []

    def write(error: int) -> None:
        raise OSError(error, "")

    with report_thread_failures(reports.append):
        for error in (errno.EIO, errno.ENOSPC):
            thread = threading.Thread(target=write, args=(error,), name="textual-output")
            thread.start()
            thread.join()
    assert len(reports) == 1
    assert f"Errno {errno.ENOSPC}" in reports[0]
