"""Locks a process down: by Landlock, which denies files, by a filter of system calls, and by
limits.

A process calls `leave_parent`, `deny_files`, `limit_resources` and `restrict_system_calls`, in this
order. The last one tries what must fail, so that no process runs code half locked down."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import resource
import socket
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from .call_filter import apply_filter, filter_program, machine
from .landlock import empty_ruleset, landlock_version, restrict_files
from .system_calls import LIBC, die_with_parent, prctl, process_handle, syscall

BASE_MEMORY_BYTES = 512 * 2**20
"""Bytes of address space in addition to the text, including Python and the loaded modules."""
MAX_TEXT_COPIES = 4
"""Number of copies of the text that fit into memory."""
MAX_CPU_SECONDS = 1800
"""CPU time of a whole sandbox, in case its host does not enforce the limit of a turn."""
MAX_DESCRIPTORS = 64
MAX_THREADS = 256
MAX_SHARED_THREADS = 1_000
"""Threads of a user with other processes, in addition to those that it has."""
THREAD_STACK_BYTES = 2 * 2**20
"""Bytes; with the usual 8 MiB, there would be room for only sixty threads."""

_FIRST_UNUSED_USER_ID = 0x70000000
"""User ids from here on belong to nobody; a process number is added."""

# Options of `prctl` and `mallopt`.
_PR_SET_DUMPABLE = 4
_PR_GET_SECCOMP = 21
_PR_SET_NO_NEW_PRIVS = 38
_M_ARENA_MAX = -8

_CAPABILITY_VERSION = 0x20080522
_CAPSET = {"x86_64": 126, "aarch64": 91}
"""The number of the system call `capset`, by processor."""


class LockdownError(Exception):
    """The process could not be locked down; the message says what is still possible."""


class Locks(NamedTuple):
    """What a process needs in order to lock itself down. It is made before, because a process that
    has given up its rights cannot make it."""

    rules: int
    """The descriptor of an empty Landlock ruleset."""
    filter: bytes
    """A filter of system calls."""


def missing_support() -> str:
    """Return why processes cannot be locked down here, as a clause; empty if they can."""
    try:
        if machine() is None:
            return f"the system call filter does not support this processor ({os.uname().machine})"
        if not landlock_version():
            return "its kernel has no Landlock (Linux 5.13 or later, with `landlock` in the list of /sys/kernel/security/lsm)"
        prctl(_PR_GET_SECCOMP)
        os.close(process_handle(os.getpid()))
    except OSError as error:
        if is_shortage(error):
            return str(error.strerror)
        return f"its kernel, or the container that it runs in, refuses the system calls that lock a sandbox down ({error.strerror})"
    return ""


def prepare() -> Locks:
    """Make what the lockdown of a process needs. Raises `OSError`."""
    architecture = machine()
    assert architecture is not None
    return Locks(empty_ruleset(), filter_program(architecture))


def leave_parent(parent: int) -> None:
    """Leave the parent's session, terminal and user, forbid tracing, and end when the parent
    does."""
    os.setsid()
    # The kernel limits the threads of users, but not those of root.
    if os.getuid() == 0:
        unused_id = _FIRST_UNUSED_USER_ID + os.getpid()
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(unused_id, unused_id, unused_id)
            os.setresuid(unused_id, unused_id, unused_id)
    die_with_parent(parent)
    # Other processes cannot read its memory.
    prctl(_PR_SET_DUMPABLE, 0)
    forbid_new_privileges()


def forbid_new_privileges() -> None:
    """Prevent programs started from now on from gaining privileges. Filters require this."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def deny_files(rules: int) -> None:
    """Deny capabilities and files to this process, which has one thread and can gain no privileges.
    rules: `Locks.rules`, which is closed. Raises `LockdownError` or `OSError`."""
    drop_capabilities()
    restrict_files(rules)
    os.close(rules)
    # Tried now, because the filter would hide that Landlock does not work.
    if not _is_refused(lambda: os.open("/", os.O_RDONLY)):
        raise LockdownError("files can be opened")


def drop_capabilities() -> None:
    """Drop root's capabilities, permanently if no program can be started."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    no_capabilities = (ctypes.c_uint32 * 6)()
    syscall(_CAPSET[os.uname().machine], header, no_capabilities)


def limit_resources(text_bytes: int) -> None:
    """Limit the memory, time, descriptors and threads of this process.

    Args:
        text_bytes: The size of its text in memory.
    """
    max_threads = MAX_THREADS
    # The kernel counts the threads of all processes of a user.
    if os.getuid() < _FIRST_UNUSED_USER_ID:
        max_threads = threads_of_user() + MAX_SHARED_THREADS
    set_limits(
        {
            resource.RLIMIT_AS: BASE_MEMORY_BYTES + MAX_TEXT_COPIES * text_bytes,
            resource.RLIMIT_CPU: MAX_CPU_SECONDS,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_NOFILE: MAX_DESCRIPTORS,
            resource.RLIMIT_NPROC: max_threads,
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


def threads_of_user() -> int:
    """Count the threads of all processes of this user, as the kernel's limit does. Takes about 15 ms,
    because it looks at each process of the system."""
    user = os.getuid()
    thread_count = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            if os.stat(f"/proc/{process}").st_uid == user:
                thread_count += count_threads(process)
    return thread_count


def count_threads(pid: int | str) -> int:
    """Count the threads of a process. Raises `OSError` if it has ended."""
    # Without the entries `.` and `..`.
    return os.stat(f"/proc/{pid}/task").st_nlink - 2


def restrict_system_calls(compiled: bytes, forbidden: Mapping[str, Callable[[], object]]) -> None:
    """Restrict the system calls of this process, which has one thread, and try what must fail.

    Args:
        compiled: `Locks.filter`.
        forbidden: The attempts, by what is possible if one succeeds (see `ATTEMPTS`).

    Raises:
        LockdownError: An attempt did not fail.
        OSError: The filter could not be applied.
    """
    apply_filter(compiled)
    holes = [capability for capability, attempt in forbidden.items() if not _is_refused(attempt)]
    if holes:
        raise LockdownError("; ".join(holes))


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


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
"""Attempts to leave a sandbox, by what is possible if one succeeds."""


def _is_refused(attempt: Callable[[], object]) -> bool:
    """Return whether the system refuses an attempt, and does not only fail to carry it out."""
    try:
        attempt()
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def is_shortage(error: BaseException) -> bool:
    """Return whether an error says that there are not enough descriptors, processes or memory."""
    shortages = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
    return isinstance(error, MemoryError) or getattr(error, "errno", None) in shortages


def share_heap() -> None:
    """Use one heap for all threads: glibc reserves 64 MiB for each."""
    if hasattr(LIBC, "mallopt"):
        LIBC.mallopt(_M_ARENA_MAX, 1)
