"""A small process that keeps a kernel when its screen is gone.

It waits at the kernel's socket for hosts, and moves the output to a file while there is none. The
kernel decides for how long it waits (`holder_client.py`)."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
from _operator import _compare_digest
from contextlib import suppress
from typing import Any, NoReturn

from .frames import Frame, FrameReader, encode
from .holder_protocol import (
    ATTACH,
    CLAIMED,
    END_KERNEL,
    KEY_SUFFIX,
    HolderSettings,
    SharedState,
    is_same_user,
    write_last_output,
)
from .spool import Spool

VISITOR_TIMEOUT_S = 5.0
"""Seconds for a connection to send everything, and for a kernel to end."""
RELEASE_TIMEOUT_S = 0.5
"""Seconds for a host to let go of a kernel that another host takes."""
MAX_VISITORS = 16
"""Connections at the same time; the oldest makes room."""
_MAX_MESSAGE_BYTES = 4096
"""Bytes of a visitor's message, and bytes that are read of it at once."""
_MAX_FDS = 65_536
"""Descriptors below this number that come from the kernel are closed."""


class _Visitor:
    """A connection whose message is not complete."""

    def __init__(self, connection: socket.socket) -> None:
        """Wait for the message.

        Args:
            connection: The connection, which does not block.
        """
        self.connection = connection
        self.expires_at = time.monotonic() + VISITOR_TIMEOUT_S
        self.channels: list[int] = []
        """Descriptors that it has sent: the end of a channel for the kernel."""
        self._reader = FrameReader(_MAX_MESSAGE_BYTES)

    def receive(self) -> Frame | None:
        """Read what has come; return the message once it is complete.

        Raises:
            BlockingIOError: Nothing has come.
            OSError, ValueError: It has gone, or has sent something else than a message.
        """
        data, channels, *_ = socket.recv_fds(self.connection, _MAX_MESSAGE_BYTES, 1)
        self.channels += channels
        frame = next(self._reader.feed(data), None)
        if not data or len(self.channels) > 1:
            raise ValueError("not a message of a host")
        return frame

    def close_channels(self) -> None:
        """Close the descriptors that it has sent."""
        for channel in self.channels:
            os.close(channel)

    def close(self) -> None:
        """Close the connection, and what it has sent."""
        self.close_channels()
        self.connection.close()


def run_holder(kernel: int, settings: HolderSettings, control: int, state: SharedState) -> NoReturn:
    """Become the holder of a kernel, in a process that was forked for it.

    Args:
        kernel: The process of the kernel.
        settings: What the host asked for.
        control: The descriptor of a socket that leads to the kernel's `HolderClient`.
        state: Shared with the kernel.
    """
    gc.enable()
    # Interrupts are for the kernel, but reach its whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(settings.socket_path + KEY_SUFFIX, encoding="ascii") as file:
        key = file.read()
    _close_descriptors_except(
        [settings.listener, settings.output_pipe, settings.spool, settings.lifeline, control]
    )
    os.chdir(os.path.dirname(settings.socket_path))
    _Holder(kernel, settings, socket.socket(fileno=control), state, key).run()


def _close_descriptors_except(kept_fds: list[int]) -> None:
    """Close what was inherited from the kernel; input and output lead nowhere."""
    null_fd = os.open(os.devnull, os.O_RDWR)
    for standard_fd in (0, 1, 2):
        os.dup2(null_fd, standard_fd)
    lowest_fd = 3
    for kept_fd in sorted(kept_fds):
        os.closerange(lowest_fd, kept_fd)
        lowest_fd = kept_fd + 1
    os.closerange(lowest_fd, _MAX_FDS)


class _Holder:
    """Waits for hosts, and takes the output while there is none."""

    def __init__(
        self,
        kernel: int,
        settings: HolderSettings,
        control: socket.socket,
        state: SharedState,
        key: str,
    ) -> None:
        """Begin with a host.

        Args:
            kernel: The process of the kernel.
            settings: What the host asked for.
            control: Leads to the kernel's `HolderClient`.
            state: Shared with the kernel.
            key: What visitors must send.
        """
        self._kernel_pid = kernel
        self._path = settings.socket_path
        self._key = key
        self._control = control
        self._state = state
        self._spool = Spool(settings.output_pipe, settings.spool)
        self._listener = socket.socket(fileno=settings.listener)
        self._host: socket.socket | None = socket.socket(fileno=settings.lifeline)
        """Ends when the host does; None if there is no host."""
        self._visitors: dict[int, _Visitor] = {}
        """The visitors by the descriptors of their connections, the oldest first."""
        self._ends_at = 0.0
        """When (`time.monotonic`) the kernel is killed; 0 if it may live."""
        self._is_output_open = True
        """Whether anything can still print."""
        control.setblocking(False)
        self._listener.setblocking(False)

    def run(self) -> NoReturn:
        """Serve until the kernel ends."""
        while True:
            poll = select.poll()
            for source in self._sources():
                poll.register(source, select.POLLIN)
            ready_fds = [fd for fd, _event in poll.poll(self._poll_timeout_ms())]
            if self._control.fileno() in ready_fds:
                self._end()
            self._serve(ready_fds)

    def _sources(self) -> list[Any]:
        """Return what to wait for: descriptors, and objects that have one."""
        sources: list[Any] = [self._control, self._listener, *self._visitors]
        if self._host is not None:
            sources.append(self._host)
        elif self._is_output_open:
            sources.append(self._spool.pipe)
        return sources

    def _poll_timeout_ms(self) -> float | None:
        """Return the milliseconds until a visitor, or the kernel, has had its time; None if that is
        open."""
        deadlines = [visitor.expires_at for visitor in self._visitors.values()]
        if self._ends_at:
            deadlines.append(self._ends_at)
        if not deadlines:
            return None
        return max(0.0, 1000 * (min(deadlines) - time.monotonic()))

    def _serve(self, ready_fds: list[int]) -> None:
        """Do what has become possible.

        Args:
            ready_fds: The descriptors that can be read.
        """
        now = time.monotonic()
        if self._ends_at and now >= self._ends_at:
            self._end()
        host = self._host
        if host is not None and host.fileno() in ready_fds and not _is_alive(host):
            host.close()
            self._host = None
        if self._host is None and self._spool.pipe in ready_fds:
            with suppress(BlockingIOError):
                self._is_output_open = self._spool.move() > 0
        for number, visitor in list(self._visitors.items()):
            if number in ready_fds:
                self._receive(number)
            if now >= visitor.expires_at:
                self._dismiss(number)
        if self._listener.fileno() in ready_fds:
            self._accept()

    def _accept(self) -> None:
        """Let in a visitor of the same user; the oldest one makes room."""
        try:
            connection = self._listener.accept()[0]
        except OSError:
            return
        if not is_same_user(connection):
            connection.close()
            return
        connection.setblocking(False)
        if len(self._visitors) >= MAX_VISITORS:
            oldest_number = next(iter(self._visitors))
            self._dismiss(oldest_number)
        self._visitors[connection.fileno()] = _Visitor(connection)

    def _dismiss(self, number: int) -> None:
        """Close the connection of a visitor, if there still is one with this number."""
        if number in self._visitors:
            self._visitors.pop(number).close()

    def _receive(self, number: int) -> None:
        """Read what a visitor has sent, and answer a complete message. One that sends anything else is
        dismissed."""
        try:
            frame = self._visitors[number].receive()
            if frame is None:
                return
            if self._is_authentic(frame):
                self._answer(number, frame)
            else:
                self._dismiss(number)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._dismiss(number)

    def _is_authentic(self, frame: Frame) -> bool:
        """Return whether a message has the key."""
        sent_key = str(frame.get("key"))
        return _compare_digest(sent_key.encode(errors="replace"), self._key.encode())

    def _answer(self, number: int, frame: Frame) -> None:
        """Tell a visitor about the kernel; attach it or stop the kernel if it asks for that.

        Args:
            number: The visitor.
            frame: Its message.
        """
        visitor = self._visitors[number]
        has_host = self._host is not None
        reply = {
            "op": "kernel",
            **self._state.as_frame(),
            "pid": self._kernel_pid,
            "host": has_host,
        }
        may_attach = not has_host or frame.get("by_force") is True
        if frame["op"] == "attach" and visitor.channels and may_attach:
            self._attach(number, reply)
            return
        visitor.connection.send(encode(reply))
        self._dismiss(number)
        if frame["op"] == "stop" and not has_host:
            if reply["cell"]:
                self._end()
            self._ends_at = time.monotonic() + VISITOR_TIMEOUT_S
            self._control.send(END_KERNEL)

    def _attach(self, number: int, reply: Frame) -> None:
        """Make a visitor the kernel's host.

        Args:
            number: The visitor.
            reply: What it is told about the kernel.
        """
        visitor = self._visitors[number]
        if self._host is not None:
            self._release(self._host)
            self._host = None
        socket.send_fds(self._control, [ATTACH], visitor.channels)
        socket.send_fds(
            visitor.connection,
            [encode({**reply, "op": "attached"})],
            [self._spool.pipe, self._spool.file],
        )
        visitor.close_channels()
        self._host = self._visitors.pop(number).connection

    def _release(self, host: socket.socket) -> None:
        """Ask a host to let go of the kernel, and wait for that a moment."""
        with suppress(OSError):
            host.send(CLAIMED)
            host.shutdown(socket.SHUT_WR)
            host.settimeout(RELEASE_TIMEOUT_S)
            host.recv(1)
        host.close()

    def _end(self) -> NoReturn:
        """End with the kernel.

        Without a host, save the output of its last cell, and kill what it has left.
        """
        for path in (self._path, self._path + KEY_SUFFIX):
            with suppress(OSError):
                os.unlink(path)
        if self._host is None:
            if self._state.cell:
                with suppress(OSError):
                    self._spool.move_all()
                    output = self._spool.iter_from(self._state.output_offset)
                    write_last_output(self._path, self._state.cell, output)
            os.killpg(0, signal.SIGKILL)
        sys.exit()


def _is_alive(host: socket.socket) -> bool:
    """Return whether a host has not closed its end. What it may have sent means nothing."""
    try:
        return bool(host.recv(64, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False
