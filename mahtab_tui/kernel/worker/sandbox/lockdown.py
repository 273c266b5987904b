"""Takes away from a process everything that it does not need to run Python on its text."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

from . import landlock, libc, probe, rlimits, seccomp


class LockdownError(Exception):
    """The process could not be locked down; the message says what is still possible."""


class Locks(NamedTuple):
    """State that all sandboxes share."""

    rules: int
    """The descriptor of the Landlock ruleset."""
    filter: bytes


def missing() -> str:
    """Say what this system lacks for a sandbox; empty if nothing."""
    try:
        if seccomp.machine() is None:
            return f"the system call filter does not support this processor ({os.uname().machine})"
        if not landlock.version():
            return "its kernel has no Landlock (Linux 5.13 or later, with `landlock` in the list of /sys/kernel/security/lsm)"
        libc.check_filters()
        os.close(libc.process_handle(os.getpid()))
    except OSError as error:
        return f"its kernel, or the container that it runs in, refuses the system calls that lock a sandbox down ({error.strerror})"
    return ""


def prepare() -> Locks:
    """Create what all sandboxes share. Raises `OSError`."""
    architecture = seccomp.machine()
    assert architecture is not None
    return Locks(landlock.no_rights(), seccomp.program(architecture))


def leave_parent(parent: int) -> None:
    """Leave the parent's session, terminal and user, forbid tracing, and end when the parent
    does."""
    os.setsid()
    rlimits.leave_root()
    libc.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    libc.forbid_tracing()
    libc.forbid_new_privileges()


def lock(locks: Locks, text_bytes: int) -> None:
    """Lock this process, which has one thread, and check that it is locked. Raises `LockdownError`
    or `OSError`."""
    libc.one_heap()
    rlimits.limit(text_bytes)
    libc.drop_capabilities()
    landlock.restrict(locks.rules)
    os.close(locks.rules)
    if not probe.files_are_closed():
        raise LockdownError("files can be opened")
    seccomp.apply(locks.filter)
    holes = probe.find_escapes()
    if holes:
        raise LockdownError("; ".join(holes))
