"""The system calls that sandboxed Python may make. All others are refused.

Those of `ALLOWED` open, name or change no file, make or reach no other process, and make no memory
executable: all modules are loaded beforehand, so nothing needs to be opened. With `READING`, files
can be opened to be read, and libraries to be loaded.
"""

from __future__ import annotations

from typing import NamedTuple

X86_64, AARCH64 = "x86_64", "aarch64"


class Check(NamedTuple):
    """Requires that an argument, after masking, is one of some values."""

    argument: int
    """Its index, from 0."""
    mask: int
    """64 bits."""
    values: tuple[int, ...]


class AllowedCall(NamedTuple):
    """A system call, and the conditions under which it is allowed."""

    name: str
    x86_64: int | None
    aarch64: int | None
    alternatives: tuple[tuple[Check, ...], ...] = ((),)
    """It is allowed if all checks of one of these hold."""


_WHOLE = 0xFFFF_FFFF_FFFF_FFFF
_INT = 0xFFFF_FFFF
"""The bits of an `int` that the kernel reads."""

_PROT_EXEC = 4
_NOT_EXECUTABLE = ((Check(2, _PROT_EXEC, (0,)),),)

# Only what makes a thread: same memory, signal handlers and thread group; no namespace and no
# process.
_CLONE_VM, _CLONE_SIGHAND, _CLONE_THREAD = 0x100, 0x800, 0x10000
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

# Without F_SETOWN and F_SETSIG, which make the kernel send signals to other processes.
_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_DUPFD_CLOEXEC = 0, 1, 2, 3, 4, 1030
_O_ASYNC = 0x2000
_FCNTL = (
    (Check(1, _INT, (_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC)),),
    (Check(1, _INT, (_F_SETFL,)), Check(2, _O_ASYNC, (0,))),
)
_FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _TCGETS = 0x541B, 0x5421, 0x5450, 0x5451, 0x5401

# Only streams: a connected pair stays connected, while a datagram socket could be redirected. No
# MSG_OOB.
_AF_UNIX, _SOCK_STREAM, _SOCK_FLAGS = 1, 1, 0x80800
_MSG_FLAGS = 0x2 | 0x40 | 0x100 | 0x4000  # PEEK, DONTWAIT, WAITALL, NOSIGNAL
_SOL_SOCKET, _SO_TYPE, _SO_ERROR, _SO_PROTOCOL, _SO_DOMAIN = 1, 3, 4, 38, 39

_PIPE_FLAGS = 0x80800  # CLOEXEC, NONBLOCK; not notification pipes
_FUTEX_COMMAND = 0x7F
_FUTEX_COMMANDS = (0, 1, 3, 4, 5, 9, 10)  # used by the C library's locks and conditions

_OWN = (Check(0, _INT, (0,)),)

ALLOWED = (
    # Open descriptors.
    AllowedCall("read", 0, 63),
    AllowedCall("write", 1, 64),
    AllowedCall("readv", 19, 65),
    AllowedCall("writev", 20, 66),
    AllowedCall("close", 3, 57),
    AllowedCall("fstat", 5, 80),
    AllowedCall("lseek", 8, 62),
    AllowedCall("dup", 32, 23),
    AllowedCall("dup2", 33, None),
    AllowedCall("dup3", 292, 24),
    AllowedCall("fcntl", 72, 25, _FCNTL),
    AllowedCall(
        "ioctl", 16, 29, ((Check(1, _INT, (_FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _TCGETS)),),)
    ),
    # What asyncio makes for itself.
    AllowedCall("pipe", 22, None),
    AllowedCall("pipe2", 293, 59, ((Check(1, _INT & ~_PIPE_FLAGS, (0,)),),)),
    AllowedCall("eventfd2", 290, 19),
    AllowedCall("poll", 7, None),
    AllowedCall("ppoll", 271, 73),
    AllowedCall("select", 23, None),
    AllowedCall("pselect6", 270, 72),
    AllowedCall("epoll_create", 213, None),
    AllowedCall("epoll_create1", 291, 20),
    AllowedCall("epoll_ctl", 233, 21),
    AllowedCall("epoll_wait", 232, None),
    AllowedCall("epoll_pwait", 281, 22),
    AllowedCall(
        "socketpair",
        53,
        199,
        ((Check(0, _INT, (_AF_UNIX,)), Check(1, _INT & ~_SOCK_FLAGS, (_SOCK_STREAM,))),),
    ),
    AllowedCall("sendto", 44, 206, ((Check(3, _INT & ~_MSG_FLAGS, (0,)), Check(4, _WHOLE, (0,))),)),
    AllowedCall("recvfrom", 45, 207, ((Check(3, _INT & ~_MSG_FLAGS, (0,)),),)),
    AllowedCall("shutdown", 48, 210),
    AllowedCall("getsockname", 51, 204),
    AllowedCall("getpeername", 52, 205),
    AllowedCall(
        "getsockopt",
        55,
        209,
        (
            (
                Check(1, _INT, (_SOL_SOCKET,)),
                Check(2, _INT, (_SO_TYPE, _SO_ERROR, _SO_PROTOCOL, _SO_DOMAIN)),
            ),
        ),
    ),
    # Memory that is not executable.
    AllowedCall("mmap", 9, 222, _NOT_EXECUTABLE),
    AllowedCall("mprotect", 10, 226, _NOT_EXECUTABLE),
    AllowedCall("munmap", 11, 215),
    AllowedCall("mremap", 25, 216),
    AllowedCall("madvise", 28, 233),
    AllowedCall("brk", 12, 214),
    # Threads.
    AllowedCall("clone", 56, 220, ((Check(0, _THREAD | _CLONE_OTHER, (_THREAD,)),),)),
    AllowedCall("futex", 202, 98, ((Check(1, _FUTEX_COMMAND, _FUTEX_COMMANDS),),)),
    AllowedCall("set_robust_list", 273, 99),
    AllowedCall("set_tid_address", 218, 96),
    AllowedCall("rseq", 334, 293),
    AllowedCall("sched_yield", 24, 124),
    AllowedCall("sched_getaffinity", 204, 123, (_OWN,)),
    AllowedCall("getcpu", 309, 168),
    AllowedCall("exit", 60, 93),
    AllowedCall("exit_group", 231, 94),
    # Signals to itself.
    AllowedCall("rt_sigaction", 13, 134),
    AllowedCall("rt_sigprocmask", 14, 135),
    AllowedCall("rt_sigreturn", 15, 139),
    AllowedCall("rt_sigpending", 127, 136),
    AllowedCall("rt_sigtimedwait", 128, 137),
    AllowedCall("rt_sigsuspend", 130, 133),
    AllowedCall("sigaltstack", 131, 132),
    AllowedCall("pause", 34, None),
    AllowedCall("alarm", 37, None),
    AllowedCall("setitimer", 38, 103),
    AllowedCall("getitimer", 36, 102),
    AllowedCall("restart_syscall", 219, 128),
    # Time.
    AllowedCall("nanosleep", 35, 101),
    AllowedCall("clock_nanosleep", 230, 115),
    AllowedCall("clock_gettime", 228, 113),
    AllowedCall("clock_getres", 229, 114),
    AllowedCall("gettimeofday", 96, 169),
    AllowedCall("time", 201, None),
    AllowedCall("times", 100, 153),
    # About itself.
    AllowedCall("getrandom", 318, 278),
    AllowedCall("getcwd", 79, 17),
    AllowedCall("getpid", 39, 172),
    AllowedCall("getppid", 110, 173),
    AllowedCall("gettid", 186, 178),
    AllowedCall("getuid", 102, 174),
    AllowedCall("geteuid", 107, 175),
    AllowedCall("getgid", 104, 176),
    AllowedCall("getegid", 108, 177),
    AllowedCall("getrusage", 98, 165),
    AllowedCall("getrlimit", 97, 163),
    AllowedCall("prlimit64", 302, 261, ((*_OWN, Check(2, _WHOLE, (0,))),)),
)

_O_WRITES = 0o3 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""Flags of `open` that make or change a file: WRONLY, RDWR, CREAT, TRUNC, APPEND, TMPFILE."""
_FILE_LOCKS = (
    (Check(1, _INT, (5, 6, 7, 36, 37, 38)),),
)  # on files that are open for reading, these are shared locks only
_TIOCGWINSZ = 0x5413

_READING = (
    AllowedCall("open", 2, None, ((Check(1, _O_WRITES, (0,)),),)),
    AllowedCall("openat", 257, 56, ((Check(2, _O_WRITES, (0,)),),)),
    AllowedCall("stat", 4, None),
    AllowedCall("lstat", 6, None),
    AllowedCall("newfstatat", 262, 79),
    AllowedCall("statx", 332, 291),
    AllowedCall("statfs", 137, 43),
    AllowedCall("fstatfs", 138, 44),
    AllowedCall("getdents64", 217, 61),
    AllowedCall("readlink", 89, None),
    AllowedCall("readlinkat", 267, 78),
    AllowedCall("access", 21, None),
    AllowedCall("faccessat", 269, 48),
    AllowedCall("faccessat2", 439, 439),
    AllowedCall("pread64", 17, 67),
    AllowedCall("preadv", 295, 69),
    AllowedCall("fadvise64", 221, 223),
    AllowedCall("fcntl", 72, 25, (*_FCNTL, *_FILE_LOCKS)),
    AllowedCall("flock", 73, 32, ((Check(1, _INT, (1, 5, 8)),),)),
    AllowedCall(
        "ioctl",
        16,
        29,
        ((Check(1, _INT, (_FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _TCGETS, _TIOCGWINSZ)),),),
    ),
    AllowedCall("mmap", 9, 222),
    AllowedCall("mprotect", 10, 226),
    AllowedCall("mincore", 27, 232),
    AllowedCall("uname", 63, 160),
    AllowedCall("sysinfo", 99, 179),
    AllowedCall("getgroups", 115, 158),
    AllowedCall("getresuid", 118, 148),
    AllowedCall("getresgid", 120, 150),
)
READING = tuple({call.name: call for call in (*ALLOWED, *_READING)}.values())
