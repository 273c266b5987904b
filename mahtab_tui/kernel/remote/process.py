"""A kernel process on another machine, with the interface of a local one."""

from __future__ import annotations

import contextlib
import hmac
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from itertools import chain, repeat
from pathlib import PurePath
from typing import Any

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import (
    RELEASE_SIZE,
    ConnectionState,
    DetachHandle,
    Output,
    screen_variables,
)
from mahtab_tui.kernel.remote.stations import ConnectedKernel, start_remote
from mahtab_tui.kernel.remote.transport import (
    FINISH_TIMEOUT,
    MAX_FINISH_TIMEOUT,
    Address,
    KernelClaimed,
    KernelGone,
    Transport,
    parse,
)
from mahtab_tui.kernel.values import SaveTarget
from mahtab_tui.worker.link import (
    END,
    EXITED,
    FOLDER,
    FRAMES,
    LINK_PIECE,
    OFFSET,
    OUTPUT,
    SIGNAL,
    STORED,
    Link,
    LinkError,
)
from mahtab_tui.worker.spool import PIECE, format_omission, pending_bytes


class RemoteOutput:
    """The `worker_process.SeekableOutput` of a remote kernel. The connection's thread writes to it,
    and the kernel's reader thread reads it."""

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        """acknowledge: tells the station up to which offset output is stored."""
        self.pipe, self._write_end = os.pipe()
        self.position = 0
        self._acknowledge = acknowledge
        self._written = self._read = 0
        """Bytes written to and read from the pipe."""
        self._next = 0
        """The offset of the next byte in the pipe."""
        self._skips: deque[tuple[int, int]] = deque()
        """Numbers of bytes in the pipe, each with the offset that follows; noted before those bytes
        are written."""
        self._pieces: deque[tuple[int, bytes]] = deque()
        """Pieces read from the pipe but not yet delivered, with their offsets."""
        self._stored = 0

    # Called by the connection's thread

    def skip_to(self, offset: int) -> None:
        """Set the offset at which the following output was printed."""
        self._skips.append((self._written, offset))

    def write(self, data: bytes) -> None:
        """Write received output, unless nobody reads it any more."""
        self._written += len(data)
        view = memoryview(data)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._write_end, view) :]

    def end(self) -> None:
        os.close(self._write_end)

    # Called by the reader thread

    def read(self) -> bytes | None:
        return (self._next_output() or None) if self._fill() else b""

    def available(self) -> Iterator[bytes]:
        left = self._read + pending_bytes(self.pipe)
        while self._pieces or (self._read < left and self._fill()):
            yield self._next_output()

    def until(self, end: int) -> Iterator[bytes]:
        """Yield the bytes before an offset, waiting for those that have not arrived."""
        while self.position < end and (self._pieces or self._fill()):
            yield self._next_output(end)

    def go_to(self, offset: int) -> None:
        self.position = max(self.position, offset)

    def release(self, offset: int) -> bool:
        if offset - self._stored < RELEASE_SIZE:
            return False
        self._stored = offset
        self._acknowledge(offset)
        return True

    def _fill(self) -> bool:
        """Read from the pipe, waiting if it is empty; returns False at its end."""
        data = rest = os.read(self.pipe, PIECE)
        while rest:
            while self._skips and self._skips[0][0] <= self._read:
                self._next = self._skips.popleft()[1]
            count = min(len(rest), self._skips[0][0] - self._read) if self._skips else len(rest)
            self._pieces.append((self._next, rest[:count]))
            self._read, self._next, rest = self._read + count, self._next + count, rest[count:]
        return bool(data)

    def _next_output(self, end: int | None = None) -> bytes:
        """Return what was read, and report what is missing before it. end: only output printed
        before this offset."""
        given = b""
        while self._pieces and (end is None or self.position < end):
            offset, data = self._pieces.popleft()
            data = data[max(0, self.position - offset) :]
            if not data:
                continue
            if offset > self.position:
                given += format_omission(offset - self.position)
                self.position = offset
            if end is not None and len(data) > (count := max(0, end - self.position)):
                self._pieces.appendleft((self.position + count, data[count:]))
                data = data[:count]
            self.position += len(data)
            given += data
        return given


PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Seconds before each attempt to reconnect; the last value is repeated."""

SILENT = 20.0
"""Seconds of silence after which a connection is given up; the station sends something every 5
s."""

LAST_TRIES = 3
"""Attempts to reconnect after the kernel is not needed any more, to tell it that it was killed."""

_BEAT = 5.0
_PENDING_BYTES = 8 * 2**20
"""Bytes not confirmed by the station, from which on nothing more is taken from the session."""


class RemoteProcess:
    """A remote kernel process; implements `launch.Process` and `launch.DetachHandle`. One thread
    handles the whole connection."""

    shares_clock = False

    def __init__(self, connected: ConnectedKernel, wire: ConnectionState) -> None:
        self._address = parse(connected.station.address)
        self._asked = connected.station.request(connected.host)
        self._noted = connected.noted
        self.detach_handle: DetachHandle | None = None if self._noted is None else self
        self._wire = wire
        self.token = connected.token
        self.was_reattached = connected.was_reattached
        self.ready = connected.ready
        self._link = Link()
        self._code: Future[int] = Future()
        self._exited: int | None = None
        """The kernel's exit code, once the station has reported it."""
        self.channel, self._inner = socket.socketpair()
        self.lifeline, self._claimed = socket.socketpair()
        self._wake, self._woken = socket.socketpair()
        for each in (self._wake, self._woken):
            each.setblocking(False)
        self._output = RemoteOutput(lambda offset: self._order(STORED, str(offset).encode()))
        self.output = self._output.pipe
        self.reader: Output = self._output
        self._orders: deque[tuple[bytes, bytes]] = deque()
        """Messages for the station, in addition to frames."""
        self._leaving = threading.Event()
        """Set when this host detaches from the kernel."""
        self._all_sent = False
        """Whether the session has ended and the station knows."""
        self._connected = True
        self._killed = False
        self._last_tries = LAST_TRIES
        self._thread = threading.Thread(
            target=self._run, args=(connected.transport,), name="mahtab-wire", daemon=True
        )
        self._thread.start()

    def signal(self, number: int) -> None:
        """Send a signal to the kernel and its children, later if there is no connection.

        A killed kernel counts as ended if there is no connection, once the connection is lost, or
        soon if nobody waits for it.
        """
        self._order(SIGNAL, str(number).encode())
        if number == signal.SIGKILL:
            self._killed = True
            if not self._connected:
                self._ended(-number)
            elif self._wire.given_up.is_set():
                waiting = threading.Timer(FINISH_TIMEOUT, self._ended, (-number,))
                waiting.daemon = True
                waiting.start()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the kernel's end; returns its exit code. Raises `subprocess.TimeoutExpired`."""
        try:
            code = self._code.result(timeout)
        except FutureTimeout:
            raise subprocess.TimeoutExpired(self._address.label, timeout or 0.0) from None
        if self._exited is not None:
            self._thread.join(FINISH_TIMEOUT)
        return code

    def leave(self) -> None:
        """Detach from the kernel, and tell the station if connected."""
        self._leaving.set()
        self._order()
        self._thread.join(FINISH_TIMEOUT)
        self.lifeline.close()

    def ended(self) -> None:
        """Note that the kernel has ended, or counts as ended. If its end is not certain, another
        host may still find it."""
        if self._noted is not None and self._exited is not None:
            self._noted.forget()
        self.lifeline.close()

    def _order(self, kind: bytes = b"", data: bytes = b"") -> None:
        if kind:
            self._orders.append((kind, data))
        with contextlib.suppress(OSError):  # the thread has ended, or will wake up anyway
            self._wake.send(b"o")

    # The connection's thread

    def _run(self, first: Transport) -> None:
        transport: Transport | None = first
        try:
            while transport is not None:
                why = self._carry(transport)
                transport.close()
                transport = None if self._exited is not None else self._connect_again(why)
        except KernelClaimed:
            self._claimed.send(b"t")
        except KernelGone as error:
            self._output.write(f"\n{error}\n".encode())
            if self._noted is not None:
                self._noted.forget()
        finally:
            self._ended(-signal.SIGKILL if self._exited is None else self._exited)
            self._output.end()
            for each in (self._inner, self._claimed, self._wake, self._woken):
                each.close()

    def _ended(self, code: int) -> None:
        with contextlib.suppress(InvalidStateError):  # it already counts as ended
            self._code.set_result(code)
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)

    def _connect_again(self, why: str) -> Transport | None:
        """Try to reconnect until it works; returns None once the kernel is not needed any more.
        Raises `KernelGone` and `KernelClaimed`."""
        self._connected = False
        if self._killed:
            self._ended(-signal.SIGKILL)
        pauses = chain(PAUSES, repeat(PAUSES[-1]))
        while self._last_tries and not self._leaving.is_set():
            self._last_tries -= self._code.done()
            pause = next(pauses)
            self._wire.lost(time.time() + pause, why)
            if self._leaving.wait(pause):
                return None
            try:
                transport = Transport(
                    self._address,
                    {**self._asked, "received": self._link.received},
                    self._wire.ask,
                    self._leaving,
                )
            except (KernelGone, KernelClaimed):
                raise
            except KernelError as error:
                why = str(error)
                continue
            self._connected = True
            self._wire.back()
            return transport
        return None

    def _carry(self, transport: Transport) -> str:
        """Exchange data over one connection until it breaks; returns the reason."""
        link = self._link
        try:
            link.connect(transport.received)
            self._take(transport.buffered)
        except LinkError as error:
            return str(error)
        received = beat = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(transport.stdout, selectors.EVENT_READ)
            selector.register(transport.stderr, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            selector.register(self._inner, selectors.EVENT_READ)
            writing = False
            while self._exited is None and not (
                self._all_sent and self._leaving.is_set() and link.settled
            ):
                while self._orders:
                    link.send(*self._orders.popleft())
                if link.outgoing and not writing:
                    selector.register(transport.stdin, selectors.EVENT_WRITE)
                elif writing and not link.outgoing:
                    selector.unregister(transport.stdin)
                writing = bool(link.outgoing)
                for key, _ in selector.select(_BEAT):
                    try:
                        if key.fd == transport.stdout:
                            data = os.read(transport.stdout, LINK_PIECE)
                            if not data:
                                return transport.errors or "the connection was closed"
                            received = time.monotonic()
                            self._take(data)
                        elif key.fd == transport.stderr:
                            if not transport.read_stderr():
                                selector.unregister(transport.stderr)
                        elif key.fd == transport.stdin:
                            sent = os.write(transport.stdin, link.outgoing[:LINK_PIECE])
                            del link.outgoing[:sent]
                        elif key.fileobj is self._woken:
                            self._woken.recv(LINK_PIECE)
                        elif link.waiting < _PENDING_BYTES and not self._forward():
                            selector.unregister(self._inner)
                    except BlockingIOError:
                        continue
                    except (OSError, LinkError) as error:
                        return str(error)
                now = time.monotonic()
                if now - received > SILENT:
                    return f"nothing arrived for {SILENT:.0f} s"
                if now - beat > _BEAT:
                    beat = now
                    link.alive()
        # Tells the station that we know of the end; if this is lost, the station exits later.
        with contextlib.suppress(OSError):
            os.write(transport.stdin, link.outgoing)
        transport.finish(MAX_FINISH_TIMEOUT)
        return ""

    def _forward(self) -> bool:
        """Send the session's data to the kernel; returns False at its end."""
        data = self._inner.recv(LINK_PIECE)
        self._link.send(FRAMES if data else END, data)
        self._all_sent = not data
        return bool(data)

    def _take(self, data: bytes) -> None:
        """Process received data in order. Raises `LinkError` and `OSError`."""
        for message in self._link.feed(data):
            if message.kind == OUTPUT:
                self._output.write(message.data)
            elif message.kind == OFFSET:
                self._output.skip_to(_parse_number(message.data))
            elif message.kind == FRAMES:
                with contextlib.suppress(OSError):  # nobody reads, because this host is detaching
                    self._inner.sendall(message.data)
            elif message.kind == EXITED:
                self._exited = _parse_number(message.data)
            else:
                raise LinkError("the other machine sent something that only the host may send")


def _parse_number(data: bytes) -> int:
    if len(data) > 20 or not data.removeprefix(b"-").isdigit():
        raise LinkError("the other machine sent something other than a number")
    return int(data)


class RemoteLauncher:
    """A `launch.Launcher` for another machine's address."""

    problem = ""

    def __init__(
        self,
        address: Address,
        keep_hours: float,
        session: str = "",
        waiting: ConnectedKernel | None = None,
    ) -> None:
        """keep_hours: how long an idle kernel waits there for a connection or a screen.

        session: the id of the session that can find it again; empty for none. waiting: the
        session's waiting kernel, if any, which the first `start` returns.
        """
        self._address = address
        self.label, self.address = address.label, address.text
        self._keep = keep_hours * 3600
        self._session = session
        self._waiting = waiting

    @property
    def will_reattach(self) -> bool:
        return self._waiting is not None

    def find(self, python: str | None) -> str:
        """Return the name unchanged, because the other machine looks up the interpreter."""
        return python or ""

    def start(
        self, executable: str, cwd: str, color: bool, size: tuple[int, int], wire: ConnectionState
    ) -> RemoteProcess:
        waiting, self._waiting = self._waiting, None
        env = screen_variables(color, *size)
        asked = {"python": executable, "cwd": cwd, "env": env, "keep": self._keep}
        connected = waiting or start_remote(
            self._address, asked, self._session, wire.ask, wire.given_up
        )
        if self._session and connected.noted is None:
            self.problem = "This kernel ends with its screen, because mahtab-tui's folder `run` cannot be used there."
        return RemoteProcess(connected, wire)

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]:
        """Save in the home folder there, with a separate key, so that the user's key stays here."""
        address = self._address.text.encode(errors="surrogateescape")
        key = hmac.new(bytes.fromhex(target.key), address, "sha256").hexdigest()
        folder = f"{FOLDER}/{PurePath(target.folder).name}"
        return {**target._replace(folder=folder, key=key)._asdict(), "cloudpickle": ""}
