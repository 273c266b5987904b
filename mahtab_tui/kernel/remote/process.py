"""A kernel process on another machine, as if it were here."""

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
from mahtab_tui.kernel.launch import ConnectionState, DetachHandle, screen_variables
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
from mahtab_tui.kernel.worker_process import RELEASE_SIZE
from mahtab_tui.worker.spool import PIECE, format_omission, pending_bytes
from mahtab_tui.worker.station.kernel import (
    END,
    EXITED,
    FRAMES,
    LINK_PIECE,
    OFFSET,
    OUTPUT,
    SIGNAL,
    STORED,
    Link,
    LinkError,
)
from mahtab_tui.worker.station.station import FOLDER


class RemoteOutput:
    """The `worker_process.SeekableOutput` of a kernel elsewhere. The wire's thread writes to it, the
    thread that reads the kernel reads it."""

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        """tell_stored: tells the station up to which offset output is stored."""
        self.pipe, self._write_end = os.pipe()
        self.position = 0
        self._acknowledge = acknowledge
        self._written = self._read = 0
        """Bytes that went through the pipe."""
        self._next = 0
        """The offset of the next byte in the pipe."""
        self._skips: deque[tuple[int, int]] = deque()
        """After how many bytes in the pipe which offset comes next; noted before those bytes are
        written."""
        self._pieces: deque[tuple[int, bytes]] = deque()
        """Pieces read from the pipe and not yet delivered, with offsets."""
        self._stored = 0

    # The wire's thread.

    def skip_to(self, offset: int) -> None:
        """Set the offset at which the following output was printed."""
        self._skips.append((self._written, offset))

    def write(self, data: bytes) -> None:
        """Write what has come; nothing if nobody reads it any more."""
        self._written += len(data)
        view = memoryview(data)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._write_end, view) :]

    def end(self) -> None:
        """Nothing more comes."""
        os.close(self._write_end)

    # The thread that reads.

    def read(self) -> bytes | None:
        return (self._next_output() or None) if self._fill() else b""

    def available(self) -> Iterator[bytes]:
        left = self._read + pending_bytes(self.pipe)
        while self._pieces or (self._read < left and self._fill()):
            yield self._next_output()

    def until(self, end: int) -> Iterator[bytes]:
        """Yield the bytes before an offset; those that have not come yet are waited for."""
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
        """Read from the pipe, and wait if there is nothing; returns False at its end."""
        data = rest = os.read(self.pipe, PIECE)
        while rest:
            while self._skips and self._skips[0][0] <= self._read:
                self._next = self._skips.popleft()[1]
            count = min(len(rest), self._skips[0][0] - self._read) if self._skips else len(rest)
            self._pieces.append((self._next, rest[:count]))
            self._read, self._next, rest = self._read + count, self._next + count, rest[count:]
        return bool(data)

    def _next_output(self, end: int | None = None) -> bytes:
        """Return what was read, and say what is missing before it. end: only what was printed
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
            if end is not None and len(data) > max(0, end - self.position):
                count = max(0, end - self.position)
                self._pieces.appendleft((self.position + count, data[count:]))
                data = data[:count]
            self.position += len(data)
            given += data
        return given


PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Seconds before each further try to connect again; the last one from then on."""

SILENT = 20.0
"""Seconds without a word, after which a wire is given up: the station says something every 5 s."""

LAST_TRIES = 3
"""Tries to connect again after nobody waits for the kernel any more, so that it hears that it was
killed."""

_BEAT = 5.0
_PENDING_BYTES = 8 * 2**20
"""Bytes that the station has not confirmed, from which on no more are taken from the session."""


class RemoteProcess:
    """A kernel process elsewhere: the `launch.Process` of it, and the `launch.DetachHandle`. One thread
    carries everything over the wire."""

    shares_clock = False

    def __init__(self, connected: ConnectedKernel, wire: ConnectionState) -> None:
        self._address = parse(connected.station.address)
        self._asked = connected.asked
        self._noted = connected.noted
        self._wire = wire
        self.token, self.was_reattached, self.ready = (
            connected.token,
            connected.was_reattached,
            connected.ready,
        )
        self._link = Link()
        self._code: Future[int] = Future()
        self._exited: int | None = None
        """The kernel's exit code, when the station has said it."""
        self.channel, self._inner = socket.socketpair()
        self.lifeline, self._claimed = socket.socketpair()
        self._wake, self._woken = socket.socketpair()
        for each in (self._wake, self._woken):
            each.setblocking(False)
        self.reader = RemoteOutput(lambda offset: self._order(STORED, str(offset).encode()))
        self.output = self.reader.pipe
        self._orders: deque[tuple[bytes, bytes]] = deque()
        """Messages for the station beside frames."""
        self._leaving = threading.Event()
        """This host lets the kernel go on without it."""
        self._all_sent = False
        """The session has gone, and the station knows."""
        self._connected = True
        self._killed = False
        self._last_tries = LAST_TRIES
        self._thread = threading.Thread(
            target=self._run, args=(connected.transport,), name="mahtab-wire", daemon=True
        )
        self._thread.start()

    @property
    def detach_handle(self) -> DetachHandle | None:
        """This process, if another host can find it."""
        return None if self._noted is None else self

    def signal(self, number: int) -> None:
        """Send a signal to the kernel and its children; later, if there is no wire now.

        A kernel that is killed counts as ended if there is no wire, once the wire is lost, or soon
        if nobody waits for it.
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
        """Let the kernel continue there; it learns so if it is connected."""
        self._leaving.set()
        self._order()
        self._thread.join(FINISH_TIMEOUT)
        self.lifeline.close()

    def ended(self) -> None:
        """The kernel has ended, or counts as ended; another host may still find it if its end is
        not known."""
        if self._noted is not None and self._exited is not None:
            self._noted.forget()
        self.lifeline.close()

    def _order(self, kind: bytes = b"", data: bytes = b"") -> None:
        if kind:
            self._orders.append((kind, data))
        with contextlib.suppress(OSError):  # the thread has ended, or has enough to wake it
            self._wake.send(b"o")

    # The thread.

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
            self.reader.write(f"\n{error}\n".encode())
            if self._noted is not None:
                self._noted.forget()
        finally:
            self._ended(-signal.SIGKILL if self._exited is None else self._exited)
            self.reader.end()
            for each in (self._inner, self._claimed, self._wake, self._woken):
                each.close()

    def _ended(self, code: int) -> None:
        with contextlib.suppress(InvalidStateError):  # it counts as ended already
            self._code.set_result(code)
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)

    def _connect_again(self, why: str) -> Transport | None:
        """Try until it succeeds; None once nobody waits for the kernel any more. Raises
        `KernelGone`, `KernelClaimed`."""
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
        """Carry everything over one wire until it breaks; returns why it did."""
        link = self._link
        try:
            link.connect(transport.received)
            self._take(transport.take_buffered())
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
                if bool(link.outgoing) != writing:
                    writing = not writing
                    (
                        selector.register(transport.stdin, selectors.EVENT_WRITE)
                        if writing
                        else selector.unregister(transport.stdin)
                    )
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
                            del link.outgoing[
                                : os.write(transport.stdin, link.outgoing[:LINK_PIECE])
                            ]
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
        with contextlib.suppress(
            OSError
        ):  # that its end is known here; if this is lost, the station leaves later
            os.write(transport.stdin, link.outgoing)
        transport.finish(MAX_FINISH_TIMEOUT)
        return ""

    def _forward(self) -> bool:
        """Send what the session says to the kernel; False when it says nothing more."""
        data = self._inner.recv(LINK_PIECE)
        self._link.send(FRAMES if data else END, data)
        self._all_sent = not data
        return bool(data)

    def _take(self, data: bytes) -> None:
        """Hand on what has come, in order. Raises `LinkError`, `OSError`."""
        for message in self._link.feed(data):
            if message.kind == OUTPUT:
                self.reader.write(message.data)
            elif message.kind == OFFSET:
                self.reader.skip_to(_parse_number(message.data))
            elif message.kind == FRAMES:
                with contextlib.suppress(OSError):  # nobody reads: this host leaves
                    self._inner.sendall(message.data)
            elif message.kind == EXITED:
                self._exited = _parse_number(message.data)
            else:
                raise LinkError("the other machine sent something that only the host may send")


def _parse_number(data: bytes) -> int:
    """Raises `LinkError`."""
    if len(data) > 20 or not data.removeprefix(b"-").isdigit():
        raise LinkError("the other machine sent something other than a number")
    return int(data)


class RemoteLauncher:
    """A `launch.Launcher` behind an address."""

    problem = ""

    def __init__(
        self,
        address: Address,
        keep_hours: float,
        session: str = "",
        waiting: ConnectedKernel | None = None,
    ) -> None:
        """keep_hours: how long an idle kernel is kept there without a wire, or without a screen.

        session: the id of the one that shall find it again; empty for none. waiting: the session's
        kernel, if it has one; the first `start` returns it.
        """
        self._address = address
        self._keep = keep_hours * 3600
        self._session = session
        self._waiting = waiting

    @property
    def will_reattach(self) -> bool:
        return self._waiting is not None

    @property
    def label(self) -> str:
        return self._address.label

    @property
    def address(self) -> str:
        return self._address.text

    def find(self, python: str | None) -> str:
        """The interpreter is looked up there."""
        return python or ""

    def start(
        self, executable: str, cwd: str, color: bool, size: tuple[int, int], wire: ConnectionState
    ) -> RemoteProcess:
        waiting, self._waiting = self._waiting, None
        asked = {
            "python": executable,
            "cwd": cwd,
            "env": screen_variables(color, *size),
            "keep": self._keep,
        }
        connected = waiting or start_remote(
            self._address, asked, self._session, wire.ask, wire.given_up
        )
        if self._session and connected.noted is None:
            self.problem = "This kernel ends with its screen, because mahtab-tui's folder `run` cannot be used there."
        return RemoteProcess(connected, wire)

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]:
        """In the home folder there, with a key of its own: the user's key stays here."""
        key = hmac.new(
            bytes.fromhex(target.key), self._address.text.encode(errors="surrogateescape"), "sha256"
        )
        folder = f"{FOLDER}/{PurePath(target.folder).name}"
        return {
            "folder": folder,
            "key": key.hexdigest(),
            "megabytes": target.megabytes,
            "cloudpickle": "",
        }
