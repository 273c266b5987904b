"""Landlock: a process permanently gives up its rights to files, the network and other processes."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

from .libc import syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3

# Numbers of rights, by the version of the interface since which the kernel knows them.
_FILES = ((1, 13), (2, 14), (3, 15), (5, 16))
_NETWORK_FROM, _NETWORK = 4, 0b11
_SCOPES_FROM, _SCOPES = 6, 0b11


def version() -> int:
    """Return the version of the kernel's interface; 0 if there is none or it is disabled."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            return 0
        raise


def no_rights() -> int:
    """Return the descriptor of a ruleset that handles all rights the kernel knows and grants none.
    Raises `OSError`."""
    known = version()
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
    """Let a ruleset grant reading a file, or everything in a folder. Does nothing for a path that
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


def restrict(rules: int) -> None:
    """Apply a ruleset to this process, which must have given up new privileges. Raises
    `OSError`."""
    syscall(_RESTRICT_SELF, rules, 0)
