"""What a host, the kernel and its holder (`holder.py`), or its station, agree on: their words, what
the kernel is given at its start, and which files lie beside its socket."""

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


class HolderSettings(NamedTuple):
    """What a host gives to a kernel that may outlive it. All but the last two are descriptors."""

    listener: int
    """The socket on which later hosts ask for the kernel."""
    pipe: int
    """The output of the kernel."""
    spool: int
    """The file to which output goes while there is no host."""
    lifeline: int
    """A socket whose other end the host closes when it ends."""
    path: str
    """The path of the listener."""
    hours: float
    """How long the kernel waits for a host."""


class StationSettings(NamedTuple):
    """What a station gives to its kernel. It is a holder itself, so that the kernel needs no other."""

    control: int
    """The socket for the words above."""
    pipe: int
    spool: int
    page: int
    """The memory of the `SharedState`."""
    hours: float


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end is one of our user's."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return bool(struct.unpack("3i", peer)[1] == os.getuid())


def write_last_output(path: str, cell: int, output: Iterable[bytes]) -> None:
    """Save the output of the cell in which a kernel ended. path: the kernel's socket."""
    draft = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(draft, flags, 0o600), "wb") as file:
        file.write(b"%d\n" % cell)
        file.writelines(output)
    os.rename(draft, path + LAST_OUTPUT_SUFFIX)
