"""The sockets of holders, the processes that keep kernels of this machine without a screen."""

from __future__ import annotations

import os
import secrets
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from mahtab_tui.settings.model import home_folder
from mahtab_tui.worker.link.frames import FrameError, FrameReader, encode
from mahtab_tui.worker.link.holder_protocol import KEY_SUFFIX

STATUS_TIMEOUT_S = 2.0
"""Seconds for a holder's answer."""
MAX_REPLY_BYTES = 200_000
"""Maximum bytes of a holder's reply."""
RECEIVE_BYTES = 65_536
"""Bytes that are received at a time."""
MAX_DESCRIPTORS = 2
"""Descriptors that come with a reply: the kernel's pipe, and the file with its output."""
SOCKET_BACKLOG = 128
"""Connections that wait until the holder accepts them."""
SOCKET_SUFFIX = ".sock"
_KEY_BYTES = 32
"""Random bytes of the key that each request must have."""
_OWNER_ONLY = 0o600
"""Mode of files that only their owner reads and writes."""


def sockets_folder() -> Path:
    """Return the folder of the sockets. Raises `OSError` if others could use it."""
    sockets = home_folder() / "run" / "kernels"
    for folder in (sockets.parent, sockets):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise PermissionError(1, f"{folder} is not a folder of yours")
        if stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)
    return sockets


class HolderListener(NamedTuple):
    """Where the holder of a new kernel will listen."""

    socket: socket.socket
    path: Path
    """The socket's file."""


def listen(session: str) -> HolderListener:
    """Make the socket for the holder of a session's new kernel. Raises `OSError`."""
    folder = sockets_folder()
    path = folder / f"{quote(session, safe='')}.{secrets.token_hex(4)}{SOCKET_SUFFIX}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        with _short_path(path) as address:
            listener.bind(address)
        path.chmod(_OWNER_ONLY)
        listener.listen(SOCKET_BACKLOG)
        # The key that each request must have: the file's mode protects it on every system.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(_key_file(path), flags, _OWNER_ONLY)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_KEY_BYTES))
    except OSError:
        listener.close()
        remove_files(path)
        raise
    return HolderListener(listener, path)


def remove_files(path: Path) -> None:
    """Remove the socket and the key of a holder."""
    for file in (path, _key_file(path)):
        with suppress(OSError):
            file.unlink()


def _key_file(path: Path) -> Path:
    """Return the file with a holder's key.

    Args:
        path: Its socket.
    """
    return Path(f"{path}{KEY_SUFFIX}")


class HolderReply(NamedTuple):
    """What a holder answers."""

    fields: dict[str, Any]
    """The fields of the answer. They come from another process, and are not trusted."""
    descriptors: list[int]
    """The kernel's descriptors, if it was attached."""
    connection: socket.socket | None = None
    """The connection, which must stay open as long as the kernel is attached; None if it is not."""

    def close(self) -> None:
        """Close all that came with the reply."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        if self.connection is not None:
            self.connection.close()


def ask(
    path: Path,
    request: Mapping[str, Any],
    channel: socket.socket | None = None,
    timeout_s: float = STATUS_TIMEOUT_S,
) -> HolderReply:
    """Send a request to a holder, and wait for its reply.

    Args:
        path: The holder's socket.
        request: Its fields, without the key.
        channel: The socket for the kernel's frames, to attach to it.
        timeout_s: Seconds for each step.

    Raises:
        OSError: The holder cannot be reached.
        FrameError: It does not answer as it should.
    """
    key = _key_file(path).read_text("ascii")
    connection = socket.socket(socket.AF_UNIX)
    reply: HolderReply | None = None
    try:
        connection.settimeout(timeout_s)
        with _short_path(path) as address:
            connection.connect(address)
        sent_descriptors = [] if channel is None else [channel.fileno()]
        socket.send_fds(connection, [encode({**request, "key": key})], sent_descriptors)

        reply = _receive_reply(connection)
        if channel is not None and reply.fields["op"] == "attached":
            reply = reply._replace(connection=connection)
        return reply
    finally:
        if reply is None or reply.connection is None:
            connection.close()


def _receive_reply(connection: socket.socket) -> HolderReply:
    """Wait for a holder's reply. Raises `OSError` and `FrameError`."""
    reader = FrameReader(MAX_REPLY_BYTES)
    descriptors: list[int] = []
    while True:
        data, new_descriptors, *_ = socket.recv_fds(connection, RECEIVE_BYTES, MAX_DESCRIPTORS)
        descriptors += new_descriptors
        if not data:
            raise FrameError("the holder did not answer")
        for fields in reader.feed(data):
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            return HolderReply(fields, descriptors)


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Give a socket's path in a form that is short enough for the system."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
