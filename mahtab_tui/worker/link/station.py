"""The process next to a remote kernel, which keeps it when a connection breaks, and its link to the
host."""

from __future__ import annotations

import hmac
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Union

from .frames import TOKEN_BYTES
from .holder import ATTACH, AWAY, BACK, StationSettings, is_same_user
from .holder import END as END_KERNEL
from .spool import SHARED_STATE_BYTES, SharedState, Spool

MAGIC = "mahtab-far-1"
"""Sent by the loader, with the protocol's version."""

FOLDER = "~/.mahtab/elsewhere"

FRAMES = b"f"
OUTPUT = b"o"
OFFSET = b"n"
"""The offset of the next output, if anything before it is no longer available."""
STORED = b"r"
"""The offset up to which the host has stored the output."""
SIGNAL = b"s"
END = b"e"
"""The host has gone."""
EXITED = b"x"
_RECEIVED = b"a"
_ALIVE = b"p"

LINK_PIECE_BYTES = 65_536
MAX_MESSAGE_BYTES = 2**20

_HEAD = struct.Struct("!cQI")
_NUMBERED = frozenset((FRAMES, OUTPUT, OFFSET, STORED, SIGNAL, END, EXITED))

_MAX_RELAYED_LINE_BYTES = 65_536
_GONE = b'{"error": "the kernel is not there any more"}\n'

MAX_UNREAD_BYTES = 256 * 2**20

_LENGTH = struct.Struct("!I")

BACK_PRESSURE_BYTES = 4 * 2**20
MAX_AHEAD_BYTES = 2**20
"""Bytes for a disconnected host, from which on output stays in the spool."""
MAX_WAITING_DISPLAY_BYTES = 64 * 2**20

_MAX_FIRST_LINE_BYTES = 4096
_FIRST_LINE_TIMEOUT_S = 5.0
_STOP_TIMEOUT_S = 6.0
_EXIT_RETENTION_S = 600.0
"""Seconds for which a kernel's end is kept for the host."""
_HEARTBEAT_INTERVAL_S = 5.0


class LinkError(ValueError):
    """The other side wrote what does not follow from what came before."""


class Message(NamedTuple):
    kind: bytes
    """One of the letters above, such as `FRAMES`."""
    data: bytes


class Link:
    """Numbered messages, which are sent again after a new connection unless the other side has
    confirmed them."""

    def __init__(self) -> None:
        self.outgoing = bytearray()
        """The bytes to send next; whoever sends some removes them."""
        self.received = 0
        """The number of the last message that came."""
        self.waiting = 0
        """Bytes of the messages that are not confirmed."""
        self._sent = 0
        """The number of the last message that was sent."""
        self._unconfirmed: deque[tuple[int, Message]] = deque()
        self._incoming = bytearray()
        self._connected = False

    @property
    def settled(self) -> bool:
        """Whether the other side has confirmed everything."""
        return not self._unconfirmed

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a message now, or when there is a connection."""
        self._sent += 1
        self._unconfirmed.append((self._sent, Message(kind, data)))
        self.waiting += len(data)
        self._write(kind, self._sent, data)

    def alive(self) -> None:
        """Say only that this side is there."""
        self._write(_ALIVE, 0)

    def connect(self, received: int) -> None:
        """Begin to use a new connection. received: the last message that the other side has."""
        self.disconnect()
        self._confirm(received)
        self._connected = True
        for number, message in self._unconfirmed:
            self._write(message.kind, number, message.data)

    def disconnect(self) -> None:
        """Keep messages until there is a connection."""
        self._connected = False
        self.outgoing.clear()
        self._incoming.clear()

    def feed(self, data: bytes) -> list[Message]:
        """Take bytes of the connection, and return the messages that are complete and new.

        Raises:
            LinkError: the connection must be given up.
        """
        self._incoming += data
        messages: list[Message] = []
        start = 0
        while len(self._incoming) - start >= _HEAD.size:
            kind, number, length = _HEAD.unpack_from(self._incoming, start)
            if length > MAX_MESSAGE_BYTES:
                raise LinkError(f"a message of {length:,} bytes was announced")
            end = start + _HEAD.size + length
            if len(self._incoming) < end:
                break
            if kind in _NUMBERED:
                if number > self.received + 1:
                    raise LinkError("a message is missing")
                if number == self.received + 1:
                    self.received = number
                    messages.append(Message(kind, bytes(self._incoming[start + _HEAD.size : end])))
            elif kind == _RECEIVED:
                self._confirm(number)
            elif kind != _ALIVE:
                raise LinkError("something else was written to the wire")
            start = end
        del self._incoming[:start]
        if messages:
            self._write(_RECEIVED, self.received)
        return messages

    def _confirm(self, number: int) -> None:
        if number > self._sent:
            raise LinkError("a message was confirmed that was never sent")
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self.waiting -= len(self._unconfirmed.popleft()[1].data)

    def _write(self, kind: bytes, number: int, data: bytes = b"") -> None:
        if self._connected:
            self.outgoing += _HEAD.pack(kind, number, len(data)) + data


def main(folder: str, above: str) -> None:
    """Connect stdin and stdout to the session's station. above: the folder of all files."""
    line = os.fdopen(0, "rb", buffering=0, closefd=False).readline(_MAX_RELAYED_LINE_BYTES)
    if not line.endswith(b"\n") and len(line) < _MAX_RELAYED_LINE_BYTES:
        return
    request = json.loads(line)
    folder_here = os.getcwd()
    os.chdir(above)  # because the path of a socket must be short
    name = f"{request.pop('session')}.sock"
    station = socket.socket(socket.AF_UNIX)
    try:
        if "start" in request:
            request["start"]["cwd"] = request["start"]["cwd"] or folder_here
            station = _start(name, folder, request)
            del request["start"]
        else:
            station.connect(name)
        station.sendall(json.dumps(request).encode() + b"\n")
    except OSError as error:
        if "start" in request:
            answer = {"error": f"no kernel can be started there: {error.strerror}"}
            os.write(1, json.dumps(answer).encode() + b"\n")
        else:
            os.write(1, _GONE)
        return
    _copy(station)


def _start(name: str, folder: str, request: dict[str, object]) -> socket.socket:
    """Start a station in a process of its own; return a connection to it.

    Args:
        name: the file name of the socket on which it listens.
        folder: of the worker and of cloudpickle.
        request: of the host.
    """
    listener = socket.socket(socket.AF_UNIX)
    old_umask = os.umask(0o077)
    listener.bind(name)
    os.umask(old_umask)
    listener.listen(8)
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        listener.close()
        return ours
    # Fork twice, so that nobody waits for it, detached from this connection's terminal and
    # descriptors.
    os.setsid()
    if os.fork():
        os._exit(0)
    ours.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    try:
        StationServer(listener, folder, request).run(theirs)
    finally:
        os.unlink(name)
        os._exit(0)


def _copy(station: socket.socket) -> None:
    """Copy until one side ends. A station that ends before it answers is reported as gone."""
    inside = station.fileno()
    answered = False
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(inside, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            try:
                data = os.read(descriptor, LINK_PIECE_BYTES)
                if not data:
                    return
                answered = answered or descriptor == inside
                view = memoryview(data)
                while view:
                    view = view[os.write(1 if descriptor == inside else inside, view) :]
            except OSError:
                if descriptor == inside and not answered:
                    os.write(1, _GONE)
                return


class StationKernel:
    """The kernel's process, its output and the channel to it."""

    def __init__(self, start: dict[str, Any], folder: str) -> None:
        """Start the kernel. start: the host's settings. folder: of the worker."""
        self.output, write_end = os.pipe()
        self.spool = Spool(self.output, _anonymous_file("mahtab-output"))
        self.offset = 0
        """Up to this offset, the host was sent the output."""
        page = _anonymous_file("mahtab-state")
        os.ftruncate(page, SHARED_STATE_BYTES)
        self.state = SharedState(mmap.mmap(page, SHARED_STATE_BYTES))
        self.unread = bytearray()
        """Bytes of the host that the kernel has not read."""
        self._input_closed = False
        self.backlog_left = 0
        """Missing bytes of a new host's first frame, which contains the backlog, or of its
        length."""
        self._length: bytes | None = None
        self.all_printed = False
        self.control, control = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM
        )
        self.channel: socket.socket | None
        self.channel, theirs = _open_channel(start["kernel_token"])
        self._previous_channel: socket.socket | None = None
        settings = StationSettings(
            control.fileno(), self.output, self.spool.file, page, float(start["keep"]) / 3600
        )
        os.environ.update(start["env"])
        if os.path.isdir(start["cwd"]):
            cwd = start["cwd"]
        else:
            cwd = os.path.expanduser("~")
        interpreter = _interpreter(start["python"], cwd)
        worker = os.path.join(folder, "worker")
        arguments = [str(theirs.fileno()), worker, json.dumps(settings._asdict())]
        self._child: subprocess.Popen[bytes] | None = None
        try:
            self._child = subprocess.Popen(
                [interpreter, "-c", start["bootstrap"], *arguments],
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                pass_fds=[theirs.fileno(), control.fileno(), self.output, self.spool.file, page],
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            os.write(write_end, f"{interpreter}: {error.strerror}\n".encode(errors="replace"))
        theirs.close()
        control.close()
        os.close(write_end)
        os.close(page)

    def attach(self, token: str) -> None:
        """Give the kernel a channel for another host. Raises `OSError` and `ValueError`."""
        new, theirs = _open_channel(token)
        with theirs:
            socket.send_fds(self.control, [ATTACH], [theirs.fileno()])
        self.unread.clear()
        self._previous_channel = self.channel or self._previous_channel
        self.channel = new
        self._length = b""
        self.backlog_left = _LENGTH.size
        self._input_closed = False
        self.offset = 0

    def detach(self) -> None:
        """Close the channel: the kernel has no host now."""
        for channel in (self.channel, self._previous_channel):
            if channel is not None:
                channel.close()
        self.channel = self._previous_channel = None
        self.unread.clear()

    def send(self, data: bytes = b"", *, is_last: bool = False) -> None:
        """Send what the kernel can take, and keep the rest. A kernel that reads nothing for too long
        is killed. is_last: close the channel after it."""
        self.unread += data
        if len(self.unread) > MAX_UNREAD_BYTES:
            self.signal(signal.SIGKILL)
        self._input_closed = self._input_closed or is_last
        if self.channel is None:
            return
        with suppress(BlockingIOError, ConnectionError):
            while self.unread:
                del self.unread[: self.channel.send(self.unread[:LINK_PIECE_BYTES])]
        if self._input_closed and not self.unread:
            with suppress(OSError):
                self.channel.shutdown(socket.SHUT_WR)

    def receive(self) -> bytes:
        """Return what the kernel has sent; nothing at its end. Raises `BlockingIOError`."""
        assert self.channel is not None
        try:
            data = self.channel.recv(min(self.backlog_left or LINK_PIECE_BYTES, LINK_PIECE_BYTES))
        except ConnectionError:
            return b""
        if self._previous_channel is not None:
            self._previous_channel.close()
            self._previous_channel = None
        if self.backlog_left:
            self.backlog_left -= len(data)
        if self._length is not None:
            self._length += data
            if not self.backlog_left:
                self.backlog_left = TOKEN_BYTES + int(_LENGTH.unpack(self._length)[0])
                self._length = None
        return data

    def signal(self, number: int) -> None:
        """Send a signal to the kernel and its child processes."""
        if self._child is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def reap(self) -> int:
        """Wait for the end of the kernel, kill what it left, and return its exit code."""
        if self._child is None:
            return 127
        try:
            code = self._child.wait(1.0)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            code = self._child.wait()
        self.signal(signal.SIGKILL)
        return code


def _open_channel(token: str) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a channel; the kernel reads the token from the second."""
    ours, theirs = socket.socketpair()
    ours.sendall(bytes.fromhex(token))
    ours.setblocking(False)
    return ours, theirs


def _anonymous_file(name: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _interpreter(python: str, cwd: str) -> str:
    """Return the interpreter that a host has named: a program, a path, or an environment's folder."""
    if not python:
        # Without PATH, Python does not know its own file.
        return sys.executable or os.path.realpath("/proc/self/exe")
    path = os.path.join(cwd, os.path.expanduser(python))
    if os.path.isdir(path):
        return os.path.join(path, "bin", "python")
    if os.sep not in python and not os.path.exists(path):
        return python
    return path


_Watched = tuple[Union[socket.socket, int], int, Callable[[], None]]
"""A file, the events of `poll`, and what handles them."""


class StationServer:
    """Keeps a kernel for the host that has its token, whatever happens to the connection."""

    def __init__(self, listener: socket.socket, folder: str, request: dict[str, Any]) -> None:
        self._listener = listener
        self._token = str(request["token"])
        self._host = str(request["host"])
        self._idle_limit = float(request["start"]["keep"])
        self._link = Link()
        self._wire: socket.socket | None = None
        """The connection in use."""
        self._candidates: dict[socket.socket, tuple[float, bytearray]] = {}
        """New connections: since when, and what they have sent."""
        self._want_end: list[socket.socket] = []
        """Connections that wait for the end of the kernel."""
        self._stopped = False
        """Whether a host has asked for the end."""
        self._alone_since = time.monotonic()
        self._ends_at = 0.0
        """When (`time.monotonic`) the kernel is killed; 0 if it may live."""
        self._away = False
        """Whether the kernel was told that its host cannot be reached."""
        self._code: int | None = None
        """The exit code of the kernel, once it has ended."""
        self._kernel = StationKernel(request["start"], folder)

    def run(self, first_connection: socket.socket) -> None:
        """Serve until the host knows of the end, or nobody has connected for too long."""
        self._add_candidate(first_connection)
        beat = time.monotonic()
        while not self._is_over():
            self._update_kernel()
            poll = select.poll()
            handlers = dict[int, Callable[[], None]]()
            for file, events, handle in self._watched():
                poll.register(file, events)
                handlers[file if isinstance(file, int) else file.fileno()] = handle
            for fd, _ in poll.poll(1000 if self._wire is None else 1000 * _HEARTBEAT_INTERVAL_S):
                # Earlier ones may have closed the file, but none blocks.
                handlers[fd]()
            now = time.monotonic()
            if now - beat >= _HEARTBEAT_INTERVAL_S:
                beat = now
                self._link.alive()
            for new, (since, _) in list(self._candidates.items()):
                if now - since > _FIRST_LINE_TIMEOUT_S:
                    del self._candidates[new]
                    new.close()

    def _watched(self) -> Iterator[_Watched]:
        yield self._listener, select.POLLIN, lambda: self._add_candidate(self._listener.accept()[0])
        for new in self._candidates:
            yield new, select.POLLIN, partial(self._authenticate, new)
        if self._wire is not None:
            writes = select.POLLOUT if self._link.outgoing else 0
            yield self._wire, select.POLLIN | writes, self._on_wire
        kernel = self._kernel
        if self._code is not None:
            return
        if kernel.channel is not None:
            writes = select.POLLOUT if kernel.unread else 0
            yield kernel.channel, select.POLLIN | writes, self._on_channel
        yield kernel.control, select.POLLIN, self._on_kernel_exit
        waits = self._wire is not None and self._link.waiting > BACK_PRESSURE_BYTES
        if not kernel.all_printed and not waits:
            yield kernel.output, select.POLLIN, self._read_output

    def _is_over(self) -> bool:
        now = time.monotonic()
        has_cell = self._kernel.state.cell > 0
        if self._code is None:
            abandoned = self._wire is None and now - self._alone_since > self._idle_limit
            if abandoned and not self._ends_at and not has_cell:
                self._end_kernel()
            return False
        if self._wire is not None and self._link.settled and not self._link.outgoing:
            self._close_wire()
        if self._wire is not None:
            return False
        if has_cell:
            limit = self._idle_limit
        else:
            limit = min(self._idle_limit, _EXIT_RETENTION_S)
        return self._link.settled or self._stopped or now - self._alone_since > limit

    def _update_kernel(self) -> None:
        if self._code is not None:
            return
        if self._ends_at and time.monotonic() >= self._ends_at:
            self._kernel.signal(signal.SIGKILL)
        away = self._wire is None and self._link.waiting < MAX_WAITING_DISPLAY_BYTES
        if away != self._away:
            self._away = away
            with suppress(OSError):
                self._kernel.control.send(AWAY if away else BACK)

    def _on_channel(self) -> None:
        self._kernel.send()
        with suppress(BlockingIOError):
            if self._kernel.channel is not None and not self._receive():
                self._on_kernel_exit()

    def _receive(self) -> bool:
        """Pass on data, after the output that precedes it; returns False at the end. A new host
        gets the backlog first. Raises `BlockingIOError`."""
        has_backlog = self._kernel.backlog_left > 0
        data = self._kernel.receive()
        if not has_backlog:
            self._kernel.spool.move_all()
            self._forward_output()
        if not data:
            return False
        self._link.send(FRAMES, data)
        if has_backlog and not self._kernel.backlog_left:
            self._forward_output()
        return True

    def _read_output(self) -> None:
        with suppress(BlockingIOError):
            self._kernel.all_printed = not self._kernel.spool.move()
        if self._wire is not None or self._link.waiting < MAX_AHEAD_BYTES:
            self._forward_output()

    def _forward_output(self) -> None:
        kernel = self._kernel
        spool = self._kernel.spool
        if kernel.backlog_left or kernel.channel is None:
            return
        while kernel.offset < spool.size:
            if piece := spool.read(kernel.offset):
                kernel.offset += len(piece)
                self._link.send(OUTPUT, piece)
            else:
                kernel.offset = spool.next_byte(kernel.offset)
                self._link.send(OFFSET, str(kernel.offset).encode())

    def _end_kernel(self) -> None:
        self._ends_at = time.monotonic() + (0.0 if self._kernel.state.cell else _STOP_TIMEOUT_S)
        self._kernel.detach()
        with suppress(OSError):
            self._kernel.control.send(END_KERNEL)

    def _on_kernel_exit(self) -> None:
        if self._code is not None:
            return
        with suppress(BlockingIOError):
            while self._kernel.channel is not None and self._receive():
                continue
        self._code = self._kernel.reap()
        self._kernel.spool.move_all()
        self._forward_output()
        self._alone_since = time.monotonic()
        self._link.send(EXITED, str(self._code).encode())
        for connection in self._want_end:
            self._send_end(connection)

    def _add_candidate(self, new: socket.socket) -> None:
        # On systems other than Linux, only the folder's permissions keep others out.
        if hasattr(socket, "SO_PEERCRED") and not is_same_user(new):
            new.close()
            return
        new.setblocking(False)
        self._candidates[new] = time.monotonic(), bytearray()

    def _authenticate(self, new: socket.socket) -> None:
        line = self._candidates[new][1]
        try:
            data = new.recv(_MAX_FIRST_LINE_BYTES - len(line), socket.MSG_PEEK)
            end = data.find(b"\n") + 1 or len(data)
            line += new.recv(end)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        is_whole = line.endswith(b"\n")
        if data and not is_whole and len(line) < _MAX_FIRST_LINE_BYTES:
            return
        del self._candidates[new]
        if data and is_whole:
            self._answer(new, bytes(line))
        else:
            new.close()

    def _answer(self, new: socket.socket, line: bytes) -> None:
        answer: dict[str, Any] = {}
        try:
            message = json.loads(line)
            if not hmac.compare_digest(str(message["token"]).encode(), self._token.encode()):
                raise ValueError("a wrong token")
            if "stop" in message:
                self._stop(new)
                return
            if "attach" in message:
                if self._code is not None and self._kernel.state.cell:
                    answer = self._send_last()
                elif self._code is not None or self._ends_at:
                    new.send(b'{"error": "the kernel has ended in the meantime"}\n')
                    raise ValueError("nothing to attach to")
                else:
                    answer = self._attach(str(message["host"]), str(message["attach"]))
            elif message["host"] != self._host:
                new.send(b'{"taken": true}\n')
                raise ValueError("another host has the kernel now")
            self._close_wire()
            self._link.connect(int(message["received"]))
        except (ValueError, KeyError, TypeError, LinkError, OSError):
            new.close()
            return
        self._use_wire(new, answer)
        self._forward_output()

    def _stop(self, new: socket.socket) -> None:
        self._stopped = True
        if self._code is not None:
            self._send_end(new)
            return
        self._want_end.append(new)
        if not self._ends_at:
            self._end_kernel()

    def _use_wire(self, new: socket.socket, answer: dict[str, object]) -> None:
        self._wire = new
        line = json.dumps({**answer, "received": self._link.received}) + "\n"
        self._link.outgoing[:0] = line.encode()

    def _send_end(self, new: socket.socket) -> None:
        """Report the end to a connection that requested it, with data that no connected host
        gets."""
        if self._kernel.state.cell and self._wire is None:
            answer = self._send_last()
            self._link.connect(0)
            self._use_wire(new, answer)
            return
        with suppress(OSError):
            new.send(b'{"received": 0}\n')
        new.close()

    def _attach(self, host: str, token: str) -> dict[str, object]:
        self._close_wire()
        self._kernel.attach(token)
        self._host = host
        self._link = Link()
        return self._kernel.state.as_frame()

    def _send_last(self) -> dict[str, object]:
        self._close_wire()
        self._link = Link()
        for piece in self._kernel.spool.iter_from(self._kernel.state.output_offset):
            self._link.send(OUTPUT, piece)
        self._link.send(EXITED, str(self._code).encode())
        return {"last": self._kernel.state.cell}

    def _close_wire(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
            self._alone_since = time.monotonic()
        self._link.disconnect()

    def _on_wire(self) -> None:
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
                    del self._link.outgoing[
                        : self._wire.send(self._link.outgoing[:LINK_PIECE_BYTES])
                    ]
        except (OSError, LinkError):
            self._close_wire()

    def _handle(self, message: Message) -> None:
        kernel = self._kernel
        if message.kind == FRAMES:
            kernel.send(message.data)
        elif message.kind == SIGNAL:
            if self._code is None:
                kernel.signal(int(message.data))
        elif message.kind == STORED:
            kernel.spool.release(min(int(message.data), kernel.offset))
        elif message.kind == END:
            kernel.send(is_last=True)
