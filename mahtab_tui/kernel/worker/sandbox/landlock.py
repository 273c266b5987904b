"""Landlock: a process that gives up, for good, what it may do with files, the network and other processes."""

from __future__ import annotations

import ctypes
import errno
import struct

from .libc import syscall

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION = 1

# By the version of the interface from which on the kernel knows the rights.
_FILES = ((1, 13), (2, 14), (3, 15), (5, 16))
_NETWORK_FROM, _NETWORK = 4, 0b11
_SCOPES_FROM, _SCOPES = 6, 0b11


def version() -> int:
    """The version of the kernel's interface; 0 where there is none, or it is switched off."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            return 0
        raise


def no_rights() -> int:
    """A descriptor of the set of rules that handles all that the kernel can and allows none of it. Raises `OSError`."""
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
    """Hold this process to a set of rules from here on. It must have given up new privileges. Raises `OSError`."""
    syscall(_RESTRICT_SELF, rules, 0)
