"""The copy of a project's folder in which the cells of a check run, outside the project."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.kernel.environments import environment_kind
from mahtab_tui.session.checking.check_folder import (
    CheckError,
    CheckFolder,
    checks_folder,
    unusable_folder,
)
from mahtab_tui.settings.model import home_folder
from mahtab_tui.worker.witness.content_copying import copy_content

MAX_FILES = 100_000
"""Files, folders and links of a project that is copied."""
MAX_BYTES = 2 * 2**30
"""Bytes on disk of the files that are copied."""
LINKED_FILE_BYTES = 100 * 2**20
"""Files from this size on are links to the originals, if links may lead out of the copy."""
MAX_NAMED_PATHS = 5
"""Paths that a sentence names; more are counted."""

_BLOCK_BYTES = 512
"""The unit of `st_blocks`, whatever the file system."""
_REPOSITORY_NAMES = frozenset((".git", ".hg", ".svn", ".jj"))
_CACHE_NAMES = frozenset(
    (
        *("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"),
        *(".tox", ".nox"),
    )
)
"""Files and folders that are left out without a word, because programs make them again."""
_LINKED_NAMES = _REPOSITORY_NAMES | {"node_modules"}
"""Files and folders that are links to the originals, or left out."""


class _Folder(NamedTuple):
    """A folder and its copy."""

    source: str
    target: str


class ProjectCopy:
    """A copy of a project in a folder of its own. `remove` it at the end."""

    def __init__(self, project: str) -> None:
        """Make the folder of the copy, which is empty. Raises `CheckError`."""
        self.project = os.path.realpath(project)
        self._program_folders = frozenset(map(os.path.realpath, (home_folder(), checks_folder())))
        """The program's own folders, which are never copied. The folder of copies is inside the home
        folder, which may itself be the project."""
        self.linked: list[str] = []
        """Paths in the project that are links to the originals."""
        self.left_out: list[str] = []
        """Paths that could not be copied, with reasons."""
        self.modified_at: dict[str, float] = {}
        """When each file of the project was changed, in seconds since the epoch, by path in it."""
        self._links_to_originals = False
        """Whether links may lead out of the copy."""
        self._entry_count = 0
        self._copied_bytes = 0
        self._folder = CheckFolder()
        self.folder = self._folder.path
        """The folder with the copy, and with all that processes in it may change."""
        self.temporary = self._folder.temporary
        # The last part of the path is often printed.
        self.path = os.path.join(self.folder, "copy", os.path.basename(self.project) or "root")
        try:
            os.makedirs(self.path)
        except OSError as error:
            self.remove()
            raise unusable_folder(error) from None

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
        self._links_to_originals = links
        try:
            self._copy_folders(is_stopped)
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise CheckError(f"{self.project} cannot be copied: {reason}.") from None

    def _copy_folders(self, is_stopped: Callable[[], bool]) -> None:
        """Copy what is in the project, one folder after another. Raises `CheckError` and `OSError`."""
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
        # No link is followed, so paths are resolved.
        if entry.path in self._program_folders:
            return False
        try:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                return self._make_folder(entry, target)
            if stat.S_ISLNK(status.st_mode):
                self._copy_link(entry.path, target)
            elif stat.S_ISREG(status.st_mode):
                self.modified_at[self._path_in_project(entry.path)] = status.st_mtime
                self._copy_file(entry, status, target)
            else:
                self._leave_out(entry.path, "it is not a regular file")
        except FileNotFoundError:
            pass  # removed meanwhile
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._leave_out(entry.path, str(error.strerror))
        return False

    def _copy_file(self, entry: os.DirEntry[str], status: os.stat_result, target: str) -> None:
        """Copy a regular file, or link to it if it is large or belongs to a repository."""
        is_large = self._links_to_originals and status.st_size >= LINKED_FILE_BYTES
        if is_large or entry.name in _LINKED_NAMES:
            self._link(entry.path, target)
            return
        self._copied_bytes += status.st_blocks * _BLOCK_BYTES
        self._check_limits()
        copy_content(entry.path, target)
        shutil.copystat(entry.path, target)

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
        """Make a link to the original, or leave it out."""
        if self._links_to_originals:
            os.symlink(source, target)
            self.linked.append(self._path_in_project(source))
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
        elif self._links_to_originals:
            os.symlink(target, copy)
        else:
            self._leave_out(path, "it leads out of the folder")

    def _leave_out(self, path: str, reason: str) -> None:
        self.left_out.append(f"{self._path_in_project(path)} ({reason})")

    def _path_in_project(self, path: str) -> str:
        return os.path.relpath(path, self.project)

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
        self._folder.remove()


def _name_paths(paths: list[str]) -> str:
    names = ", ".join(sorted(paths)[:MAX_NAMED_PATHS])
    if len(paths) > MAX_NAMED_PATHS:
        names += f" and {len(paths) - MAX_NAMED_PATHS:,} more"
    return names
