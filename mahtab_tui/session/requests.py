"""Questions that wait for the user's answer: approvals of code and calls, lines for `input()`."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.records import Approval, emit

T = TypeVar("T")


class RequestCancelled(Exception):
    """The question was withdrawn before the user answered it."""


class UserRequests(Generic[T]):
    """Questions by id, asked on one thread and answered on another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Future[T]] = {}
        self._numbers = itertools.count(1)

    def new_id(self) -> str:
        return str(next(self._numbers))

    def wait(self, request: str, withdrawn: Callable[[], bool] = lambda: False) -> T:
        """Wait for the answer to a question, unless `withdrawn()` is true. Raises
        `RequestCancelled`."""
        with self._lock:
            question = self._open.setdefault(request, Future())
            if withdrawn():
                question.cancel()
        try:
            return question.result()
        except CancelledError:
            raise RequestCancelled from None
        finally:
            with self._lock:
                self._open.pop(request, None)

    def answer(self, request: str, answer: T) -> bool:
        """Answer a question, even before `wait` is called; False if it was answered already."""
        with self._lock:
            question = self._open.setdefault(request, Future())
            if question.done():
                return False
            question.set_result(answer)
            return True

    def cancel(self, request: str) -> None:
        """Withdraw a question, even before `wait` is called."""
        with self._lock:
            self._open.setdefault(request, Future()).cancel()

    def cancel_all(self) -> None:
        with self._lock:
            for question in self._open.values():
                question.cancel()

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids of the open questions, oldest first."""
        with self._lock:
            return tuple(request for request, question in self._open.items() if not question.done())


def ask_about(
    log: logging.Logger,
    approvals: UserRequests[Decision],
    about: Approval,
    stop: Callable[[], object],
) -> Decision | str:
    """Ask the user about a call that waits. Returns their decision to let it go on, or the end of a
    sentence that says that they did not.

    stop: stops the model's turn, if they want that. Raises `RequestCancelled`.
    """
    emit(log, about.changed(state="waiting"))
    try:
        decision = approvals.wait(about.request)
    except RequestCancelled:
        emit(log, about.changed(state="stopped"))
        raise
    if decision.action in ("run", "all", "keep"):
        emit(log, about.changed(state="run"))
        return decision
    emit(
        log,
        about.changed(
            state="skipped" if decision.action == "skip" else "stopped", reason=decision.reason
        ),
    )
    if decision.action == "stop":
        stop()
    return f": {decision.reason}" if decision.reason.strip() else "."
