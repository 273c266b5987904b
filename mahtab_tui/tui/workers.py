"""Runs work off the main thread."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from textual.widget import Widget

from mahtab_tui.tui.option_list import is_being_removed

T = TypeVar("T")

AT_ONCE = 2
"""Maximum number of jobs that run at once in a slot: the newest must reach the kernel, which then
abandons the previous one."""


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
        """Run `work` on a thread; then, on the main thread, call `then` with its result, or
        `failed` with an error message."""

        def job() -> None:
            try:
                result = partial(then, work())
            except Exception as error:  # the thread's outermost frame
                from mahtab_tui.kernel.base import KernelError  # not needed for the first picture

                sentence = (
                    str(error)
                    if isinstance(error, KernelError)
                    else f"It cannot be shown: {str(error) or type(error).__name__}"
                )
                result = partial(failed, sentence)
            self._owner.call_later(self._deliver, slot, number, result)

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

    def _deliver(self, slot: str, number: int, deliver: Callable[[], None]) -> None:
        if self._numbers.get(slot) == number and not is_being_removed(self._owner):
            deliver()


Q = TypeVar("Q")


class LatestWorker(Generic[Q]):
    """Calls `work` with the newest question, skipping older ones that still wait. An error does not
    end the thread."""

    def __init__(self, work: Callable[[Q], object], name: str, pause: float = 0.0) -> None:
        """pause: seconds without another question before the work starts."""
        self._work = work
        self._name = name
        self._pause = pause
        self._changed = threading.Condition()
        self._waiting: Q | None = None
        self._at_once = not pause
        self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, question: Q, *, at_once: bool = False) -> None:
        """Submit a question. at_once: without the pause."""
        with self._changed:
            self._waiting, self._at_once = question, at_once or not self._pause
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop the thread, without waiting for it."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None or self._closed)
                # Each new question restarts the pause.
                while not (self._at_once or self._closed) and self._changed.wait(self._pause):
                    pass
                question, self._waiting, self._at_once = self._waiting, None, not self._pause
                if self._closed:
                    return
            if question is not None:
                try:
                    self._work(question)
                except Exception:  # the thread's outermost frame; the printed text becomes a notice
                    traceback.print_exc()
