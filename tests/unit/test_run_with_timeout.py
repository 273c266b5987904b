"""Work that runs on a thread for a limited time."""

from __future__ import annotations

import threading

from mahtab_tui.worker.values.objects import run_with_timeout


def test_thread_is_not_listed_after_its_work_although_it_asked_which_it_is() -> None:
    thread = run_with_timeout(60.0, threading.current_thread)
    assert thread is not threading.current_thread()
    assert thread not in threading.enumerate()
