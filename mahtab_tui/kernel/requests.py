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
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from mahtab_tui.kernel.base import KernelError, KernelHost, Operation, Operations
from mahtab_tui.kernel.values import Change, OutputKind, Status
from mahtab_tui.worker.frames import Frame, encode

LIMIT = 64 * 2**20
"""Maximum bytes in the queue. A single message may be larger."""


class OutgoingFullError(ValueError):
    """The kernel does not read, and too much is queued."""


class SendQueue:
    """Sends whole messages over a socket in order. A thread sends what the socket does not accept
    at once, and ends when the queue is empty. Any thread may call it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._waiting: deque[memoryview] = deque()
        """The first message is being sent, and stays here until it has been sent."""
        self._size = 0
        self._writer: threading.Thread | None = None
        self._closed = False

    def send(self, data: bytes) -> None:
        """Send or queue a message. Raises `OutgoingFullError`; ignores a kernel that has ended."""
        with self._lock:
            if self._closed:
                return
            view = memoryview(data)
            if not self._waiting:
                try:
                    view = view[self._channel.send(view, socket.MSG_DONTWAIT) :]
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
                self._writer = threading.Thread(
                    target=self._write, name="mahtab-outgoing", daemon=True
                )
                self._writer.start()

    def end(self) -> None:
        """Tell the kernel that no more messages will come."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket and drop queued messages."""
        with self._lock:
            self._closed = True
            writer = self._writer
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        if writer is not None:
            writer.join()
        self._channel.close()

    def _write(self) -> None:
        while True:
            with self._lock:
                if self._closed or not self._waiting:
                    self._writer = None
                    return
                first = view = self._waiting[0]
            try:
                while view:
                    view = view[self._channel.send(view) :]
            except OSError:
                with self._lock:
                    self._closed = True
                return
            with self._lock:
                self._waiting.popleft()
                self._size -= len(first)


class Outbox:
    """Frames for a kernel process. Without a connection they are dropped: the reader thread notices
    a lost one, and reports it."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        """give_up: called when the kernel does not read answers."""
        self.queue: SendQueue | None = None
        self._give_up = give_up

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises `OutgoingFullError` and `FrameError`."""
        self.send_data(encode(frame))

    def send_data(self, data: bytes) -> None:
        """Send an encoded frame. Raises `OutgoingFullError`."""
        if self.queue is not None:
            self.queue.send(data)

    def send_soon(self, data: bytes) -> None:
        """Send an encoded frame, unless the kernel is not reading."""
        with contextlib.suppress(OutgoingFullError):
            self.send_data(data)

    def answer(self, answer: Frame) -> None:
        """Send an answer. Raises `OutgoingFullError`, after sending a shorter one."""
        try:
            self.send(answer)
        except OutgoingFullError:
            if "error" not in answer:
                raise
            self._give_up()


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
    """The fields of each `TracebackFrame`."""
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
    """Convert JSON values to an object of `kind`. Raises `KernelError` if they are invalid."""
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
    """The open calls of another process, each answered on a thread of its own. send: sends an
    answer; raises `TypeError` or `ValueError` if it cannot."""

    def __init__(self, send: Callable[[Frame], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._open: dict[int, Callable[[], object]] = {}
        """The functions that cancel them."""

    def start(self, number: int, call: Callable[[], Any], cancel: Callable[[], object]) -> None:
        with self._lock:
            self._open[number] = cancel
        threading.Thread(
            target=self._answer, args=(number, call), name="mahtab-call", daemon=True
        ).start()

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
    """The open calls of a kernel, answered by its host."""

    def __init__(self, host: KernelHost, send: Callable[[Frame], object]) -> None:
        super().__init__(send)
        self._host = host

    def begin(self, call: HostCall) -> None:
        self.start(
            call.id,
            functools.partial(self._host.call, call.name, call.args),
            functools.partial(self._host.call_cancelled, call.name),
        )


ONE_BY_ONE = (Operations.complete.name,)
"""Requests made at each key press. The next one is sent only after the last reply, so that they do
not pile up in a busy kernel."""

STALE_AFTER = 10.0
"""Seconds after which the next one is sent anyway, because the last one may be waiting for a lost
disk."""

MOST = 100

NO_ANSWER = (
    "The kernel does not answer: code that cannot be interrupted keeps its interpreter busy."
)


class _Request(NamedTuple):
    op: str
    sent: float
    reply: Future[Any]


class ControlRequests:
    """The open requests, including abandoned ones. Any thread may call it."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        """send: may raise `ValueError` if a frame cannot be sent."""
        self._send = send
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._open: dict[int, _Request] = {}
        self._ended = ""

    def ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        """Send a request and wait for the reply. timeout: if not the operation's. Raises
        `KernelError` with the kernel's message, or if there is no reply in time."""
        op = operation.name
        timeout = operation.timeout if timeout is None else timeout
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
            reply = request.reply.result(max(0.0, now + timeout - time.monotonic()))
        except TimeoutError:
            raise KernelError(NO_ANSWER) from None
        return checked(operation.result, reply)

    def on_reply(self, frame: Frame) -> None:
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
        """Fail all requests, because the kernel has ended."""
        with self._changed:
            self._ended = how
            left, self._open = self._open, {}
            self._changed.notify_all()
        for request in left.values():
            request.reply.set_exception(KernelError(how))

    def _may_send(self, op: str, now: float) -> bool:
        recent = (each for each in self._open.values() if now - each.sent < STALE_AFTER)
        waits = op in ONE_BY_ONE and any(each.op == op for each in recent)
        return not waits and len(self._open) < MOST

    def _take(self, number: int) -> _Request | None:
        with self._changed:
            request = self._open.pop(number, None)
            self._changed.notify_all()
        return request
