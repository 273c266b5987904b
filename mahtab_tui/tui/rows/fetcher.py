"""Runs slow work, such as asking the kernel, on threads, so that the screen never waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from textual.widget import Widget

from mahtab_tui.tui.textual_fixes.removable import is_leaving

T = TypeVar("T")

AT_ONCE = 2
"""Jobs of a slot that may run at a time: the newest one must reach the kernel, which then gives up
the previous one."""


class Fetcher:
    """Runs jobs in named slots. Only the newest job of a slot counts; results of older ones are
    dropped."""

    def __init__(self, owner: Widget) -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._waiting: dict[str, Callable[[], None]] = {}

    def ask(
        self,
        slot: str,
        work: Callable[[], T],
        then: Callable[[T], None],
        failed: Callable[[str], None],
    ) -> None:
        """Run `work` on a thread, then on the main thread `then` with its result, or `failed` with
        a sentence about its error."""

        def job() -> None:
            try:
                told = partial(then, work())
            except Exception as error:  # the thread's outermost frame
                from mahtab_tui.kernel.base import KernelError  # no part of the first picture

                sentence = (
                    str(error)
                    if isinstance(error, KernelError)
                    else f"It cannot be shown: {str(error) or type(error).__name__}"
                )
                told = partial(failed, sentence)
            self._owner.call_later(self._deliver, slot, number, told)

        with self._lock:
            number = self._numbers[slot] = self._numbers.get(slot, 0) + 1
            if self._open.get(slot, 0) >= AT_ONCE:
                self._waiting[slot] = job
                return
            self._open[slot] = self._open.get(slot, 0) + 1
        threading.Thread(target=self._run, args=(slot, job), name="inspector", daemon=True).start()

    def forget(self, slot: str) -> None:
        """Drop all jobs of a slot."""
        with self._lock:
            self._numbers[slot] = self._numbers.get(slot, 0) + 1
            self._waiting.pop(slot, None)

    def _run(self, slot: str, job: Callable[[], None] | None) -> None:
        while job is not None:
            job()
            with self._lock:
                job = self._waiting.pop(slot, None)
                if job is None:
                    self._open[slot] -= 1

    def _deliver(self, slot: str, number: int, told: Callable[[], None]) -> None:
        if self._numbers.get(slot) == number and not is_leaving(self._owner):
            told()
