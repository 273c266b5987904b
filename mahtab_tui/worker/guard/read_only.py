"""Locks a fork of the kernel, so that it can only read some files and compute."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import site
import stat
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Callable, NamedTuple

from ..cells.tracebacks import OUR_FOLDER
from ..sandbox import call_filter, confinement, landlock, system_calls
from ..sandbox.allowed_calls import READING
from ..sandbox.confinement import ATTEMPTS, LockdownError
from . import refusals, reported_calls
from .readable_paths import ReadablePaths

_SYSTEM_PATHS = (
    *("/usr", "/lib", "/lib32", "/lib64", "/opt", "/var/cache/fontconfig"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/timezone", "/etc/fonts", "/etc/mime.types"),
    *("/etc/os-release", "/etc/ssl", "/sys/devices/system", "/sys/fs/cgroup"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat"),
    *("/dev/null", "/dev/zero", "/dev/urandom"),
)
_USER_PATHS = (
    "~/.config/matplotlib",
    "~/.cache/matplotlib",
    "~/.cache/fontconfig",
    "~/.fonts",
    "~/.local/share/fonts",
)
_MAX_NEW_MEMORY_BYTES = 4 * 2**30
_MAX_CPU_SECONDS = 600
_MAP_PRIVATE = 2
_MAP_FIXED = 0x10

_ATTEMPTS: dict[str, Callable[[], Any]] = {
    "files can be made": lambda: os.open("/dev/shm/none", os.O_WRONLY | os.O_CREAT),
    **{
        possibility: ATTEMPTS[possibility]
        for possibility in (
            "a folder can be made",
            "the internet can be reached",
            "programs can be started",
            "processes can be signalled",
            "priorities can be changed",
        )
    },
}
"""What a locked fork must not be able to do, and how to try it."""


def missing() -> str:
    """Return why this system cannot lock a process, as a clause; empty if it can."""
    if sys.platform != "linux":
        return "only Linux can lock a process"
    return confinement.missing_support()


def library_folders() -> list[str]:
    """Return the folders and files that every locked fork may read."""
    paths = sysconfig.get_paths()
    return [
        OUR_FOLDER,
        sys.prefix,
        sys.base_prefix,
        *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
        *_SYSTEM_PATHS,
        *map(os.path.expanduser, _USER_PATHS),
    ]


def lock(readable: ReadablePaths, keep: Sequence[int], hand_over: Callable[[int], None]) -> None:
    """Lock this process, which has one thread and was forked by the kernel.

    Raises `LockdownError` or `OSError`.

    Args:
        readable: In addition to libraries.
        keep: Descriptors that stay open.
        hand_over: Sends the descriptor of a `RefusalListener` to the process that answers it.
    """
    machine = call_filter.machine()
    if machine is None:
        raise LockdownError(missing())
    rules = landlock.empty_ruleset()
    for path in (*library_folders(), *readable.whole):
        landlock.allow_reading(rules, path)
    for path in readable.listed:
        landlock.allow_reading(rules, path, only_names=True)
    reporting, silent_calls = reported_calls.split_calls(READING, keep)
    reporting_filter = call_filter.reporting_program(machine, reporting)
    strict_filter = call_filter.filter_program(machine, READING)
    lenient_filter = call_filter.filter_program(machine, silent_calls)

    _separate_shared_memory()
    _block_descriptors((*keep, rules), readable)
    limit_resources()
    confinement.forbid_new_privileges()
    confinement.deny_files(rules)

    # The listener must be handed over before the second filter, after which no file can be sent.
    try:
        listener = refusals.install_reporting_filter(reporting_filter)
    except OSError:  # another program already listens, or the kernel is too old
        # Nobody counts the threads of this process, so those of the user are limited.
        most_threads = confinement.threads_of_user() + confinement.MAX_SHARED_THREADS
        confinement.set_limits({resource.RLIMIT_NPROC: most_threads})
        confinement.restrict_system_calls(strict_filter, _ATTEMPTS)
        return
    hand_over(listener)
    os.close(listener)
    confinement.restrict_system_calls(lenient_filter, _ATTEMPTS)


def _block_descriptors(keep: Sequence[int], readable: ReadablePaths) -> None:
    """Make the kernel's descriptors useless, except that files that may be read stay readable;
    objects of the user's still have their numbers."""
    nothing = os.open("/dev/null", os.O_PATH | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd in (*keep, nothing):
            continue
        with suppress(OSError):  # the descriptor of the listing itself
            os.fstat(fd)
            if not _reopen_for_reading(fd, readable):
                os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)


def _reopen_for_reading(fd: int, readable: ReadablePaths) -> bool:
    """Replace a descriptor by one that can only read the same file, with its own position.

    Return whether this was possible.
    """
    link = f"/proc/self/fd/{fd}"
    if not stat.S_ISREG(os.fstat(fd).st_mode) or not readable.contains(os.readlink(link)):
        return False
    try:
        position = os.lseek(fd, 0, os.SEEK_CUR)
        reader = os.open(link, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.lseek(reader, position, os.SEEK_SET)
        os.dup2(reader, fd, inheritable=False)
    finally:
        os.close(reader)
    return True


class _Mapping(NamedTuple):
    """A row of /proc/self/maps: memory that this process shares with a file or a process."""

    start: int
    size: int
    offset: int
    """Where it begins in the file, in bytes."""
    inode: int
    path: str


def _shared_mappings() -> list[_Mapping]:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        rows = [row.split(None, 5) for row in maps.read().splitlines()]

    mappings = []
    for span, rights, offset, _device, inode, *path in rows:
        if rights[3] != "s":
            continue
        start, end = (int(number, 16) for number in span.split("-"))
        file = path[0] if path else ""
        mappings.append(_Mapping(start, end - start, int(offset, 16), int(inode), file))
    return mappings


def _separate_shared_memory() -> None:
    """Replace memory shared with files by a private view that cannot be written.

    Other shared memory is removed: reading there ends the fork.
    """
    c = ctypes.CDLL(None, use_errno=True)
    c.mmap.restype = ctypes.c_void_p
    numbers = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    c.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *numbers)
    c.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)

    # Memory that is read-only at the moment is separated too: if its file was opened for writing,
    # the code could make it writable.
    for mapping in _shared_mappings():
        if not _map_privately(c, mapping):
            c.munmap(mapping.start, mapping.size)
    if _shared_mappings():
        raise LockdownError("shared memory cannot be separated")


def _map_privately(c: ctypes.CDLL, mapping: _Mapping) -> bool:
    """Replace shared memory by a private view of its file. Return whether this was possible."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        fd = os.open(mapping.path, flags)
    except OSError:
        return False
    try:
        if os.fstat(fd).st_ino != mapping.inode:
            return False
        fixed = _MAP_PRIVATE | _MAP_FIXED
        address = c.mmap(mapping.start, mapping.size, mmap.PROT_READ, fixed, fd, mapping.offset)
        return bool(address == mapping.start)
    finally:
        os.close(fd)


def limit_resources() -> None:
    """Limit the memory, time and files of this process, which has just been forked."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        used_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    confinement.set_limits(
        {
            resource.RLIMIT_AS: used_bytes + _MAX_NEW_MEMORY_BYTES,
            resource.RLIMIT_CPU: _MAX_CPU_SECONDS,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_CORE: 0,
        }
    )


def leave_parent(parent: int) -> None:
    """Leave the kernel's session, and end when the kernel does."""
    os.setsid()
    system_calls.die_with_parent(parent)
