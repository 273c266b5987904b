"""Requests of the host to a kernel's control thread, and their replies."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.worker.frames import Frame

ONE_BY_ONE = frozenset({"complete"})
"""Requests at each key press. The next one is sent only after the last reply, so that they do not
pile up in a busy kernel."""

GIVEN_UP = 10.0
"""Seconds after which the next one is sent anyway, since the last one may wait for a lost disk."""

MOST = 100
"""Open requests after which no more are sent."""

NO_ANSWER = (
    "The kernel does not answer: code that cannot be interrupted keeps its interpreter busy."
)


class _Request(NamedTuple):
    op: str
    sent: float
    reply: Future[Any]


class ControlRequests:
    """The open requests, including those that nobody waits for. Any thread may call it."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        """send: may raise `ValueError` if a frame cannot be sent."""
        self._send = send
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._open: dict[int, _Request] = {}
        self._ended = ""

    def ask(self, op: str, timeout: float, **fields: Any) -> Any:
        """Send a request and wait for the reply. Raises `KernelError` with the kernel's message, or
        if there is no reply in `timeout` seconds."""
        now = time.monotonic()
        with self._changed:
            free = self._changed.wait_for(lambda: self._ended or self._may_send(op, now), timeout)
            if self._ended:
                raise KernelError(self._ended)
            if not free:
                raise KernelError(NO_ANSWER)
            number = next(self._ids)
            request = self._open[number] = _Request(op, now, Future())
        try:
            self._send({"op": op, "id": number, **fields})
        except ValueError as error:
            self._take(number)
            raise KernelError(f"The kernel cannot be sent a request: {error}.") from None
        try:
            return request.reply.result(max(0.0, now + timeout - time.monotonic()))
        except TimeoutError:
            raise KernelError(NO_ANSWER) from None

    def replied(self, frame: Frame) -> None:
        """Process a reply. Raises `KeyError`, `TypeError` if it is malformed."""
        error = frame.get("error")
        value = frame["value"] if error is None else None
        request = self._take(frame["id"])
        if request is None:
            return
        if error is None:
            request.reply.set_result(value)
        else:
            request.reply.set_exception(KernelError(str(error)))

    def end(self, how: str) -> None:
        """Fail all requests, since the kernel has ended."""
        with self._changed:
            self._ended = how
            left, self._open = self._open, {}
            self._changed.notify_all()
        for request in left.values():
            request.reply.set_exception(KernelError(how))

    def _may_send(self, op: str, now: float) -> bool:
        if op in ONE_BY_ONE and any(
            request.op == op and now - request.sent < GIVEN_UP for request in self._open.values()
        ):
            return False
        return len(self._open) < MOST

    def _take(self, number: int) -> _Request | None:
        with self._changed:
            request = self._open.pop(number, None)
            self._changed.notify_all()
        return request
