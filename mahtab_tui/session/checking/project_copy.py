"""A copy of a project's folder in which a check runs, outside the project."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.environments import environment_kind
from mahtab_tui.settings.model import home_folder
from mahtab_tui.worker.walking import remove_folder, walk_folders
from mahtab_tui.worker.witness.copies import copy_content

MAX_FILES = 100_000
"""Files, folders and links."""
MAX_BYTES = 2 * 2**30
LINKED_FILE_BYTES = 100 * 2**20
"""Files from this size on are not copied."""
MAX_NAMED_PATHS = 5
MAX_KILL_ROUNDS = 100

_LOCK_NAME = "in-use"
_REPOSITORY_NAMES = frozenset((".git", ".hg", ".svn", ".jj"))
_CACHE_NAMES = frozenset(
    (
        *("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"),
        *(".tox", ".nox"),
    )
)
_LINKED_NAMES = _REPOSITORY_NAMES | {"node_modules"}


class CheckError(KernelError):
    """A check cannot run; the message is a sentence."""


class _Folder(NamedTuple):
    """A folder and its copy."""

    source: str
    target: str


def checks_folder() -> Path:
    """Return the folder with the copies of all checks."""
    return home_folder() / "checks"


def remove_abandoned_copies() -> int:
    """Remove the copies of programs that were killed; return how many there were."""
    removed_count = 0
    with suppress(OSError):
        for entry in list(os.scandir(checks_folder())):
            if _is_abandoned(entry.path):
                _remove(entry.path)
                removed_count += 1
    return removed_count


def _is_abandoned(folder: str) -> bool:
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


def _unusable_folder(error: OSError) -> CheckError:
    return CheckError(f"{checks_folder()} cannot be used: {error.strerror}.")


class ProjectCopy:
    """A folder with a copy of a project, and one for temporary files. `remove` it at the end."""

    def __init__(self, project: str) -> None:
        """Make the folders, which are empty. Raises `CheckError`."""
        self.project = os.path.realpath(project)
        self._home = os.path.realpath(home_folder())
        self._checks = os.path.realpath(checks_folder())
        self.linked: list[str] = []
        """Paths in the project that are links to the originals."""
        self.left_out: list[str] = []
        """Paths that could not be copied, with reasons."""
        self.modified_at: dict[str, float] = {}
        """When each file of the project was changed, in seconds since the epoch, by path in it."""
        self._links = False
        self._entry_count = 0
        self._copied_bytes = 0
        remove_abandoned_copies()
        try:
            checks_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder = os.path.realpath(tempfile.mkdtemp(prefix="check-", dir=checks_folder()))
        except OSError as error:
            raise _unusable_folder(error) from None
        self._lock = -1
        self.temporary = os.path.join(self.folder, "tmp")
        # The last part of the path is often printed.
        self.path = os.path.join(self.folder, "copy", os.path.basename(self.project) or "root")
        try:
            self._lock = _lock_folder(self.folder)
            os.mkdir(self.temporary)
            os.makedirs(self.path)
        except OSError as error:
            self.remove()
            raise _unusable_folder(error) from None

    def fill(self, *, links: bool, is_stopped: Callable[[], bool]) -> None:
        """Copy the project, as far as it can be read.

        Args:
            links: Whether links may lead out of the copy, because nothing can change what is there:
                large files, repositories and environments are links to the originals then. Else these
                and the project's own links that lead out of it are left out, and large files copied.
            is_stopped: Asked while files are copied.

        Raises:
            CheckError: It cannot be copied, is too large, or the copying was stopped.
        """
        self._links = links
        try:
            self._copy_folders(is_stopped)
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise CheckError(f"{self.project} cannot be copied: {reason}.") from None

    def _copy_folders(self, is_stopped: Callable[[], bool]) -> None:
        if not os.path.isdir(self.project):
            raise CheckError(f"There is no folder {self.project} any more.")
        pending = [_Folder(self.project, self.path)]
        folders: list[_Folder] = []
        while pending:
            folder = pending.pop()
            folders.append(folder)
            try:
                entries = list(os.scandir(folder.source))
            except OSError as error:
                self._leave_out(folder.source, str(error.strerror))
                continue
            for entry in entries:
                if is_stopped():
                    raise CheckError("The check was stopped.")
                inner = _Folder(entry.path, os.path.join(folder.target, entry.name))
                if self._copy_entry(entry, inner.target):
                    pending.append(inner)
        # The innermost first, because a folder may not be writable.
        for folder in reversed(folders):
            with suppress(OSError):
                shutil.copystat(folder.source, folder.target)

    def _copy_entry(self, entry: os.DirEntry[str], target: str) -> bool:
        """Copy a file or a link, or make a folder; return whether its entries follow."""
        self._entry_count += 1
        self._check_limits()
        # No link is followed, so that paths are resolved. The folder of copies is inside the home
        # folder, which may itself be the project.
        if entry.path in (self._home, self._checks):
            return False
        try:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                self.modified_at[os.path.relpath(entry.path, self.project)] = status.st_mtime
            if stat.S_ISLNK(status.st_mode):
                self._copy_link(entry.path, target)
            elif stat.S_ISDIR(status.st_mode):
                return self._make_folder(entry, target)
            elif not stat.S_ISREG(status.st_mode):
                self._leave_out(entry.path, "it is not a regular file")
            elif entry.name in _LINKED_NAMES or (
                self._links and status.st_size >= LINKED_FILE_BYTES
            ):
                self._link(entry.path, target)
            else:
                self._copied_bytes += status.st_blocks * 512
                self._check_limits()
                copy_content(entry.path, target)
                shutil.copystat(entry.path, target)
        except FileNotFoundError:
            pass  # removed meanwhile
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._leave_out(entry.path, str(error.strerror))
        return False

    def _make_folder(self, entry: os.DirEntry[str], target: str) -> bool:
        """Make the copy of a folder; return whether its entries are to be copied."""
        if entry.name in _CACHE_NAMES:
            return False
        if entry.name in _LINKED_NAMES or environment_kind(Path(entry.path)) is not None:
            self._link(entry.path, target)
            return False
        os.mkdir(target)
        return True

    def _link(self, source: str, target: str) -> None:
        if self._links:
            os.symlink(source, target)
            self.linked.append(os.path.relpath(source, self.project))
        else:
            self._leave_out(source, "it is not copied")

    def _copy_link(self, path: str, copy: str) -> None:
        """Copy a link, which leads into the copy if it has led into the project."""
        text = os.readlink(path)
        folder = os.path.realpath(os.path.dirname(path))
        target = os.path.normpath(os.path.join(folder, text))
        if target == self.project or target.startswith(self.project + os.sep):
            inner_target = self.path + target[len(self.project) :]
            os.symlink(inner_target if os.path.isabs(text) else text, copy)
        elif self._links:
            os.symlink(target, copy)
        else:
            self._leave_out(path, "it leads out of the folder")

    def _leave_out(self, path: str, reason: str) -> None:
        self.left_out.append(f"{os.path.relpath(path, self.project)} ({reason})")

    def _check_limits(self) -> None:
        """Raise `CheckError` if the project is too large."""
        if self._copied_bytes > MAX_BYTES:
            excess = f"more than {MAX_BYTES / 2**30:g} GB"
        elif self._entry_count > MAX_FILES:
            excess = f"more than {MAX_FILES:,} files and folders"
        else:
            return
        raise CheckError(
            f"{self.project} has {excess}: too much for a copy. Nothing was run. Move what the cells"
            " do not need to another folder."
        )

    def original_text(self, text: str) -> str:
        """Return a text with the project's path in place of the copy's."""
        return text.replace(self.path, self.project)

    def contains(self, path: str) -> bool:
        """Return whether a check may change what is at a path."""
        return os.path.realpath(path).startswith(self.folder + os.sep)

    def describe(self) -> str:
        """Say what is not copied; empty if everything is."""
        sentences: list[str] = []
        if self.linked:
            sentences.append(f"Not copied, can only be read: {_name_paths(self.linked)}.")
        if self.left_out:
            sentences.append(f"Left out of the copy: {_name_paths(self.left_out)}.")
        return " ".join(sentences)

    def remove(self) -> None:
        """End processes that still run in the copy, and remove it."""
        # A process may start another one while it is looked for.
        for _ in range(MAX_KILL_ROUNDS):
            if not self._kill_processes():
                break
        _remove(self.folder)
        if self._lock >= 0:
            os.close(self._lock)

    def _kill_processes(self) -> int:
        """Kill what cells have left running: it has the folder for temporary files in its environment.
        Return how many processes there were."""
        mark = f"TMPDIR={self.temporary}".encode()
        killed_count = 0
        with suppress(OSError):  # a system without /proc
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with suppress(OSError):
                    if mark in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                        os.kill(int(pid), signal.SIGKILL)
                        killed_count += 1
        return killed_count


def _name_paths(paths: list[str]) -> str:
    names = ", ".join(sorted(paths)[:MAX_NAMED_PATHS])
    if len(paths) > MAX_NAMED_PATHS:
        names += f" and {len(paths) - MAX_NAMED_PATHS:,} more"
    return names


def _remove(folder: str) -> None:
    """Remove a folder, also if folders in it cannot be read or written. The lock goes last."""
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
