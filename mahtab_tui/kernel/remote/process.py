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

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.detached import save_last_output
from mahtab_tui.kernel.holder_connection import sockets_folder
from mahtab_tui.kernel.launch import (
    BOOTSTRAP,
    RELEASE_SIZE,
    ConnectionState,
    DetachHandle,
    Output,
    screen_variables,
)
from mahtab_tui.kernel.remote.transport import (
    FINISH_TIMEOUT_S,
    MAX_FINISH_TIMEOUT_S,
    Address,
    Ask,
    KernelClaimed,
    KernelGone,
    Transport,
    parse,
)
from mahtab_tui.kernel.requests import KernelReady, checked
from mahtab_tui.kernel.values import SaveTarget
from mahtab_tui.system import start_thread
from mahtab_tui.worker.link.frames import TOKEN_BYTES
from mahtab_tui.worker.link.spool import (
    HEAD_BYTES,
    PIECE_BYTES,
    TAIL_BYTES,
    format_omission,
    pending_bytes,
)
from mahtab_tui.worker.link.station_link import (
    END,
    EXITED,
    FOLDER,
    FRAMES,
    LINK_PIECE_BYTES,
    OFFSET,
    OUTPUT,
    SIGNAL,
    STORED,
    Link,
    LinkError,
)

RECONNECT_PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
"""Seconds before each attempt to reconnect; the last pause repeats."""
MAX_SILENCE_S = 20.0
"""Seconds of silence after which a connection is given up; the station sends something every 5
s."""
HEARTBEAT_S = 5.0
"""Seconds between the signs of life that we send."""
LAST_TRIES = 3
"""Attempts to reconnect to a kernel whose end is already known."""
MAX_PENDING_BYTES = 8 * 2**20
"""Unconfirmed bytes from which on nothing more is taken from the session."""
NOTE_SUFFIX = ".far"
MAX_NOTE_BYTES = 10_000
MAX_NUMBER_BYTES = 20


class Station(NamedTuple):
    """The process on another machine that keeps a kernel."""

    address: str
    """As for ``--kernel``."""
    label: str
    """The address for the user."""
    name: str
    """A random name, in hexadecimal."""
    token: str
    """A secret that the station requires, in hexadecimal."""

    def request(self, host: str = "") -> dict[str, Any]:
        """Return the fields that each request to the station has. host: the id of this process's
        connection."""
        return {"session": self.name, "token": self.token, "host": host}


class KernelNote(NamedTuple):
    """A remote kernel that a session had when it was last open."""

    session: str
    since: float
    station: Station
    path: Path
    """The note's file."""

    def forget(self) -> None:
        """Remove the note, because the kernel has ended."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def save_note(session: str, station: Station) -> KernelNote | None:
    """Save where a kernel is; None if that cannot be written."""
    with contextlib.suppress(OSError):
        path = sockets_folder() / f"{quote(session, safe='')}.{station.name}{NOTE_SUFFIX}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(station._asdict(), file)
        return KernelNote(session, time.time(), station, path)
    return None


def noted_kernels(session: str | None = None) -> list[KernelNote]:
    """Return the noted kernels, newest first, which may have ended. session: only those of this
    session."""
    try:
        paths = list(sockets_folder().glob(f"*{NOTE_SUFFIX}"))
    except OSError:
        return []
    notes: list[KernelNote] = []
    for path in paths:
        note = _read_note(path)
        if note is not None and (session is None or note.session == session):
            notes.append(note)
    return sorted(notes, key=lambda note: -note.since)


def _read_note(path: Path) -> KernelNote | None:
    """Return a note; None if it was removed or is damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        with path.open("rb") as file:
            since = os.fstat(file.fileno()).st_mtime
            fields = json.loads(file.read(MAX_NOTE_BYTES))
        station = Station(**fields)
        if all(isinstance(value, str) for value in station):
            session = unquote(path.name.rsplit(".", 2)[0])
            return KernelNote(session, since, station, path)
    return None


class ConnectedKernel(NamedTuple):
    """A kernel on another machine, with the connection to it."""

    station: Station
    host: str
    """The id of this process's connection."""
    transport: Transport
    token: bytes
    """Part of each frame that the kernel sends, unknown to user code."""
    cell: int = 0
    """The cell that it ran when this host attached; 0 for none."""
    was_reattached: bool = False
    ready: KernelReady | None = None
    note: KernelNote | None = None
    """The note to find it by; None if no other host should find it."""


def attach_remote(note: KernelNote, ask: Ask) -> ConnectedKernel:
    """Attach to a remote kernel, even if another host has it.

    Args:
        note: Where the kernel is.
        ask: Asks the user for a password or a confirmation.

    Raises:
        KernelGone: The kernel has ended. The output of its last cell is saved.
        KernelError: The other machine cannot be reached, or does not answer as it should.
    """
    station = note.station
    host = secrets.token_hex(8)
    token = os.urandom(TOKEN_BYTES)
    request = {**station.request(host), "received": 0, "attach": token.hex()}
    transport = Transport(parse(station.address), request, ask)
    if "last" in transport.answer:
        with contextlib.closing(transport):
            _save_last_output(note, transport)
        raise KernelGone(f"The kernel on {station.label} has ended in the meantime.")
    try:
        hello = transport.answer["hello"]
        return ConnectedKernel(
            station,
            host,
            transport,
            token,
            cell=int(transport.answer["cell"]),
            was_reattached=True,
            ready=checked(KernelReady, hello) if hello else None,
            note=note,
        )
    except (KeyError, TypeError, ValueError, KernelError):
        transport.close()
        raise KernelError(f"{station.label} does not respond like a kernel.") from None


def stop_remote(note: KernelNote, ask: Ask) -> None:
    """Stop a waiting kernel, and save its cell's output. Raises `KernelError` if the other machine
    cannot be reached."""
    with contextlib.suppress(KernelGone):
        request = {**note.station.request(), "stop": True}
        with contextlib.closing(Transport(parse(note.station.address), request, ask)) as transport:
            if "last" in transport.answer:
                _save_last_output(note, transport)
    note.forget()


def _save_last_output(note: KernelNote, transport: Transport) -> None:
    """Fetch and save the output of the cell in which a kernel ended. If this raises `KernelError`,
    the other machine keeps the output."""
    link = Link()
    output: list[bytes] = []
    output_bytes = 0
    data = transport.buffered
    has_ended = False
    try:
        link.connect(transport.received)
        while not has_ended:
            for message in link.feed(data):
                if message.kind == EXITED:
                    has_ended = True
                elif message.kind == OUTPUT:
                    output.append(message.data)
                    output_bytes += len(message.data)
            if output_bytes > HEAD_BYTES + 3 * TAIL_BYTES:
                raise LinkError("more arrived than is kept there")
            confirmation = bytes(link.outgoing)
            link.outgoing.clear()
            # The last confirmation is sent once the output is saved.
            if not has_ended:
                data = transport.exchange(confirmation)
        cell = int(transport.answer["last"])
        save_last_output(note.session, note.station.name, cell, output)
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise KernelError(
            f"The output of the last cell on {note.station.label} cannot be saved: {reason}."
        ) from None
    with contextlib.suppress(OSError):
        os.write(transport.stdin, confirmation)
    transport.finish(MAX_FINISH_TIMEOUT_S)


class RemoteOutput:
    """The output of a remote kernel, in a pipe.

    The connection's thread writes to it, and the kernel's reader thread reads it. Offsets count the
    bytes that the kernel has printed; some of them may not arrive.
    """

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        """acknowledge: tells the other machine that output before an offset is stored."""
        self.pipe, self._write_end = os.pipe()
        self.position = 0
        """The offset of the next byte to return."""
        self._acknowledge = acknowledge
        self._written_bytes = 0
        """Bytes written to the pipe."""
        self._read_bytes = 0
        """Bytes read from it."""
        self._read_offset = 0
        """The offset of the next byte in the pipe."""
        self._skips: deque[tuple[int, int]] = deque()
        """Numbers of bytes in the pipe, each with the offset that follows."""
        self._pieces: deque[tuple[int, bytes]] = deque()
        """Bytes read from the pipe but not returned, with their offsets."""
        self._acknowledged_offset = 0

    # Called by the connection's thread

    def skip_to(self, offset: int) -> None:
        """Note that what is written next has this offset, because output is missing."""
        self._skips.append((self._written_bytes, offset))

    def write(self, data: bytes) -> None:
        self._written_bytes += len(data)
        view = memoryview(data)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._write_end, view) :]

    def end(self) -> None:
        os.close(self._write_end)

    # Called by the reader thread

    def read(self) -> bytes | None:
        if not self._fill():
            return b""
        return self._next_output() or None

    def available(self) -> Iterator[bytes]:
        return self._through(self._read_bytes + pending_bytes(self.pipe))

    def _through(self, end: int) -> Iterator[bytes]:
        """Yield what the first bytes of the pipe contain. end: their number."""
        while self._pieces or (self._read_bytes < end and self._fill()):
            yield self._next_output()

    def until(self, end: int) -> Iterator[bytes]:
        """Yield the bytes before an offset, waiting for those that have not arrived."""
        while self.position < end and (self._pieces or self._fill()):
            yield self._next_output(end)

    def go_to(self, offset: int) -> None:
        self.position = max(self.position, offset)

    def release(self, offset: int) -> None:
        if offset - self._acknowledged_offset >= RELEASE_SIZE:
            self._acknowledged_offset = offset
            self._acknowledge(offset)

    def _fill(self) -> bool:
        """Read from the pipe, waiting if it is empty; returns False at its end."""
        data = os.read(self.pipe, PIECE_BYTES)
        start = 0
        while start < len(data):
            while self._skips and self._skips[0][0] <= self._read_bytes:
                _, self._read_offset = self._skips.popleft()
            # A piece ends where the offsets skip.
            end = len(data)
            if self._skips:
                end = min(end, start + self._skips[0][0] - self._read_bytes)
            self._pieces.append((self._read_offset, data[start:end]))
            self._read_bytes += end - start
            self._read_offset += end - start
            start = end
        return bool(data)

    def _next_output(self, end: int | None = None) -> bytes:
        """Return the pieces that are here, up to an offset, with a note for each gap."""
        output = b""
        while self._pieces and (end is None or self.position < end):
            offset, data = self._pieces.popleft()
            # The beginning may have been returned before the connection was lost.
            data = data[max(0, self.position - offset) :]
            if not data:
                continue
            if offset > self.position:
                output += format_omission(offset - self.position)
                self.position = offset
            if end is not None:
                count = max(0, end - self.position)
                if len(data) > count:
                    self._pieces.appendleft((self.position + count, data[count:]))
                    data = data[:count]
            self.position += len(data)
            output += data
        return output


class RemoteProcess:
    """Implements `launch.Process` and `launch.DetachHandle`; one thread handles the whole
    connection."""

    shares_clock = False

    def __init__(self, connected: ConnectedKernel, wire: ConnectionState) -> None:
        self._address = parse(connected.station.address)
        self._request = connected.station.request(connected.host)
        self._note = connected.note
        self.detach_handle: DetachHandle | None = None if self._note is None else self
        self._wire = wire
        self.token = connected.token
        self.was_reattached = connected.was_reattached
        self.ready = connected.ready
        self._link = Link()
        self._exit_code: Future[int] = Future()
        """As the session gets it: it may be assumed."""
        self._reported_code: int | None = None
        """As the station has reported it."""
        # Pairs of sockets: the other threads have the first one, the connection's thread the second.
        self.channel, self._inner_channel = socket.socketpair()
        self.lifeline, self._inner_lifeline = socket.socketpair()
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self._wake_sender.setblocking(False)
        self._wake_receiver.setblocking(False)
        self._output = RemoteOutput(lambda offset: self._order(STORED, str(offset).encode()))
        self.output = self._output.pipe
        self.reader: Output = self._output
        self._orders: deque[tuple[bytes, bytes]] = deque()
        """Messages for the station: the kind and the data of each."""
        self._leaving = threading.Event()
        self._all_sent = False
        """Whether the session has closed its channel, and everything from it is passed on."""
        self._connected = True
        self._killed = False
        self._remaining_tries = LAST_TRIES
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
                timer = threading.Timer(FINISH_TIMEOUT_S, self._ended, (-number,))
                timer.daemon = True
                timer.start()

    def wait(self, timeout: float | None = None) -> int:
        try:
            exit_code = self._exit_code.result(timeout)
        except FutureTimeout:
            raise subprocess.TimeoutExpired(self._address.label, timeout or 0.0) from None
        if self._reported_code is not None:
            self._thread.join(FINISH_TIMEOUT_S)
        return exit_code

    def leave(self) -> None:
        self._leaving.set()
        self._order()
        self._thread.join(FINISH_TIMEOUT_S)
        self.lifeline.close()

    def ended(self) -> None:
        if self._note is not None and self._reported_code is not None:
            self._note.forget()
        self.lifeline.close()

    def _order(self, kind: bytes = b"", data: bytes = b"") -> None:
        """Let the connection's thread send a message, or only wake it."""
        if kind:
            self._orders.append((kind, data))
        with contextlib.suppress(OSError):
            self._wake_sender.send(b"o")

    # The connection's thread

    def _run(self, first_transport: Transport) -> None:
        transport: Transport | None = first_transport
        try:
            while transport is not None:
                reason = self._carry(transport)
                transport.close()
                if self._reported_code is not None:
                    break
                transport = self._reconnect(reason)
        except KernelClaimed:
            self._inner_lifeline.send(b"t")
        except KernelGone as error:
            self._output.write(f"\n{error}\n".encode())
            if self._note is not None:
                self._note.forget()
        finally:
            exit_code = self._reported_code
            self._ended(-signal.SIGKILL if exit_code is None else exit_code)
            self._output.end()
            self._inner_channel.close()
            self._inner_lifeline.close()
            self._wake_sender.close()
            self._wake_receiver.close()

    def _ended(self, exit_code: int) -> None:
        """Let the session see that the process has ended, if it has not yet."""
        with contextlib.suppress(InvalidStateError):
            self._exit_code.set_result(exit_code)
        with contextlib.suppress(OSError):
            self._inner_channel.shutdown(socket.SHUT_WR)

    def _reconnect(self, reason: str) -> Transport | None:
        """Connect again, as often as necessary.

        Args:
            reason: Why the connection was lost.

        Returns:
            The new connection; None once the kernel is not needed any more.

        Raises:
            KernelGone: The kernel no longer exists.
            KernelClaimed: Another host has attached to it.
        """
        self._connected = False
        if self._killed:
            self._ended(-signal.SIGKILL)
        pauses = chain(RECONNECT_PAUSES_S, repeat(RECONNECT_PAUSES_S[-1]))
        while self._remaining_tries and not self._leaving.is_set():
            if self._exit_code.done():
                self._remaining_tries -= 1
            pause = next(pauses)
            self._wire.lost(time.time() + pause, reason)
            if self._leaving.wait(pause):
                return None
            request = {**self._request, "received": self._link.received}
            try:
                transport = Transport(self._address, request, self._wire.ask, self._leaving)
            except (KernelGone, KernelClaimed):
                raise
            except KernelError as error:
                reason = str(error)
                continue
            self._connected = True
            self._wire.back()
            return transport
        return None

    def _carry(self, transport: Transport) -> str:
        """Pass messages on in both directions until the connection or the kernel ends.

        Returns:
            Why the connection was lost; empty if it is not needed any more.
        """
        link = self._link
        try:
            link.connect(transport.received)
            self._receive(transport.buffered)
        except LinkError as error:
            return str(error)

        last_received = time.monotonic()
        last_heartbeat = last_received
        with selectors.DefaultSelector() as selector:
            selector.register(transport.stdout, selectors.EVENT_READ)
            selector.register(transport.stderr, selectors.EVENT_READ)
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            selector.register(self._inner_channel, selectors.EVENT_READ)
            is_writing = False
            while not self._is_settled():
                # Watch the command's stdin only while there is something to write.
                while self._orders:
                    link.send(*self._orders.popleft())
                if link.outgoing and not is_writing:
                    selector.register(transport.stdin, selectors.EVENT_WRITE)
                elif is_writing and not link.outgoing:
                    selector.unregister(transport.stdin)
                is_writing = bool(link.outgoing)

                for key, _ in selector.select(HEARTBEAT_S):
                    try:
                        if self._transfer(key, selector, transport):
                            last_received = time.monotonic()
                    except BlockingIOError:
                        continue
                    except (OSError, LinkError) as error:
                        return str(error)

                now = time.monotonic()
                if now - last_received > MAX_SILENCE_S:
                    return f"nothing arrived for {MAX_SILENCE_S:.0f} s"
                if now - last_heartbeat > HEARTBEAT_S:
                    last_heartbeat = now
                    link.alive()

        # Tells the station that we know of the end; if this is lost, the station exits later.
        with contextlib.suppress(OSError):
            os.write(transport.stdin, link.outgoing)
        transport.finish(MAX_FINISH_TIMEOUT_S)
        return ""

    def _transfer(
        self,
        key: selectors.SelectorKey,
        selector: selectors.BaseSelector,
        transport: Transport,
    ) -> bool:
        """Read or write where a selector says that this is possible.

        Returns:
            Whether the station has sent something.

        Raises:
            OSError: The connection is lost.
            LinkError: It is lost, or the station does not keep to the protocol.
        """
        link = self._link
        if key.fd == transport.stdout:
            data = os.read(transport.stdout, LINK_PIECE_BYTES)
            if not data:
                raise LinkError(transport.errors or "the connection was closed")
            self._receive(data)
            return True
        if key.fd == transport.stderr:
            if not transport.read_stderr():
                selector.unregister(transport.stderr)
        elif key.fd == transport.stdin:
            written = os.write(transport.stdin, link.outgoing[:LINK_PIECE_BYTES])
            del link.outgoing[:written]
        elif key.fileobj is self._wake_receiver:
            self._wake_receiver.recv(LINK_PIECE_BYTES)
        elif link.waiting < MAX_PENDING_BYTES:
            data = self._inner_channel.recv(LINK_PIECE_BYTES)
            link.send(FRAMES if data else END, data)
            if not data:
                self._all_sent = True
                selector.unregister(self._inner_channel)
        return False

    def _is_settled(self) -> bool:
        """Return whether the kernel has ended, or everything is sent to a kernel that is left."""
        if self._reported_code is not None:
            return True
        return self._all_sent and self._leaving.is_set() and self._link.settled

    def _receive(self, data: bytes) -> None:
        """Pass on what the station has sent. Raises `LinkError`."""
        for message in self._link.feed(data):
            if message.kind == OUTPUT:
                self._output.write(message.data)
            elif message.kind == OFFSET:
                self._output.skip_to(_parse_number(message.data))
            elif message.kind == FRAMES:
                with contextlib.suppress(OSError):
                    self._inner_channel.sendall(message.data)
            elif message.kind == EXITED:
                self._reported_code = _parse_number(message.data)
            else:
                raise LinkError("the other machine sent something that only the host may send")


def _parse_number(data: bytes) -> int:
    if len(data) > MAX_NUMBER_BYTES or not data.removeprefix(b"-").isdigit():
        raise LinkError("the other machine sent something other than a number")
    return int(data)


class RemoteLauncher:
    """Launches kernels on another machine."""

    problem = ""

    def __init__(
        self,
        address: Address,
        keep_hours: float,
        session: str = "",
        reattached: ConnectedKernel | None = None,
    ) -> None:
        """Create a launcher.

        Args:
            address: Where the kernels run.
            keep_hours: How long a kernel waits without a connection.
            session: The id of the session that can find it again; empty for none.
            reattached: The session's waiting kernel, which the first `start` returns.
        """
        self._address = address
        self.label = address.label
        self.address = address.text
        self._keep_seconds = keep_hours * 3600
        self._session = session
        self._reattached = reattached
        self.will_reattach = reattached is not None

    def find(self, python: str | None) -> str:
        return python or ""

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], wire: ConnectionState
    ) -> RemoteProcess:
        reattached = self._reattached
        self._reattached = None
        if reattached is not None:
            return RemoteProcess(reattached, wire)

        address = self._address
        host = secrets.token_hex(8)
        station = Station(address.text, address.label, secrets.token_hex(8), secrets.token_hex(16))
        token = os.urandom(TOKEN_BYTES)
        start_settings = {
            "python": executable,
            "cwd": cwd,
            "env": screen_variables(*size),
            "keep": self._keep_seconds,
            "bootstrap": BOOTSTRAP,
            "kernel_token": token.hex(),
        }
        request = {**station.request(host), "received": 0, "start": start_settings}
        transport = Transport(address, request, wire.ask, wire.given_up)

        note = save_note(self._session, station) if self._session else None
        if self._session and note is None:
            self.problem = "This kernel ends with its screen, because mahtab-tui's folder `run` cannot be used."
        return RemoteProcess(ConnectedKernel(station, host, transport, token, note=note), wire)

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]:
        """Save in the home folder there, with a separate key, so that the user's key stays here."""
        address = self._address.text.encode(errors="surrogateescape")
        key = hmac.new(bytes.fromhex(target.key), address, "sha256").hexdigest()
        folder = f"{FOLDER}/{PurePath(target.folder).name}"
        return {**target._replace(folder=folder, key=key)._asdict(), "cloudpickle": ""}
