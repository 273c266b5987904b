"""Which paths a call changes, read from the memory of its process."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from .calls import OPENS_TO_CHANGE
from .folders import SHARED_MEMORY_FOLDER
from .listener import Notification
from .process_files import OTHER_ROOT, UnseenError, descriptor_path, read_memory, shares_files
from .protected_paths import resolve_as

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_SYMLINK_FOLLOW = 0x400
_HOW = struct.Struct("=3Q")
"""What `openat2` reads in memory: flags, the mode of a new file, and how paths are resolved."""
_RESOLVE_IN_ROOT = 0x10
_MAX_PATH_BYTES = 4096
_AF_UNIX = 1
"""The family of sockets with paths."""
_FAMILY_BYTES = 2
"""Bytes of the family's number, which precedes the path in a socket's address."""


class _PathArgument(NamedTuple):
    """A path among the arguments of a call."""

    folder_fd: int
    """The descriptor of the folder where it begins."""
    name: str | None
    """The path as it is written; None if the call is about the descriptor."""
    follows: bool
    """Whether the call changes what a link at its end leads to, not the link."""

    @property
    def base(self) -> str:
        """The folder where it begins, in the process's folder in `/proc`."""
        return "cwd" if self.folder_fd == _AT_FDCWD else f"fd/{self.folder_fd}"


def read_flags(notification: Notification) -> int:
    """Return the flags of a call; 0 if it has none. Raises `UnseenError`."""
    call = notification.call
    assert call is not None
    if call.action == "open2":
        return _read_open_flags(notification.thread, notification.arguments[2])
    return 0 if call.flags is None else notification.arguments[call.flags] & 0xFFFF_FFFF


def read_seen_paths(notification: Notification, flags: int) -> list[str]:
    """Return the paths that a call changes, resolved as its process sees them; empty for a descriptor
    without a path. Raises `OSError` and `UnseenError`."""
    thread = notification.thread
    paths: list[str] = []
    for argument in _read_arguments(notification, flags):
        name = argument.name or ""
        follows = argument.follows
        if not name.startswith("/"):
            base_path = os.readlink(f"/proc/{thread}/{argument.base}")
            follows = follows and bool(name)
            name = f"{base_path}/{name}" if base_path.startswith("/") else ""
        paths.append(resolve_as(thread, name, follows=follows) if name else "")
    return paths


def read_paths(notification: Notification, flags: int, namespace: int) -> list[str]:
    """Return the paths that a call changes, as this process reaches them; empty for those that are not
    there. namespace: the number of this process's namespace of mounts. Raises `UnseenError`."""
    return [
        _reached_path(notification.thread, argument, namespace)
        for argument in _read_arguments(notification, flags)
    ]


def _reached_path(thread: int, argument: _PathArgument, namespace: int) -> str:
    if argument.name is None:
        return descriptor_path(thread, argument.folder_fd)
    name = _own_view(thread, argument.name)
    if name.startswith(("/dev/", "/sys/")) and not name.startswith(SHARED_MEMORY_FOLDER):
        return ""
    if not name:
        return ""
    if not shares_files(thread, namespace):
        raise UnseenError(OTHER_ROOT)
    if not name.startswith("/"):
        name = f"/proc/{thread}/{argument.base}/{name}"
    return _resolve(name, follows=argument.follows)


def _read_arguments(notification: Notification, flags: int) -> Iterator[_PathArgument]:
    call = notification.call
    assert call is not None
    arguments = notification.arguments
    if call.action == "socket":
        socket_path = _read_socket_path(notification.thread, arguments[1], arguments[2])
        if socket_path:
            yield _PathArgument(_AT_FDCWD, socket_path, follows=False)
        return
    for index, (folder, path) in enumerate(call.paths):
        folder_fd = _AT_FDCWD
        if folder is not None:
            folder_fd = ctypes.c_int(arguments[folder] & 0xFFFF_FFFF).value
        name = None
        if path is not None and arguments[path]:
            name = _read_text(notification.thread, arguments[path])
        yield _PathArgument(folder_fd, name, index == 0 and _follows(call.action, flags))


def _follows(action: str, flags: int) -> bool:
    """Return whether a call changes what a link leads to, not the link."""
    if action in ("mark", "own"):
        return not flags & _AT_SYMLINK_NOFOLLOW
    if action == "link":
        return bool(flags & _AT_SYMLINK_FOLLOW)
    return action in ("open", "open2", "write")


def _read_text(thread: int, address: int) -> str:
    """Read a path in the memory of a process."""
    return os.fsdecode(read_memory(thread, address, _MAX_PATH_BYTES).split(b"\0", 1)[0])


def _read_socket_path(thread: int, address: int, length: int) -> str:
    """Read the path in a socket's address in the memory of a process; empty if it has none."""
    data = read_memory(thread, address, min(length & 0xFFFF_FFFF, _MAX_PATH_BYTES))
    family = int.from_bytes(data[:_FAMILY_BYTES], sys.byteorder)
    if family != _AF_UNIX:
        return ""
    return os.fsdecode(data[_FAMILY_BYTES:].split(b"\0", 1)[0])


def _read_open_flags(thread: int, address: int) -> int:
    """Read the flags of `openat2` in the memory of a process. Raises `UnseenError` if it takes a folder
    for the root folder."""
    data = read_memory(thread, address, _HOW.size)
    if len(data) < _HOW.size:
        return 0
    flags, _mode, resolution = _HOW.unpack(data)
    if resolution & _RESOLVE_IN_ROOT and flags & OPENS_TO_CHANGE:
        raise UnseenError(OTHER_ROOT)
    return int(flags)


def _own_view(thread: int, path: str) -> str:
    """Replace the beginning of a path that means something else for each process."""
    for prefix, target in (
        ("/proc/self/", ""),
        ("/proc/thread-self/", ""),
        ("/dev/fd/", "fd/"),
    ):
        if path.startswith(prefix):
            return f"/proc/{thread}/{target}{path[len(prefix) :]}"
    return path


def _resolve(path: str, *, follows: bool) -> str:
    """Return a path without links and dots; empty if its folder does not exist.

    Args:
        path: Of anything, or of nothing.
        follows: Whether a link at its end is followed.
    """
    flags = os.O_PATH | os.O_CLOEXEC
    path = path.rstrip("/") or "/"
    folder, name = os.path.split(path)
    if follows or name in ("", ".", ".."):
        with suppress(OSError):
            return _path_of(os.open(path, flags))
    try:
        folder = _path_of(os.open(folder, flags | os.O_DIRECTORY))
    except OSError:
        return ""
    resolved = os.path.join(folder, name)
    if follows and os.path.islink(resolved):  # it leads to nothing yet
        return os.path.realpath(resolved)
    return resolved


def _path_of(fd: int) -> str:
    """Return the path of a descriptor, and close it. Raises `OSError`."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
