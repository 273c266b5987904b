"""What kernel and witness say to each other: fields in shared memory, and messages."""

from __future__ import annotations

import json
import mmap
import struct
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET, socket
from typing import Any, NamedTuple

_LENGTH = struct.Struct("=Q")
_FIELD = struct.Struct("=Q")
_FD = struct.Struct("i")
_PIECE_BYTES = 65_536

Message = dict[str, Any]


class WitnessLink(NamedTuple):
    """What kernel and witness share."""

    control: int
    """The descriptor of a socket that leads to the other process."""
    page: mmap.mmap
    """Memory with the fields that `SharedFields` names."""
    other_pid: int
    """The other process."""


class SharedFields:
    """Numbers that one process writes and the other reads, so that a cell that changes no file costs
    no message."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    def _get(self, index: int) -> int:
        return int(_FIELD.unpack_from(self._page, index * _FIELD.size)[0])

    def _set(self, index: int, value: int) -> None:
        _FIELD.pack_into(self._page, index * _FIELD.size, value)

    @property
    def has_news(self) -> bool:
        """Whether files were touched since the kernel asked last, or are open for writing. Set by the
        witness."""
        return self._get(0) != 0

    @has_news.setter
    def has_news(self, value: bool) -> None:
        self._set(0, int(value))

    @property
    def cell(self) -> int:
        """The cell to which changes belong; 0 before the first. Set by the kernel."""
        return self._get(1)

    @cell.setter
    def cell(self, value: int) -> None:
        self._set(1, value)

    @property
    def oldest_cell(self) -> int:
        """The first cell that can be undone. Set by the kernel."""
        return self._get(2)

    @oldest_cell.setter
    def oldest_cell(self, value: int) -> None:
        self._set(2, value)

    @property
    def is_running(self) -> bool:
        """Whether a cell runs. Set by the kernel."""
        return self._get(3) != 0

    @is_running.setter
    def is_running(self, value: bool) -> None:
        self._set(3, int(value))


class WitnessConnection:
    """One end of the socket between kernel and witness."""

    def __init__(self, fd: int) -> None:
        self._socket = socket(fileno=fd)

    @property
    def fd(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message, fd: int | None = None) -> None:
        """Send a message, perhaps with a descriptor. Raises `OSError`."""
        data = json.dumps(message).encode()
        view = memoryview(_LENGTH.pack(len(data)) + data)
        rights = []
        if fd is not None:
            rights.append((SOL_SOCKET, SCM_RIGHTS, _FD.pack(fd)))
        while view:
            view = view[self._socket.sendmsg([view[:_PIECE_BYTES]], rights) :]
            rights = []

    def receive(self) -> tuple[Message, int | None]:
        """Wait for a message; return it and the descriptor that came with it. Raises `OSError` and
        `EOFError`."""
        fds: list[int] = []
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, fds))
        message: Message = json.loads(self._read(length, fds))
        return message, next(iter(fds), None)

    def _read(self, size: int, fds: list[int]) -> bytes:
        received = bytearray()
        while len(received) < size:
            data, controls, _, _ = self._socket.recvmsg(
                min(size - len(received), _PIECE_BYTES), CMSG_SPACE(_FD.size)
            )
            if not data:
                raise EOFError("the other process has ended")
            received += data
            for _, kind, value in controls:
                if kind == SCM_RIGHTS:
                    fds.append(_FD.unpack(value[: _FD.size])[0])
        return bytes(received)
