"""Messages between host and kernel: requests, their replies, and calls from cells."""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
import threading
import time
import typing
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from mahtab_tui.bus.values import Change, FileChange, Status, TracebackFrame
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.kernel.host import HostCall, KernelHost
from mahtab_tui.kernel.operations import Operation
from mahtab_tui.kernel.values import OutputKind
from mahtab_tui.system import ReusedThreads, start_thread
from mahtab_tui.worker.link.frames import Frame, encode

MAX_QUEUED_BYTES = 64 * 2**20
"""Maximum bytes in the queue of messages for a kernel. A single message may be larger."""
MAX_OPEN_REQUESTS = 100
"""Requests that wait for a reply; a further one waits until there are fewer."""
LIST_PART_ITEMS = 2_000
"""Items of a long list in a message that are checked at once."""
NO_ANSWER = (
    "The kernel does not answer: code that cannot be interrupted keeps its interpreter busy."
)

T = TypeVar("T")


class OutgoingFullError(ValueError):
    """The kernel does not read its messages, and too many are queued."""


class Outbox:
    """Sends whole messages, in order. A thread sends what the socket does not accept at once."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        """Create a queue without a channel.

        Args:
            give_up: Called if not even a short answer fits.
        """
        self.channel: socket.socket | None = None
        self._give_up = give_up
        self._lock = threading.Lock()
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._writer: threading.Thread | None = None
        """Sends the queue; None if that is empty."""

    def send(self, data: bytes) -> None:
        """Send or queue an encoded frame; ignores a kernel that has ended.

        Raises `OutgoingFullError`.
        """
        with self._lock:
            if self.channel is None:
                return
            unsent = memoryview(data)
            if not self._queue:
                try:
                    unsent = unsent[self.channel.send(unsent, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    pass
                except OSError:
                    return
                if not unsent:
                    return
            elif self._queued_bytes + len(unsent) > MAX_QUEUED_BYTES:
                raise OutgoingFullError("the kernel does not read its messages")
            self._queue.append(unsent)
            self._queued_bytes += len(unsent)
            if self._writer is None:
                self._writer = start_thread("mahtab-outgoing", self._write, self.channel)

    def answer(self, answer: Frame) -> None:
        """Send an answer. Raises `OutgoingFullError`, after which a shorter one can be sent."""
        try:
            self.send(encode(answer))
        except OutgoingFullError:
            if "error" not in answer:
                raise
            self._give_up()

    def close(self) -> None:
        """Close the channel; messages in the queue are lost."""
        with self._lock:
            channel = self.channel
            self.channel = None
            writer = self._writer
        if channel is None:
            return
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)
        if writer is not None:
            writer.join()
        channel.close()

    def _write(self, channel: socket.socket) -> None:
        """Send the queue until it is empty. Runs on a thread."""
        while True:
            with self._lock:
                if self.channel is None or not self._queue:
                    self._writer = None
                    return
                # It stays in the queue while it is sent, so that later messages follow it.
                message = self._queue[0]
            unsent = message
            try:
                while unsent:
                    unsent = unsent[channel.send(unsent) :]
            except OSError:
                with self._lock:
                    self._queue.clear()
                    self._queued_bytes = 0
                    self._writer = None
                return
            with self._lock:
                self._queue.popleft()
                self._queued_bytes -= len(message)


# Messages of the kernel. The names of their fields are those on the wire.


@dataclass(frozen=True, slots=True)
class KernelReady:
    """The first message of a kernel."""

    python: str
    """Its version."""
    executable: str
    cwd: str
    pid: int
    locks: tuple[str, ...] = ("keep", "discard")
    """The ways to confine a cell that the kernel knows. Kernels of version 0.1 do not say, and know
    these two."""


@dataclass(frozen=True, slots=True)
class CellEnd:
    """The message about the end of a cell: an `executor.Outcome`, checked because code of the user's
    may have forged it. The host adds the output, and makes a `CellResult` of it."""

    cell: int
    status: Status
    pieces: tuple[tuple[OutputKind, str], ...]
    """The value or the traceback, after what was printed."""
    changes: tuple[Change, ...]
    frames: tuple[TracebackFrame, ...]
    duration: float
    """In seconds."""
    cwd: str
    seal: str = ""
    """The token of the request to run the cell, which user code does not know."""
    needs: str = ""
    """The access that a cell in a locked fork lacked."""
    files: tuple[FileChange, ...] = ()


@dataclass(frozen=True, slots=True)
class CallMessage:
    """A kernel's request to call a function of the host."""

    id: int
    name: str
    args: dict[str, Any]
    is_from_main_thread: bool = True
    """Whether the running cell waits for it. Kernels of version 0.1 do not say."""


def checked(kind: type[T], reply: object) -> T:
    """Convert JSON values to an object of `kind`. Raises `KernelError`."""
    try:
        prepared_reply = _check_long_lists(kind, reply)
        return cast("T", _adapter(cast("Hashable", kind)).validate_python(prepared_reply))
    except ValidationError as error:
        # The input is left out, because it may be large or a secret.
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        field = ".".join(map(str, problems[0]["loc"]))
        name = getattr(kind, "__name__", kind)
        raise KernelError(f"{name} {field}: {problems[0]['msg']}") from None


def _check_long_lists(kind: Any, reply: object) -> object:
    """Check the items of long lists in parts, because Python's other threads, such as the one that
    reads keys, wait while pydantic checks a value.

    Args:
        kind: The type of the reply.
        reply: JSON values.

    Returns:
        The reply with objects in place of these items, which are not checked again. A list with an
        invalid item stays as it is, so that the error of the whole reply says where the item is.
    """
    if isinstance(reply, list) and len(reply) > LIST_PART_ITEMS:
        item_kind, *others = typing.get_args(kind) or (Any,)
        if others not in ([], [...]):
            return reply
        part_adapter = _adapter(cast("Any", list)[item_kind])
        items: list[Any] = []
        try:
            for start in range(0, len(reply), LIST_PART_ITEMS):
                items += part_adapter.validate_python(reply[start : start + LIST_PART_ITEMS])
        except ValidationError:
            return reply
        return items
    if isinstance(reply, dict) and is_dataclass(kind):
        field_kinds = _field_kinds(cast("Hashable", kind))
        return {
            name: _check_long_lists(field_kinds.get(name), value) for name, value in reply.items()
        }
    return reply


@functools.cache
def _field_kinds(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


@functools.cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast("Any", kind))


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
