"""Lets the code of a check change files in one folder only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from ..sandbox.confinement import LockdownError, forbid_new_privileges
from ..sandbox.landlock import (
    MIN_CHANGES_VERSION,
    allow_changes,
    changes_ruleset,
    landlock_version,
    restrict_files,
)

_SHARED_MEMORY_FOLDER = "/dev/shm"
_TERMINALS_FOLDER = "/dev/pts"


def unavailable_reason() -> str:
    """Return what changes cannot be confined without, as a clause; empty if they can be."""
    if os.uname().sysname != "Linux":
        return "needs Linux"
    if landlock_version() < MIN_CHANGES_VERSION:
        return "needs Linux 6.2 or later, with Landlock"
    return ""


def confine_changes(folder: str) -> None:
    """Let this thread, and what it starts, change files in a folder and devices only, for good.
    Permissions, owners and times of files stay changeable everywhere.

    Args:
        folder: Where everything is allowed. A change beside it is tried, which must fail.

    Raises:
        LockdownError: The change did not fail.
        OSError: The system refuses.
    """
    rules = changes_ruleset()
    try:
        for path in (folder, *_devices()):
            with suppress(FileNotFoundError):
                allow_changes(rules, path)
        forbid_new_privileges()
        restrict_files(rules)
    finally:
        os.close(rules)
    trial_folder = f"{folder}.{os.urandom(8).hex()}"
    try:
        os.mkdir(trial_folder)
    except PermissionError:
        return
    os.rmdir(trial_folder)
    raise LockdownError("files outside the copy can be changed")


def _devices() -> Iterator[str]:
    """Yield what programs write besides files of the user's: character devices, terminals, and
    memory that processes share."""
    yield _SHARED_MEMORY_FOLDER
    yield _TERMINALS_FOLDER
    for folder, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(folder, name)
            with suppress(OSError):
                if stat.S_ISCHR(os.lstat(path).st_mode):
                    yield path
