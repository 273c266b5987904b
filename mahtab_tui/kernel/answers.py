"""Answers calls from kernel code to the host."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mahtab_tui.kernel.base import KernelHost
from mahtab_tui.kernel.protocol import HostCall
from mahtab_tui.kernel.worker.frames import Frame


class CallAnswers:
    """The open calls of one kernel, each answered on its own thread. send: sends an answer to the
    kernel, and raises `TypeError` or `ValueError` if it cannot."""

    def __init__(self, host: KernelHost, send: Callable[[Frame], object]) -> None:
        self._host = host
        self._send = send
        self._lock = threading.Lock()
        self._open: dict[int, str] = {}

    def begin(self, call: HostCall) -> None:
        with self._lock:
            self._open[call.id] = call.name
        threading.Thread(target=self._answer, args=(call,), name="mahtab-call", daemon=True).start()

    def cancel(self, number: int) -> None:
        """Cancel a call that the kernel no longer waits for."""
        with self._lock:
            name = self._open.pop(number, None)
        if name is not None:
            self._host.call_cancelled(name)

    def cancel_all(self) -> None:
        """Cancel all calls, since the kernel has ended."""
        for number in list(self._open):
            self.cancel(number)

    def _answer(self, call: HostCall) -> None:
        answer: Frame = {"op": "answer", "id": call.id}
        try:
            self._send_if_open({**answer, "value": self._host.call(call.name, call.args)})
        except (
            BaseException
        ) as error:  # the thread's outermost frame; the caller in the kernel raises it
            self._send_if_open({**answer, "error": str(error) or type(error).__name__})
        with self._lock:
            self._open.pop(call.id, None)

    def _send_if_open(self, answer: Frame) -> None:
        if answer["id"] in self._open:
            self._send(answer)
