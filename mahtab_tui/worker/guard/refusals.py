"""Names what the system refuses to a locked process, even if its code hides the error, and counts
its threads.

The process hands over a descriptor on which Linux reports some calls. They wait for an answer,
which is an error unless the call makes one of the allowed number of threads, or writes to an open
file, which the system refuses by itself if the process has only the right to read it."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ..sandbox import allowed_calls, call_filter, confinement, system_calls
from .reported_calls import (
    CALLS_ON_THREADS,
    CALLS_WITH_DESCRIPTOR,
    CONTINUED_CALLS,
    INT_BITS,
    REPORTED_CALLS,
    ReportedCall,
)
from .side_effects import is_ignored_path

_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""Its id, the thread, flags; the call's number, architecture, instruction and arguments."""
_ANSWER = struct.Struct("=QqiI")
"""The notification's id, the result, the error, flags."""

# Requests of `ioctl`, and flags, as in `linux/seccomp.h`.
_RECEIVE_NOTIFICATION = 0xC0502100
_SEND_ANSWER = 0xC0182101
_CONTINUE = 1
"""The flag of an answer that lets the system execute the call."""
_SET_FILTER = 1
_NEW_LISTENER = 1 << 3
_SECCOMP_CALL = {allowed_calls.X86_64: 317, allowed_calls.AARCH64: 277}
_INTERNET_FAMILIES = (2, 10)
"""AF_INET and AF_INET6."""
_LOCAL_FAMILY = 1
"""AF_UNIX."""
_NETLINK_FAMILY = 16
_SOCKET_VERBS = {
    15: "change the encryption of the network",
    17: "read and send the network's packets",
    29: "connect to a vehicle's bus",
    31: "connect by Bluetooth",
    38: "use the system's encryption",
    40: "connect to a virtual machine",
    44: "read and send the network's packets",
}
"""What sockets are for whose family is neither the internet nor other programs: AF_KEY, AF_PACKET,
AF_CAN, AF_BLUETOOTH, AF_ALG, AF_VSOCK, AF_XDP."""
_SIGNAL_INDEXES = {"kill": 1, "tkill": 1, "tgkill": 2, "pidfd_send_signal": 1, "rt_sigqueueinfo": 1}
"""Index of the argument with the signal."""
_SOCK_NONBLOCK = 0o4000
_MAX_PATH_BYTES = 4096
_SHARED_MEMORY = "/dev/shm/"
_SEMAPHORES = "/dev/shm/sem."
"""Beginning of the paths of locks between processes, which libraries make without using them."""
_ACCESS_MODE = 0o3
"""The flags that say whether a file is read, written, or both."""


def install_reporting_filter(compiled: bytes) -> int:
    """Filter the system calls of this thread, permanently; returns the descriptor on which refused
    calls are reported. Raises `OSError` if the system cannot report."""
    with call_filter.filter_header(compiled) as header:
        number = _SECCOMP_CALL[os.uname().machine]
        return system_calls.syscall(number, _SET_FILTER, _NEW_LISTENER, header)


class _Notification(NamedTuple):
    """A call of a thread, which waits for the answer."""

    number: int
    """Identifies it in the answer."""
    thread: int
    call: ReportedCall | None
    """None if it is not in the table."""
    arguments: Sequence[int]


class RefusalListener:
    """Answers the calls of a locked process, in the process that forked it."""

    def __init__(self, fd: int, pid: int) -> None:
        """
        Args:
            fd: As `install_reporting_filter` has returned it in the process.
            pid: The process.
        """
        self.fd = fd
        self._pid = pid
        is_x86 = os.uname().machine == allowed_calls.X86_64
        self._calls = {call.x86_64 if is_x86 else call.aarch64: call for call in REPORTED_CALLS}
        """The calls by their numbers on this processor."""

    def answer(self) -> str:
        """Answer the next call.

        Return what it wanted and did not get, as a clause; empty if the user need not be asked
        about it.
        """
        notification = self._receive()
        if notification is None:
            return ""
        call = notification.call
        if call is None:
            self._send(notification, error=errno.EPERM)
            return ""
        # The system has copied the flags, so that the code cannot change them after this check.
        if call.name == "clone" and allowed_calls.is_thread(notification.arguments[0]):
            return self._answer_thread(notification)

        wish = _describe(call, notification, self._pid)
        if call.name in CONTINUED_CALLS:
            self._send(notification, flags=_CONTINUE)
        else:
            self._send(notification, error=errno.EPERM)
        return wish

    def _answer_thread(self, notification: _Notification) -> str:
        """Let the process make a thread, unless it has too many."""
        try:
            may_have_more = confinement.count_threads(self._pid) < confinement.MAX_THREADS
        except OSError:
            may_have_more = False
        if may_have_more:
            self._send(notification, flags=_CONTINUE)
            return ""
        self._send(notification, error=errno.EAGAIN)
        return f"start more than {confinement.MAX_THREADS} threads"

    def _receive(self) -> _Notification | None:
        """Return the next call; None if its thread has ended."""
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE_NOTIFICATION, buffer)
        except OSError:
            return None
        number, thread, _, call_number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
        return _Notification(number, thread, self._calls.get(call_number), arguments)

    def _send(self, notification: _Notification, *, error: int = 0, flags: int = 0) -> None:
        """Answer a call with an error, or with flags."""
        with suppress(OSError):  # its thread has ended
            fcntl.ioctl(self.fd, _SEND_ANSWER, _ANSWER.pack(notification.number, 0, -error, flags))

    def close(self) -> None:
        os.close(self.fd)


def _describe(call: ReportedCall, notification: _Notification, pid: int) -> str:
    """Return what a call wants, as a clause; empty if the user need not be asked about it.

    Args:
        pid: The process.
    """
    arguments = notification.arguments
    if call.name == "socket":
        return _describe_socket(call, arguments)
    if call.name in CALLS_WITH_DESCRIPTOR:
        return _describe_descriptor(call, notification)
    if call.name in CALLS_ON_THREADS and arguments[0] & INT_BITS not in (0, pid):
        return ""
    # The C library's `abort` sends one to itself.
    if call.name == "tgkill" and arguments[0] & INT_BITS == pid:
        return ""
    # A call with this signal sends none.
    if call.name in _SIGNAL_INDEXES and arguments[_SIGNAL_INDEXES[call.name]] & INT_BITS == 0:
        return "look whether a process runs"
    if call.path is None:
        return call.verb
    path = _read_text(notification.thread, arguments[call.path])
    flags = 0 if call.flags is None else arguments[call.flags]
    return _describe_path(call, path, flags)


def _describe_path(call: ReportedCall, path: str, flags: int) -> str:
    """Describe a call about a path; empty if libraries make such calls by themselves.

    Args:
        call: The call.
        path: The path.
        flags: The flags of an opened file; 0 for other calls.
    """
    # Libraries such as SQLite open a file for reading only if they cannot open it for both.
    may_only_read = flags & _ACCESS_MODE == os.O_RDWR and not flags & (os.O_TRUNC | os.O_APPEND)
    if may_only_read and os.path.lexists(path):
        return ""
    wish = f"{call.verb} {path}".strip()
    if path.startswith(_SHARED_MEMORY) and not path.startswith(_SEMAPHORES):
        return wish
    return "" if is_ignored_path(path) else wish


def _describe_socket(call: ReportedCall, arguments: Sequence[int]) -> str:
    """Describe a call that makes a socket; empty if the C library makes it to look something up."""
    family = arguments[0] & INT_BITS
    if family in _INTERNET_FAMILIES:
        return call.verb
    is_lookup = family == _LOCAL_FAMILY and arguments[1] & _SOCK_NONBLOCK
    if is_lookup or family == _NETLINK_FAMILY:
        return ""
    if family == _LOCAL_FAMILY:
        return "connect to another program"
    return _SOCKET_VERBS.get(family, f"make a socket of the family {family}")


def _describe_descriptor(call: ReportedCall, notification: _Notification) -> str:
    """Describe a call that changes an open file; empty if the process may write it, or if there is no
    such file."""
    fd = notification.arguments[0] & INT_BITS
    try:
        with open(f"/proc/{notification.thread}/fdinfo/{fd}", encoding="ascii") as fields:
            flags = int(fields.read().partition("flags:")[2].split()[0], 8)
        path = os.readlink(f"/proc/{notification.thread}/fd/{fd}")
    except (OSError, IndexError, ValueError):
        return ""
    if not flags & os.O_PATH and flags & _ACCESS_MODE != os.O_RDONLY:
        return ""
    # `read_only.lock` has put /dev/null in place of files that may not be read either.
    target = "an open file" if is_ignored_path(path) else path
    return f"{call.verb} {target}"


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
