"""Values that are made when they are first wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from mahtab_tui.system.imports import Lazy


def test_threads_share_a_value_that_is_created_once() -> None:
    made: list[int] = []

    def make() -> list[int]:
        time.sleep(0.01)
        made.append(1)
        return made

    later, got = Lazy(make), list[list[int]]()
    assert not later.made
    threads = [threading.Thread(target=lambda: got.append(later.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert later.made
    assert made == [1]
    assert all(each is made for each in got)


def test_failed_value_is_created_at_the_next_call() -> None:
    answers: Iterator[Exception | str] = iter([ValueError("not yet"), "there"])

    def make() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    later = Lazy(make)
    with pytest.raises(ValueError, match="not yet"):
        later.get()
    assert not later.made
    assert later.get() == "there"


def test_present_value_counts_as_created() -> None:
    later = Lazy.of(None)
    assert later.made
    assert later.get() is None
