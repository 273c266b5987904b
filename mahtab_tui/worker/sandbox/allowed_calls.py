"""The system calls that locked processes may make.

The calls in `ALLOWED` open, name or change no file, create or reach no other process, and make no
memory executable. `READING` adds calls that read files. Of some calls only certain arguments are
allowed (`ArgumentCheck`). `call_filter` makes a filter for seccomp of these tables; what is not in
them is refused.

The constants are those of Linux on x86_64 and aarch64, and have its names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

X86_64 = "x86_64"
AARCH64 = "aarch64"

_ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF
_INT_BITS = 0xFFFF_FFFF
"""The bits that Linux reads of an argument that is an `int`."""

_PROT_EXEC = 4

# `clone`: only threads, with the same memory, signal handlers and thread group; no namespace and no
# other process.
_CLONE_VM = 0x100
_CLONE_SIGHAND = 0x800
_CLONE_THREAD = 0x10000
_CLONE_OTHER = (
    0x80  # NEWTIME
    | 0x1000  # PIDFD
    | 0x2000  # PTRACE
    | 0x4000  # VFORK
    | 0x8000  # PARENT
    | 0x20000  # NEWNS
    | 0x800000  # UNTRACED
    | 0x7E000000  # NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
)
_THREAD = _CLONE_VM | _CLONE_SIGHAND | _CLONE_THREAD

# `fcntl` and `ioctl`: not F_SETOWN and F_SETSIG, which make Linux send signals to other processes.
_F_DUPFD = 0
_F_GETFD = 1
_F_SETFD = 2
_F_GETFL = 3
_F_SETFL = 4
_F_DUPFD_CLOEXEC = 1030
_O_ASYNC = 0x2000
_FIONREAD = 0x541B
_FIONBIO = 0x5421
_FIONCLEX = 0x5450
_FIOCLEX = 0x5451
_TCGETS = 0x5401
_TIOCGWINSZ = 0x5413

# `socketpair`, `sendto` and `recvfrom`: only streams, because a connected pair stays connected, while a
# datagram socket could be redirected. Not MSG_OOB.
_AF_UNIX = 1
_SOCK_STREAM = 1
_SOCK_FLAGS = 0x80800
_MSG_FLAGS = 0x2 | 0x40 | 0x100 | 0x4000  # PEEK, DONTWAIT, WAITALL, NOSIGNAL
_SOL_SOCKET = 1
_SO_TYPE = 3
_SO_ERROR = 4
_SO_PROTOCOL = 38
_SO_DOMAIN = 39

_PIPE_FLAGS = 0x80800  # CLOEXEC, NONBLOCK; not notification pipes
_FUTEX_COMMAND_BITS = 0x7F
_FUTEX_COMMANDS = (0, 1, 3, 4, 5, 9, 10)  # used by the C library's locks and conditions

_IOCTL_REQUESTS = (_FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _TCGETS)
_SOCKET_OPTIONS = (_SO_TYPE, _SO_ERROR, _SO_PROTOCOL, _SO_DOMAIN)
_O_WRITES = 0o3 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""Flags of `open` that create or change a file: WRONLY, RDWR, CREAT, TRUNC, APPEND, TMPFILE."""
_LOCK_COMMANDS = (5, 6, 7, 36, 37, 38)  # GETLK, SETLK, SETLKW, and those for open files (OFD)
_FLOCK_OPERATIONS = (1, 5, 8)  # SH, SH | NB, UN

# Tables of calls whose arguments may be anything. A row is a call's name and its numbers on x86_64 and
# on aarch64, with - where there is no such call.

# Open descriptors; events and pipes of asyncio; memory; threads; signals to itself; time;
# information about itself.
_ALLOWED_ALWAYS = """
    read 0 63, write 1 64, readv 19 65, writev 20 66, close 3 57, fstat 5 80, lseek 8 62,
    dup 32 23, dup2 33 -, dup3 292 24,
    pipe 22 -, eventfd2 290 19, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72,
    epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -,
    epoll_pwait 281 22, shutdown 48 210, getsockname 51 204, getpeername 52 205,
    munmap 11 215, mremap 25 216, madvise 28 233, brk 12 214,
    set_robust_list 273 99, set_tid_address 218 96, rseq 334 293, sched_yield 24 124,
    getcpu 309 168, exit 60 93, exit_group 231 94,
    rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
    rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132, pause 34 -, alarm 37 -,
    setitimer 38 103, getitimer 36 102, restart_syscall 219 128,
    nanosleep 35 101, clock_nanosleep 230 115, clock_gettime 228 113, clock_getres 229 114,
    gettimeofday 96 169, time 201 -, times 100 153,
    getrandom 318 278, getcwd 79 17, getpid 39 172, getppid 110 173, gettid 186 178,
    getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getrusage 98 165,
    getrlimit 97 163
"""

# What reading files needs: their names and places, their content, and memory for it.
_READ_ALWAYS = """
    stat 4 -, lstat 6 -, newfstatat 262 79, statx 332 291, statfs 137 43, fstatfs 138 44,
    getdents64 217 61, readlink 89 -, readlinkat 267 78, access 21 -, faccessat 269 48,
    faccessat2 439 439, pread64 17 67, preadv 295 69, fadvise64 221 223, mmap 9 222,
    mprotect 10 226, mincore 27 232, uname 63 160, sysinfo 99 179, getgroups 115 158,
    getresuid 118 148, getresgid 120 150, umask 95 166, getpriority 140 141
"""


class ArgumentCheck(NamedTuple):
    """A condition on an argument of a system call."""

    argument: int
    """Its position, from 0."""
    mask: int
    """The bits of it that count."""
    values: tuple[int, ...]
    """What these bits may be."""


class AllowedCall(NamedTuple):
    """A system call, allowed if all checks of one of the alternatives hold."""

    name: str
    x86_64: int | None
    """Its number there; None if there is no such call."""
    aarch64: int | None
    """Its number there; None if there is no such call."""
    alternatives: tuple[tuple[ArgumentCheck, ...], ...] = ((),)


_THIS_PROCESS = ArgumentCheck(0, _INT_BITS, (0,))
"""The number 0 stands for the process that calls."""
_ALLOWED_MESSAGE_FLAGS = ArgumentCheck(3, _INT_BITS & ~_MSG_FLAGS, (0,))
_FCNTL_ALTERNATIVES = (
    (ArgumentCheck(1, _INT_BITS, (_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC)),),
    (ArgumentCheck(1, _INT_BITS, (_F_SETFL,)), ArgumentCheck(2, _O_ASYNC, (0,))),
)
_STREAM_PAIR = (
    ArgumentCheck(0, _INT_BITS, (_AF_UNIX,)),
    ArgumentCheck(1, _INT_BITS & ~_SOCK_FLAGS, (_SOCK_STREAM,)),
)


def _calls(table: str, *alternatives: tuple[ArgumentCheck, ...]) -> Iterator[AllowedCall]:
    """Yield the calls of a table, each of which is allowed if one of the alternatives holds.

    Args:
        table: Rows as in `_ALLOWED_ALWAYS`.
        alternatives: Checks that must hold together; none if the arguments may be anything.
    """
    for row in table.split(","):
        name, *numbers = row.split()
        x86_64, aarch64 = (None if number == "-" else int(number) for number in numbers)
        yield AllowedCall(name, x86_64, aarch64, alternatives or ((),))


ALLOWED = (
    *_calls(_ALLOWED_ALWAYS),
    *_calls("fcntl 72 25", *_FCNTL_ALTERNATIVES),
    *_calls("ioctl 16 29", (ArgumentCheck(1, _INT_BITS, _IOCTL_REQUESTS),)),
    *_calls("pipe2 293 59", (ArgumentCheck(1, _INT_BITS & ~_PIPE_FLAGS, (0,)),)),
    *_calls("socketpair 53 199", _STREAM_PAIR),
    # Without an address.
    *_calls("sendto 44 206", (_ALLOWED_MESSAGE_FLAGS, ArgumentCheck(4, _ALL_BITS, (0,)))),
    *_calls("recvfrom 45 207", (_ALLOWED_MESSAGE_FLAGS,)),
    *_calls(
        "getsockopt 55 209",
        (ArgumentCheck(1, _INT_BITS, (_SOL_SOCKET,)), ArgumentCheck(2, _INT_BITS, _SOCKET_OPTIONS)),
    ),
    # Memory that cannot be executed.
    *_calls("mmap 9 222, mprotect 10 226", (ArgumentCheck(2, _PROT_EXEC, (0,)),)),
    *_calls("clone 56 220", (ArgumentCheck(0, _THREAD | _CLONE_OTHER, (_THREAD,)),)),
    *_calls("futex 202 98", (ArgumentCheck(1, _FUTEX_COMMAND_BITS, _FUTEX_COMMANDS),)),
    *_calls("sched_getaffinity 204 123", (_THIS_PROCESS,)),
    # Without new limits.
    *_calls("prlimit64 302 261", (_THIS_PROCESS, ArgumentCheck(2, _ALL_BITS, (0,)))),
)
"""The calls of processes that have all they need, such as sandboxes."""

_READING = (
    *_calls(_READ_ALWAYS),
    *_calls("open 2 -", (ArgumentCheck(1, _O_WRITES, (0,)),)),
    *_calls("openat 257 56", (ArgumentCheck(2, _O_WRITES, (0,)),)),
    # On files opened for reading, these are only shared locks.
    *_calls("fcntl 72 25", *_FCNTL_ALTERNATIVES, (ArgumentCheck(1, _INT_BITS, _LOCK_COMMANDS),)),
    *_calls("flock 73 32", (ArgumentCheck(1, _INT_BITS, _FLOCK_OPERATIONS),)),
    *_calls("ioctl 16 29", (ArgumentCheck(1, _INT_BITS, (*_IOCTL_REQUESTS, _TIOCGWINSZ)),)),
)
# Of a call in both tables, the second one has more alternatives.
READING = tuple({call.name: call for call in (*ALLOWED, *_READING)}.values())
"""The calls of processes that also read files, such as locked forks."""


def is_thread(clone_flags: int) -> bool:
    """Return whether a call of `clone` makes a thread, and no process."""
    return clone_flags & (_THREAD | _CLONE_OTHER) == _THREAD
