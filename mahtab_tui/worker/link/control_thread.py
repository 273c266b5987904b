"""The thread of the kernel that reads what the host sends.

It also flushes the output of running code, and ends a kernel that was left without a host for too
long. Requests go to the `Responder`; cells run on the main thread.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from typing import TYPE_CHECKING

from .descriptors import is_readable
from .exit_codes import EXIT_CONNECTION_LOST
from .frames import FrameError, FrameReader

if TYPE_CHECKING:
    from ..worker import Worker

FLUSH_INTERVAL_MS = 50
"""Milliseconds between two flushes of the output while a cell or a thread runs."""
_EXPIRY_CHECK_INTERVAL_MS = 1000
"""Milliseconds between two looks at whether a kernel without a host has to end."""
_READ_BYTES = 2**16
"""Bytes that are read at once."""


class ControlThread:
    """Reads what host and holder send, and flushes the output of running code.

    The holder is the process that keeps a kernel without a host, and hands it to the next one.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._channel = worker.channel
        self._holder = worker.holder
        """None for a kernel that ends with its host."""
        self._reader = FrameReader()
        self._is_host_gone = False
        """Whether the host has closed its end of the connection."""

    def run(self) -> None:
        """Serve until the kernel has to end."""
        # The signal is for the main thread, because only there does it end a `sleep`.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._worker.calls.reader_thread_id = threading.get_ident()
        was_busy = False
        while True:
            try:
                is_busy = self._worker.is_active()
                # Once more after the end, because a thread may have printed just before it.
                may_print = is_busy or was_busy
                was_busy = is_busy
                ready_fds = self._wait_for_input(may_print)
                if may_print:
                    self._worker.environment.flush()
                if not self._serve(ready_fds):
                    break
            except FrameError:  # code has read from the descriptor, or closed it
                os._exit(EXIT_CONNECTION_LOST)
            except:  # noqa: E722  (the thread's outermost frame; even the name BaseException may be gone)
                self._worker.environment.repair_builtins()
        self._worker.on_disconnect()

    def _wait_for_input(self, may_print: bool) -> list[int]:
        """Wait until something can be read, or is to be done.

        Args:
            may_print: Whether code may print, so that its output has to be flushed soon.

        Returns:
            The descriptors that can be read.
        """
        poll = select.poll()
        timeout_ms = FLUSH_INTERVAL_MS if may_print else None
        if not self._is_host_gone:
            poll.register(self._channel.fd, select.POLLIN)
        if self._holder is not None:
            if self._holder.fd >= 0:
                poll.register(self._holder.fd, select.POLLIN)
            if timeout_ms is None and self._channel.detached:
                timeout_ms = _EXPIRY_CHECK_INTERVAL_MS
        return [fd for fd, _event in poll.poll(timeout_ms)]

    def _serve(self, ready_fds: list[int]) -> bool:
        """Read what has come, and return whether the kernel goes on.

        Args:
            ready_fds: The descriptors that can be read.
        """
        if self._channel.fd in ready_fds and not self._read_from_host():
            return False
        if self._holder is None:
            return True
        if self._holder.fd in ready_fds:
            # What the old host has sent comes before what the holder says of the next one.
            while not self._is_host_gone and is_readable(self._channel.fd):
                if not self._read_from_host():
                    return False
            if not self._holder.on_message():
                return False
            # The next host begins with a new frame.
            self._reader = FrameReader()
            self._is_host_gone = self._channel.detached
        return not self._holder.has_expired()

    def _read_from_host(self) -> bool:
        """Handle what the host has sent, and return whether the kernel goes on.

        Raises:
            FrameError: Code has closed the connection, or has read from it.
        """
        try:
            data = os.read(self._channel.fd, _READ_BYTES)
        except ConnectionResetError:
            data = b""
        except OSError:  # code has closed the descriptor, or given its number to another file
            raise FrameError("the connection was closed") from None
        for frame in self._reader.feed(data):
            self._worker.responder.handle(frame)
        self._is_host_gone = not data
        return bool(data) or (self._holder is not None and self._holder.on_host_closed())
