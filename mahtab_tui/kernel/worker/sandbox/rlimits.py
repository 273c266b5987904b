"""Limits of a sandbox's resources."""

from __future__ import annotations

import contextlib
import os
import resource

BASE = 512 * 2**20
"""Bytes of address space besides the text, Python and the loaded modules included."""

TEXTS = 4
"""How many copies of the text fit into memory."""

CPU_SECONDS = 1800
"""CPU time of a whole sandbox, in case the host fails to enforce the time limit of a turn."""

DESCRIPTORS = 64

THREADS = 256
"""Most threads of a sandbox that is a user of its own."""

SHARED_THREADS = 1_000
"""Beyond those that its user has already; other sandboxes of that user, and programs that it starts
later, count as well."""

_USERS = 0x70000000
"""Numbers of users from here on belong to nobody (systemd's "Users, Groups, UIDs and GIDs"); a
process number is added."""

THREAD_STACK = 2 * 2**20
"""Bytes; with the usual 8 MiB there would be room for only sixty threads."""


def leave_root() -> None:
    """As root, become a user that nobody else is, where the system allows it: the kernel limits the
    threads of users, but not those of root."""
    if os.getuid() == 0:
        alone = _USERS + os.getpid()
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(alone, alone, alone)
            os.setresuid(alone, alone, alone)


def limit(text_bytes: int) -> None:
    """Set the limits permanently, with room for a text of so many bytes."""
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
    """Count the threads that this process's user has: the kernel's limit is one for them all. Those
    of processes that hide are not seen."""
    user, threads = os.getuid(), 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            found = os.stat(f"/proc/{process}/task")
            if found.st_uid == user:
                threads += found.st_nlink - 2  # the entries `.` and `..`
    return threads
