"""Runs work off the main thread."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from textual.timer import Timer
from textual.widget import Widget

from mahtab_tui.bus import StoreError
from mahtab_tui.tui.textual_fixes import is_being_removed

T = TypeVar("T")


class Fetcher:
    """Runs jobs in named slots; only the newest job of a slot counts. Main thread only."""

    def __init__(self, owner: Widget, at_once: int = 2) -> None:
        """
        Args:
            at_once: The jobs of a slot that may run at the same time. With two, the newest reaches
                the kernel, which abandons the other.
        """
        self._owner = owner
        self._max_jobs = at_once
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        """The number of each slot's newest job."""
        self._timers: dict[str, Timer] = {}
        self._running_jobs: dict[str, int] = {}
        self._waiting_jobs: dict[str, Callable[[], None]] = {}

    def run(
        self,
        slot: str,
        work: Callable[[], T],
        then: Callable[[T], object],
        failed: Callable[[str], object] | None = None,
        *,
        pause: float = 0.0,
    ) -> None:
        """Run something on a thread, and take its result on the main thread.

        Args:
            slot: The name of what is done; an older job of the same slot no longer counts.
            work: Called on a thread.
            then: Called with its result on the main thread.
            failed: Called with a sentence on the main thread. Without it, exceptions are printed.
            pause: Seconds without another job of the slot before this one starts.
        """
        self.forget(slot)
        number = self._numbers[slot]

        def job() -> None:
            try:
                result = partial(then, work())
            except Exception as error:  # the thread's outermost frame
                if failed is None:
                    traceback.print_exc()
                    return
                from mahtab_tui.kernel.base import KernelError

                sentence = str(error) or type(error).__name__
                if not isinstance(error, KernelError | StoreError):
                    sentence = f"It cannot be shown: {sentence}"
                result = partial(failed, sentence)
            self._owner.call_later(self._deliver, slot, number, result)

        start = partial(self._start, slot, job)
        if pause:
            start_if_newest = partial(self._deliver, slot, number, start)
            self._timers[slot] = self._owner.set_timer(pause, start_if_newest)
        else:
            start()

    def forget(self, slot: str) -> None:
        """Drop what a slot is waiting for."""
        if slot in self._timers:
            self._timers.pop(slot).stop()
        self._numbers[slot] = self._numbers.get(slot, 0) + 1
        with self._lock:
            self._waiting_jobs.pop(slot, None)

    def _start(self, slot: str, job: Callable[[], None]) -> None:
        with self._lock:
            if self._running_jobs.get(slot, 0) >= self._max_jobs:
                self._waiting_jobs[slot] = job
                return
            self._running_jobs[slot] = self._running_jobs.get(slot, 0) + 1
        threading.Thread(target=self._run, args=(slot, job), name=slot, daemon=True).start()

    def _run(self, slot: str, job: Callable[[], None] | None) -> None:
        while job is not None:
            job()
            with self._lock:
                job = self._waiting_jobs.pop(slot, None)
                if job is None:
                    self._running_jobs[slot] -= 1

    def _deliver(self, slot: str, number: int, deliver: Callable[[], object]) -> None:
        if self._numbers[slot] == number and not is_being_removed(self._owner):
            deliver()
