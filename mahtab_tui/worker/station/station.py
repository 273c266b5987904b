"""The process next to a kernel on another machine."""

from __future__ import annotations

import hmac
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import time
from contextlib import suppress
from typing import Any

from ..holder import AWAY, BACK
from ..holder import END as END_KERNEL
from .kernel import (
    END,
    EXITED,
    FRAMES,
    LINK_PIECE,
    OUTPUT,
    SIGNAL,
    STORED,
    Kernel,
    Link,
    LinkError,
    Message,
)

FOLDER = "~/.mahtab/elsewhere"
"""Folder for the variables of remote sessions."""


def clean(above: str) -> dict[str, Any]:
    """Remove our folders, unless there is a kernel. above: the folder of our files. Returns the
    number of kernels, and the removed folders."""
    other = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"mahtab-tui-{os.getuid()}")
    folders = [
        folder
        for folder in dict.fromkeys((above, other, os.path.expanduser(FOLDER)))
        if _is_our_folder(folder)
    ]
    kernels = sum(
        _is_alive(folder, name)
        for folder in folders
        for name in os.listdir(folder)
        if name.endswith(".sock")
    )
    if kernels:
        return {"kernels": kernels, "removed": []}
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # it also contains other files
        os.rmdir(os.path.dirname(os.path.expanduser(FOLDER)))
    return {"kernels": 0, "removed": [folder for folder in folders if not os.path.exists(folder)]}


def _is_our_folder(folder: str) -> bool:
    return (
        os.path.isdir(folder)
        and not os.path.islink(folder)
        and os.stat(folder).st_uid == os.getuid()
    )


def _is_alive(folder: str, name: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        os.chdir(folder)  # because the path of a socket must be short
        try:
            asking.connect(name)
        except OSError:
            return False
    return True


BACK_PRESSURE = 4 * 2**20
"""Bytes not confirmed by the host, from which on a connected kernel must wait before printing more,
as with a slow terminal."""
MAX_AHEAD = 2**20
"""Bytes for a disconnected host, from which on output stays in the spool, which may leave out its
middle."""
MAX_WAITING_DISPLAYS = 64 * 2**20
"""Bytes for a disconnected host, from which on displays wait for it."""

_MAX_FIRST_LINE = 4096
"""Maximum bytes of a connection's first line."""
_FIRST_LINE_TIMEOUT = 5.0
_STOP_TIMEOUT = 6.0
"""Seconds for an idle kernel to end, because it saves its variables."""
_FIRST_WIRE_TIMEOUT = 60.0
"""Seconds to wait for the first connection."""
_EXIT_RETENTION = 600.0
"""Seconds for which a kernel's end is kept for the host; if a cell ended with it, as long as an
idle kernel waits."""
_HEARTBEAT = 5.0
"""Seconds between two signs of life."""


class Station:
    """Starts a kernel, and keeps its connections."""

    def __init__(self, listener: socket.socket, folder: str, request: dict[str, Any]) -> None:
        """listener: for further connections. folder: the folder of our files. request: the host's
        first line."""
        self._listener = listener
        self._token = str(request["token"])
        self._host = str(request["host"])
        """The host of the link."""
        self._idle_limit = float(request["start"]["keep"])
        self._link = Link()
        self._selector = selectors.DefaultSelector()
        self._wire: socket.socket | None = None
        self._unauthenticated: dict[socket.socket, tuple[float, bytearray]] = {}
        self._want_end: list[socket.socket] = []
        """Connections that will be notified of the kernel's end."""
        self._stopped = False
        """Whether one of them requested it, so that a disconnected host will not come back for
        it."""
        self._alone_since = time.monotonic()
        self._ends_at = 0.0
        """When to kill a kernel that should end; 0 for never."""
        self._away = False
        """Whether the kernel knows that the host is disconnected."""
        self._exited, self._code = False, 0
        self._had_wire = False
        """Whether there has been a connection."""
        self._kernel = Kernel(request["start"], folder)

    def run(self, first: socket.socket) -> None:
        """Serve until the kernel has ended and the host knows it, or nobody has connected for too
        long. first: the connection of the host that starts us."""
        self._watch(self._listener, selectors.EVENT_READ)
        self._watch(self._kernel.control, selectors.EVENT_READ)
        self._add_candidate(first)
        beat = time.monotonic()
        while not (self._exited and self._link.settled and self._wire is None):
            self._update_watches()
            for key, events in self._selector.select(1.0 if self._wire is None else _HEARTBEAT):
                watched = self._selector.get_map().get(key.fd)
                # An earlier event may have ended it.
                if watched is not None and watched.fileobj is key.fileobj:
                    self._serve(key, events)
            now = time.monotonic()
            if now - beat >= _HEARTBEAT:
                beat = now
                self._link.alive()
            for new in [
                each
                for each, (since, _) in self._unauthenticated.items()
                if now - since > _FIRST_LINE_TIMEOUT
            ]:
                self._refuse(new)
            if (
                self._exited
                and self._wire is not None
                and self._link.settled
                and not self._link.outgoing
            ):
                self._close_wire()
            alone = 0.0 if self._wire is not None else now - self._alone_since
            if alone > (self._idle_limit if self._had_wire else _FIRST_WIRE_TIMEOUT) and not (
                self._exited or self._ends_at or self._kernel.state.cell
            ):
                self._end_kernel()
            remembered = (
                self._idle_limit
                if self._kernel.state.cell
                else min(self._idle_limit, _EXIT_RETENTION)
            )
            if self._exited and self._wire is None and (self._stopped or alone > remembered):
                return

    # The kernel

    def _serve(self, key: selectors.SelectorKey, events: int) -> None:
        kernel = self._kernel
        if key.fileobj is self._listener:
            new, _ = self._listener.accept()
            self._add_candidate(new)
        elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._unauthenticated:
            self._authenticate(key.fileobj)
        elif key.fileobj is self._wire:
            self._on_wire(events)
        elif key.fileobj is kernel.channel:
            if events & selectors.EVENT_WRITE:
                kernel.send()
            with suppress(BlockingIOError):
                if events & selectors.EVENT_READ and not self._receive():
                    self._on_kernel_exit()
        elif key.fileobj is kernel.control:  # the kernel closed its end, so it has ended
            self._on_kernel_exit()
        elif key.fd == kernel.output:
            self._read_output()

    def _receive(self) -> bool:
        """Pass on data from the kernel, after the output that precedes it; returns False at its
        end. A new host gets the backlog first.

        Raises `BlockingIOError`.
        """
        has_backlog = self._kernel.has_backlog
        data = self._kernel.receive()
        if not has_backlog:
            self._kernel.spool.move_all()
            self._forward_output()
        if not data:
            return False
        self._link.send(FRAMES, data)
        if has_backlog and not self._kernel.has_backlog:
            self._forward_output()
        return True

    def _read_output(self) -> None:
        with suppress(BlockingIOError):
            if not self._kernel.spool.move():  # nothing can print any more
                self._watch(self._kernel.output, 0)
                self._kernel.all_printed = True
        if self._wire is not None or self._link.waiting < MAX_AHEAD:
            self._forward_output()

    def _forward_output(self) -> None:
        if not self._kernel.has_backlog and self._kernel.channel is not None:
            for message in self._kernel.iter_output():
                self._link.send(*message)

    def _end_kernel(self) -> None:
        """Let the kernel save its variables and end; if a cell runs, end it at once."""
        self._ends_at = time.monotonic() + (0.0 if self._kernel.state.cell else _STOP_TIMEOUT)
        self._detach_host()
        with suppress(OSError):
            self._kernel.control.send(END_KERNEL)

    def _detach_host(self) -> None:
        """Let the kernel continue without a host."""
        if self._kernel.channel is not None:
            self._watch(self._kernel.channel, 0)
        self._kernel.detach()

    def _on_kernel_exit(self) -> None:
        """Handle a kernel that has ended, or has closed its connection."""
        with suppress(BlockingIOError):
            while self._kernel.channel is not None and self._receive():
                continue
        code = self._kernel.reap()
        self._kernel.spool.move_all()
        self._forward_output()
        for each in (self._kernel.channel, self._kernel.control, self._kernel.output):
            if each is not None:
                self._watch(each, 0)
        self._exited, self._code = True, code
        self._alone_since = time.monotonic()
        self._link.send(EXITED, str(code).encode())
        for each in self._want_end:
            self._send_end(each)

    # Connections

    def _watch(self, file: socket.socket | int, events: int) -> None:
        """From now on, wait for these events of a file."""
        if file not in self._selector.get_map():
            if events:
                self._selector.register(file, events)
        elif events:
            self._selector.modify(file, events)
        else:
            self._selector.unregister(file)

    def _update_watches(self) -> None:
        """Update the awaited events, and tell the kernel whether its displays are confirmed."""
        if self._wire is not None:
            self._watch(
                self._wire,
                selectors.EVENT_READ | (selectors.EVENT_WRITE if self._link.outgoing else 0),
            )
        if self._exited:
            return
        kernel = self._kernel
        if self._ends_at and time.monotonic() >= self._ends_at:
            kernel.signal(signal.SIGKILL)
        if kernel.channel is not None:
            self._watch(
                kernel.channel,
                selectors.EVENT_READ | (selectors.EVENT_WRITE if kernel.unread else 0),
            )
        if not kernel.all_printed:
            waits = self._wire is not None and self._link.waiting > BACK_PRESSURE
            self._watch(kernel.output, 0 if waits else selectors.EVENT_READ)
        away = self._wire is None and self._link.waiting < MAX_WAITING_DISPLAYS
        if away != self._away:
            self._away = away
            with suppress(OSError):
                kernel.control.send(AWAY if away else BACK)

    def _add_candidate(self, new: socket.socket) -> None:
        if not _is_ours(new):
            new.close()
            return
        new.setblocking(False)
        self._unauthenticated[new] = time.monotonic(), bytearray()
        self._watch(new, selectors.EVENT_READ)

    def _refuse(self, new: socket.socket) -> None:
        self._watch(new, 0)
        del self._unauthenticated[new]
        new.close()

    def _authenticate(self, new: socket.socket) -> None:
        """Read the first line of a connection, which must contain the token."""
        line = self._unauthenticated[new][1]
        try:
            data = new.recv(_MAX_FIRST_LINE - len(line), socket.MSG_PEEK)
            end = data.find(b"\n") + 1 or len(data)
            line += new.recv(end)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or (len(line) >= _MAX_FIRST_LINE and not line.endswith(b"\n")):
            self._refuse(new)
        elif line.endswith(b"\n"):
            self._watch(new, 0)
            del self._unauthenticated[new]
            self._answer(new, bytes(line))

    def _answer(self, new: socket.socket, line: bytes) -> None:
        """Use a connection for the host, if that is allowed."""
        answer: dict[str, Any] = {}
        try:
            message = json.loads(line)
            if not hmac.compare_digest(str(message["token"]).encode(), self._token.encode()):
                raise ValueError("a wrong token")
            if "stop" in message:
                self._stopped = True
                if self._exited:
                    self._send_end(new)
                    return
                self._want_end.append(new)
                if not self._ends_at:
                    self._end_kernel()
                return
            if "attach" in message:
                if self._exited and self._kernel.state.cell:
                    answer = self._send_last()
                elif self._exited or self._ends_at:
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

    def _use_wire(self, new: socket.socket, answer: dict[str, Any]) -> None:
        """Use a connection for the host. answer: the first message to it."""
        self._wire, self._had_wire = new, True
        self._link.outgoing[:0] = (
            json.dumps({**answer, "received": self._link.received}).encode() + b"\n"
        )
        self._watch(new, selectors.EVENT_READ)

    def _send_end(self, new: socket.socket) -> None:
        """Notify a connection that requested the kernel's end, adding data that a connected host
        does not get."""
        if self._kernel.state.cell and self._wire is None:
            answer = self._send_last()
            self._link.connect(0)
            self._use_wire(new, answer)
            return
        with suppress(OSError):
            new.send(b'{"received": 0}\n')
        new.close()

    def _attach(self, host: str, token: str) -> dict[str, Any]:
        """Attach another host to the kernel; returns the information for it. Raises `OSError` and
        `ValueError`."""
        self._close_wire()
        if self._kernel.channel is not None:
            self._watch(self._kernel.channel, 0)
        self._kernel.attach(token)
        self._host, self._link = host, Link()
        return self._kernel.state.as_frame()

    def _send_last(self) -> dict[str, Any]:
        """Send a host the output of the cell in which the kernel ended; returns the cell's
        number."""
        self._close_wire()
        self._link = Link()
        for piece in self._kernel.spool.iter_from(self._kernel.state.output_offset):
            self._link.send(OUTPUT, piece)
        self._link.send(EXITED, str(self._code).encode())
        return {"last": self._kernel.state.cell}

    def _close_wire(self) -> None:
        if self._wire is not None:
            self._watch(self._wire, 0)
            self._wire.close()
            self._wire = None
            self._alone_since = time.monotonic()
        self._link.disconnect()

    def _on_wire(self, events: int) -> None:
        assert self._wire is not None
        try:
            if events & selectors.EVENT_READ:
                data = self._wire.recv(LINK_PIECE)
                if not data:
                    self._close_wire()
                    return
                for message in self._link.feed(data):
                    self._handle(message)
            if events & selectors.EVENT_WRITE and self._link.outgoing:
                del self._link.outgoing[: self._wire.send(self._link.outgoing[:LINK_PIECE])]
        except BlockingIOError:
            return
        except (OSError, LinkError):
            self._close_wire()

    def _handle(self, message: Message) -> None:
        if message.kind == FRAMES:
            self._kernel.send_bytes(message.data)
        elif message.kind == SIGNAL:
            if not self._exited:
                self._kernel.signal(int(message.data))
        elif message.kind == STORED:
            self._kernel.release_output(int(message.data))
        elif message.kind == END:
            self._kernel.stop_sending()


def _is_ours(connection: socket.socket) -> bool:
    """Return whether the peer is the same user; on systems other than Linux, only the folder's
    permissions keep others out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, user, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    )
    return bool(user == os.getuid())
