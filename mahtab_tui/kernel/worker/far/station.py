"""The process beside a kernel on another machine: keeps what was said for the host while no wire connects them."""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections import deque
from typing import Any

from .link import END, EXITED, FRAMES, OUTPUT, PIECE, SIGNAL, Link, LinkError, Message

BACK_PRESSURE = 4 * 2**20
"""Bytes that the host has not confirmed, from which on a connected kernel waits with printing, as with a slow terminal."""
SPOOLED = 32 * 2**20
"""Bytes that are kept of what is printed while nothing is connected: so many of the beginning, and `TAIL` of the end."""
TAIL = 2**20
UNREAD = 256 * 2**20
"""Bytes that a kernel may leave unread."""

_PROOF = 4096
"""Bytes of a connection's first line at most."""
_PROOF_SECONDS = 5.0
_BEAT = 5.0
_REMEMBERED = 600.0
"""Seconds that the end of a kernel is kept for the host."""
"""Seconds between two signs of life."""


class Station:
    """Starts a kernel, and holds its connections."""

    def __init__(self, listener: socket.socket, place: str, asked: dict[str, Any]) -> None:
        """listener: for further wires. place: the folder of our files. asked: the host's first line."""
        self._listener = listener
        self._place = place
        self._token = str(asked["token"])
        self._start = asked["start"]
        self._kept = float(self._start["keep"])
        self._link = Link()
        self._selector = selectors.DefaultSelector()
        self._wire: socket.socket | None = None
        self._proving: dict[socket.socket, tuple[float, bytearray]] = {}
        self._unread = bytearray()
        """For the kernel."""
        self._ended = False
        """The host says nothing more."""
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._left_out = 0
        self._alone_since = time.monotonic()
        self._exited = False
        self._cells = _CellCount(token_size=0), _CellCount(token_size=int(self._start["token_size"]))

    def run(self, first: socket.socket) -> None:
        """Serve until the kernel has ended and the host knows it, or nobody has come for too long."""
        if not self._greet(first):
            return
        self._begin()
        self._selector.register(self._listener, selectors.EVENT_READ)
        beat = time.monotonic()
        while not (self._exited and not self._link.waiting and self._wire is None):
            self._look_out()
            for key, events in self._selector.select(1.0 if self._wire is None else _BEAT):
                if key.fileobj not in self._selector.get_map():
                    continue  # what came before has ended it
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._proving:
                    self._prove(key.fileobj)
                elif key.fileobj is self._wire:
                    self._on_wire(events)
                elif key.fileobj is self._channel:
                    self._on_channel(events)
                elif key.fd == self._output:
                    self._read_output()
            now = time.monotonic()
            if now - beat >= _BEAT:
                beat = now
                self._link.alive()
            for new in [each for each, (since, _) in self._proving.items() if now - since > _PROOF_SECONDS]:
                self._refuse(new)
            if self._exited and self._wire is not None and not self._link.waiting and not self._link.outgoing:
                self._hang_up()
            if self._wire is None and self._given_up(now):
                self._kill(signal.SIGKILL)
                return

    def _given_up(self, now: float) -> bool:
        idle = self._cells[0].begun <= self._cells[1].done
        return now - self._alone_since > (min(self._kept, _REMEMBERED) if self._exited else self._kept) and (self._exited or idle)

    # The kernel.

    def _begin(self) -> None:
        ours, theirs = socket.socketpair()
        ours.sendall(bytes.fromhex(self._start["kernel_token"]))
        self._channel = ours
        self._output, write_end = os.pipe()
        for name, value in self._start["env"].items():
            os.environ[name] = value
        cwd = _existing(self._start["cwd"])
        argv = [_interpreter(self._start["python"], cwd), "-c", self._start["bootstrap"], str(theirs.fileno()), os.path.join(self._place, "worker")]
        self._child: subprocess.Popen[bytes] | None = None
        try:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                pass_fds=[theirs.fileno()],
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            os.write(write_end, f"{argv[0]}: {error.strerror}\n".encode(errors="replace"))
        theirs.close()
        os.close(write_end)
        ours.setblocking(False)
        os.set_blocking(self._output, False)
        self._selector.register(ours, selectors.EVENT_READ)
        self._selector.register(self._output, selectors.EVENT_READ)

    def _on_channel(self, events: int) -> None:
        if events & selectors.EVENT_WRITE and self._unread:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                del self._unread[: self._channel.send(self._unread[:PIECE])]
            if not self._unread and self._ended:
                self._shut()
        if events & selectors.EVENT_READ:
            try:
                data = self._channel.recv(PIECE)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            # What a frame is about was printed before it.
            self._drain()
            if data:
                self._cells[1].feed(data)
                self._link.send(FRAMES, data)
            else:
                self._over()

    def _over(self) -> None:
        self._selector.unregister(self._channel)
        code = 127
        if self._child is not None:
            try:
                code = self._child.wait(1.0)
            except subprocess.TimeoutExpired:
                self._kill(signal.SIGKILL)
                code = self._child.wait()
            self._kill(signal.SIGKILL)
        self._drain()
        with contextlib.suppress(KeyError):
            self._selector.unregister(self._output)
        self._end_tail()
        self._exited = True
        self._link.send(EXITED, str(code).encode())

    def _kill(self, number: int) -> None:
        if self._child is not None and not self._exited:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def _read_output(self) -> None:
        try:
            data = os.read(self._output, PIECE)
        except BlockingIOError:  # `_drain` has read it
            return
        if data:
            self._printed(data)
        else:
            self._selector.unregister(self._output)

    def _drain(self) -> None:
        """Read what is in the pipe now, and no more."""
        waiting = struct.unpack("i", fcntl.ioctl(self._output, termios.FIONREAD, bytes(4)))[0]
        while waiting > 0:
            data = os.read(self._output, min(waiting, PIECE))
            if not data:
                return
            self._printed(data)
            waiting -= len(data)
        self._end_tail()

    def _printed(self, data: bytes) -> None:
        if self._wire is not None or (self._link.waiting < SPOOLED and not self._tail):
            self._end_tail()
            self._link.send(OUTPUT, data)
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > TAIL:
            dropped = len(self._tail.popleft())
            self._tail_size -= dropped
            self._left_out += dropped

    def _end_tail(self) -> None:
        """Send the end of what was printed while nothing was connected."""
        if self._left_out:
            self._link.send(OUTPUT, f"\n… {self._left_out:,} bytes left out: the kernel printed them while it was not connected …\n".encode())
        for data in self._tail:
            self._link.send(OUTPUT, data)
        self._tail.clear()
        self._tail_size = self._left_out = 0

    # The wire.

    def _look_out(self) -> None:
        """Say for what to wait."""
        if self._wire is not None:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._link.outgoing else 0)
            self._selector.modify(self._wire, wanted)
        if self._exited:
            return
        self._selector.modify(self._channel, selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unread else 0))
        held = self._wire is not None and self._link.waiting > BACK_PRESSURE
        listed = self._output in self._selector.get_map()
        if held and listed:
            self._selector.unregister(self._output)
        elif not held and not listed:
            self._selector.register(self._output, selectors.EVENT_READ)

    def _accept(self) -> None:
        new, _ = self._listener.accept()
        if not _is_ours(new):
            new.close()
            return
        new.setblocking(False)
        self._proving[new] = time.monotonic(), bytearray()
        self._selector.register(new, selectors.EVENT_READ)

    def _refuse(self, new: socket.socket) -> None:
        self._selector.unregister(new)
        del self._proving[new]
        new.close()

    def _prove(self, new: socket.socket) -> None:
        """Read the first line of a connection, which must hold the token."""
        line = self._proving[new][1]
        try:
            data = new.recv(_PROOF - len(line), socket.MSG_PEEK)
            end = data.find(b"\n") + 1 or len(data)
            line += new.recv(end)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or (len(line) >= _PROOF and not line.endswith(b"\n")):
            self._refuse(new)
        elif line.endswith(b"\n"):
            self._selector.unregister(new)
            del self._proving[new]
            self._connect(new, bytes(line))

    def _greet(self, first: socket.socket) -> bool:
        """Connect with the relay that has started us; False if it is gone already."""
        line = b""
        while not line.endswith(b"\n"):
            byte = first.recv(1)
            if not byte:
                return False
            line += byte
        first.setblocking(False)
        self._connect(first, line)
        return True

    def _connect(self, new: socket.socket, line: bytes) -> None:
        try:
            said = json.loads(line)
            if not hmac.compare_digest(str(said["token"]).encode(), self._token.encode()):
                raise ValueError("a wrong token")
            received = int(said["received"])
            self._hang_up()
            self._link.connect(received)
        except (ValueError, KeyError, TypeError, LinkError):
            new.close()
            return
        self._wire = new
        self._link.outgoing[:0] = json.dumps({"received": self._link.received}).encode() + b"\n"
        self._selector.register(new, selectors.EVENT_READ)
        self._end_tail()

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._selector.unregister(self._wire)
            self._wire.close()
            self._wire = None
            self._alone_since = time.monotonic()
        self._link.disconnect()

    def _on_wire(self, events: int) -> None:
        assert self._wire is not None
        try:
            if events & selectors.EVENT_WRITE and self._link.outgoing:
                del self._link.outgoing[: self._wire.send(self._link.outgoing[:PIECE])]
            if events & selectors.EVENT_READ:
                data = self._wire.recv(PIECE)
                if not data:
                    self._hang_up()
                    return
                for message in self._link.feed(data):
                    self._handle(message)
        except BlockingIOError:
            return
        except (OSError, LinkError):
            self._hang_up()

    def _handle(self, message: Message) -> None:
        if message.kind == FRAMES:
            self._cells[0].feed(message.data)
            self._unread += message.data
            if len(self._unread) > UNREAD:
                self._kill(signal.SIGKILL)
        elif message.kind == SIGNAL:
            self._kill(int(message.data))
        elif message.kind == END:
            self._ended = True
            if not self._unread:
                self._shut()

    def _shut(self) -> None:
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)


class _CellCount:
    """Counts cells in the frames of one direction, from pieces of any size."""

    _LENGTH = struct.Struct("!I")
    _MARKS = b'{"op":"execute"', b'{"op":"done"'

    def __init__(self, token_size: int) -> None:
        self.begun = self.done = 0
        self._head = 4 + token_size
        self._start = bytearray()
        """The head of a frame, and as much of its body as tells what it is."""
        self._skip = 0

    def feed(self, data: bytes) -> None:
        place, most = 0, self._head + len(self._MARKS[0])
        while place < len(data):
            if self._skip:
                skipped = min(self._skip, len(data) - place)
                place += skipped
                self._skip -= skipped
                continue
            wanted = most
            if len(self._start) >= 4:
                wanted = min(most, self._head + self._LENGTH.unpack_from(self._start)[0])
            taken = data[place : place + max(1, min(wanted, most if len(self._start) >= 4 else 4) - len(self._start))]
            self._start += taken
            place += len(taken)
            if len(self._start) < 4:
                continue
            length = self._LENGTH.unpack_from(self._start)[0]
            if len(self._start) >= min(most, self._head + length):
                body = bytes(self._start[self._head :])
                self.begun += body.startswith(self._MARKS[0])
                self.done += body.startswith(self._MARKS[1])
                self._skip = self._head + length - len(self._start)
                self._start.clear()


def _existing(folder: str) -> str:
    """The folder, or the nearest one above it that can be entered."""
    while folder != os.path.dirname(folder) and not (os.path.isdir(folder) and os.access(folder, os.X_OK)):
        folder = os.path.dirname(folder)
    return folder or os.sep


def _interpreter(python: str, cwd: str) -> str:
    """The interpreter that is meant: ours, a virtual environment's folder, a file, or a name on the PATH."""
    if not python:
        return sys.executable
    path = os.path.join(cwd, os.path.expanduser(python))
    if os.path.isdir(path):
        return os.path.join(path, "bin", "python")
    return python if os.sep not in python and not os.path.exists(path) else path


def _is_ours(connection: socket.socket) -> bool:
    """Whether the other end belongs to the same user; elsewhere than on Linux the folder alone keeps others out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(user == os.getuid())
