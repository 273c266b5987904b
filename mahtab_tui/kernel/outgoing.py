"""Sends messages to a kernel without blocking, because a cell that holds the interpreter may keep
it from reading for ever."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable

from mahtab_tui.kernel.worker.frames import Frame, encode

LIMIT = 64 * 2**20
"""Bytes that may wait in the queue. A single message may be larger."""


class OutgoingFullError(ValueError):
    """The kernel does not read, and too much is waiting."""


class SendQueue:
    """Sends whole messages over a socket in order. What the socket does not accept at once is sent
    by a thread, which ends when the queue is empty. Any thread may call it."""

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
        """Close the socket and drop waiting messages."""
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
    """The frames for a kernel process. Before it has a connection they go nowhere: its reader
    thread notices a dead one, and tells."""

    def __init__(self, give_up: Callable[[], None]) -> None:
        """give_up: called when it does not read answers."""
        self.queue: SendQueue | None = None
        self._give_up = give_up

    def send(self, frame: Frame) -> None:
        """Send a frame. Raises `OutgoingFullError`, `FrameError`."""
        self.send_data(encode(frame))

    def send_data(self, data: bytes) -> None:
        """Send an encoded frame. Raises `OutgoingFullError`."""
        if self.queue is not None:
            self.queue.send(data)

    def tell(self, data: bytes) -> None:
        """Send an encoded frame, unless the kernel reads nothing."""
        with contextlib.suppress(OutgoingFullError):
            self.send_data(data)

    def answer(self, answer: Frame) -> None:
        """Send an answer. Raises `OutgoingFullError`, after which a shorter one is sent."""
        try:
            self.send(answer)
        except OutgoingFullError:
            if "error" not in answer:
                raise
            self._give_up()
