"""The holder: a small process beside the kernel. It hands the kernel's connections to a new host,
and reads its output while there is none."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import sys
import time
from _operator import _compare_digest
from contextlib import suppress
from typing import NoReturn

from ..frames import Frame, FrameReader, encode
from .event_backlog import State
from .holder_client import ATTACH, END, HolderSettings
from .spool import Spool

TAKEN = b"t"
"""Message to a host from which the kernel is taken."""

KEY = ".key"
"""The ending of the key's file."""

LAST = ".last"
"""The ending of the file in which a kernel's last output stays that ended in a cell without a host:
the cell's number and a line end come first."""

PATIENCE = 5.0
"""Seconds in which whoever connects must have said everything; and in which a kernel that shall end
must have ended."""

GIVEN_UP = 0.5
"""Seconds in which a host from which the kernel is taken must have let it go."""

MOST = 16
"""Connections at a time; the oldest that has not said everything goes first."""

_LARGEST = 4096


class _Visitor:
    """A connection that has not said everything yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.until = time.monotonic() + PATIENCE
        self.reader = FrameReader(_LARGEST)
        self.channels: list[int] = []

    def close(self) -> None:
        for channel in self.channels:
            os.close(channel)
        self.connection.close()


def hold(kernel: int, settings: HolderSettings, control: int, state: State) -> NoReturn:
    """Live until the kernel ends. control: the connection to it."""
    gc.enable()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # interrupts are for the kernel, but reach its whole process group
    with open(settings.path + KEY, encoding="ascii") as file:
        key = file.read()
    null = os.open(os.devnull, os.O_RDWR)
    used = [settings.listener, settings.pipe, settings.spool, settings.lifeline, control]
    for number in (0, 1, 2):
        os.dup2(null, number)
    low = 3
    for number in sorted(used):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, 65536)
    os.chdir(os.path.dirname(settings.path))
    _Holder(kernel, settings, socket.socket(fileno=control), state, key).run()


class _Holder:
    def __init__(
        self, kernel: int, settings: HolderSettings, control: socket.socket, state: State, key: str
    ) -> None:
        self._kernel = kernel
        self._path = settings.path
        self._key = key
        self._control = control
        self._state = state
        self._spool = Spool(settings.pipe, settings.spool)
        self._listener = socket.socket(fileno=settings.listener)
        self._host: socket.socket | None = socket.socket(fileno=settings.lifeline)
        self._visitors: dict[int, _Visitor] = {}
        self._ends_at = 0.0
        """When a kernel that was told to end is killed."""
        self._printing = True
        """Whether anybody can still print."""
        control.setblocking(False)
        self._listener.setblocking(False)

    def run(self) -> NoReturn:
        while True:
            poll = select.poll()
            poll.register(self._control, select.POLLIN)
            if self._host is not None:
                poll.register(self._host, select.POLLIN)
            elif self._printing:
                poll.register(self._spool.pipe, select.POLLIN)
            poll.register(self._listener, select.POLLIN)
            for number in self._visitors:
                poll.register(number, select.POLLIN)
            ready = [number for number, _ in poll.poll(self._wait())]
            if self._control.fileno() in ready:  # the kernel says nothing: it has ended
                self._end()
            self._serve(ready)

    def _wait(self) -> float | None:
        times = [visitor.until for visitor in self._visitors.values()] + (
            [self._ends_at] if self._ends_at else []
        )
        return max(0.0, 1000 * (min(times) - time.monotonic())) if times else None

    def _serve(self, ready: list[int]) -> None:
        if self._ends_at and time.monotonic() >= self._ends_at:
            self._end()
        if self._host is not None and self._host.fileno() in ready and not _talks(self._host):
            self._host.close()
            self._host = None
        if self._host is None and self._spool.pipe in ready:
            with suppress(BlockingIOError):
                self._printing = self._spool.move() > 0
        for number in ready:
            if number in self._visitors:
                self._hear(number)
        for number, visitor in list(self._visitors.items()):
            if time.monotonic() >= visitor.until:
                self._dismiss(number)
        if self._listener.fileno() in ready:
            self._accept()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        _, uid, _ = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )
        if uid != os.getuid():
            connection.close()
            return
        connection.setblocking(False)
        if len(self._visitors) >= MOST:
            self._dismiss(next(iter(self._visitors)))
        self._visitors[connection.fileno()] = _Visitor(connection)

    def _dismiss(self, number: int) -> None:
        self._visitors.pop(number).close()

    def _hear(self, number: int) -> None:
        visitor = self._visitors[number]
        try:
            data, channels, _, _ = socket.recv_fds(visitor.connection, _LARGEST, 1)
            visitor.channels += channels
            frames = visitor.reader.feed(data)
            if (
                not data
                or len(visitor.channels) > 1
                or (
                    frames
                    and not _compare_digest(
                        str(frames[0].get("key")).encode(errors="replace"), self._key.encode()
                    )
                )
            ):
                self._dismiss(number)
            elif frames:
                self._answer(number, frames[0])
        except BlockingIOError:
            return
        except (OSError, ValueError):
            if number in self._visitors:
                self._dismiss(number)

    def _answer(self, number: int, frame: Frame) -> None:
        """Raises `OSError`."""
        visitor = self._visitors[number]
        told = {
            "op": "kernel",
            **self._state.told(),
            "pid": self._kernel,
            "host": self._host is not None,
        }
        if (
            frame["op"] == "attach"
            and visitor.channels
            and (self._host is None or frame.get("by_force") is True)
        ):
            self._attach(number, told)
            return
        visitor.connection.send(encode(told))
        self._dismiss(number)
        if frame["op"] == "stop" and self._host is None:
            if told["cell"]:
                self._end()
            self._ends_at = time.monotonic() + PATIENCE
            self._control.send(END)

    def _attach(self, number: int, told: Frame) -> None:
        visitor = self._visitors[number]
        if self._host is not None:
            with suppress(OSError):
                self._host.send(TAKEN)
                self._host.shutdown(socket.SHUT_WR)
                self._host.settimeout(GIVEN_UP)
                self._host.recv(1)
            self._host.close()
            self._host = None
        socket.send_fds(self._control, [ATTACH], visitor.channels)
        socket.send_fds(
            visitor.connection,
            [encode({**told, "op": "attached"})],
            [self._spool.pipe, self._spool.file],
        )
        for channel in visitor.channels:
            os.close(channel)
        self._host = self._visitors.pop(number).connection

    def _end(self) -> NoReturn:
        """The kernel has ended, or shall: nothing of it stays."""
        for path in (self._path, self._path + KEY):
            with suppress(OSError):
                os.unlink(path)
        if self._host is None:
            if self._state.cell:
                with suppress(OSError):
                    self._write_last()
            os.killpg(0, signal.SIGKILL)
        sys.exit()

    def _write_last(self) -> None:
        self._spool.move_all()
        draft = f"{self._path}.new"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(b"%d\n" % self._state.cell)
            file.writelines(self._spool.rest(self._state.at))
        os.rename(draft, self._path + LAST)


def _talks(host: socket.socket) -> bool:
    """Whether a host is still there; it says nothing."""
    try:
        return bool(host.recv(64, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False
