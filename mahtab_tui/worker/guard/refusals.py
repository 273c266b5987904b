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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..sandbox import allowed_calls, call_filter, confinement, system_calls
from ..sandbox.allowed_calls import AllowedCall
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
_INT_BITS = 0xFFFF_FFFF
"""The part of an argument that is a descriptor or another C int."""
_MAX_PATH_BYTES = 4096
_SHARED_MEMORY = "/dev/shm/"
_SEMAPHORES = "/dev/shm/sem."
"""Beginning of the paths of locks between processes, which libraries make without using them."""
_ACCESS_MODE = 0o3
"""The flags that say whether a file is read, written, or both."""

# Names; their numbers on x86_64 and aarch64; the indexes of a path and of the flags of an opened
# file among the arguments; what they want.
_CALL_TABLE = """
    open       2   -   0 1  write
    openat     257 56  1 2  write
    creat      85  -   0 -  write
    unlink     87  -   0 -  remove
    unlinkat   263 35  1 -  remove
    rename     82  -   0 -  rename
    renameat   264 38  1 -  rename
    renameat2  316 276 1 -  rename
    mkdir      83  -   0 -  make the folder
    mkdirat    258 34  1 -  make the folder
    rmdir      84  -   0 -  remove the folder
    link       86  -   0 -  link
    linkat     265 37  1 -  link
    symlink    88  -   1 -  link
    symlinkat  266 36  2 -  link
    truncate   76  45  0 -  truncate
    chmod      90  -   0 -  change the permissions of
    fchmodat   268 53  1 -  change the permissions of
    execve     59  221 0 -  start
    fork       57  -   - -  make a process
    vfork      58  -   - -  make a process
    clone      56  220 - -  make a process
    socket     41  198 - -  connect to the internet
    utimensat  280 88  1 -  change the time of
    setpriority 141 140 - -  change the priority
    write      1   64  - -  write
    writev     20  66  - -  write
    pwrite64   18  68  - -  write
    pwritev    296 70  - -  write
    ftruncate  77  46  - -  truncate
    fallocate  285 47  - -  write
    sendfile   40  71  - -  write
    fchmod     91  52  - -  change the permissions of
    fchown     93  55  - -  change the owner of
    fchmodat2  452 452 1 -  change the permissions of
    chown      92  -   0 -  change the owner of
    lchown     94  -   0 -  change the owner of
    fchownat   260 54  1 -  change the owner of
    mknod      133 -   0 -  make the special file
    mknodat    259 33  1 -  make the special file
    setxattr   188 5   0 -  change the attributes of
    lsetxattr  189 6   0 -  change the attributes of
    fsetxattr  190 7   - -  change the attributes of
    removexattr  197 14 0 - change the attributes of
    lremovexattr 198 15 0 - change the attributes of
    fremovexattr 199 16 - - change the attributes of
    mount      165 40  1 -  mount a file system at
    umount2    166 39  0 -  unmount
    chdir      80  49  0 -  go to the folder
    fchdir     81  50  - -  go to another folder
    chroot     161 51  0 -  change the root folder to
    kill       62  129 - -  send a signal
    tkill      200 130 - -  send a signal
    tgkill     234 131 - -  send a signal
    pidfd_send_signal 424 424 - - send a signal
    rt_sigqueueinfo 129 138 - - send a signal
    setrlimit  160 164 - -  change a limit of the process
    prlimit64  302 261 - -  change a limit of the process
    sched_setaffinity  203 122 - - choose the processors
    sched_setscheduler 144 119 - - change the priority
    sched_setparam     142 118 - - change the priority
    sched_setattr      314 274 - - change the priority
    setuid     105 146 - -  change the user
    setgid     106 144 - -  change the user
    setreuid   113 145 - -  change the user
    setregid   114 143 - -  change the user
    setresuid  117 147 - -  change the user
    setresgid  119 149 - -  change the user
    setgroups  116 159 - -  change the user
    setsid     112 157 - -  change the process group
    setpgid    109 154 - -  change the process group
    settimeofday  164 170 - - set the clock
    clock_settime 227 112 - - set the clock
    clock_adjtime 305 266 - - set the clock
    adjtimex   159 171 - -  set the clock
    ptrace     101 117 - -  reach the memory of a process
    process_vm_readv  310 270 - - reach the memory of a process
    process_vm_writev 311 271 - - reach the memory of a process
    shmget     29  194 - -  share memory with processes
    msgget     68  186 - -  share memory with processes
    semget     64  190 - -  share memory with processes
    mq_open    240 180 - -  share memory with processes
"""
_CALLS_WITH_DESCRIPTOR = frozenset(
    "write writev pwrite64 pwritev ftruncate fallocate sendfile fchmod fchown fsetxattr"
    " fremovexattr".split()
)
"""Their first argument is the descriptor of the file that they change."""
_CALLS_ON_THREADS = frozenset(
    "sched_setaffinity sched_setscheduler sched_setparam sched_setattr".split()
)
"""Libraries call them for the threads that they make."""
_CONTINUED_CALLS = frozenset(("write", "writev"))
"""Allowed on any descriptor that may be written, such as that of a pipe of the process."""


class _ReportedCall(NamedTuple):
    """A system call that is reported."""

    name: str
    x86_64: int | None
    """Its number on this processor; None if it has no such call."""
    aarch64: int | None
    verb: str
    """Follows "wanted to"."""
    path: int | None = None
    """Index of the argument with the address of a path."""
    flags: int | None = None
    """Index of the argument with the flags of an opened file."""


def _read_table(table: str) -> Iterator[_ReportedCall]:
    for row in table.strip().splitlines():
        name, *columns, verb = row.split(None, 5)
        x86_64, aarch64, path, flags = map(_read_number, columns)
        yield _ReportedCall(name, x86_64, aarch64, verb, path, flags)


def _read_number(column: str) -> int | None:
    return None if column == "-" else int(column)


_CALLS = tuple(_read_table(_CALL_TABLE))


class SplitCalls(NamedTuple):
    """The calls for two filters that together allow some calls."""

    reporting: tuple[AllowedCall, ...]
    """The calls of the filter that reports what it refuses."""
    silent: tuple[AllowedCall, ...]
    """The calls of the other filter, which leaves those above to the first."""


def split_calls(allowed: Sequence[AllowedCall], unreported_fds: Sequence[int]) -> SplitCalls:
    """Return the calls for two filters that together allow `allowed`.

    Args:
        allowed: The calls.
        unreported_fds: Descriptors to which the process writes without a report.
    """
    allowed_alternatives = {call.name: call.alternatives for call in allowed}
    allowed_alternatives["clone"] = ()  # the listener counts the threads
    own_descriptor = allowed_calls.ArgumentCheck(0, _INT_BITS, tuple(unreported_fds))
    allowed_alternatives.update(dict.fromkeys(_CONTINUED_CALLS, ((own_descriptor,),)))
    reporting = tuple(
        AllowedCall(call.name, call.x86_64, call.aarch64, allowed_alternatives.get(call.name, ()))
        for call in _CALLS
    )
    reported_names = {call.name for call in _CALLS}
    silent_calls = tuple(call for call in allowed if call.name not in reported_names)
    unconditional = tuple(call._replace(alternatives=((),)) for call in reporting)
    return SplitCalls(reporting, (*silent_calls, *unconditional))


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
    call: _ReportedCall | None
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
        self._calls = {call.x86_64 if is_x86 else call.aarch64: call for call in _CALLS}
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
        if call.name in _CONTINUED_CALLS:
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


def _describe(call: _ReportedCall, notification: _Notification, pid: int) -> str:
    """Return what a call wants, as a clause; empty if the user need not be asked about it.

    Args:
        pid: The process.
    """
    arguments = notification.arguments
    if call.name == "socket":
        return _describe_socket(call, arguments)
    if call.name in _CALLS_WITH_DESCRIPTOR:
        return _describe_descriptor(call, notification)
    if call.name in _CALLS_ON_THREADS and arguments[0] & _INT_BITS not in (0, pid):
        return ""
    # The C library's `abort` sends one to itself.
    if call.name == "tgkill" and arguments[0] & _INT_BITS == pid:
        return ""
    # A call with this signal sends none.
    if call.name in _SIGNAL_INDEXES and arguments[_SIGNAL_INDEXES[call.name]] & _INT_BITS == 0:
        return "look whether a process runs"
    if call.path is None:
        return call.verb
    path = _read_text(notification.thread, arguments[call.path])
    # Libraries such as SQLite open a file for reading only if they cannot open it for both.
    flags = 0 if call.flags is None else arguments[call.flags]
    may_only_read = flags & _ACCESS_MODE == os.O_RDWR and not flags & (os.O_TRUNC | os.O_APPEND)
    if may_only_read and os.path.lexists(path):
        return ""
    if path.startswith(_SHARED_MEMORY) and not path.startswith(_SEMAPHORES):
        return f"{call.verb} {path}"
    return "" if is_ignored_path(path) else f"{call.verb} {path}".strip()


def _describe_socket(call: _ReportedCall, arguments: Sequence[int]) -> str:
    """Describe a call that makes a socket; empty if the C library makes it to look something up."""
    family = arguments[0] & _INT_BITS
    if family in _INTERNET_FAMILIES:
        return call.verb
    is_lookup = family == _LOCAL_FAMILY and arguments[1] & _SOCK_NONBLOCK
    if is_lookup or family == _NETLINK_FAMILY:
        return ""
    if family == _LOCAL_FAMILY:
        return "connect to another program"
    return _SOCKET_VERBS.get(family, f"make a socket of the family {family}")


def _describe_descriptor(call: _ReportedCall, notification: _Notification) -> str:
    """Describe a call that changes an open file; empty if the process may write it, or if there is no
    such file."""
    fd = notification.arguments[0] & _INT_BITS
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
