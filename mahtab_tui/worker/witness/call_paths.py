"""Which paths a call changes, read from the memory of its process.

There are two questions with the same beginning. The recorder asks where *this* process reaches the files
(`read_paths`), because it copies them. The protection asks what the paths mean for *the other* process
(`read_seen_paths`), whose root folder and mounts may be others.
"""

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
"""In place of a folder's descriptor: the working folder."""
# Flags of calls
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_SYMLINK_FOLLOW = 0x400
_UINT32_MASK = 0xFFFF_FFFF
"""The bits of a register that an argument of 32 bits fills."""
_HOW = struct.Struct("=3Q")
"""What `openat2` reads in memory: flags, the mode of a new file, and how paths are resolved."""
_RESOLVE_IN_ROOT = 0x10
"""The way of `openat2` to resolve paths that takes a folder for the root folder."""
_MAX_PATH_BYTES = 4096
_AF_UNIX = 1
"""The family of sockets with paths."""
_FAMILY_BYTES = 2
"""Bytes of the family's number, which precedes the path in a socket's address."""
_OWN_PREFIXES = {"/proc/self/": "", "/proc/thread-self/": "", "/dev/fd/": "fd/"}
"""Beginnings of paths that mean something else for each process, with what follows its folder in `/proc`
in their place."""
_FOLLOWING_ACTIONS = ("open", "open2", "write")
"""Actions of calls that always change what a link leads to."""


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
    if call.flags is None:
        return 0
    flags = notification.arguments[call.flags]
    if call.action == "open2":
        return _read_open_flags(notification.thread, flags)
    return flags & _UINT32_MASK


def read_seen_paths(notification: Notification, flags: int) -> list[str]:
    """Return the paths that a call changes, resolved as its process sees them.

    Args:
        notification: The call.
        flags: Its flags, from `read_flags`.

    Returns:
        Absolute paths; empty for a descriptor without a path.

    Raises:
        OSError: The call will fail, or its process has ended.
        UnseenError: The paths cannot be read.
    """
    return [
        _seen_path(notification.thread, argument)
        for argument in _read_arguments(notification, flags)
    ]


def _seen_path(thread: int, argument: _PathArgument) -> str:
    """Return the path of an argument, as `read_seen_paths` does."""
    name = argument.name or ""
    if name.startswith("/"):
        return resolve_as(thread, name, follows=argument.follows)
    base_path = os.readlink(f"/proc/{thread}/{argument.base}")
    if not base_path.startswith("/"):  # such as that of a pipe
        return ""
    # Without a name, the call is about what is open, which is not a link.
    follows = argument.follows and bool(name)
    return resolve_as(thread, f"{base_path}/{name}", follows=follows)


def read_paths(notification: Notification, flags: int, namespace: int) -> list[str]:
    """Return the paths that a call changes, as this process reaches them.

    Args:
        notification: The call.
        flags: Its flags, from `read_flags`.
        namespace: The number of this process's namespace of mounts.

    Returns:
        Absolute paths; empty for what is not there, or is not a file.

    Raises:
        UnseenError: The paths cannot be read, or this process does not see their files.
    """
    return [
        _reached_path(notification.thread, argument, namespace)
        for argument in _read_arguments(notification, flags)
    ]


def _reached_path(thread: int, argument: _PathArgument, namespace: int) -> str:
    """Return the path of an argument, as `read_paths` does."""
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
    """Yield the paths among the arguments of a call. Raises `UnseenError`."""
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
            folder_fd = ctypes.c_int(arguments[folder] & _UINT32_MASK).value
        name = None
        if path is not None and arguments[path]:
            name = _read_text(notification.thread, arguments[path])
        # The second path of a call is a new name, which replaces a link.
        yield _PathArgument(folder_fd, name, index == 0 and _follows(call.action, flags))


def _follows(action: str, flags: int) -> bool:
    """Return whether a call changes what a link leads to, not the link."""
    if action in ("mark", "own"):
        return not flags & _AT_SYMLINK_NOFOLLOW
    if action == "link":
        return bool(flags & _AT_SYMLINK_FOLLOW)
    return action in _FOLLOWING_ACTIONS


def _read_text(thread: int, address: int) -> str:
    """Read a path in the memory of a process. Raises `UnseenError`."""
    return os.fsdecode(read_memory(thread, address, _MAX_PATH_BYTES).split(b"\0", 1)[0])


def _read_socket_path(thread: int, address: int, length: int) -> str:
    """Read the path in a socket's address in the memory of a process.

    Args:
        thread: The process, or a thread of it.
        address: Where the socket's address is.
        length: Its length in bytes, as the register has it.

    Returns:
        The path; empty if the socket has none.

    Raises:
        UnseenError: It cannot be read.
    """
    data = read_memory(thread, address, min(length & _UINT32_MASK, _MAX_PATH_BYTES))
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
    for prefix, target in _OWN_PREFIXES.items():
        if path.startswith(prefix):
            return f"/proc/{thread}/{target}{path[len(prefix) :]}"
    return path


def _resolve(path: str, *, follows: bool) -> str:
    """Return a path without links and dots; empty if its folder does not exist.

    Args:
        path: An absolute path. Nothing need be there.
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
