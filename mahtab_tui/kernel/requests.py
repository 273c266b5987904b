"""The host's requests to a kernel, and the wait for their replies."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.messages import checked
from mahtab_tui.kernel.operations import Operation
from mahtab_tui.worker.link.frames import Frame

MAX_OPEN_REQUESTS = 100
"""Requests that wait for a reply; a further one waits until there are fewer."""
NO_ANSWER = (
    "The kernel does not answer: code that cannot be interrupted keeps its interpreter busy."
)

T = TypeVar("T")


class ControlRequests:
    """Requests to a kernel that are answered while a cell runs. Any thread may ask."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        """Create an empty list of requests.

        Args:
            send: Raises `ValueError` if a frame cannot be sent.
        """
        self._send = send
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        """Guards the fields below; notified when they change."""
        self._open_replies: dict[int, Future[Any]] = {}
        self._end_reason = ""
        """Why no request can be answered any more, as a sentence; empty while they can."""

    def ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        """Send a request and wait for the reply.

        Args:
            operation: What to do.
            timeout: In seconds; by default that of the operation.
            fields: The arguments.

        Raises:
            KernelError: The kernel has ended or does not answer, or its answer is an error.
        """
        if timeout is None:
            timeout = operation.timeout
        deadline = time.monotonic() + timeout

        def can_ask() -> bool:
            return bool(self._end_reason) or len(self._open_replies) < MAX_OPEN_REQUESTS

        with self._changed:
            is_free = self._changed.wait_for(can_ask, timeout)
            if self._end_reason:
                raise KernelError(self._end_reason)
            if not is_free:
                raise KernelError(NO_ANSWER)
            number = next(self._ids)
            reply: Future[Any] = Future()
            self._open_replies[number] = reply

        try:
            self._send({"op": operation.name, "id": number, **fields})
        except ValueError as error:
            self._pop_reply(number)
            raise KernelError(f"The kernel cannot be sent a request: {error}.") from None
        # A reply that comes too late still counts as open: the kernel works on it.
        try:
            value = reply.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise KernelError(NO_ANSWER) from None
        return checked(operation.result, value)

    def on_reply(self, frame: Frame) -> None:
        """Pass a reply on. Raises `KeyError` or `TypeError` if it is malformed."""
        error = frame.get("error")
        value = frame["value"] if error is None else None
        reply = self._pop_reply(frame["id"])
        if reply is None:
            return
        if error is None:
            reply.set_result(value)
        else:
            reply.set_exception(KernelError(str(error)))

    def end(self, reason: str) -> None:
        """Let all requests fail.

        Args:
            reason: A sentence.
        """
        with self._changed:
            self._end_reason = reason
            open_replies = list(self._open_replies.values())
            self._open_replies.clear()
            self._changed.notify_all()
        for reply in open_replies:
            reply.set_exception(KernelError(reason))

    def _pop_reply(self, number: int) -> Future[Any] | None:
        with self._changed:
            reply = self._open_replies.pop(number, None)
            self._changed.notify_all()
        return reply
