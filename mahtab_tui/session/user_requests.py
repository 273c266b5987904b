"""Requests to the user, which one thread makes and another answers."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, Literal, NamedTuple, TypeVar

from mahtab_tui.bus.records import Approval, Decision, emit

_APPROVAL_STATES = {
    "run": "run",
    "all": "run",
    "keep": "run",
    "skip": "skipped",
    "stop": "stopped",
}
"""The state of an approval's record, by the action that the user chose."""
T = TypeVar("T")


class Permission(NamedTuple):
    """Whether code of a model or of an agent may run."""

    action: Literal["allow", "lock", "ask", "deny"]
    """`lock`: run it in a locked fork, and ask if it needs more."""
    reason: str = ""
    """Why the user is asked, as a clause; or why it may not run, as a sentence."""


class UserRequests(Generic[T]):
    """Requests to the user by id, made on one thread and answered on another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Future[T]] = {}
        self._numbers = itertools.count(1)

    def new_id(self) -> str:
        """Return an id for a request."""
        return str(next(self._numbers))

    def wait(self, request: str, is_withdrawn: Callable[[], bool] = lambda: False) -> T:
        """Wait for the answer to a request.

        Args:
            request: Its id.
            is_withdrawn: Asked once, under the lock: whether there is no need to wait any more.

        Raises:
            CancelledError: The request was withdrawn.
        """
        with self._lock:
            question = self._open.setdefault(request, Future())
            # Checked here, so that a cancellation between the caller's last check and this
            # registration is not missed.
            if is_withdrawn():
                question.cancel()
        try:
            return question.result()
        finally:
            with self._lock:
                self._open.pop(request, None)

    def answer(self, request: str, answer: T) -> bool:
        """Answer a request, even before `wait`; False if it was already answered."""
        with self._lock:
            question = self._open.setdefault(request, Future())
            if question.done():
                return False
            question.set_result(answer)
            return True

    def cancel(self, request: str) -> None:
        """Withdraw a request, even before `wait`."""
        with self._lock:
            self._open.setdefault(request, Future()).cancel()

    def cancel_all(self) -> None:
        """Withdraw all requests."""
        with self._lock:
            for question in self._open.values():
                question.cancel()

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids of requests without an answer."""
        with self._lock:
            return tuple(request for request, question in self._open.items() if not question.done())


def ask_approval(
    log: logging.Logger,
    approvals: UserRequests[Decision],
    approval: Approval,
    is_withdrawn: Callable[[], bool] = lambda: False,
) -> Decision | None:
    """Ask the user, and log the decision.

    Args:
        log: The session's bus.
        approvals: The requests by which the screen answers.
        approval: The record of the request, without a state.
        is_withdrawn: Whether there is no need to ask any more.

    Returns:
        The decision; None if the request was withdrawn.
    """
    emit(log, approval.changed(state="waiting"))
    try:
        decision = approvals.wait(approval.request, is_withdrawn)
    except CancelledError:
        emit(log, approval.changed(state="stopped"))
        return None

    state = _APPROVAL_STATES[decision.action]
    text = approval.text
    if state == "run" and decision.code is not None and decision.code != text:
        state = "edited"
        text = decision.code
    emit(log, approval.changed(text=text, state=state, reason=decision.reason))
    return decision
