"""The folder of a check's own, in which it works: made, marked as in use, and removed at the end.

A lock marks it, which the system releases when the program is killed. So the next check, or
`mahtab-tui doctor`, can remove what was left.
"""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.settings.model import home_folder
from mahtab_tui.worker.walking import remove_folder, walk_folders

MAX_KILL_ROUNDS = 100
"""How many times processes are looked for that still run in a folder, because each may have started
another one meanwhile."""

_LOCK_NAME = "in-use"


class CheckError(KernelError):
    """A check cannot run; the message is a sentence."""


def checks_folder() -> Path:
    """Return the folder with the folders of all checks."""
    return home_folder() / "checks"


class CheckFolder:
    """A new folder, with one for temporary files in it. `remove` it at the end."""

    def __init__(self) -> None:
        """Make the folders. Raises `CheckError`."""
        remove_abandoned_folders()
        try:
            checks_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = tempfile.mkdtemp(prefix="check-", dir=checks_folder())
            self.path = os.path.realpath(folder)
        except OSError as error:
            raise unusable_folder(error) from None
        self.temporary = os.path.join(self.path, "tmp")
        """For the temporary files of the processes that run here. These have it in their environment,
        as `TMPDIR`."""
        self._lock = -1
        """The descriptor of the lock; -1 without one."""
        try:
            self._lock = _lock_folder(self.path)
            os.mkdir(self.temporary)
        except OSError as error:
            self.remove()
            raise unusable_folder(error) from None

    def remove(self) -> None:
        """End processes that still run in the folder, and remove it."""
        for _ in range(MAX_KILL_ROUNDS):
            if not self._kill_processes():
                break
        _remove_with_contents(self.path)
        if self._lock >= 0:
            os.close(self._lock)

    def _kill_processes(self) -> int:
        """Kill what cells have left running; return how many processes there were."""
        mark = f"TMPDIR={self.temporary}".encode()
        killed_count = 0
        with suppress(OSError):  # a system without /proc
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with suppress(OSError):
                    if mark in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                        os.kill(int(pid), signal.SIGKILL)
                        killed_count += 1
        return killed_count


def unusable_folder(error: OSError) -> CheckError:
    """Return the error for a folder that cannot be made."""
    return CheckError(f"{checks_folder()} cannot be used: {error.strerror}.")


def remove_abandoned_folders() -> int:
    """Remove the folders of programs that were killed; return how many there were."""
    removed_count = 0
    with suppress(OSError):
        for entry in list(os.scandir(checks_folder())):
            if _is_abandoned(entry.path):
                _remove_with_contents(entry.path)
                removed_count += 1
    return removed_count


def _is_abandoned(folder: str) -> bool:
    """Return whether a folder is marked by a lock that nobody holds."""
    try:
        lock = os.open(os.path.join(folder, _LOCK_NAME), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # another program has just made it, or removes it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _lock_folder(folder: str) -> int:
    """Mark a new folder as in use until the returned descriptor is closed. Raises `OSError`."""
    path = os.path.join(folder, _LOCK_NAME)
    # Under another name, because another program would take an unlocked file for abandoned.
    new_path = f"{path}.new"
    lock = os.open(new_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(new_path, path)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _remove_with_contents(folder: str) -> None:
    """Remove a folder, also if folders in it cannot be read or written. Its lock goes last."""
    for path, names, _ in walk_folders(folder):
        # Before they are walked. What a link leads to is the user's.
        for name in names:
            inner_path = os.path.join(path, name)
            if not os.path.islink(inner_path):
                with suppress(OSError):
                    os.chmod(inner_path, 0o700)
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                remove_folder(entry.path)
    remove_folder(folder)
