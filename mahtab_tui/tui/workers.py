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

    def __init__(self, owner: Widget, max_running_jobs: int = 2) -> None:
        """
        Args:
            owner: The widget for which the jobs run. Once it is removed, results are dropped.
            max_running_jobs: The jobs of a slot that may run at the same time. With two, the newest
                reaches the kernel, which abandons the other.
        """
        self._owner = owner
        self._max_running_jobs = max_running_jobs
        self._lock = threading.Lock()
        """Held while the counts of running jobs and the waiting jobs change."""
        self._newest_numbers: dict[str, int] = {}
        """The number of each slot's newest job."""
        self._timers: dict[str, Timer] = {}
        """For slots whose newest job starts after a delay."""
        self._running_counts: dict[str, int] = {}
        self._waiting_jobs: dict[str, Callable[[], None]] = {}
        """The job of each slot that starts when one of the running jobs ends."""

    def run(
        self,
        slot: str,
        work: Callable[[], T],
        on_result: Callable[[T], object],
        on_failure: Callable[[str], object] | None = None,
        *,
        delay_s: float = 0.0,
    ) -> None:
        """Run something on a thread, and take its result on the main thread.

        Args:
            slot: The name of what is done; an older job of the same slot no longer counts.
            work: Called on a thread.
            on_result: Called with the result of `work` on the main thread.
            on_failure: Called on the main thread with a sentence that says why `work` failed.
                Without it, exceptions are printed.
            delay_s: Seconds without another job of the slot before this one starts.
        """
        self.forget(slot)
        number = self._newest_numbers[slot]

        def job() -> None:
            try:
                deliver_result = partial(on_result, work())
            except Exception as error:  # the thread's outermost frame
                if on_failure is None:
                    traceback.print_exc()
                    return
                deliver_result = partial(on_failure, _failure_sentence(error))
            self._owner.call_later(self._call_if_newest, slot, number, deliver_result)

        start = partial(self._start, slot, job)
        if delay_s:
            start_if_newest = partial(self._call_if_newest, slot, number, start)
            self._timers[slot] = self._owner.set_timer(delay_s, start_if_newest)
        else:
            start()

    def forget(self, slot: str) -> None:
        """Drop the results of a slot's jobs, and the job that has not started yet."""
        if slot in self._timers:
            self._timers.pop(slot).stop()
        self._newest_numbers[slot] = self._newest_numbers.get(slot, 0) + 1
        with self._lock:
            self._waiting_jobs.pop(slot, None)

    def _start(self, slot: str, job: Callable[[], None]) -> None:
        """Start a job, now or when one of the slot's running jobs ends."""
        with self._lock:
            running_count = self._running_counts.get(slot, 0)
            if running_count >= self._max_running_jobs:
                self._waiting_jobs[slot] = job
                return
            self._running_counts[slot] = running_count + 1
        self._start_thread(slot, job)

    def _start_thread(self, slot: str, job: Callable[[], None]) -> None:
        threading.Thread(target=self._run_job, args=(slot, job), name=slot, daemon=True).start()

    def _run_job(self, slot: str, job: Callable[[], None]) -> None:
        """Run a job, then let the slot's waiting job take its place, whatever the job has raised."""
        try:
            job()
        finally:
            with self._lock:
                next_job = self._waiting_jobs.pop(slot, None)
                if next_job is None:
                    self._running_counts[slot] -= 1
            if next_job is not None:
                self._start_thread(slot, next_job)

    def _call_if_newest(self, slot: str, number: int, function: Callable[[], object]) -> None:
        """Call a function of a job, unless the slot has a newer job or the owner is going."""
        if self._newest_numbers[slot] == number and not is_being_removed(self._owner):
            function()


def _failure_sentence(error: Exception) -> str:
    """Return a sentence for the user that says why a job failed."""
    from mahtab_tui.kernel.base import KernelError

    sentence = str(error) or type(error).__name__
    if isinstance(error, KernelError | StoreError):
        return sentence
    return f"It cannot be shown: {sentence}"
