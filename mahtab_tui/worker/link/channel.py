"""The kernel's end of the connection: writes frames to the host, or keeps them while there is
none."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Callable

from ..stdlib import late_import
from .exit_codes import EXIT_CONNECTION_LOST
from .frames import MAX_FRAME_BYTES, TOKEN_BYTES, Frame, encode, encode_body, join_frame

if TYPE_CHECKING:
    from .backlog import EventBacklog
    from .interrupts import Interrupts

_HOST_GONE_ERRNOS = frozenset({errno.EPIPE, errno.ECONNRESET})
"""Errors of a write after the host has closed its end."""


class Channel:
    """Writes frames to a descriptor, each as a whole. Any thread may use it."""

    def __init__(
        self,
        fd: int,
        interrupts: Interrupts,
        limit: int = MAX_FRAME_BYTES,
        token: bytes = b"",
        backlog: EventBacklog | None = None,
    ) -> None:
        """Create the channel on the main thread.

        Args:
            fd: The descriptor; -1 in a forked child.
            interrupts: Held back while the main thread writes.
            limit: The largest frame, in bytes.
            token: Begins each frame, so that the host can tell it from bytes that code writes.
            backlog: notes what no host has stored, for a kernel that outlives its host. Without
                it, the process ends with the connection.
        """
        self.fd = fd
        self.detached = False
        """Whether there is no host."""
        self.link_down = False
        """Whether the host is on another machine that cannot be reached now."""
        self.answer_unheard_calls: Callable[[], None] = lambda: None
        """Answers calls to a host that cannot answer, so that the code that waits for them goes
        on."""
        self._backlog = backlog
        self._limit = limit
        self._token = token
        self._interrupts = interrupts
        # A finalizer or a signal handler that sends must not wait for its own thread.
        self._lock = threading.RLock()
        """Held while a frame is written."""
        self._is_writing = False
        """Whether a frame is being written, by the thread that holds the lock."""
        self._main_thread_id = threading.get_ident()
        os.register_at_fork(after_in_child=self._close_in_child)

    def send(self, frame: Frame) -> None:
        """Write a frame, or keep it for the next host. Ends the process if there will be none.

        Raises:
            TypeError, FrameError: The frame cannot be encoded, or is too large.
            RuntimeError: This process is a forked child, or a finalizer or a signal handler sends a
                frame while its thread writes another one.
        """
        if self.fd < 0:
            raise RuntimeError("a forked process cannot reach the session")
        # Before the lock, because finalizers may run meanwhile, and send frames.
        body = encode_body(frame, self._limit)
        if threading.get_ident() == self._main_thread_id:
            with self._interrupts.shielded():
                self._write(frame, body)
        else:
            self._write(frame, body)

    def _write(self, frame: Frame, body: bytes) -> None:
        """Write an encoded frame as `send` does, on any thread."""
        with self._writing():
            if self._backlog is not None:
                self._backlog.record(frame)
            if not self.detached:
                self._write_all(join_frame(body, self._token))

        is_unheard = self.detached or self.link_down
        if is_unheard and frame["op"] == "call":
            self.answer_unheard_calls()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Let only this thread write within this context.

        Raises `RuntimeError` if it writes a frame already.
        """
        with self._lock:
            if self._is_writing:
                raise RuntimeError("the session cannot be called while a message to it is written")
            self._is_writing = True
            try:
                yield
            finally:
                self._is_writing = False

    def _write_all(self, data: bytes) -> None:
        """Write data; the host may disappear meanwhile. The lock must be held."""
        unwritten = memoryview(data)
        try:
            while unwritten:
                written_bytes = os.write(self.fd, unwritten)
                unwritten = unwritten[written_bytes:]
        except OSError as error:
            if self._backlog is None or error.errno not in _HOST_GONE_ERRNOS:
                os._exit(EXIT_CONNECTION_LOST)
            self.detached = True

    def attach_host(self, fd: int, hello: Frame) -> None:
        """Switch to another host.

        Args:
            fd: The descriptor of the new connection, which begins with the new token. It is closed.
            hello: The first frame that the host gets, with the backlog.
        """
        if not self.detached:
            # The kernel was taken from the old host, which may not be reading: this ends a write
            # that waits for it and holds the lock.
            with suppress(OSError):
                socket = late_import("socket")
                socket.socket(fileno=os.dup(self.fd)).shutdown(socket.SHUT_RDWR)

        token = os.read(fd, TOKEN_BYTES)
        with self._writing():
            os.dup2(fd, self.fd, inheritable=False)
            os.close(fd)
            self._token = token
            self.detached = False
            assert self._backlog is not None
            story = self._backlog.to_frame()
            self._write_all(encode({**hello, "story": story}, self._limit, token))

    def _close_in_child(self) -> None:
        """Close the descriptor in a forked child, which must not write to the host."""
        if self.fd >= 0:  # else it is the child of a child
            with suppress(OSError):  # code has closed it
                os.close(self.fd)
            self.fd = -1
