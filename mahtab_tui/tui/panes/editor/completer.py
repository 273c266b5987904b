"""Asks the kernel what may stand at the cursor, on a thread of its own: no kernel holds the keys."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.kernel.base import Completions, KernelError

Complete = Callable[[str, int], Completions]
"""What may stand at a cursor of a code; raises `KernelError`."""


class Question(NamedTuple):
    """What is asked."""

    number: int
    code: str
    cursor: int
    """In characters."""
    asked_for: bool
    """Whether the person asked by a key; else they only type."""


class Answer(NamedTuple):
    """What came of it."""

    question: Question
    completions: Completions | None
    """None: the kernel did not answer."""


class Completer:
    """Answers the newest question; one that was overtaken while it waited is never asked."""

    def __init__(self, complete: Complete, answered: Callable[[Answer], object]) -> None:
        self._complete = complete
        self._answered = answered
        self._changed = threading.Condition()
        self._waiting: Question | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, question: Question) -> None:
        """Ask; `answered` is called on the thread."""
        with self._changed:
            self._waiting = question
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="completion", daemon=True)
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
                question, self._waiting = self._waiting, None
                if self._closed or question is None:
                    return
            try:
                found: Completions | None = self._complete(question.code, question.cursor)
            except KernelError:
                found = None
            self._answered(Answer(question, found))
