"""Names what the system refuses to a locked process, also if its code hides the error.

The process hands over a descriptor, on which Linux reports some refused calls; they wait until they
are answered, always with an error."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ..side_effects import is_ignored_path
from . import confinement
from .confinement import AllowedCall

_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""Its id, the thread, flags; the call's number, architecture, instruction and arguments."""
_ANSWER = struct.Struct("=QqiI")
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_SET_FILTER = 1
_NEW_LISTENER = 1 << 3
_SECCOMP = {confinement.X86_64: 317, confinement.AARCH64: 277}
_INTERNET = (2, 10)
"""Families of addresses: AF_INET and AF_INET6."""
_MAX_PATH_BYTES = 4096
_ACCESS_MODE = 0o3
"""The flags that say whether a file is read, written, or both."""


class _ReportedCall(NamedTuple):
    name: str
    x86_64: int | None
    aarch64: int | None
    verb: str
    """Follows "wanted to"."""
    path: int | None = None
    """The argument with the address of a path."""
    flags: int | None = None
    """The argument with the flags of an opened file."""


_CALLS = (
    _ReportedCall("open", 2, None, "write", 0, 1),
    _ReportedCall("openat", 257, 56, "write", 1, 2),
    _ReportedCall("creat", 85, None, "write", 0),
    _ReportedCall("unlink", 87, None, "remove", 0),
    _ReportedCall("unlinkat", 263, 35, "remove", 1),
    _ReportedCall("rename", 82, None, "rename", 0),
    _ReportedCall("renameat", 264, 38, "rename", 1),
    _ReportedCall("renameat2", 316, 276, "rename", 1),
    _ReportedCall("mkdir", 83, None, "make the folder", 0),
    _ReportedCall("mkdirat", 258, 34, "make the folder", 1),
    _ReportedCall("rmdir", 84, None, "remove the folder", 0),
    _ReportedCall("link", 86, None, "link", 0),
    _ReportedCall("linkat", 265, 37, "link", 1),
    _ReportedCall("symlink", 88, None, "link", 1),
    _ReportedCall("symlinkat", 266, 36, "link", 2),
    _ReportedCall("truncate", 76, 45, "truncate", 0),
    _ReportedCall("chmod", 90, None, "change the permissions of", 0),
    _ReportedCall("fchmodat", 268, 53, "change the permissions of", 1),
    _ReportedCall("execve", 59, 221, "start", 0),
    _ReportedCall("fork", 57, None, "make a process"),
    _ReportedCall("vfork", 58, None, "make a process"),
    _ReportedCall("clone", 56, 220, "make a process"),
    _ReportedCall("socket", 41, 198, "connect to the internet"),
)


def split_calls(
    allowed: Sequence[AllowedCall],
) -> tuple[tuple[AllowedCall, ...], tuple[AllowedCall, ...]]:
    """Return the calls for two filters that together allow `allowed`: the first reports what it
    refuses, and the second leaves these calls to the first."""
    conditions = {call.name: call.alternatives for call in allowed}
    reporting = tuple(
        AllowedCall(call.name, call.x86_64, call.aarch64, conditions.get(call.name, ()))
        for call in _CALLS
    )
    names = {call.name for call in _CALLS}
    others = tuple(call for call in allowed if call.name not in names)
    return reporting, (*others, *(call._replace(alternatives=((),)) for call in reporting))


def install_reporting_filter(compiled: bytes) -> int:
    """Filter the system calls of this thread, permanently; returns the descriptor on which refused
    calls are reported. Raises `OSError` if the system cannot report."""
    with confinement.filter_header(compiled) as header:
        number = _SECCOMP[os.uname().machine]
        return confinement.syscall(number, _SET_FILTER, _NEW_LISTENER, header)


class RefusalListener:
    """Answers the calls of a locked process, in the process that forked it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        is_x86 = os.uname().machine == confinement.X86_64
        self._calls = {call.x86_64 if is_x86 else call.aarch64: call for call in _CALLS}

    def answer(self) -> str:
        """Refuse the next call; return what it wanted, as a clause; empty if that needs no
        question."""
        notification = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, notification)
        except OSError:  # its thread has ended
            return ""
        number, thread, _, call_number, _, _, *arguments = _NOTIFICATION.unpack(notification)
        call = self._calls.get(call_number)
        wanted = "" if call is None else _describe(call, thread, arguments)
        refusal = _ANSWER.pack(number, 0, -errno.EPERM, 0)
        with suppress(OSError):
            fcntl.ioctl(self.fd, _SEND, refusal)
        return wanted

    def close(self) -> None:
        os.close(self.fd)


def _describe(call: _ReportedCall, thread: int, arguments: Sequence[int]) -> str:
    if call.name == "socket":
        return call.verb if arguments[0] & 0xFFFF_FFFF in _INTERNET else ""
    if call.path is None:
        return call.verb
    path = _read_text(thread, arguments[call.path])
    # Libraries such as SQLite open a file for reading only if they cannot open it for both.
    flags = 0 if call.flags is None else arguments[call.flags]
    may_only_read = flags & _ACCESS_MODE == os.O_RDWR and not flags & (os.O_TRUNC | os.O_APPEND)
    if is_ignored_path(path) or (may_only_read and os.path.lexists(path)):
        return ""
    return f"{call.verb} {path}".strip()


def _read_text(thread: int, address: int) -> str:
    """Read a text that ends with a zero byte; empty if it cannot be read."""
    data = b""
    with suppress(OSError, OverflowError):
        fd = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(fd, _MAX_PATH_BYTES, address)
        finally:
            os.close(fd)
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")
