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
        """at_once: jobs of a slot. With two, the newest reaches the kernel, which abandons the
        other."""
        self._owner = owner
        self._at_once = at_once
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._timers: dict[str, Timer] = {}
        self._open: dict[str, int] = {}
        self._waiting: dict[str, Callable[[], None]] = {}

    def ask(
        self,
        slot: str,
        work: Callable[[], T],
        then: Callable[[T], object],
        failed: Callable[[str], object] | None = None,
        *,
        pause: float = 0.0,
    ) -> None:
        """Run `work` on a thread, then call `then` with its result, or `failed` with a sentence.
        pause: seconds without another job before it starts."""
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
            begin = partial(self._deliver, slot, number, start)
            self._timers[slot] = self._owner.set_timer(pause, begin)
        else:
            start()

    def forget(self, slot: str) -> None:
        if slot in self._timers:
            self._timers.pop(slot).stop()
        self._numbers[slot] = self._numbers.get(slot, 0) + 1
        with self._lock:
            self._waiting.pop(slot, None)

    def _start(self, slot: str, job: Callable[[], None]) -> None:
        with self._lock:
            if self._open.get(slot, 0) >= self._at_once:
                self._waiting[slot] = job
                return
            self._open[slot] = self._open.get(slot, 0) + 1
        threading.Thread(target=self._run, args=(slot, job), name=slot, daemon=True).start()

    def _run(self, slot: str, job: Callable[[], None] | None) -> None:
        while job is not None:
            job()
            with self._lock:
                job = self._waiting.pop(slot, None)
                if job is None:
                    self._open[slot] -= 1

    def _deliver(self, slot: str, number: int, deliver: Callable[[], object]) -> None:
        if self._numbers[slot] == number and not is_being_removed(self._owner):
            deliver()
