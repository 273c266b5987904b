"""Work on a thread of which only the newest question counts."""

from __future__ import annotations

import queue

import pytest

from mahtab_tui.tui.workers import LatestWorker


def test_raising_work_is_reported_and_does_not_stop_later_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done: queue.Queue[int] = queue.Queue()

    def work(question: int) -> None:
        done.put(question)
        if question == 0:
            raise ValueError("no such thing")

    newest = LatestWorker(work, "test")
    newest.ask(0)
    assert done.get(timeout=30) == 0
    newest.ask(1)
    assert done.get(timeout=30) == 1
    assert "ValueError: no such thing" in capsys.readouterr().err
    newest.close()
