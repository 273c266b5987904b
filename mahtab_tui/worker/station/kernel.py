"""A kernel as seen by its station, and the link to its host.

The link itself does no input or output. The host has one end, the station the other.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..frames import TOKEN_SIZE
from ..holder import ATTACH, StationSettings
from ..spool import PAGE, SharedState, Spool

MAGIC = "mahtab-far-1"
"""The first word sent by the loader. The number is the version of the protocol."""

FRAMES = b"f"
"""Bytes of the kernel's connection, in either direction."""
OUTPUT = b"o"
"""Bytes printed by the kernel."""
OFFSET = b"n"
"""The offset at which the next output was printed, in ASCII, if anything before it is no longer
available."""
STORED = b"r"
"""The offset up to which the host has stored the output, in ASCII."""
SIGNAL = b"s"
"""A signal for the kernel and its children: its number, in ASCII."""
END = b"e"
"""The host has gone. The kernel ends, or continues without it, as chosen by the host."""
EXITED = b"x"
"""The kernel's exit code, in ASCII."""
_RECEIVED = b"a"
"""The number of messages handled by this end, which is in the header."""
_ALIVE = b"p"
"""A sign of life."""

LINK_PIECE = 65_536
"""Bytes to read at a time, and so the usual length of a message."""
MAX_MESSAGE = 2**20
"""Maximum bytes of a message. A greater length means that something else was written to the
connection."""

_HEAD = struct.Struct("!cQI")
_NUMBERED = frozenset((FRAMES, OUTPUT, OFFSET, STORED, SIGNAL, END, EXITED))


class LinkError(ValueError):
    """Received data that is not part of the protocol."""


class Message(NamedTuple):
    """A message: its kind and its data."""

    kind: bytes
    data: bytes


class Link:
    """One end of a link. `outgoing` contains the bytes to send next; whoever sends some of them
    removes them from its start."""

    def __init__(self) -> None:
        self.outgoing = bytearray()
        self.received = 0
        """Number of messages from the other end that were handled."""
        self.waiting = 0
        """Bytes of messages that the other end may not have received."""
        self._sent = 0
        self._unconfirmed: deque[tuple[int, Message]] = deque()
        self._incoming = bytearray()
        self._connected = False

    @property
    def settled(self) -> bool:
        """Whether the other end has received everything."""
        return not self._unconfirmed

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a message of at most `MAX_MESSAGE` bytes, now or over the next connection."""
        self._sent += 1
        self._unconfirmed.append((self._sent, Message(kind, data)))
        self.waiting += len(data)
        if self._connected:
            self._write(kind, self._sent, data)

    def alive(self) -> None:
        if self._connected:
            self._write(_ALIVE, 0, b"")

    def connect(self, received: int) -> None:
        """Start using a new connection. received: the number of messages that the other end reports
        as handled. Raises `LinkError`."""
        self.disconnect()
        self._confirmed(received)
        self._connected = True
        for number, message in self._unconfirmed:
            self._write(message.kind, number, message.data)

    def disconnect(self) -> None:
        """Forget the connection, and any partial message."""
        self._connected = False
        self.outgoing.clear()
        self._incoming.clear()

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages completed by these bytes. Raises `LinkError`, after which the
        connection must be given up."""
        self._incoming += data
        messages: list[Message] = []
        start, before = 0, self.received
        while len(self._incoming) - start >= _HEAD.size:
            kind, number, length = _HEAD.unpack_from(self._incoming, start)
            if length > MAX_MESSAGE:
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
                self._confirmed(number)
            elif kind != _ALIVE:
                raise LinkError("something else was written to the wire")
            start = end
        del self._incoming[:start]
        if self.received > before:
            self._write(_RECEIVED, self.received, b"")
        return messages

    def _confirmed(self, number: int) -> None:
        if number > self._sent:
            raise LinkError("a message was confirmed that was never sent")
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self.waiting -= len(self._unconfirmed.popleft()[1].data)

    def _write(self, kind: bytes, number: int, data: bytes) -> None:
        self.outgoing += _HEAD.pack(kind, number, len(data)) + data


MAX_UNREAD = 256 * 2**20
"""Maximum bytes that a kernel may leave unread."""

_LENGTH = struct.Struct("!I")


class Kernel:
    """A kernel process. A host leaves it by closing its connection; new hosts are announced to
    it."""

    def __init__(self, start: dict[str, Any], folder: str) -> None:
        """start: the host's description of the kernel. folder: the folder of our files."""
        self.output, write_end = os.pipe()
        self.spool = Spool(self.output, _anonymous_file("mahtab-output"))
        self._offset = 0
        """The offset of the next byte to pass on."""
        page = _anonymous_file("mahtab-state")
        os.ftruncate(page, PAGE)
        self.state = SharedState(mmap.mmap(page, PAGE))
        self.unread = bytearray()
        """Messages that the kernel has not read."""
        self._input_closed = False
        """Whether the host sends nothing more."""
        self._length: bytearray | None = None
        self._backlog_left = 0
        """The part read of the length of a new host's first frame, which contains the backlog; and
        the number of its bytes still missing."""
        self.all_printed = False
        """Whether nothing can print any more."""
        self.control, control = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM
        )
        self.channel: socket.socket | None
        self.channel, theirs = _open_channel(start["kernel_token"])
        self._previous_channel: socket.socket | None = None
        """The previous host's connection, until the kernel communicates with the new host."""
        settings = StationSettings(
            control.fileno(), self.output, self.spool.file, page, float(start["keep"]) / 3600
        )
        os.environ.update(start["env"])
        cwd = _nearest_folder(start["cwd"])
        worker = os.path.join(folder, "worker")
        argv = [
            _interpreter(start["python"], cwd),
            "-c",
            start["bootstrap"],
            str(theirs.fileno()),
            worker,
            json.dumps(settings._asdict()),
        ]
        self._child: subprocess.Popen[bytes] | None = None
        try:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                pass_fds=[theirs.fileno(), control.fileno(), self.output, self.spool.file, page],
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            os.write(write_end, f"{argv[0]}: {error.strerror}\n".encode(errors="replace"))
        theirs.close()
        control.close()
        os.close(write_end)
        os.close(page)

    # Hosts

    def attach(self, token: str) -> None:
        """Connect the kernel to a new host. token: the new host's token, in hexadecimal. Raises
        `OSError` and `ValueError`."""
        new, theirs = _open_channel(token)
        with theirs:
            socket.send_fds(self.control, [ATTACH], [theirs.fileno()])
        self.unread.clear()
        self._previous_channel, self.channel = self.channel or self._previous_channel, new
        self._length, self._backlog_left, self._input_closed, self._offset = (
            bytearray(),
            0,
            False,
            0,
        )

    def detach(self) -> None:
        """Close the current host's connection."""
        for each in (self.channel, self._previous_channel):
            if each is not None:
                each.close()
        self.channel = self._previous_channel = None
        self.unread.clear()

    # Data to the kernel

    def send_bytes(self, data: bytes) -> None:
        """Send frames to the kernel; if it leaves too much unread, it is killed."""
        self.unread += data
        if len(self.unread) > MAX_UNREAD:
            self.signal(signal.SIGKILL)

    def stop_sending(self) -> None:
        self._input_closed = True
        self.send()

    def send(self) -> None:
        """Send as much as the kernel can read now."""
        if self.channel is None:
            return
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self.unread:
                del self.unread[: self.channel.send(self.unread[:LINK_PIECE])]
        if self._input_closed and not self.unread:
            with contextlib.suppress(OSError):
                self.channel.shutdown(socket.SHUT_WR)

    # Data from the kernel

    @property
    def has_backlog(self) -> bool:
        """Whether a new host has not received the whole backlog yet."""
        return self._length is not None or self._backlog_left > 0

    def receive(self) -> bytes:
        """Return the next bytes of the kernel's frames; empty at the end. Raises
        `BlockingIOError`."""
        assert self.channel is not None
        most = (
            _LENGTH.size - len(self._length)
            if self._length is not None
            else min(self._backlog_left or LINK_PIECE, LINK_PIECE)
        )
        try:
            data = self.channel.recv(most)
        except ConnectionError:
            return b""
        if self._previous_channel is not None:
            self._previous_channel.close()
            self._previous_channel = None
        if self._length is not None:
            self._length += data
            if len(self._length) == _LENGTH.size:
                self._backlog_left = TOKEN_SIZE + int(_LENGTH.unpack(self._length)[0])
                self._length = None
        elif self._backlog_left:
            self._backlog_left -= len(data)
        return data

    def iter_output(self) -> Iterator[Message]:
        """Yield output that was not passed on; for a new host, everything that is still
        available."""
        while True:
            if piece := self.spool.read(self._offset):
                self._offset += len(piece)
                yield Message(OUTPUT, piece)
            elif self._offset < self.spool.size:
                self._offset = self.spool.next_byte(self._offset)
                yield Message(OFFSET, str(self._offset).encode())
            else:
                return

    def release_output(self, offset: int) -> None:
        """Note that a host has stored the output before an offset."""
        self.spool.release(min(offset, self._offset))

    # The kernel's end

    def signal(self, number: int) -> None:
        """Send a signal to the kernel and its children."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def reap(self) -> int:
        """Return the exit code. A kernel that closed its connection but lives on is killed,
        together with its children."""
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
    ours, theirs = socket.socketpair()
    ours.sendall(bytes.fromhex(token))
    ours.setblocking(False)
    return ours, theirs


def _anonymous_file(name: str) -> int:
    """Return the descriptor of a file that nobody else sees."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _nearest_folder(folder: str) -> str:
    """Return the folder, or the nearest parent that can be entered."""
    while folder != os.path.dirname(folder) and not (
        os.path.isdir(folder) and os.access(folder, os.X_OK)
    ):
        folder = os.path.dirname(folder)
    return folder or os.sep


def _interpreter(python: str, cwd: str) -> str:
    """Return the chosen interpreter: ours, that of a virtual environment's folder, a file, or a
    name on the PATH."""
    if not python:
        return sys.executable
    path = os.path.join(cwd, os.path.expanduser(python))
    if os.path.isdir(path):
        return os.path.join(path, "bin", "python")
    return python if os.sep not in python and not os.path.exists(path) else path
