"""Takes everything away from a process that it does not need: Landlock, seccomp, limits.

The calls in `ALLOWED` open, name or change no file, create or reach no other process, and make no
memory executable. All modules are loaded beforehand, so nothing needs to be opened. With `READING`,
files can be opened for reading, and libraries can be loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import resource
import signal
import socket
import stat
import struct
import sys
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

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

# Only flags for threads: same memory, signal handlers and thread group; no namespace and no
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

# Only streams, because a connected pair stays connected, while a datagram socket could be
# redirected. No MSG_OOB.
_AF_UNIX, _SOCK_STREAM, _SOCK_FLAGS = 1, 1, 0x80800
_MSG_FLAGS = 0x2 | 0x40 | 0x100 | 0x4000  # PEEK, DONTWAIT, WAITALL, NOSIGNAL
_SOL_SOCKET, _SO_TYPE, _SO_ERROR, _SO_PROTOCOL, _SO_DOMAIN = 1, 3, 4, 38, 39

_PIPE_FLAGS = 0x80800  # CLOEXEC, NONBLOCK; not notification pipes
_FUTEX_COMMAND = 0x7F
_FUTEX_COMMANDS = (0, 1, 3, 4, 5, 9, 10)  # used by the C library's locks and conditions

_OWN = (Check(0, _INT, (0,)),)

ALLOWED = (
    # Open descriptors
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
    # What asyncio creates for itself
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
    # Memory that is not executable
    AllowedCall("mmap", 9, 222, _NOT_EXECUTABLE),
    AllowedCall("mprotect", 10, 226, _NOT_EXECUTABLE),
    AllowedCall("munmap", 11, 215),
    AllowedCall("mremap", 25, 216),
    AllowedCall("madvise", 28, 233),
    AllowedCall("brk", 12, 214),
    # Threads
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
    # Signals to itself
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
    # Time
    AllowedCall("nanosleep", 35, 101),
    AllowedCall("clock_nanosleep", 230, 115),
    AllowedCall("clock_gettime", 228, 113),
    AllowedCall("clock_getres", 229, 114),
    AllowedCall("gettimeofday", 96, 169),
    AllowedCall("time", 201, None),
    AllowedCall("times", 100, 153),
    # Information about itself
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
"""Flags of `open` that create or change a file: WRONLY, RDWR, CREAT, TRUNC, APPEND, TMPFILE."""
# On files opened for reading, these are only shared locks.
_FILE_LOCKS = ((Check(1, _INT, (5, 6, 7, 36, 37, 38)),),)
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


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_PR_GET_SECCOMP, _PR_SET_SECCOMP = 21, 22
_SECCOMP_MODE_FILTER = 2
_M_ARENA_MAX = -8

_CAPABILITY_VERSION = 0x20080522

# Python has some of these functions, but only if it was built with headers that define them.
_PIDFD_SEND_SIGNAL, _PIDFD_OPEN, _CLOSE_RANGE = 424, 434, 436
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_MFD_CLOEXEC = 1


def syscall(number: int, *arguments: int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a system call. Integers are passed as longs, None as a null pointer. Raises
    `OSError`."""
    given = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    return _check_errno(_LIBC.syscall(ctypes.c_long(number), *given))


def die_with_parent(signal_number: int) -> None:
    """Request a signal when the thread that forked this process ends."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def forbid_tracing() -> None:
    """Hide this process's memory from debuggers and /proc, even from processes of the same user."""
    _prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """Prevent programs started from now on from gaining privileges. Filters require this."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def check_filters() -> None:
    """Raise `OSError` if the kernel has no system call filters."""
    _prctl(_PR_GET_SECCOMP)


def set_filter(program: int) -> None:
    """Filter all system calls from now on. program: the address of a `struct sock_fprog`."""
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program)


def drop_capabilities() -> None:
    """Drop root's capabilities, permanently if no program can be started."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check_errno(_LIBC.syscall(ctypes.c_long(_CAPSET[os.uname().machine]), header, nothing))


def memory_file(name: str) -> int:
    """Create a file in memory; returns its descriptor, which programs do not inherit. Raises
    `OSError`."""
    return syscall(
        _MEMFD_CREATE[os.uname().machine], ctypes.create_string_buffer(name.encode()), _MFD_CLOEXEC
    )


def process_handle(pid: int) -> int:
    """Open a descriptor of a process, which stays valid when its number is reused, and becomes
    readable when it ends. Raises `OSError`."""
    return syscall(_PIDFD_OPEN, pid, 0)


def signal_process(handle: int, signal_number: int) -> None:
    """Send a signal to the process of a descriptor. Raises `OSError`."""
    syscall(_PIDFD_SEND_SIGNAL, handle, signal_number, None, 0)


def use_one_heap() -> None:
    """Make threads share a heap, because glibc reserves 64 MiB of address space for each heap,
    which counts towards the limit."""
    if hasattr(_LIBC, "mallopt"):
        _LIBC.mallopt(_M_ARENA_MAX, 1)


def close_from(lowest: int) -> None:
    """Close all descriptors from `lowest` on."""
    syscall(_CLOSE_RANGE, lowest, 0xFFFFFFFF, 0)


def _prctl(option: int, *values: int) -> None:
    words = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _check_errno(_LIBC.prctl(ctypes.c_int(option), *words))


def _check_errno(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3

# Numbers of rights, by the interface version that introduced them.
_FILES = ((1, 13), (2, 14), (3, 15), (5, 16))
_NETWORK_FROM, _NETWORK = 4, 0b11
_SCOPES_FROM, _SCOPES = 6, 0b11


def landlock_version() -> int:
    """Return the version of the kernel's interface; 0 if there is none or it is disabled."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            return 0
        raise


def empty_ruleset() -> int:
    """Return the descriptor of a ruleset that handles all rights known to the kernel and grants
    none. Raises `OSError`."""
    known = landlock_version()
    files = max(count for since, count in _FILES if since <= known)
    words = [(1 << files) - 1]
    if known >= _NETWORK_FROM:
        words.append(_NETWORK)
    if known >= _SCOPES_FROM:
        words.append(_SCOPES)
    attributes = struct.pack(f"={len(words)}Q", *words)
    return syscall(
        _CREATE_RULESET,
        ctypes.create_string_buffer(attributes, len(attributes)),
        len(attributes),
        0,
    )


def allow_reading(rules: int, path: str) -> None:
    """Allow reading a file, or everything in a folder, in a ruleset. Does nothing for a path that
    cannot be opened."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = _READ_FILE | _READ_DIR if stat.S_ISDIR(os.fstat(fd).st_mode) else _READ_FILE
        attributes = struct.pack("=Qi", rights, fd)
        syscall(
            _ADD_RULE,
            rules,
            _PATH_BENEATH,
            ctypes.create_string_buffer(attributes, len(attributes)),
            0,
        )
    finally:
        os.close(fd)


def restrict_files(rules: int) -> None:
    """Apply a ruleset to this process, which must have given up new privileges. Raises
    `OSError`."""
    syscall(_RESTRICT_SELF, rules, 0)


# Classic BPF: an operation, how many instructions to skip if a comparison holds and if it does not,
# and a value.
_LOAD, _AND, _JUMP_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_Instruction = tuple[int, int, int, int]

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000

# struct seccomp_data: number of the call, architecture, instruction pointer, six arguments.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_LOW, _HIGH = 0, 4

_ARCHITECTURES = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
_X32 = 0x40000000
_CLONE3 = 435


def machine() -> str | None:
    """Return the architecture, if the filter supports it."""
    name = os.uname().machine
    return (
        name
        if name in _ARCHITECTURES and sys.byteorder == "little" and sys.maxsize > 2**32
        else None
    )


def filter_program(architecture: str, allowed: Sequence[AllowedCall] = ALLOWED) -> bytes:
    """Return the filter as an array of `struct sock_filter`."""
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _ARCHITECTURES[architecture]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture == X86_64:
        code += [(_JUMP_FROM, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for call in allowed:
        number = call.x86_64 if architecture == X86_64 else call.aarch64
        if number is not None:
            block = _block(call)
            code += [(_JUMP_EQUAL, 0, len(block), number), *block]
    # A filter cannot see the arguments of `clone3`. Without it, the C library creates threads with
    # `clone`.
    code += [
        (_JUMP_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def apply_filter(compiled: bytes) -> None:
    """Filter the system calls of this thread and of threads it creates, permanently. Raises
    `OSError`."""
    array = ctypes.create_string_buffer(compiled, len(compiled))
    packed = struct.pack("HP", len(compiled) // 8, ctypes.addressof(array))
    header = ctypes.create_string_buffer(packed, len(packed))
    set_filter(ctypes.addressof(header))


def _block(call: AllowedCall) -> list[_Instruction]:
    """Return the code for a system call; it always ends in a return."""
    code: list[_Instruction] = []
    for checks in call.alternatives:
        code += _alternative(checks)
        if not checks:
            return code
    return [*code, (_RETURN, 0, 0, _ERRNO | errno.EPERM)]


def _alternative(checks: Sequence[Check]) -> list[_Instruction]:
    """Return code that allows the call if all checks hold, and otherwise continues after itself."""
    code: list[_Instruction] = [(_RETURN, 0, 0, _ALLOW)]
    for check in reversed(checks):
        code = _check(check, len(code)) + code
    return code


def _check(check: Check, rest: int) -> list[_Instruction]:
    """Return code that continues after itself if the check holds, and otherwise skips `rest` more
    instructions."""
    code: list[_Instruction] = []
    offset = _ARGUMENTS + 8 * check.argument
    mask = check.mask & 0xFFFF_FFFF
    for index, value in enumerate(check.values):
        left = len(check.values) - index - 1
        code.append((_JUMP_EQUAL, left, 0 if left else rest, value))
    code = [(_LOAD, 0, 0, offset + _LOW), (_AND, 0, 0, mask), *code]
    if check.mask >> 32:
        high = [
            (_LOAD, 0, 0, offset + _HIGH),
            (_AND, 0, 0, check.mask >> 32),
            (_JUMP_EQUAL, 0, len(code) + rest, 0),
        ]
        code = high + code
    return code


BASE = 512 * 2**20
"""Bytes of address space in addition to the text, including Python and the loaded modules."""

TEXTS = 4
"""Number of copies of the text that fit into memory."""

CPU_SECONDS = 1800
"""CPU seconds of a whole sandbox, in case the host fails to enforce the time limit of a turn."""

DESCRIPTORS = 64

THREADS = 256
"""Maximum number of threads of a sandbox that has a user of its own."""

SHARED_THREADS = 1_000
"""Maximum number of threads in addition to those that the user already has; other sandboxes of that
user, and programs started later, count as well."""

_USERS = 0x70000000
"""User ids from here on belong to nobody (systemd's "Users, Groups, UIDs and GIDs"); a process
number is added."""

THREAD_STACK = 2 * 2**20
"""Bytes; with the usual 8 MiB, there would be room for only sixty threads."""


def drop_root() -> None:
    """As root, switch to an otherwise unused user, if the system allows it, because the kernel
    limits the threads of users, but not those of root."""
    if os.getuid() == 0:
        alone = _USERS + os.getpid()
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(alone, alone, alone)
            os.setresuid(alone, alone, alone)


def limit_resources(text_bytes: int) -> None:
    """Set the limits permanently, with room for a text of this many bytes."""
    limits = {
        resource.RLIMIT_AS: BASE + TEXTS * text_bytes,
        resource.RLIMIT_CPU: CPU_SECONDS,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: DESCRIPTORS,
        resource.RLIMIT_NPROC: THREADS
        if os.getuid() >= _USERS
        else _threads_of_user() + SHARED_THREADS,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    for which, most in limits.items():
        _, hard = resource.getrlimit(which)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (value, value))


def _threads_of_user() -> int:
    """Count the threads of this process's user, because the kernel's limit applies to all of them
    together. Hidden processes are not counted."""
    user, threads = os.getuid(), 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            found = os.stat(f"/proc/{process}/task")
            if found.st_uid == user:
                threads += found.st_nlink - 2  # the entries `.` and `..`
    return threads


_ATTEMPTS: dict[str, Callable[[], Any]] = {
    "a folder can be opened": lambda: os.open("/", os.O_RDONLY),
    "a file can be asked about": lambda: os.stat("/"),
    "a link can be read": lambda: os.readlink("/proc/self/exe"),
    "a folder can be listed": lambda: os.listdir("/"),
    "a folder can be made": lambda: os.mkdir("/proc/none"),
    "the working directory can be changed": lambda: os.chdir("/"),
    "the internet can be reached": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
    "local sockets can be reached": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    "datagrams can be sent": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "processes can be made": lambda: _fork(),
    "programs can be started": lambda: os.execv("/proc/none", ["none"]),
    "processes can be signalled": lambda: os.kill(os.getpid(), 0),
    "priorities can be changed": lambda: os.nice(0),
    "memory can be made code": lambda: mmap.mmap(
        -1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_EXEC
    ),
}


def files_are_closed() -> bool:
    """Test Landlock, before the system call filter hides it."""
    return _refused(lambda: os.open("/", os.O_RDONLY))


def find_escapes() -> list[str]:
    """Try forbidden operations; return those that succeed. Empty if the sandbox is safe."""
    return [what for what, attempt in _ATTEMPTS.items() if not _refused(attempt)]


def _refused(attempt: Callable[[], Any]) -> bool:
    """Return whether an attempt was refused; any other error means that it was not."""
    try:
        attempt()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


class LockdownError(Exception):
    """The process could not be locked down; the message says what is still possible."""


class Locks(NamedTuple):
    """State shared by all sandboxes."""

    rules: int
    """The descriptor of the Landlock ruleset."""
    filter: bytes


def is_shortage(error: BaseException) -> bool:
    """Tell whether an error says that there are not enough descriptors, processes or memory."""
    short = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
    return isinstance(error, MemoryError) or getattr(error, "errno", None) in short


def missing_support() -> str:
    """Say what this system lacks for a sandbox; empty if nothing."""
    try:
        if machine() is None:
            return f"the system call filter does not support this processor ({os.uname().machine})"
        if not landlock_version():
            return "its kernel has no Landlock (Linux 5.13 or later, with `landlock` in the list of /sys/kernel/security/lsm)"
        check_filters()
        os.close(process_handle(os.getpid()))
    except OSError as error:
        if is_shortage(error):
            return str(error.strerror)
        return f"its kernel, or the container that it runs in, refuses the system calls that lock a sandbox down ({error.strerror})"
    return ""


def prepare() -> Locks:
    """Create the state shared by all sandboxes. Raises `OSError`."""
    architecture = machine()
    assert architecture is not None
    return Locks(empty_ruleset(), filter_program(architecture))


def leave_parent(parent: int) -> None:
    """Leave the parent's session, terminal and user, forbid tracing, and end when the parent
    does."""
    os.setsid()
    drop_root()
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    forbid_tracing()
    forbid_new_privileges()


def lock(locks: Locks, text_bytes: int) -> None:
    """Lock this process, which has one thread, and check that it is locked. Raises `LockdownError`
    or `OSError`."""
    use_one_heap()
    limit_resources(text_bytes)
    drop_capabilities()
    restrict_files(locks.rules)
    os.close(locks.rules)
    if not files_are_closed():
        raise LockdownError("files can be opened")
    apply_filter(locks.filter)
    holes = find_escapes()
    if holes:
        raise LockdownError("; ".join(holes))
