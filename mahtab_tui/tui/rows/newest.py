"""Work for the screen on a thread of its own, of which only the newest counts."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar

Q = TypeVar("Q")


class NewestOnly(Generic[Q]):
    """Does `work` with the newest question; one that was overtaken while it waited is never asked. Work that raises ends no later one."""

    def __init__(self, work: Callable[[Q], object], name: str, pause: float = 0.0) -> None:
        """pause: seconds without another question after which the work begins."""
        self._work = work
        self._name = name
        self._pause = pause
        self._changed = threading.Condition()
        self._waiting: Q | None = None
        self._at_once = not pause
        self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, question: Q, *, at_once: bool = False) -> None:
        """Ask; at_once: without the pause."""
        with self._changed:
            self._waiting, self._at_once = question, at_once or not self._pause
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ask no more; does not wait."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None or self._closed)
                # Each question that comes begins the pause anew.
                while not (self._at_once or self._closed) and self._changed.wait(self._pause):
                    pass
                question, self._waiting, self._at_once = self._waiting, None, not self._pause
                if self._closed:
                    return
            if question is not None:
                try:
                    self._work(question)
                except Exception:  # the thread's outermost frame; what is printed becomes a notice
                    traceback.print_exc()
