"""What the host asks the control thread of a kernel, and the replies."""

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
"""What is asked at each key: the next one is sent when the last one has its reply, so that no old ones pile up in a kernel that cannot answer."""

GIVEN_UP = 10.0
"""Seconds after which the next one is sent nevertheless: the last one may wait for a disk that is gone."""

MOST = 100
"""Requests without a reply, after which no more are sent."""

NO_ANSWER = "The kernel does not answer: code that cannot be interrupted keeps its interpreter busy."


class _Request(NamedTuple):
    op: str
    sent: float
    reply: Future[Any]


class Requests:
    """The requests that have no reply yet, also those for which nobody waits any more. Any thread may call."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        """send: may raise `ValueError` for what cannot be sent."""
        self._send = send
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._open: dict[int, _Request] = {}
        self._ended = ""

    def ask(self, op: str, timeout: float, **fields: Any) -> Any:
        """Ask, and wait for the reply. Raises `KernelError`: with the kernel's words, or where it does not answer in `timeout` seconds."""
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
            raise KernelError(f"The kernel cannot be asked: {error}.") from None
        try:
            return request.reply.result(max(0.0, now + timeout - time.monotonic()))
        except TimeoutError:
            raise KernelError(NO_ANSWER) from None

    def replied(self, frame: Frame) -> None:
        """A reply came. Raises `KeyError`, `TypeError` for what is none."""
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
        """The kernel has ended: nothing is answered any more."""
        with self._changed:
            self._ended = how
            left, self._open = self._open, {}
            self._changed.notify_all()
        for request in left.values():
            request.reply.set_exception(KernelError(how))

    def _may_send(self, op: str, now: float) -> bool:
        if op in ONE_BY_ONE and any(request.op == op and now - request.sent < GIVEN_UP for request in self._open.values()):
            return False
        return len(self._open) < MOST

    def _take(self, number: int) -> _Request | None:
        with self._changed:
            request = self._open.pop(number, None)
            self._changed.notify_all()
        return request
