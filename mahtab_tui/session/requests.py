"""What the program waits for the person to answer: approvals of code, lines for `input()`."""

from __future__ import annotations

import itertools
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Cancelled(Exception):
    """The question was withdrawn before the person answered it."""


class _Question(Generic[T]):
    def __init__(self) -> None:
        self.ended = threading.Event()
        self.answer: T | None = None
        self.answered = False


class Requests(Generic[T]):
    """Questions by id, asked on one thread and answered on another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, _Question[T]] = {}
        self._numbers = itertools.count(1)

    def new_id(self) -> str:
        """An id that no other question of this kind has."""
        return str(next(self._numbers))

    def open(self, request: str) -> None:
        """Make a question answerable; call it before the person can see it."""
        with self._lock:
            self._open[request] = _Question()

    def wait(self, request: str) -> T:
        """Wait for the answer to an opened question. Raises `Cancelled`."""
        with self._lock:
            question = self._open[request]
        question.ended.wait()
        with self._lock:
            self._open.pop(request, None)
        if not question.answered:
            raise Cancelled
        return question.answer  # type: ignore[return-value]

    def answer(self, request: str, answer: T) -> bool:
        """Answer a question; False where it is not open (any more)."""
        with self._lock:
            question = self._open.get(request)
            if question is None or question.ended.is_set():
                return False
            question.answer, question.answered = answer, True
            question.ended.set()
            return True

    def cancel_all(self) -> None:
        """Withdraw every open question."""
        with self._lock:
            for question in self._open.values():
                question.ended.set()

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids of the open questions, the oldest first."""
        with self._lock:
            return tuple(request for request, question in self._open.items() if not question.ended.is_set())
