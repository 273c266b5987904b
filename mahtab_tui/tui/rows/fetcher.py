"""Asking the kernel, and other slow work, on threads, so that the screen never waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from textual.widget import Widget

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.tui.textual_fixes.removable import is_leaving

T = TypeVar("T")

AT_ONCE = 2
"""Questions of one slot that may be open: the newest one must reach the kernel for the one before to be given up."""


class _Job(NamedTuple):
    number: int
    work: Callable[[], Any]
    then: Callable[[Any], None]
    failed: Callable[[str], None]


class Fetcher:
    """Only the newest question of a slot counts; what an older one brings is thrown away."""

    def __init__(self, owner: Widget) -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._waiting: dict[str, _Job] = {}

    def ask(self, slot: str, work: Callable[[], T], then: Callable[[T], None], failed: Callable[[str], None]) -> None:
        """Do `work` on a thread; then, on the screen's own, `then` with what it returned, or `failed` with a sentence, as that of its `KernelError`."""
        with self._lock:
            number = self._numbers[slot] = self._numbers.get(slot, 0) + 1
            job = _Job(number, work, then, failed)
            if self._open.get(slot, 0) >= AT_ONCE:
                self._waiting[slot] = job
                return
            self._open[slot] = self._open.get(slot, 0) + 1
        threading.Thread(target=self._run, args=(slot, job), name="inspector", daemon=True).start()

    def forget(self, slot: str) -> None:
        """What is open in a slot is no longer wanted."""
        with self._lock:
            self._numbers[slot] = self._numbers.get(slot, 0) + 1
            self._waiting.pop(slot, None)

    def _run(self, slot: str, job: _Job) -> None:
        next_job: _Job | None = job
        while next_job is not None:
            self._do(slot, next_job)
            with self._lock:
                next_job = self._waiting.pop(slot, None)
                if next_job is None:
                    self._open[slot] -= 1

    def _do(self, slot: str, job: _Job) -> None:
        try:
            result = job.work()
        except Exception as error:  # the thread's outermost frame
            sentence = str(error) if isinstance(error, KernelError) else f"It cannot be shown: {str(error) or type(error).__name__}"
            self._owner.call_later(self._deliver, slot, job, job.failed, sentence)
        else:
            self._owner.call_later(self._deliver, slot, job, job.then, result)

    def _deliver(self, slot: str, job: _Job, to: Callable[[Any], None], what: Any) -> None:
        if self._numbers.get(slot) == job.number and not is_leaving(self._owner):
            to(what)
