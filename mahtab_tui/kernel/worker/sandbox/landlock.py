"""Landlock: a process permanently gives up its rights to files, the network and other processes."""

from __future__ import annotations

import ctypes
import errno
import struct

from .libc import syscall

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION = 1

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
    """Return the descriptor of a ruleset that handles all rights the kernel knows and grants none. Raises `OSError`."""
    known = version()
    files = max(count for since, count in _FILES if since <= known)
    words = [(1 << files) - 1]
    if known >= _NETWORK_FROM:
        words.append(_NETWORK)
    if known >= _SCOPES_FROM:
        words.append(_SCOPES)
    attributes = struct.pack(f"={len(words)}Q", *words)
    return syscall(_CREATE_RULESET, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0)


def restrict(rules: int) -> None:
    """Apply a ruleset to this process, which must have given up new privileges. Raises `OSError`."""
    syscall(_RESTRICT_SELF, rules, 0)
