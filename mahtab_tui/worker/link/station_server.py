"""The process next to a remote kernel, which keeps it when a connection breaks.

A host connects through the loader, and sends a first line: it goes on with its kernel (and says which message it
has received last), attaches as another host, or asks for the end. After that, both sides speak over the `Link`,
which survives the connection ("the wire"). While there is none, output waits in the kernel's spool.
"""

from __future__ import annotations

import hmac
import json
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from .holder_protocol import END_KERNEL, HOST_AWAY, HOST_BACK, is_same_user
from .station_kernel import StationKernel
from .station_link import (
    END,
    EXITED,
    FRAMES,
    LINK_PIECE_BYTES,
    OFFSET,
    OUTPUT,
    SIGNAL,
    STORED,
    Link,
    LinkError,
    Message,
)

BACK_PRESSURE_BYTES = 4 * 2**20
"""The kernel's prints wait while a connected host has not confirmed this many bytes."""
MAX_AHEAD_BYTES = 2**20
"""Output stays in the spool when this many bytes wait for a disconnected host."""
MAX_WAITING_DISPLAY_BYTES = 64 * 2**20
"""Displays wait for a disconnected host when this many bytes do."""
_MAX_FIRST_LINE_BYTES = 4096
"""Bytes of the first line of a connection."""
_FIRST_LINE_TIMEOUT_S = 5.0
"""Seconds in which it must come."""
_STOP_TIMEOUT_S = 6.0
"""Seconds for an idle kernel to end."""
_EXIT_RETENTION_S = 600.0
"""Seconds for which an idle kernel's end is kept for the host."""
_HEARTBEAT_INTERVAL_S = 5.0
"""Seconds between two messages that only say that this side is there."""
_IDLE_INTERVAL_S = 1.0
"""Seconds between two looks at the time limits while there is no connection."""


class _Watched(NamedTuple):
    """A file that the station waits for."""

    fd: int
    events: int
    """The events that `poll` reports."""
    handle: Callable[[], None]


class _Candidate(NamedTuple):
    """A new connection that has not said what it wants."""

    since: float
    """When (`time.monotonic`) it came."""
    line: bytearray
    """What it has sent."""


class StationServer:
    """Keeps a kernel for the host that has its token, whatever happens to the connection."""

    def __init__(self, listener: socket.socket, folder: str, request: dict[str, Any]) -> None:
        """Start the kernel.

        Args:
            listener: The socket on which hosts connect.
            folder: The folder of the worker's code.
            request: What the first host has asked for: its name ("host"), the token that only those know
                who may have the kernel, and how to start it ("start").
        """
        self._listener = listener
        self._token = str(request["token"])
        self._host = str(request["host"])
        """The name of the host that has the kernel."""
        self._idle_limit_s = float(request["start"]["keep"])
        """Seconds without a connection after which an idle kernel ends."""
        self._kernel = StationKernel(request["start"], folder)

        # Connections
        self._link = Link()
        self._wire: socket.socket | None = None
        """The connection in use; None if there is none."""
        self._candidates: dict[socket.socket, _Candidate] = {}
        """Connections that have not said what they want."""
        self._want_end: list[socket.socket] = []
        """Connections that wait for the end of the kernel."""
        self._alone_since = time.monotonic()
        """When the last connection ended, or the kernel."""
        self._is_told_away = False
        """Whether the kernel was told that its host cannot be reached."""

        # The kernel's end
        self._was_stopped = False
        """Whether a host has asked for it."""
        self._ends_at = 0.0
        """When (`time.monotonic`) the kernel is killed; 0 if it may live."""
        self._exit_code: int | None = None
        """The exit code of the kernel, once it has ended."""

    def run(self, first_connection: socket.socket) -> None:
        """Serve until the host knows of the end, or nobody has connected for too long."""
        self._add_candidate(first_connection)
        last_heartbeat = time.monotonic()
        while True:
            self._enforce_time_limits()
            if self._is_over():
                return
            self._tell_whether_away()
            poll = select.poll()
            handlers: dict[int, Callable[[], None]] = {}
            for watched in self._watched():
                poll.register(watched.fd, watched.events)
                handlers[watched.fd] = watched.handle
            timeout_s = _IDLE_INTERVAL_S if self._wire is None else _HEARTBEAT_INTERVAL_S
            for fd, _ in poll.poll(1000 * timeout_s):
                # Earlier ones may have closed the file, but none blocks.
                handlers[fd]()
            now = time.monotonic()
            if now - last_heartbeat >= _HEARTBEAT_INTERVAL_S:
                last_heartbeat = now
                self._link.send_heartbeat()
            self._dismiss_silent_candidates(now)

    def _dismiss_silent_candidates(self, now: float) -> None:
        for connection, candidate in list(self._candidates.items()):
            if now - candidate.since > _FIRST_LINE_TIMEOUT_S:
                del self._candidates[connection]
                connection.close()

    def _watched(self) -> Iterator[_Watched]:
        """Yield what to wait for now."""
        yield _Watched(self._listener.fileno(), select.POLLIN, self._accept)
        for connection in self._candidates:
            authenticate = partial(self._authenticate, connection)
            yield _Watched(connection.fileno(), select.POLLIN, authenticate)
        if self._wire is not None:
            writes = select.POLLOUT if self._link.outgoing else 0
            yield _Watched(self._wire.fileno(), select.POLLIN | writes, self._on_wire)
        if self._exit_code is not None:
            return

        kernel = self._kernel
        if kernel.channel is not None:
            writes = select.POLLOUT if kernel.unread else 0
            yield _Watched(kernel.channel.fileno(), select.POLLIN | writes, self._on_channel)
        yield _Watched(kernel.control.fileno(), select.POLLIN, self._on_kernel_exit)
        # The kernel's prints wait for a host that does not keep up.
        is_behind = self._wire is not None and self._link.unconfirmed_bytes > BACK_PRESSURE_BYTES
        if not kernel.all_printed and not is_behind:
            yield _Watched(kernel.output, select.POLLIN, self._read_output)

    def _accept(self) -> None:
        connection = self._listener.accept()[0]
        self._add_candidate(connection)

    # Time

    def _is_over(self) -> bool:
        """Return whether the kernel has ended, and nobody has to be told."""
        if self._exit_code is None or self._wire is not None:
            return False
        if self._link.is_settled or self._was_stopped:
            return True
        # The end of a cell is worth more than that of an idle kernel.
        limit_s = self._idle_limit_s
        if not self._has_cell:
            limit_s = min(limit_s, _EXIT_RETENTION_S)
        return time.monotonic() - self._alone_since > limit_s

    def _enforce_time_limits(self) -> None:
        """End a kernel that nobody wants, and kill one that does not end; close the wire when its host
        knows of the end."""
        now = time.monotonic()
        if self._exit_code is not None:
            is_told = self._link.is_settled and not self._link.outgoing
            if self._wire is not None and is_told:
                self._close_wire()
            return
        is_abandoned = self._wire is None and now - self._alone_since > self._idle_limit_s
        if is_abandoned and not self._ends_at and not self._has_cell:
            self._end_kernel()
        if self._ends_at and now >= self._ends_at:
            self._kernel.signal(signal.SIGKILL)

    @property
    def _has_cell(self) -> bool:
        """Whether the kernel runs a cell, or ran one when it ended."""
        return self._kernel.state.cell > 0

    def _tell_whether_away(self) -> None:
        """Tell the kernel whether its host can be reached, if that has changed. Without a host, it answers
        displays itself; when too many wait, they wait in the kernel."""
        if self._exit_code is not None:
            return
        is_away = self._wire is None and self._link.unconfirmed_bytes < MAX_WAITING_DISPLAY_BYTES
        if is_away != self._is_told_away:
            self._is_told_away = is_away
            with suppress(OSError):
                self._kernel.control.send(HOST_AWAY if is_away else HOST_BACK)

    # The kernel's messages and output

    def _on_channel(self) -> None:
        """Send what the kernel can take, and pass on what it has sent."""
        self._kernel.send()
        with suppress(BlockingIOError):
            if self._kernel.channel is not None and not self._receive():
                self._on_kernel_exit()

    def _receive(self) -> bool:
        """Pass on data, after the output that precedes it; return False at the end.

        A new host gets the backlog first, and then the output. Raises `BlockingIOError`.
        """
        is_backlog = self._kernel.has_backlog_to_come
        data = self._kernel.receive()
        if not is_backlog:
            self._kernel.spool.move_all()
            self._forward_output()
        if not data:
            return False
        self._link.send(FRAMES, data)
        if is_backlog:
            self._forward_output()
        return True

    def _read_output(self) -> None:
        """Move output to the spool, and pass it on unless too much waits for the host already."""
        with suppress(BlockingIOError):
            self._kernel.all_printed = not self._kernel.spool.move()
        if self._wire is not None or self._link.unconfirmed_bytes < MAX_AHEAD_BYTES:
            self._forward_output()

    def _forward_output(self) -> None:
        """Pass on the output in the spool that the host was not sent; nothing before the backlog."""
        kernel = self._kernel
        spool = self._kernel.spool
        if kernel.has_backlog_to_come or kernel.channel is None:
            return
        while kernel.offset < spool.size:
            piece = spool.read(kernel.offset)
            if piece:
                kernel.offset += len(piece)
                self._link.send(OUTPUT, piece)
            else:
                kernel.offset = spool.next_byte(kernel.offset)
                self._link.send(OFFSET, str(kernel.offset).encode())

    # The kernel's end

    def _end_kernel(self) -> None:
        """Ask the kernel to end."""
        # A kernel that runs a cell does not hear that it should end.
        timeout_s = 0.0 if self._has_cell else _STOP_TIMEOUT_S
        self._ends_at = time.monotonic() + timeout_s
        self._kernel.detach()
        with suppress(OSError):
            self._kernel.control.send(END_KERNEL)

    def _on_kernel_exit(self) -> None:
        """Pass on the last that the kernel has sent and printed, and its exit code."""
        if self._exit_code is not None:
            return
        with suppress(BlockingIOError):
            while self._kernel.channel is not None and self._receive():
                continue
        self._exit_code = self._kernel.reap()
        self._kernel.spool.move_all()
        self._forward_output()
        self._alone_since = time.monotonic()
        self._link.send(EXITED, str(self._exit_code).encode())
        for connection in self._want_end:
            self._send_end(connection)

    # Connections

    def _add_candidate(self, connection: socket.socket) -> None:
        """Wait for what a connection wants, if it is of the same user."""
        # On systems other than Linux, only the folder's permissions keep others out.
        if hasattr(socket, "SO_PEERCRED") and not is_same_user(connection):
            connection.close()
            return
        connection.setblocking(False)
        self._candidates[connection] = _Candidate(time.monotonic(), bytearray())

    def _authenticate(self, connection: socket.socket) -> None:
        """Read the first line of a connection, and nothing after it."""
        line = self._candidates[connection].line
        try:
            data = connection.recv(_MAX_FIRST_LINE_BYTES - len(line), socket.MSG_PEEK)
            line_bytes = data.find(b"\n") + 1 or len(data)
            line += connection.recv(line_bytes)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        is_whole = line.endswith(b"\n")
        if data and not is_whole and len(line) < _MAX_FIRST_LINE_BYTES:
            return

        del self._candidates[connection]
        if data and is_whole:
            self._answer(connection, bytes(line))
        else:
            connection.close()

    def _answer(self, connection: socket.socket, line: bytes) -> None:
        """Do what the first line of a connection asks for; close one that may not have the kernel."""
        answer: dict[str, object] = {}
        try:
            request = json.loads(line)
            if not hmac.compare_digest(str(request["token"]).encode(), self._token.encode()):
                raise ValueError("a wrong token")
            if "stop" in request:
                self._stop(connection)
                return
            if "attach" in request:
                answer = self._attach(connection, request)
            elif request["host"] != self._host:
                connection.send(b'{"taken": true}\n')
                raise ValueError("another host has the kernel now")
            self._close_wire()
            self._link.connect(int(request["received"]))
        except (ValueError, KeyError, TypeError, LinkError, OSError):
            connection.close()
            return
        self._use_wire(connection, answer)
        self._forward_output()

    def _stop(self, connection: socket.socket) -> None:
        """End the kernel, and tell a connection when it has ended."""
        self._was_stopped = True
        if self._exit_code is not None:
            self._send_end(connection)
            return
        self._want_end.append(connection)
        if not self._ends_at:
            self._end_kernel()

    def _use_wire(self, connection: socket.socket, answer: dict[str, object]) -> None:
        """Begin to use a connection.

        Args:
            connection: The connection.
            answer: What its host gets before the first message.
        """
        self._wire = connection
        line = json.dumps({**answer, "received": self._link.received_number}) + "\n"
        self._link.outgoing[:0] = line.encode()

    def _send_end(self, connection: socket.socket) -> None:
        """Report the end to a connection that requested it, with data that no connected host
        gets."""
        if self._kernel.state.cell and self._wire is None:
            answer = self._send_last()
            self._link.connect(0)
            self._use_wire(connection, answer)
            return
        with suppress(OSError):
            connection.send(b'{"received": 0}\n')
        connection.close()

    def _attach(self, connection: socket.socket, request: dict[str, object]) -> dict[str, object]:
        """Give the kernel to another host; return what this host gets before the first message.

        Raises `ValueError` or `OSError` if there is no kernel any more, or no new channel to it.
        """
        if self._exit_code is not None and self._kernel.state.cell:
            return self._send_last()
        if self._exit_code is not None or self._ends_at:
            connection.send(b'{"error": "the kernel has ended in the meantime"}\n')
            raise ValueError("nothing to attach to")

        host = str(request["host"])
        self._close_wire()
        self._kernel.attach(str(request["attach"]))
        self._host = host
        self._link = Link()
        return self._kernel.state.as_frame()

    def _send_last(self) -> dict[str, object]:
        """Send the output of the cell in which the kernel has ended; return the answer before it."""
        self._close_wire()
        self._link = Link()
        for piece in self._kernel.spool.iter_from(self._kernel.state.output_offset):
            self._link.send(OUTPUT, piece)
        self._link.send(EXITED, str(self._exit_code).encode())
        return {"last": self._kernel.state.cell}

    def _close_wire(self) -> None:
        """Close the connection, if there is one; messages wait for the next one."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
            self._alone_since = time.monotonic()
        self._link.disconnect()

    def _on_wire(self) -> None:
        """Read from the connection, and write to it what it can take."""
        if self._wire is None:
            return
        try:
            with suppress(BlockingIOError):
                data = self._wire.recv(LINK_PIECE_BYTES)
                if not data:
                    self._close_wire()
                    return
                for message in self._link.feed(data):
                    self._handle(message)
            with suppress(BlockingIOError):
                if self._link.outgoing:
                    sent_bytes = self._wire.send(self._link.outgoing[:LINK_PIECE_BYTES])
                    del self._link.outgoing[:sent_bytes]
        except (OSError, LinkError):
            self._close_wire()

    def _handle(self, message: Message) -> None:
        """Do what a message of the host says."""
        kernel = self._kernel
        if message.kind == FRAMES:
            kernel.send(message.data)
        elif message.kind == SIGNAL:
            if self._exit_code is None:
                kernel.signal(int(message.data))
        elif message.kind == STORED:
            kernel.spool.release(min(int(message.data), kernel.offset))
        elif message.kind == END:
            kernel.send(is_last=True)
