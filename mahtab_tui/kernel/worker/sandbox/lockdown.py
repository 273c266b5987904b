"""Taking from a process all that it does not need to run Python over its text."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

from . import landlock, libc, probe, rlimits, seccomp


class NotLocked(Exception):
    """The sandbox does not hold; the message says where."""


class Locks(NamedTuple):
    """What is made once for all sandboxes."""

    rules: int
    """The descriptor of Landlock's rules."""
    filter: bytes


def missing() -> str:
    """What this system lacks of what a sandbox needs, in words; empty where it has all."""
    try:
        if seccomp.machine() is None:
            return f"the filter of system calls is not written for this processor ({os.uname().machine})"
        if not landlock.version():
            return "its kernel has no Landlock (Linux 5.13 or later, with `landlock` in the list of /sys/kernel/security/lsm)"
        libc.check_filters()
        os.close(libc.process_handle(os.getpid()))
    except OSError as error:
        return f"its kernel, or the container it is in, refuses what a sandbox is made with ({error.strerror})"
    return ""


def prepare() -> Locks:
    """Make what all sandboxes share. Raises `OSError`."""
    architecture = seccomp.machine()
    assert architecture is not None
    return Locks(landlock.no_rights(), seccomp.program(architecture))


def leave_parent(parent: int) -> None:
    """Give up what was inherited: session, terminal, tracing; end when the parent does."""
    os.setsid()
    libc.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    libc.forbid_tracing()
    libc.forbid_new_privileges()


def lock(locks: Locks, text_bytes: int) -> None:
    """Lock this process, which has one thread, and see that it holds. Raises `NotLocked` or `OSError`."""
    libc.one_heap()
    rlimits.limit(text_bytes)
    libc.drop_capabilities()
    landlock.restrict(locks.rules)
    os.close(locks.rules)
    if not probe.files_are_closed():
        raise NotLocked("files can be opened")
    seccomp.apply(locks.filter)
    holes = probe.holes()
    if holes:
        raise NotLocked("; ".join(holes))
