"""The kernel next to a station: its process, its output and the channel to it."""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Any

from .frames import TOKEN_BYTES
from .holder_protocol import ATTACH, SHARED_STATE_BYTES, SharedState, StationSettings
from .spool import Spool
from .station_link import LINK_PIECE_BYTES

MAX_UNREAD_BYTES = 256 * 2**20
"""A kernel is killed when this many bytes wait for it."""
_LENGTH = struct.Struct("!I")
"""The length of a frame, in bytes."""
_EXIT_GRACE_S = 1.0
"""Seconds from the end of a kernel's channel to that of its process."""
_NOT_STARTED_CODE = 127
"""The exit code of a kernel whose interpreter does not start, as shells have it."""


class _FirstFrame:
    """Counts the bytes of the kernel's first frame for a new host, which contains the backlog."""

    def __init__(self) -> None:
        """Begin before the frame."""
        self.missing_bytes = _LENGTH.size
        """Bytes that are known to come: of the length, and then of the rest of the frame."""
        self._length = bytearray()
        """What has come of the length."""

    def add(self, data: bytes) -> None:
        """Count bytes that have come, at most the missing ones."""
        self.missing_bytes -= len(data)
        if len(self._length) == _LENGTH.size:
            return
        self._length += data
        if not self.missing_bytes:
            (body_bytes,) = _LENGTH.unpack(self._length)
            self.missing_bytes = TOKEN_BYTES + body_bytes


class StationKernel:
    """The kernel's process, its output and the channel to it."""

    def __init__(self, start: dict[str, Any], folder: str) -> None:
        """Start the kernel.

        Args:
            start: The host's settings.
            folder: The folder of the worker's code.
        """
        self.output, write_end = os.pipe()
        """The descriptor from which the output is read."""
        self.spool = Spool(self.output, _anonymous_file("mahtab-output"))
        self.offset = 0
        """The host was sent the output up to this offset."""
        self.all_printed = False
        """Whether nothing can print any more."""
        page = _anonymous_file("mahtab-state")
        os.ftruncate(page, SHARED_STATE_BYTES)
        self.state = SharedState(mmap.mmap(page, SHARED_STATE_BYTES))
        self.unread = bytearray()
        """Bytes of the host that the kernel has not read."""
        self._is_input_closed = False
        """Whether the host sends nothing more."""
        self._first_frame: _FirstFrame | None = None
        """The frame with the backlog, while it comes; None for the host with which the kernel began."""
        socket_type = socket.SOCK_STREAM
        if sys.platform == "linux":
            socket_type = socket.SOCK_SEQPACKET
        self.control, control = socket.socketpair(socket.AF_UNIX, socket_type)
        self.channel: socket.socket | None
        """Leads to the kernel; None while it has no host."""
        self.channel, kernel_channel = _open_channel(start["kernel_token"])
        self._previous_channel: socket.socket | None = None
        """The channel of the host before, until the kernel answers the new one."""

        hours = float(start["keep"]) / 3600
        settings = StationSettings(control.fileno(), self.output, self.spool.file, page, hours)
        self._child = _start_process(start, folder, settings, kernel_channel.fileno(), write_end)
        kernel_channel.close()
        control.close()
        os.close(write_end)
        os.close(page)

    def attach(self, token: str) -> None:
        """Give the kernel a channel for another host.

        Args:
            token: Begins each frame, as hexadecimal digits.

        Raises:
            OSError: The kernel has ended.
            ValueError: The token has other characters.
        """
        channel, kernel_channel = _open_channel(token)
        with kernel_channel:
            socket.send_fds(self.control, [ATTACH], [kernel_channel.fileno()])
        self.unread.clear()
        self._previous_channel = self.channel or self._previous_channel
        self.channel = channel
        self._first_frame = _FirstFrame()
        self._is_input_closed = False
        self.offset = 0

    def detach(self) -> None:
        """Close the channel: the kernel has no host now."""
        for channel in (self.channel, self._previous_channel):
            if channel is not None:
                channel.close()
        self.channel = None
        self._previous_channel = None
        self.unread.clear()

    @property
    def has_backlog_to_come(self) -> bool:
        """Whether the kernel's first frame for a new host is not complete."""
        return self._first_frame is not None

    def send(self, data: bytes = b"", *, is_last: bool = False) -> None:
        """Send what the kernel can take, and keep the rest.

        A kernel that reads nothing for too long is killed.

        Args:
            data: Bytes of the host, after those that the kernel has not read.
            is_last: Whether to close the channel after them.
        """
        self.unread += data
        if len(self.unread) > MAX_UNREAD_BYTES:
            self.signal(signal.SIGKILL)
        self._is_input_closed = self._is_input_closed or is_last
        if self.channel is None:
            return
        with suppress(BlockingIOError, ConnectionError):
            while self.unread:
                sent_bytes = self.channel.send(self.unread[:LINK_PIECE_BYTES])
                del self.unread[:sent_bytes]
        if self._is_input_closed and not self.unread:
            with suppress(OSError):
                self.channel.shutdown(socket.SHUT_WR)

    def receive(self) -> bytes:
        """Return what the kernel has sent; nothing at its end, and nothing of what follows the backlog
        together with it. Raises `BlockingIOError`."""
        assert self.channel is not None
        max_bytes = LINK_PIECE_BYTES
        if self._first_frame is not None:
            max_bytes = min(self._first_frame.missing_bytes, LINK_PIECE_BYTES)
        try:
            data = self.channel.recv(max_bytes)
        except ConnectionError:
            return b""

        # The kernel answers a new host, so that it reads no more of the one before.
        if self._previous_channel is not None:
            self._previous_channel.close()
            self._previous_channel = None
        if self._first_frame is not None:
            self._first_frame.add(data)
            if not self._first_frame.missing_bytes:
                self._first_frame = None
        return data

    def signal(self, number: int) -> None:
        """Send a signal, by its number, to the kernel and its child processes."""
        if self._child is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def reap(self) -> int:
        """Wait for the end of the kernel, kill what it left, and return its exit code."""
        if self._child is None:
            return _NOT_STARTED_CODE
        try:
            code = self._child.wait(_EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            code = self._child.wait()
        self.signal(signal.SIGKILL)
        return code


def _start_process(
    start: dict[str, Any], folder: str, settings: StationSettings, channel: int, output: int
) -> subprocess.Popen[bytes] | None:
    """Start the process of the kernel; None, and a line of output, if this is impossible.

    Args:
        start: The host's settings.
        folder: The folder of the worker's code.
        settings: What the kernel gets from this station.
        channel: The descriptor of the kernel's end of the channel.
        output: The descriptor to which it prints.
    """
    os.environ.update(start["env"])
    cwd = start["cwd"] if os.path.isdir(start["cwd"]) else os.path.expanduser("~")
    interpreter = _interpreter(start["python"], cwd)
    worker = os.path.join(folder, "worker")
    arguments = [str(channel), worker, json.dumps(settings._asdict())]
    try:
        return subprocess.Popen(
            [interpreter, "-c", start["bootstrap"], *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[
                channel,
                settings.control,
                settings.output_pipe,
                settings.spool,
                settings.page,
            ],
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        os.write(output, f"{interpreter}: {error.strerror}\n".encode(errors="replace"))
        return None


def _open_channel(token: str) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a channel; the kernel reads the token from the second."""
    ours, theirs = socket.socketpair()
    ours.sendall(bytes.fromhex(token))
    ours.setblocking(False)
    return ours, theirs


def _anonymous_file(name: str) -> int:
    """Return the descriptor of a file without a path.

    Args:
        name: For those who look into /proc.
    """
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
