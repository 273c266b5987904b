"""The thread of the kernel that reads what the host sends."""

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


class ControlThread:
    """Reads what host and holder send, and flushes the output of running code."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._channel = worker.channel
        self._holder = worker.holder
        self._reader = FrameReader()
        self._host_gone = False

    def run(self) -> None:
        """Serve until the kernel has to end."""
        # The signal is for the main thread, because only there does it end a `sleep`.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._worker.calls.reader_thread_id = threading.get_ident()
        was_busy = False
        while True:
            try:
                busy = self._worker.is_active()
                # Once more, because a thread may have printed just before its end.
                active = busy or was_busy
                was_busy = busy
                ready = self._ready(active)
                if active:
                    self._worker.environment.flush()
                if not self._serve(ready):
                    break
            except FrameError:  # code has read from the descriptor, or closed it
                os._exit(EXIT_CONNECTION_LOST)
            except:  # noqa: E722  (the thread's outermost frame; even the name BaseException may be gone)
                self._worker.environment.repair_builtins()
        self._worker.on_disconnect()

    def _ready(self, active: bool) -> list[int]:
        """Wait for something to read; return the descriptors.

        Args:
            active: Whether code may print.
        """
        poll = select.poll()
        timeout_ms = FLUSH_INTERVAL_MS if active else None
        if not self._host_gone:
            poll.register(self._channel.fd, select.POLLIN)
        if self._holder is not None:
            if self._holder.fd >= 0:
                poll.register(self._holder.fd, select.POLLIN)
            if timeout_ms is None and self._channel.detached:
                timeout_ms = _EXPIRY_CHECK_INTERVAL_MS
        return [fd for fd, _event in poll.poll(timeout_ms)]

    def _serve(self, ready: list[int]) -> bool:
        """Read what has come; return whether the kernel goes on.

        Args:
            ready: Descriptors to read.
        """
        if self._channel.fd in ready and not self._read():
            return False
        if self._holder is None:
            return True
        if self._holder.fd in ready:
            while not self._host_gone and is_readable(self._channel.fd):
                if not self._read():
                    return False
            if not self._holder.on_message():
                return False
            self._reader = FrameReader()
            self._host_gone = self._channel.detached
        return not self._holder.has_expired()

    def _read(self) -> bool:
        """Handle what the host has sent; return whether the kernel goes on."""
        try:
            data = os.read(self._channel.fd, 65536)
        except ConnectionResetError:
            data = b""
        except OSError:  # code has closed the descriptor, or given its number to another file
            raise FrameError("the connection was closed") from None
        for frame in self._reader.feed(data):
            self._worker.responder.handle(frame)
        self._host_gone = not data
        return bool(data) or (self._holder is not None and self._holder.on_host_closed())
