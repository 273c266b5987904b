"""Names what the system refuses to a locked process, even if its code hides the error.

The process hands over a descriptor on which Linux reports some refused calls. They wait for an
answer, which is always an error."""

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
"""The notification's id, the result, the error, flags."""
_RECEIVE_NOTIFICATION = 0xC0502100
_SEND_ANSWER = 0xC0182101
_SET_FILTER = 1
_NEW_LISTENER = 1 << 3
_SECCOMP_CALL = {confinement.X86_64: 317, confinement.AARCH64: 277}
_INTERNET_FAMILIES = (2, 10)
"""AF_INET and AF_INET6."""
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
    """Index of the argument with the address of a path."""
    flags: int | None = None
    """Index of the argument with the flags of an opened file."""


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
    allowed_alternatives = {call.name: call.alternatives for call in allowed}
    reporting = tuple(
        AllowedCall(call.name, call.x86_64, call.aarch64, allowed_alternatives.get(call.name, ()))
        for call in _CALLS
    )
    reported_names = {call.name for call in _CALLS}
    others = tuple(call for call in allowed if call.name not in reported_names)
    unconditional = tuple(call._replace(alternatives=((),)) for call in reporting)
    return reporting, (*others, *unconditional)


def install_reporting_filter(compiled: bytes) -> int:
    """Filter the system calls of this thread, permanently; returns the descriptor on which refused
    calls are reported. Raises `OSError` if the system cannot report."""
    with confinement.filter_header(compiled) as header:
        number = _SECCOMP_CALL[os.uname().machine]
        return confinement.syscall(number, _SET_FILTER, _NEW_LISTENER, header)


class RefusalListener:
    """Answers the calls of a locked process, in the process that forked it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        is_x86 = os.uname().machine == confinement.X86_64
        self._calls = {call.x86_64 if is_x86 else call.aarch64: call for call in _CALLS}

    def answer(self) -> str:
        """Refuse the next call. Return what it wanted, as a clause; empty if the user need not be
        asked about it."""
        notification = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE_NOTIFICATION, notification)
        except OSError:  # its thread has ended
            return ""
        number, thread, _, call_number, _, _, *arguments = _NOTIFICATION.unpack(notification)
        call = self._calls.get(call_number)
        wanted = "" if call is None else _describe(call, thread, arguments)
        refusal = _ANSWER.pack(number, 0, -errno.EPERM, 0)
        with suppress(OSError):
            fcntl.ioctl(self.fd, _SEND_ANSWER, refusal)
        return wanted

    def close(self) -> None:
        os.close(self.fd)


def _describe(call: _ReportedCall, thread: int, arguments: Sequence[int]) -> str:
    if call.name == "socket":
        return call.verb if arguments[0] & 0xFFFF_FFFF in _INTERNET_FAMILIES else ""
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
