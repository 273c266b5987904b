"""What a host, a kernel, and the kernel's holder (`holder.py`) or station agree on.

These are the words that they exchange, the settings with which a kernel starts, and the files
beside its socket.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

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


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end is one of our user's."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _process_id, user_id, _group_id = _CREDENTIALS.unpack(credentials)
    return bool(user_id == os.getuid())


def write_last_output(path: str, cell: int, output: Iterable[bytes]) -> None:
    """Save the output of the cell in which a kernel ended.

    Args:
        path: The kernel's socket.
    """
    draft = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(draft, flags, _FILE_MODE), "wb") as file:
        file.write(b"%d\n" % cell)
        file.writelines(output)
    os.rename(draft, path + LAST_OUTPUT_SUFFIX)
