"""What a host, a kernel, and the kernel's holder (`holder.py`) or station agree on.

These are the words that they exchange, the settings with which a kernel starts, the memory in which it says what
it does, and the files beside its socket.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .frames import Frame

# Words from the holder, or the station, to the kernel.
ATTACH = b"a"
"""There is a new host. The descriptor of its connection comes with the word."""
END_KERNEL = b"e"
HOST_AWAY = b"w"
"""The host cannot be reached now."""
HOST_BACK = b"b"
"""It can be reached again."""

# A word from the holder to a host.
CLAIMED = b"t"
"""Another host takes the kernel."""

# Files beside the kernel's socket: its path, followed by one of these.
KEY_SUFFIX = ".key"
"""The key that visitors must send."""
LAST_OUTPUT_SUFFIX = ".last"
"""The output of the cell in which the kernel ended."""
_FILE_MODE = 0o600

SHARED_STATE_BYTES = 65_536
"""The size of the memory of a `SharedState`."""
_STATE = struct.Struct("=qdqq")
"""The fields of a `_CellState`."""
_HELLO_OFFSET_BYTES = 64
"""Where the first frame of the kernel lies in the shared memory, as JSON."""

_CREDENTIALS = struct.Struct("3i")
"""The ids of a process, its user and its group, as the system writes them."""


class HolderSettings(NamedTuple):
    """What a host gives to a kernel that may outlive it."""

    # Descriptors:
    listener: int
    """The socket on which later hosts ask for the kernel."""
    output_pipe: int
    """The output of the kernel."""
    spool: int
    """The file to which output goes while there is no host."""
    lifeline: int
    """A socket whose other end the host closes when it ends."""

    socket_path: str
    """The path of the listener."""
    max_absence_hours: float
    """How long the kernel waits for a host."""


class StationSettings(NamedTuple):
    """What a station gives to its kernel. It is a holder itself, so that the kernel needs no other."""

    # Descriptors:
    control: int
    """The socket for the words above."""
    output_pipe: int
    spool: int
    page: int
    """The memory of the `SharedState`."""

    max_absence_hours: float


class _CellState(NamedTuple):
    """What a kernel says of its cells."""

    cell: int
    """The cell that runs; 0 if none does."""
    since: float
    """When (`time.time`) it began, or the last one ended."""
    has_run: bool
    """Whether a cell has ever run."""
    output_offset: int
    """Where the output of the last cell begins, in bytes from the kernel's start."""


class SharedState:
    """What a kernel does, in memory that its holder reads without a request, because code may keep the kernel
    from answering."""

    def __init__(self, page: Any) -> None:
        """Use memory that both processes have.

        Args:
            page: A `mmap.mmap` of `SHARED_STATE_BYTES`.
        """
        self._page = page

    def set_hello(self, hello: Frame) -> None:
        """Note the first frame of the kernel, once."""
        data = json.dumps(hello).encode()[: SHARED_STATE_BYTES - _HELLO_OFFSET_BYTES]
        self._page[_HELLO_OFFSET_BYTES : _HELLO_OFFSET_BYTES + len(data)] = data

    def set_cell(self, cell: int, output_offset: int = 0) -> None:
        """Note that a cell begins or that the last one has ended.

        Args:
            cell: The cell; 0 if none runs.
            output_offset: Where its output begins, in bytes from the kernel's start.
        """
        has_run = self.has_run or cell > 0
        _STATE.pack_into(self._page, 0, cell, time.time(), has_run, output_offset)

    @property
    def cell(self) -> int:
        """The cell that runs; 0 if none does."""
        return self._read().cell

    @property
    def output_offset(self) -> int:
        """Where the output of the last cell begins."""
        return self._read().output_offset

    @property
    def has_run(self) -> bool:
        """Whether a cell has ever run."""
        return self._read().has_run

    def as_frame(self) -> Frame:
        """Return what a visitor is told of the kernel."""
        state = self._read()
        hello = bytes(self._page[_HELLO_OFFSET_BYTES:]).rstrip(b"\0")
        return {
            "cell": state.cell,
            "since": state.since,
            "has_run": state.has_run,
            "hello": json.loads(hello) if hello else {},
        }

    def _read(self) -> _CellState:
        cell, since, has_run, output_offset = _STATE.unpack_from(self._page)
        return _CellState(cell, since, bool(has_run), output_offset)


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end is one of our user's."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _process_id, user_id, _group_id = _CREDENTIALS.unpack(credentials)
    return bool(user_id == os.getuid())


def write_last_output(path: str, cell: int, output: Iterable[bytes]) -> None:
    """Save the output of the cell in which a kernel ended.

    Args:
        path: The kernel's socket.
        cell: The cell.
        output: Its output, in pieces.
    """
    draft = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(draft, flags, _FILE_MODE), "wb") as file:
        file.write(b"%d\n" % cell)
        file.writelines(output)
    os.rename(draft, path + LAST_OUTPUT_SUFFIX)
