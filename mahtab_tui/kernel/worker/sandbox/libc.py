"""System calls that Python does not provide."""

from __future__ import annotations

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_PR_GET_SECCOMP, _PR_SET_SECCOMP = 21, 22
_SECCOMP_MODE_FILTER = 2
_M_ARENA_MAX = -8

_CAPABILITY_VERSION = 0x20080522

# Python has some of these functions, but only if it was built with headers that know them.
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
    return _checked(_LIBC.syscall(ctypes.c_long(number), *given))


def die_with_parent(signal_number: int) -> None:
    """Ask for a signal when the thread that forked this process ends."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def forbid_tracing() -> None:
    """Hide this process's memory from debuggers and /proc, also from processes of the same user."""
    _prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """Prevent programs started from now on from gaining rights. Filters require this."""
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
    _checked(_LIBC.syscall(ctypes.c_long(_CAPSET[os.uname().machine]), header, nothing))


def memory_file(name: str) -> int:
    """Create a file in memory and return its descriptor, which programs do not inherit. Raises
    `OSError`."""
    return syscall(
        _MEMFD_CREATE[os.uname().machine], ctypes.create_string_buffer(name.encode()), _MFD_CLOEXEC
    )


def process_handle(pid: int) -> int:
    """Open a descriptor of a process, which stays valid when its number is reused; readable when it
    ends. Raises `OSError`."""
    return syscall(_PIDFD_OPEN, pid, 0)


def signal_process(handle: int, signal_number: int) -> None:
    """Send a signal to the process of a descriptor. Raises `OSError`."""
    syscall(_PIDFD_SEND_SIGNAL, handle, signal_number, None, 0)


def one_heap() -> None:
    """Make threads share a heap: glibc reserves 64 MiB of address space for each heap, which counts
    towards the limit."""
    if hasattr(_LIBC, "mallopt"):
        _LIBC.mallopt(_M_ARENA_MAX, 1)


def close_from(lowest: int) -> None:
    """Close all descriptors from `lowest` on."""
    syscall(_CLOSE_RANGE, lowest, 0xFFFFFFFF, 0)


def _prctl(option: int, *values: int) -> None:
    words = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _checked(_LIBC.prctl(ctypes.c_int(option), *words))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
