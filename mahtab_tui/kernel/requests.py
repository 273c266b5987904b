"""Messages between host and kernel: requests, their replies, and calls from cells."""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from mahtab_tui.kernel.base import Change, KernelError, KernelHost, Operation, OutputKind, Status
from mahtab_tui.system import start_thread
from mahtab_tui.worker.frames import Frame, encode

LIMIT = 64 * 2**20
"""Maximum bytes in the queue. A single message may be larger."""


class OutgoingFullError(ValueError):
    pass


class Outbox:
    """Sends whole messages, in order. A thread sends what the socket does not accept at once."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        self.channel: socket.socket | None = None
        self._give_up = give_up
        self._lock = threading.Lock()
        self._waiting: deque[memoryview] = deque()
        self._size = 0
        self._writer: threading.Thread | None = None

    def send(self, data: bytes) -> None:
        """Send or queue an encoded frame; ignores a kernel that has ended. Raises
        `OutgoingFullError`."""
        with self._lock:
            if self.channel is None:
                return
            view = memoryview(data)
            if not self._waiting:
                try:
                    view = view[self.channel.send(view, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    pass
                except OSError:
                    return
                if not view:
                    return
            elif self._size + len(view) > LIMIT:
                raise OutgoingFullError("the kernel does not read its messages")
            self._waiting.append(view)
            self._size += len(view)
            if self._writer is None:
                self._writer = start_thread("mahtab-outgoing", self._write, self.channel)

    def answer(self, answer: Frame) -> None:
        """Raises `OutgoingFullError`, after which a shorter answer can be sent."""
        try:
            self.send(encode(answer))
        except OutgoingFullError:
            if "error" not in answer:
                raise
            self._give_up()

    def close(self) -> None:
        with self._lock:
            channel, self.channel = self.channel, None
            writer = self._writer
        if channel is None:
            return
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)
        if writer is not None:
            writer.join()
        channel.close()

    def _write(self, channel: socket.socket) -> None:
        while True:
            with self._lock:
                if self.channel is None or not self._waiting:
                    self._writer = None
                    return
                first = view = self._waiting[0]
            try:
                while view:
                    view = view[channel.send(view) :]
            except OSError:
                with self._lock:
                    self._waiting.clear()
                    self._size, self._writer = 0, None
                return
            with self._lock:
                self._waiting.popleft()
                self._size -= len(first)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KernelReady:
    python: str
    executable: str
    cwd: str
    pid: int


@dataclass(frozen=True, slots=True)
class CellEnd:
    cell: int
    status: Status
    pieces: tuple[tuple[OutputKind, str], ...]
    changes: tuple[Change, ...]
    frames: tuple[tuple[str, int, str, int], ...]
    duration: float
    cwd: str
    seal: str = ""
    needs: str = ""


@dataclass(frozen=True, slots=True)
class HostCall:
    id: int
    name: str
    args: dict[str, Any]


def checked(kind: type[T], reply: object) -> T:
    """Convert JSON values to an object of `kind`. Raises `KernelError`."""
    try:
        return cast("T", _adapter(cast("Hashable", kind)).validate_python(reply))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        name = getattr(kind, "__name__", kind)
        raise KernelError(f"{name} {field}: {first['msg']}") from None


@functools.cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast("Any", kind))


class Answers:
    """Open calls of another process, each answered on a thread of its own."""

    def __init__(self, send: Callable[[Frame], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._open: dict[int, Callable[[], object]] = {}

    def start(self, number: int, call: Callable[[], Any], cancel: Callable[[], object]) -> None:
        with self._lock:
            self._open[number] = cancel
        start_thread("mahtab-call", self._answer, number, call)

    def cancel(self, number: int) -> None:
        with self._lock:
            cancel = self._open.pop(number, None)
        if cancel is not None:
            cancel()

    def cancel_all(self) -> None:
        for number in list(self._open):
            self.cancel(number)

    def _answer(self, number: int, call: Callable[[], Any]) -> None:
        answer: Frame = {"op": "answer", "id": number}
        try:
            self._send_if_open({**answer, "value": call()})
        except BaseException as error:  # the thread's outermost frame; the caller raises it
            self._send_if_open({**answer, "error": str(error) or type(error).__name__})
        with self._lock:
            self._open.pop(number, None)

    def _send_if_open(self, answer: Frame) -> None:
        if answer["id"] in self._open:
            self._send(answer)


class CallAnswers(Answers):
    def __init__(self, host: KernelHost, send: Callable[[Frame], object]) -> None:
        super().__init__(send)
        self._host = host

    def begin(self, call: HostCall) -> None:
        self.start(
            call.id,
            functools.partial(self._host.call, call.name, call.args),
            functools.partial(self._host.call_cancelled, call.name),
        )


MOST = 100

NO_ANSWER = (
    "The kernel does not answer: code that cannot be interrupted keeps its interpreter busy."
)


class ControlRequests:
    def __init__(self, send: Callable[[Frame], None]) -> None:
        """send: raises `ValueError` if a frame cannot be sent."""
        self._send = send
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._open: dict[int, Future[Any]] = {}
        self._ended = ""

    def ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        """Send a request and wait for the reply. Raises `KernelError`."""
        timeout = operation.timeout if timeout is None else timeout
        now = time.monotonic()
        with self._changed:
            free = self._changed.wait_for(lambda: self._ended or len(self._open) < MOST, timeout)
            if self._ended:
                raise KernelError(self._ended)
            if not free:
                raise KernelError(NO_ANSWER)
            number = next(self._ids)
            reply: Future[Any] = Future()
            self._open[number] = reply
        try:
            self._send({"op": operation.name, "id": number, **fields})
        except ValueError as error:
            self._take(number)
            raise KernelError(f"The kernel cannot be sent a request: {error}.") from None
        try:
            value = reply.result(max(0.0, now + timeout - time.monotonic()))
        except TimeoutError:
            raise KernelError(NO_ANSWER) from None
        return checked(operation.result, value)

    def on_reply(self, frame: Frame) -> None:
        """Raises `KeyError`, `TypeError` if it is malformed."""
        error = frame.get("error")
        value = frame["value"] if error is None else None
        reply = self._take(frame["id"])
        if reply is None:
            return
        if error is None:
            reply.set_result(value)
        else:
            reply.set_exception(KernelError(str(error)))

    def end(self, how: str) -> None:
        with self._changed:
            self._ended = how
            left, self._open = self._open, {}
            self._changed.notify_all()
        for reply in left.values():
            reply.set_exception(KernelError(how))

    def _take(self, number: int) -> Future[Any] | None:
        with self._changed:
            reply = self._open.pop(number, None)
            self._changed.notify_all()
        return reply
