"""Kernel processes on other machines: how they are started, found and kept connected."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
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
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.kernel.base import KernelError, SaveTarget
from mahtab_tui.kernel.detached import save_last_output, sockets_folder
from mahtab_tui.kernel.launch import (
    BOOTSTRAP,
    RELEASE_SIZE,
    ConnectionState,
    DetachHandle,
    Output,
    screen_variables,
)
from mahtab_tui.kernel.remote.transport import (
    FINISH_TIMEOUT,
    MAX_FINISH_TIMEOUT,
    Address,
    Ask,
    KernelClaimed,
    KernelGone,
    Transport,
    parse,
)
from mahtab_tui.kernel.requests import KernelReady, checked
from mahtab_tui.system import start_thread
from mahtab_tui.worker.frames import TOKEN_SIZE
from mahtab_tui.worker.spool import HEAD, PIECE, TAIL, format_omission, pending_bytes
from mahtab_tui.worker.station import (
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

_NOTE_SUFFIX = ".far"
_MAX_NOTE = 10_000


class Station(NamedTuple):
    address: str
    label: str
    name: str
    token: str

    def request(self, host: str = "") -> dict[str, Any]:
        return {"session": self.name, "token": self.token, "host": host}


class KernelNote(NamedTuple):
    """A remote kernel that a session had when it was last open."""

    session: str
    since: float
    station: Station
    path: Path

    def forget(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()


def save_note(session: str, station: Station) -> KernelNote | None:
    """Save where a kernel is; None if that cannot be written."""
    with contextlib.suppress(OSError):
        path = sockets_folder() / f"{quote(session, safe='')}.{station.name}{_NOTE_SUFFIX}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(station._asdict(), file)
        return KernelNote(session, time.time(), station, path)
    return None


def noted_kernels(session: str | None = None) -> list[KernelNote]:
    """Return the noted kernels, newest first, which may have ended."""
    try:
        paths = list(sockets_folder().glob(f"*{_NOTE_SUFFIX}"))
    except OSError:
        return []
    notes = filter(None, map(_read_note, paths))
    found = [noted for noted in notes if session in (None, noted.session)]
    return sorted(found, key=lambda noted: -noted.since)


def _read_note(path: Path) -> KernelNote | None:
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        with path.open("rb") as file:
            since, note = os.fstat(file.fileno()).st_mtime, json.loads(file.read(_MAX_NOTE))
        station = Station(**note)
        if all(isinstance(part, str) for part in station):
            return KernelNote(unquote(path.name.rsplit(".", 2)[0]), since, station, path)
    return None


class ConnectedKernel(NamedTuple):
    station: Station
    host: str
    transport: Transport
    token: bytes
    cell: int = 0
    was_reattached: bool = False
    ready: KernelReady | None = None
    noted: KernelNote | None = None
    """The note to find it by; None if no other host should find it."""


def attach_remote(noted: KernelNote, ask: Ask) -> ConnectedKernel:
    """Attach to a remote kernel, even if another host has it. Raises `KernelGone` if it has ended;
    then the output of its last cell is saved. Raises `KernelError`."""
    host, token = secrets.token_hex(8), os.urandom(TOKEN_SIZE)
    request = {**noted.station.request(host), "received": 0, "attach": token.hex()}
    transport = Transport(parse(noted.station.address), request, ask)
    if "last" in transport.answer:
        with contextlib.closing(transport):
            _save_last_output(noted, transport)
        raise KernelGone(f"The kernel on {noted.station.label} has ended in the meantime.")
    try:
        hello = transport.answer["hello"]
        ready = checked(KernelReady, hello) if hello else None
        return ConnectedKernel(
            noted.station, host, transport, token, int(transport.answer["cell"]), True, ready, noted
        )
    except (KeyError, TypeError, ValueError, KernelError):
        transport.close()
        raise KernelError(f"{noted.station.label} does not respond like a kernel.") from None


def stop_remote(noted: KernelNote, ask: Ask) -> None:
    """Stop a waiting kernel, and save its cell's output. Raises `KernelError` if the other machine
    cannot be reached."""
    with contextlib.suppress(KernelGone):
        request = {**noted.station.request(), "stop": True}
        with contextlib.closing(Transport(parse(noted.station.address), request, ask)) as transport:
            if "last" in transport.answer:
                _save_last_output(noted, transport)
    noted.forget()


def _save_last_output(noted: KernelNote, transport: Transport) -> None:
    """If it raises `KernelError`, the other machine keeps the output."""
    link, output, size = Link(), list[bytes](), 0
    data, ended = transport.buffered, False
    try:
        link.connect(transport.received)
        while not ended:
            for message in link.feed(data):
                ended = ended or message.kind == EXITED
                if message.kind == OUTPUT:
                    output.append(message.data)
                    size += len(message.data)
            if size > HEAD + 3 * TAIL:
                raise LinkError("more arrived than is kept there")
            confirmed = bytes(link.outgoing)
            link.outgoing.clear()
            data = b"" if ended else transport.exchange(confirmed)
        save_last_output(noted.session, noted.station.name, int(transport.answer["last"]), output)
    except (OSError, TypeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        label = noted.station.label
        raise KernelError(
            f"The output of the last cell on {label} cannot be saved: {why}."
        ) from None
    with contextlib.suppress(OSError):
        os.write(transport.stdin, confirmed)
    transport.finish(MAX_FINISH_TIMEOUT)


class RemoteOutput:
    """The connection's thread writes to it, and the kernel's reader thread reads it."""

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        self.pipe, self._write_end = os.pipe()
        self.position = 0
        self._acknowledge = acknowledge
        self._written = self._read = 0
        self._next = 0
        self._skips: deque[tuple[int, int]] = deque()
        """Numbers of bytes in the pipe, each with the offset that follows."""
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._stored = 0

    # Called by the connection's thread

    def skip_to(self, offset: int) -> None:
        self._skips.append((self._written, offset))

    def write(self, data: bytes) -> None:
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

    def release(self, offset: int) -> None:
        if offset - self._stored >= RELEASE_SIZE:
            self._stored = offset
            self._acknowledge(offset)

    def _fill(self) -> bool:
        data = rest = os.read(self.pipe, PIECE)
        while rest:
            while self._skips and self._skips[0][0] <= self._read:
                self._next = self._skips.popleft()[1]
            count = min(len(rest), self._skips[0][0] - self._read) if self._skips else len(rest)
            self._pieces.append((self._next, rest[:count]))
            self._read, self._next, rest = self._read + count, self._next + count, rest[count:]
        return bool(data)

    def _next_output(self, end: int | None = None) -> bytes:
        output = b""
        while self._pieces and (end is None or self.position < end):
            offset, data = self._pieces.popleft()
            data = data[max(0, self.position - offset) :]
            if not data:
                continue
            if offset > self.position:
                output += format_omission(offset - self.position)
                self.position = offset
            if end is not None and len(data) > (count := max(0, end - self.position)):
                self._pieces.appendleft((self.position + count, data[count:]))
                data = data[:count]
            self.position += len(data)
            output += data
        return output


PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)

SILENT = 20.0
"""Seconds of silence after which a connection is given up; the station sends something every 5
s."""

LAST_TRIES = 3

_BEAT = 5.0
_PENDING_BYTES = 8 * 2**20
"""Unconfirmed bytes from which on nothing more is taken from the session."""


class RemoteProcess:
    """Implements `launch.Process` and `launch.DetachHandle`; one thread handles the whole
    connection."""

    shares_clock = False

    def __init__(self, connected: ConnectedKernel, wire: ConnectionState) -> None:
        self._address = parse(connected.station.address)
        self._request = connected.station.request(connected.host)
        self._noted = connected.noted
        self.detach_handle: DetachHandle | None = None if self._noted is None else self
        self._wire = wire
        self.token = connected.token
        self.was_reattached = connected.was_reattached
        self.ready = connected.ready
        self._link = Link()
        self._code: Future[int] = Future()
        self._exited: int | None = None
        self.channel, self._inner = socket.socketpair()
        self.lifeline, self._claimed = socket.socketpair()
        self._wake, self._woken = socket.socketpair()
        for each in (self._wake, self._woken):
            each.setblocking(False)
        self._output = RemoteOutput(lambda offset: self._order(STORED, str(offset).encode()))
        self.output = self._output.pipe
        self.reader: Output = self._output
        self._orders: deque[tuple[bytes, bytes]] = deque()
        self._leaving = threading.Event()
        self._all_sent = False
        self._connected = True
        self._killed = False
        self._last_tries = LAST_TRIES
        self._thread = start_thread("mahtab-wire", self._run, connected.transport)

    def signal(self, number: int) -> None:
        """Send a signal, later if there is no connection. A killed kernel counts as ended once the
        connection is lost, or soon if nobody waits for it."""
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
        try:
            code = self._code.result(timeout)
        except FutureTimeout:
            raise subprocess.TimeoutExpired(self._address.label, timeout or 0.0) from None
        if self._exited is not None:
            self._thread.join(FINISH_TIMEOUT)
        return code

    def leave(self) -> None:
        self._leaving.set()
        self._order()
        self._thread.join(FINISH_TIMEOUT)
        self.lifeline.close()

    def ended(self) -> None:
        if self._noted is not None and self._exited is not None:
            self._noted.forget()
        self.lifeline.close()

    def _order(self, kind: bytes = b"", data: bytes = b"") -> None:
        if kind:
            self._orders.append((kind, data))
        with contextlib.suppress(OSError):
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
        with contextlib.suppress(InvalidStateError):
            self._code.set_result(code)
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)

    def _connect_again(self, why: str) -> Transport | None:
        """Returns None once the kernel is not needed any more. Raises `KernelGone` and
        `KernelClaimed`."""
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
            request = {**self._request, "received": self._link.received}
            try:
                transport = Transport(self._address, request, self._wire.ask, self._leaving)
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
                        elif link.waiting < _PENDING_BYTES:
                            data = self._inner.recv(LINK_PIECE)
                            link.send(FRAMES if data else END, data)
                            if not data:
                                self._all_sent = True
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

    def _take(self, data: bytes) -> None:
        for message in self._link.feed(data):
            if message.kind == OUTPUT:
                self._output.write(message.data)
            elif message.kind == OFFSET:
                self._output.skip_to(_parse_number(message.data))
            elif message.kind == FRAMES:
                with contextlib.suppress(OSError):
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
    problem = ""

    def __init__(
        self,
        address: Address,
        keep_hours: float,
        session: str = "",
        waiting: ConnectedKernel | None = None,
    ) -> None:
        """session: the session that can find it again; empty for none. waiting: the session's
        waiting kernel, which the first `start` returns."""
        self._address = address
        self.label, self.address = address.label, address.text
        self._keep = keep_hours * 3600
        self._session = session
        self._waiting = waiting
        self.will_reattach = waiting is not None

    def find(self, python: str | None) -> str:
        return python or ""

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], wire: ConnectionState
    ) -> RemoteProcess:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            return RemoteProcess(waiting, wire)
        address, host = self._address, secrets.token_hex(8)
        station = Station(address.text, address.label, secrets.token_hex(8), secrets.token_hex(16))
        token = os.urandom(TOKEN_SIZE)
        kernel = {"python": executable, "cwd": cwd, "env": screen_variables(*size)}
        settings = {"keep": self._keep, "bootstrap": BOOTSTRAP, "kernel_token": token.hex()}
        request = {**station.request(host), "received": 0, "start": {**kernel, **settings}}
        transport = Transport(address, request, wire.ask, wire.given_up)
        noted = save_note(self._session, station) if self._session else None
        if self._session and noted is None:
            self.problem = "This kernel ends with its screen, because mahtab-tui's folder `run` cannot be used there."
        return RemoteProcess(ConnectedKernel(station, host, transport, token, noted=noted), wire)

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]:
        """Save in the home folder there, with a separate key, so that the user's key stays here."""
        address = self._address.text.encode(errors="surrogateescape")
        key = hmac.new(bytes.fromhex(target.key), address, "sha256").hexdigest()
        folder = f"{FOLDER}/{PurePath(target.folder).name}"
        return {**target._replace(folder=folder, key=key)._asdict(), "cloudpickle": ""}
