"""System calls of Linux for which Python has no function, or not in every build."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long

_PR_SET_PDEATHSIG = 1
"""An option of `prctl`."""

# Python has some of these functions, but only if it was built with headers that define them.
_PIDFD_SEND_SIGNAL = 424
_PIDFD_OPEN = 434
CLOSE_RANGE = 436
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
_MFD_CLOEXEC = 1


def syscall(number: int, *arguments: int | ctypes.Array[Any] | None) -> int:
    """Make a system call; None is a null pointer. Raises `OSError`."""
    # C needs to know how long a number is.
    c_arguments = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    return _check_errno(LIBC.syscall(ctypes.c_long(number), *c_arguments))


def die_with_parent(parent: int) -> None:
    """End this process when the thread that forked it ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def memory_file(name: str) -> int:
    """Create a file in memory; returns its descriptor, which programs do not inherit. Raises
    `OSError`."""
    number = _MEMFD_CREATE[os.uname().machine]
    return syscall(number, ctypes.create_string_buffer(name.encode()), _MFD_CLOEXEC)


def process_handle(pid: int) -> int:
    """Return a descriptor that stands for a process, whoever gets its number later. Raises
    `OSError`."""
    return syscall(_PIDFD_OPEN, pid, 0)


def signal_process(handle: int, signal_number: int) -> None:
    """Send a signal to a process by its handle. Raises `OSError`."""
    syscall(_PIDFD_SEND_SIGNAL, handle, signal_number, None, 0)


def buffer_of(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """Return bytes in memory that the system can read, without a zero at their end."""
    return ctypes.create_string_buffer(data, len(data))


def prctl(option: int, *values: int) -> None:
    """Set something for this process. Raises `OSError`."""
    # The system checks that the arguments that an option does not have are 0.
    words = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _check_errno(LIBC.prctl(ctypes.c_int(option), *words))


def _check_errno(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
