"""Runs work for the screen on a thread, where only the newest question counts."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar

Q = TypeVar("Q")


class LatestWorker(Generic[Q]):
    """Calls `work` with the newest question, skipping older ones that still wait. After an error,
    later questions are still served."""

    def __init__(self, work: Callable[[Q], object], name: str, pause: float = 0.0) -> None:
        """pause: seconds without another question to wait before the work begins."""
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
