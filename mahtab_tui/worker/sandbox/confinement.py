"""Locks a process down by Landlock, seccomp and limits. The calls in `ALLOWED` open, name or change
no file, create or reach no other process, and make no memory executable; `READING` adds reading
files."""

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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NamedTuple

X86_64, AARCH64 = "x86_64", "aarch64"


class Check(NamedTuple):
    argument: int
    mask: int
    values: tuple[int, ...]


class AllowedCall(NamedTuple):
    """A system call, allowed if all checks of one of the alternatives hold."""

    name: str
    x86_64: int | None
    aarch64: int | None
    alternatives: tuple[tuple[Check, ...], ...] = ((),)


_WHOLE = 0xFFFF_FFFF_FFFF_FFFF
_INT = 0xFFFF_FFFF
"""The bits of an `int` that the kernel reads."""

_PROT_EXEC = 4

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

_OWN = Check(0, _INT, (0,))


def _calls(table: str, *alternatives: tuple[Check, ...]) -> Iterator[AllowedCall]:
    """Read a table of calls: names, and their numbers on x86_64 and aarch64."""
    for row in table.split(","):
        name, *numbers = row.split()
        x86_64, aarch64 = (None if each == "-" else int(each) for each in numbers)
        yield AllowedCall(name, x86_64, aarch64, alternatives or ((),))


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
_IOCTL = (_FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _TCGETS)
_SOCKET_OPTIONS = (_SO_TYPE, _SO_ERROR, _SO_PROTOCOL, _SO_DOMAIN)
_SOCKET_PAIR = (Check(0, _INT, (_AF_UNIX,)), Check(1, _INT & ~_SOCK_FLAGS, (_SOCK_STREAM,)))
_KNOWN_FLAGS = Check(3, _INT & ~_MSG_FLAGS, (0,))
ALLOWED = (
    *_calls(_ALLOWED_ALWAYS),
    *_calls("fcntl 72 25", *_FCNTL),
    *_calls("ioctl 16 29", (Check(1, _INT, _IOCTL),)),
    *_calls("pipe2 293 59", (Check(1, _INT & ~_PIPE_FLAGS, (0,)),)),
    *_calls("socketpair 53 199", _SOCKET_PAIR),
    *_calls("sendto 44 206", (_KNOWN_FLAGS, Check(4, _WHOLE, (0,)))),
    *_calls("recvfrom 45 207", (_KNOWN_FLAGS,)),
    *_calls("getsockopt 55 209", (Check(1, _INT, (_SOL_SOCKET,)), Check(2, _INT, _SOCKET_OPTIONS))),
    *_calls("mmap 9 222, mprotect 10 226", (Check(2, _PROT_EXEC, (0,)),)),
    *_calls("clone 56 220", (Check(0, _THREAD | _CLONE_OTHER, (_THREAD,)),)),
    *_calls("futex 202 98", (Check(1, _FUTEX_COMMAND, _FUTEX_COMMANDS),)),
    *_calls("sched_getaffinity 204 123", (_OWN,)),
    *_calls("prlimit64 302 261", (_OWN, Check(2, _WHOLE, (0,)))),
)

_O_WRITES = 0o3 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""Flags of `open` that create or change a file: WRONLY, RDWR, CREAT, TRUNC, APPEND, TMPFILE."""
# On files opened for reading, these are only shared locks.
_FILE_LOCKS = (Check(1, _INT, (5, 6, 7, 36, 37, 38)),)
_TIOCGWINSZ = 0x5413

_READ_ALWAYS = """
    stat 4 -, lstat 6 -, newfstatat 262 79, statx 332 291, statfs 137 43, fstatfs 138 44,
    getdents64 217 61, readlink 89 -, readlinkat 267 78, access 21 -, faccessat 269 48,
    faccessat2 439 439, pread64 17 67, preadv 295 69, fadvise64 221 223, mmap 9 222,
    mprotect 10 226, mincore 27 232, uname 63 160, sysinfo 99 179, getgroups 115 158,
    getresuid 118 148, getresgid 120 150
"""
_READING = (
    *_calls(_READ_ALWAYS),
    *_calls("open 2 -", (Check(1, _O_WRITES, (0,)),)),
    *_calls("openat 257 56", (Check(2, _O_WRITES, (0,)),)),
    *_calls("fcntl 72 25", *_FCNTL, _FILE_LOCKS),
    *_calls("flock 73 32", (Check(1, _INT, (1, 5, 8)),)),
    *_calls("ioctl 16 29", (Check(1, _INT, (*_IOCTL, _TIOCGWINSZ)),)),
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
_PIDFD_SEND_SIGNAL, _PIDFD_OPEN, CLOSE_RANGE = 424, 434, 436
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_MFD_CLOEXEC = 1


def syscall(number: int, *arguments: int | ctypes.Array[Any] | None) -> int:
    """Make a system call; None is a null pointer. Raises `OSError`."""
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _check_errno(_LIBC.syscall(ctypes.c_long(number), *given))


def die_with_parent(parent: int) -> None:
    """End this process when the thread that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def forbid_new_privileges() -> None:
    """Prevent programs started from now on from gaining privileges. Filters require this."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Drop root's capabilities, permanently if no program can be started."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    syscall(_CAPSET[os.uname().machine], header, nothing)


def memory_file(name: str) -> int:
    """Create a file in memory; returns its descriptor, which programs do not inherit. Raises
    `OSError`."""
    number = _MEMFD_CREATE[os.uname().machine]
    return syscall(number, ctypes.create_string_buffer(name.encode()), _MFD_CLOEXEC)


def process_handle(pid: int) -> int:
    return syscall(_PIDFD_OPEN, pid, 0)


def signal_process(handle: int, signal_number: int) -> None:
    syscall(_PIDFD_SEND_SIGNAL, handle, signal_number, None, 0)


def _buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, len(data))


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
    with contextlib.suppress(OSError):
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    return 0


def empty_ruleset() -> int:
    """Return a ruleset that handles all rights known to the kernel and grants none. Raises `OSError`."""
    known = landlock_version()
    words = [(1 << max(count for since, count in _FILES if since <= known)) - 1]
    words += [_NETWORK] if known >= _NETWORK_FROM else []
    words += [_SCOPES] if known >= _SCOPES_FROM else []
    attributes = _buffer(struct.pack(f"={len(words)}Q", *words))
    return syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def allow_reading(rules: int, path: str, *, only_names: bool = False) -> None:
    """Allow reading a file, or everything in a folder, in a ruleset. Do nothing if there is neither.
    only_names: allow listing the folder and those in it, but not reading files."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if only_names:
            rights = _READ_DIR
        elif stat.S_ISDIR(os.fstat(fd).st_mode):
            rights = _READ_FILE | _READ_DIR
        else:
            rights = _READ_FILE
        attributes = _buffer(struct.pack("=Qi", rights, fd))
        syscall(_ADD_RULE, rules, _PATH_BENEATH, attributes, 0)
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
_NOTIFY = 0x7FC00000
"""The call waits for the answer of the filter's listener."""

# struct seccomp_data: number of the call, architecture, instruction pointer, six arguments.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_ARCHITECTURES = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
_X32 = 0x40000000
_CLONE3 = 435


def machine() -> str | None:
    name = os.uname().machine
    supported = sys.byteorder == "little" and sys.maxsize > 2**32
    return name if name in _ARCHITECTURES and supported else None


def filter_program(architecture: str, allowed: Sequence[AllowedCall] = ALLOWED) -> bytes:
    """Return a filter that refuses all calls but these, and these if their checks do not hold."""
    code = _checked_calls(architecture, allowed, _ERRNO | errno.EPERM)
    # A filter cannot see the arguments of `clone3`. Without it, the C library creates threads with
    # `clone`.
    code += [
        (_JUMP_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    return _compiled(code)


def reporting_program(architecture: str, calls: Sequence[AllowedCall]) -> bytes:
    """Return a filter that reports these calls to its listener unless their checks hold, and leaves
    all others to other filters."""
    code = _checked_calls(architecture, calls, _NOTIFY)
    return _compiled([*code, (_RETURN, 0, 0, _ALLOW)])


def _checked_calls(
    architecture: str, calls: Sequence[AllowedCall], refusal: int
) -> list[_Instruction]:
    """Return code that allows these calls if their checks hold, and else returns `refusal` for them.
    After it, other calls follow."""
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _ARCHITECTURES[architecture]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture == X86_64:
        code += [(_JUMP_FROM, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for call in calls:
        number = call.x86_64 if architecture == X86_64 else call.aarch64
        if number is not None:
            block = _block(call, refusal)
            code += [(_JUMP_EQUAL, 0, len(block), number), *block]
    return code


def _compiled(code: Sequence[_Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


@contextlib.contextmanager
def filter_header(compiled: bytes) -> Iterator[ctypes.Array[ctypes.c_char]]:
    """Yield the structure that describes a filter to the system, which must not outlive it."""
    array = _buffer(compiled)
    yield _buffer(struct.pack("HP", len(compiled) // 8, ctypes.addressof(array)))


def apply_filter(compiled: bytes) -> None:
    """Filter the system calls of this thread and of threads it creates, permanently. Raises
    `OSError`."""
    with filter_header(compiled) as header:
        _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header))


def _block(call: AllowedCall, refusal: int) -> list[_Instruction]:
    code: list[_Instruction] = []
    for checks in call.alternatives:
        allow: list[_Instruction] = [(_RETURN, 0, 0, _ALLOW)]
        for check in reversed(checks):
            allow = _check(check, len(allow)) + allow
        code += allow
        if not checks:
            return code
    return [*code, (_RETURN, 0, 0, refusal)]


def _check(check: Check, rest: int) -> list[_Instruction]:
    """Return code that skips `rest` more instructions if the check does not hold."""
    low = _ARGUMENTS + 8 * check.argument
    code: list[_Instruction] = [(_LOAD, 0, 0, low), (_AND, 0, 0, check.mask & 0xFFFF_FFFF)]
    for left, value in zip(reversed(range(len(check.values))), check.values):
        code.append((_JUMP_EQUAL, left, 0 if left else rest, value))
    if not check.mask >> 32:
        return code
    high: list[_Instruction] = [(_LOAD, 0, 0, low + 4), (_AND, 0, 0, check.mask >> 32)]
    return [*high, (_JUMP_EQUAL, 0, len(code) + rest, 0), *code]


BASE = 512 * 2**20
"""Bytes of address space in addition to the text, including Python and the loaded modules."""

TEXTS = 4
"""Number of copies of the text that fit into memory."""

CPU_SECONDS = 1800
"""CPU time of a whole sandbox, in case its host does not enforce the limit of a turn."""

DESCRIPTORS = 64

THREADS = 256

SHARED_THREADS = 1_000
"""Threads of a user with other processes, in addition to those that it has."""

_USERS = 0x70000000
"""User ids from here on belong to nobody; a process number is added."""

THREAD_STACK = 2 * 2**20
"""Bytes; with the usual 8 MiB, there would be room for only sixty threads."""


def limit_resources(text_bytes: int) -> None:
    has_own_user = os.getuid() >= _USERS
    set_limits(
        {
            resource.RLIMIT_AS: BASE + TEXTS * text_bytes,
            resource.RLIMIT_CPU: CPU_SECONDS,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_NOFILE: DESCRIPTORS,
            resource.RLIMIT_NPROC: THREADS if has_own_user else _threads_of_user() + SHARED_THREADS,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_MEMLOCK: 0,
        }
    )


def set_limits(limits: Mapping[int, int]) -> None:
    """Limit resources, but never to more than they are limited now."""
    for limited_resource, maximum in limits.items():
        present_limits = [
            limit
            for limit in resource.getrlimit(limited_resource)
            if limit != resource.RLIM_INFINITY
        ]
        limit = min([maximum, *present_limits])
        resource.setrlimit(limited_resource, (limit, limit))


def _threads_of_user() -> int:
    """Count the threads of all processes of this user, as the kernel's limit does."""
    user, threads = os.getuid(), 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            found = os.stat(f"/proc/{process}/task")
            if found.st_uid == user:
                threads += found.st_nlink - 2  # the entries `.` and `..`
    return threads


ATTEMPTS: dict[str, Callable[[], Any]] = {
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


def _refused(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


class LockdownError(Exception):
    """The process could not be locked down; the message says what is still possible."""


class Locks(NamedTuple):
    rules: int
    filter: bytes


def is_shortage(error: BaseException) -> bool:
    """Tell whether an error says that there are not enough descriptors, processes or memory."""
    short = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
    return isinstance(error, MemoryError) or getattr(error, "errno", None) in short


def missing_support() -> str:
    try:
        if machine() is None:
            return f"the system call filter does not support this processor ({os.uname().machine})"
        if not landlock_version():
            return "its kernel has no Landlock (Linux 5.13 or later, with `landlock` in the list of /sys/kernel/security/lsm)"
        _prctl(_PR_GET_SECCOMP)
        os.close(process_handle(os.getpid()))
    except OSError as error:
        if is_shortage(error):
            return str(error.strerror)
        return f"its kernel, or the container that it runs in, refuses the system calls that lock a sandbox down ({error.strerror})"
    return ""


def prepare() -> Locks:
    architecture = machine()
    assert architecture is not None
    return Locks(empty_ruleset(), filter_program(architecture))


def leave_parent(parent: int) -> None:
    """Leave the parent's session, terminal and user, forbid tracing, and end when the parent
    does."""
    os.setsid()
    if os.getuid() == 0:  # the kernel limits the threads of users, but not those of root
        unused = _USERS + os.getpid()
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(unused, unused, unused)
            os.setresuid(unused, unused, unused)
    die_with_parent(parent)
    _prctl(_PR_SET_DUMPABLE, 0)  # other processes cannot read its memory
    forbid_new_privileges()


def share_heap() -> None:
    """Use one heap for all threads: glibc reserves 64 MiB for each."""
    if hasattr(_LIBC, "mallopt"):
        _LIBC.mallopt(_M_ARENA_MAX, 1)


def take_files(rules: int) -> None:
    """Take capabilities and files from this process, which has one thread and can gain no
    privileges. rules: `Locks.rules`, which is closed. Raises `LockdownError` or `OSError`."""
    drop_capabilities()
    restrict_files(rules)
    os.close(rules)
    if not _refused(lambda: os.open("/", os.O_RDONLY)):  # the filter would hide Landlock
        raise LockdownError("files can be opened")


def take_system_calls(compiled: bytes, forbidden: Mapping[str, Callable[[], Any]]) -> None:
    """Take system calls from this process, which has one thread, and try what is forbidden.
    compiled: `Locks.filter`. Raises `LockdownError` or `OSError`."""
    apply_filter(compiled)
    if holes := [what for what, attempt in forbidden.items() if not _refused(attempt)]:
        raise LockdownError("; ".join(holes))
