"""The queue of the host's messages for a kernel."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable

from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.frames import Frame, encode

MAX_QUEUED_BYTES = 64 * 2**20
"""Maximum bytes in the queue. A single message may be larger."""


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
                unsent = _send_at_once(self.channel, unsent)
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


def _send_at_once(channel: socket.socket, data: memoryview) -> memoryview:
    """Send what the socket accepts without waiting.

    Returns:
        The rest; empty if the kernel has ended, because nothing can be sent any more.
    """
    try:
        return data[channel.send(data, socket.MSG_DONTWAIT) :]
    except BlockingIOError:
        return data
    except OSError:
        return data[:0]
