"""The answers to another process's calls, each of which is served on a thread of its own."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.kernel.host import HostCall, KernelHost
from mahtab_tui.kernel.messages import CallMessage
from mahtab_tui.kernel.reused_threads import ReusedThreads
from mahtab_tui.worker.link.frames import Frame


class Answers:
    """Open calls of another process, each answered on a thread of its own."""

    def __init__(self, send: Callable[[Frame], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._cancel_functions: dict[int, Callable[[], object]] = {}
        """Functions that cancel the open calls, by their numbers."""
        self._threads = ReusedThreads("mahtab-call")

    def start(self, number: int, call: Callable[[], Any], cancel: Callable[[], object]) -> None:
        """Answer a call on a thread.

        Args:
            number: The call's number.
            call: Returns the answer, a JSON value. The message of an exception is sent instead.
            cancel: Called if the other process no longer waits.
        """
        with self._lock:
            self._cancel_functions[number] = cancel
        self._threads.run(self._answer, number, call)

    def cancel(self, number: int) -> None:
        """Cancel a call, if it is open. It gets no answer."""
        with self._lock:
            cancel = self._cancel_functions.pop(number, None)
        if cancel is not None:
            cancel()

    def cancel_all(self) -> None:
        for number in list(self._cancel_functions):
            self.cancel(number)

    def _answer(self, number: int, call: Callable[[], Any]) -> None:
        if number not in self._cancel_functions:  # cancelled while it waited for a thread
            return
        answer: Frame = {"op": "answer", "id": number}
        try:
            self._send_if_open({**answer, "value": call()})
        except BaseException as error:  # the thread's outermost frame; the caller raises it
            self._send_if_open({**answer, "error": str(error) or type(error).__name__})
        with self._lock:
            self._cancel_functions.pop(number, None)

    def _send_if_open(self, answer: Frame) -> None:
        if answer["id"] in self._cancel_functions:
            self._send(answer)


class CallAnswers(Answers):
    """The open calls of a kernel, which its host serves."""

    def __init__(self, host: KernelHost, send: Callable[[Frame], object]) -> None:
        super().__init__(send)
        self._host = host

    def begin(self, message: CallMessage) -> None:
        # The call can be cancelled from here on, also before its thread begins.
        cancellation = Cancellation()
        call = HostCall(message.name, message.args, cancellation, message.is_from_main_thread)
        self.start(message.id, functools.partial(self._host.call, call), cancellation.cancel)
