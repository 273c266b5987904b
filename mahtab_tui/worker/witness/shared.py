"""What kernel and witness say to each other: numbers in shared memory, and messages."""

from __future__ import annotations

import json
import mmap
import struct
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET, socket
from typing import Any, NamedTuple

_LENGTH = struct.Struct("=Q")
"""The head of a message: the number of its bytes."""
_FIELD = struct.Struct("=Q")
"""A number in shared memory."""
_DESCRIPTOR = struct.Struct("i")
_PIECE_BYTES = 65_536
"""Maximum bytes that are sent or received at once."""

# The places of the numbers in shared memory, counted in numbers.
_HAS_NEWS_INDEX = 0
_CELL_INDEX = 1
_OLDEST_CELL_INDEX = 2
_IS_RUNNING_INDEX = 3

Message = dict[str, Any]
"""A JSON object."""


class WitnessLink(NamedTuple):
    """What kernel and witness share."""

    control: int
    """The descriptor of a socket that leads to the other process."""
    page: mmap.mmap
    """Memory with the numbers that `SharedFields` names."""
    other_pid: int
    """The other process."""


class SharedFields:
    """Numbers that one process writes and the other reads, so that a cell that changes no file costs
    no message."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    @property
    def has_news(self) -> bool:
        """Whether files were touched since the kernel asked last, or are open for writing. Set by the
        witness."""
        return self._read(_HAS_NEWS_INDEX) != 0

    @has_news.setter
    def has_news(self, value: bool) -> None:
        self._write(_HAS_NEWS_INDEX, int(value))

    @property
    def cell(self) -> int:
        """The cell to which changes belong; 0 before the first. Set by the kernel."""
        return self._read(_CELL_INDEX)

    @cell.setter
    def cell(self, value: int) -> None:
        self._write(_CELL_INDEX, value)

    @property
    def oldest_cell(self) -> int:
        """The first cell that can be undone. Set by the kernel."""
        return self._read(_OLDEST_CELL_INDEX)

    @oldest_cell.setter
    def oldest_cell(self, value: int) -> None:
        self._write(_OLDEST_CELL_INDEX, value)

    @property
    def is_running(self) -> bool:
        """Whether a cell runs. Set by the kernel."""
        return self._read(_IS_RUNNING_INDEX) != 0

    @is_running.setter
    def is_running(self, value: bool) -> None:
        self._write(_IS_RUNNING_INDEX, int(value))

    def _read(self, index: int) -> int:
        (number,) = _FIELD.unpack_from(self._page, index * _FIELD.size)
        return int(number)

    def _write(self, index: int, number: int) -> None:
        _FIELD.pack_into(self._page, index * _FIELD.size, number)


class WitnessConnection:
    """One end of the socket between kernel and witness. It sends and receives messages, each perhaps
    with a descriptor of an open file."""

    def __init__(self, fd: int) -> None:
        """Take over a socket.

        Args:
            fd: Its descriptor.
        """
        self._socket = socket(fileno=fd)

    @property
    def fd(self) -> int:
        """The descriptor of the socket."""
        return self._socket.fileno()

    def send(self, message: Message, fd: int | None = None) -> None:
        """Send a message.

        Args:
            message: The message.
            fd: A descriptor of which the other process gets a copy; None for none.

        Raises:
            OSError: The other process has ended.
        """
        data = json.dumps(message).encode()
        unsent = memoryview(_LENGTH.pack(len(data)) + data)
        # The descriptor goes with the first piece.
        controls = []
        if fd is not None:
            controls.append((SOL_SOCKET, SCM_RIGHTS, _DESCRIPTOR.pack(fd)))
        while unsent:
            sent_bytes = self._socket.sendmsg([unsent[:_PIECE_BYTES]], controls)
            unsent = unsent[sent_bytes:]
            controls = []

    def receive(self) -> tuple[Message, int | None]:
        """Wait for a message.

        Returns:
            The message, and the descriptor that came with it; None if none did.

        Raises:
            EOFError: The other process has ended.
            OSError: The socket cannot be read.
        """
        fds: list[int] = []
        (length,) = _LENGTH.unpack(self._receive_bytes(_LENGTH.size, fds))
        message: Message = json.loads(self._receive_bytes(length, fds))
        return message, fds[0] if fds else None

    def _receive_bytes(self, size: int, fds: list[int]) -> bytes:
        """Wait for so many bytes; add the descriptors that come with them to a list."""
        received = bytearray()
        while len(received) < size:
            piece_bytes = min(size - len(received), _PIECE_BYTES)
            piece, controls, _, _ = self._socket.recvmsg(piece_bytes, CMSG_SPACE(_DESCRIPTOR.size))
            if not piece:
                raise EOFError("the other process has ended")
            received += piece
            for _, kind, value in controls:
                if kind == SCM_RIGHTS:
                    (fd,) = _DESCRIPTOR.unpack(value[: _DESCRIPTOR.size])
                    fds.append(fd)
        return bytes(received)
