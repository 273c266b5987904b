"""Takes files and the network from a process by Landlock, or the right to change files."""

from __future__ import annotations

import contextlib
import os
import stat
import struct

from .system_calls import buffer_of, syscall

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION = 1
_PATH_BENEATH = 1
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3

_TRUNCATE = 1 << 14
_CHANGES = sum(1 << bit for bit in (1, *range(4, 15)))
"""The rights to write and truncate files, and to make, remove and move anything."""

MIN_CHANGES_VERSION = 3
"""Earlier versions (before Linux 6.2) do not know the right to truncate."""

_FILE_RIGHTS = ((1, 13), (2, 14), (3, 15), (5, 16))
"""Versions of the interface, and how many rights for files each has."""
_NETWORK_VERSION = 4
_NETWORK_RIGHTS = 0b11
"""The rights to bind and to connect."""
_SCOPES_VERSION = 6
_SCOPES = 0b11
"""Abstract sockets and signals."""


def landlock_version() -> int:
    """Return the version of the kernel's interface; 0 if it has none."""
    with contextlib.suppress(OSError):
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    return 0


def empty_ruleset() -> int:
    """Return a ruleset that handles all rights known to the kernel and grants none. Raises `OSError`."""
    version = landlock_version()
    file_rights = max(count for since, count in _FILE_RIGHTS if since <= version)
    words = [(1 << file_rights) - 1]
    if version >= _NETWORK_VERSION:
        words.append(_NETWORK_RIGHTS)
    if version >= _SCOPES_VERSION:
        words.append(_SCOPES)
    attributes = buffer_of(struct.pack(f"={len(words)}Q", *words))
    return syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def allow_reading(rules: int, path: str, *, only_names: bool = False) -> None:
    """Allow reading a file, or everything in a folder, in a ruleset. Do nothing if there is
    neither.

    Args:
        only_names: Allow listing the folder and those in it, but not reading files.
    """
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
        attributes = buffer_of(struct.pack("=Qi", rights, fd))
        syscall(_ADD_RULE, rules, _PATH_BENEATH, attributes, 0)
    finally:
        os.close(fd)


def changes_ruleset() -> int:
    """Return a ruleset that handles changes of files and grants none; reading stays free. Raises
    `OSError`."""
    attributes = buffer_of(struct.pack("=Q", _CHANGES))
    return syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def allow_changes(rules: int, path: str) -> None:
    """Allow changing a file or a device, or everything in a folder, in a `changes_ruleset`. Raises
    `OSError`."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = _CHANGES if stat.S_ISDIR(os.fstat(fd).st_mode) else _WRITE_FILE | _TRUNCATE
        attributes = buffer_of(struct.pack("=Qi", rights, fd))
        syscall(_ADD_RULE, rules, _PATH_BENEATH, attributes, 0)
    finally:
        os.close(fd)


def restrict_files(rules: int) -> None:
    """Apply a ruleset to this process, which must have given up new privileges. Raises
    `OSError`."""
    syscall(_RESTRICT_SELF, rules, 0)
