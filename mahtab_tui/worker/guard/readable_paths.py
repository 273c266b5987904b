"""Finds what a locked fork may read: the project, and other files and folders, without private places.

Landlock allows whole folders, so a folder that contains private places is allowed entry by entry.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from .private_places import (
    PRIVATE_IN_SYSTEM,
    USERS_FOLDERS,
    is_env_file,
    is_inside,
    is_private_anywhere,
    is_private_entry,
    private_in_homes,
)

_FOLDERS_OF_TOOLS = frozenset((".git", "__pycache__", "node_modules", "site-packages"))
"""Private entries are not looked for in them."""
MAX_SCANNED_FOLDERS = 2_000
"""Folders of a project in which private entries are looked for, those above first."""
MAX_ENTRIES = 2_000
"""Entries of a folder to look at; later ones cannot be read."""


class ReadablePaths(NamedTuple):
    """Resolved paths that code may read."""

    whole: list[str]
    """Files, and folders with everything in them."""
    listed: list[str]
    """Folders whose names may be listed, though only some of their files are in `whole`."""
    private: frozenset[str] = frozenset()
    """Private places in home folders, resolved."""

    def contains(self, path: str) -> bool:
        """Return whether a resolved path may be read."""
        return any(is_inside(path, folder) for folder in self.whole)


def readable_paths(project: str, other_paths: Iterable[str] = ()) -> ReadablePaths:
    """Return what may be read of the project's folder and of other files and folders, without the
    private places in them. Files of the environment, and other entries that are private in any folder,
    are looked for in the project only."""
    project = os.path.realpath(project)
    other_paths = [os.path.realpath(path) for path in dict.fromkeys(other_paths)]
    places = private_in_homes([project, *other_paths])
    collector = _Collector(frozenset(map(os.path.realpath, places)))
    with suppress(OSError):
        collector.add(project, is_scanned=True)
    for path in other_paths:
        if not collector.readable.contains(path):
            with suppress(OSError):
                collector.add(path, is_scanned=is_inside(project, path))
    return collector.readable


class _Collector:
    """Collects what may be read."""

    def __init__(self, private_in_homes: frozenset[str]) -> None:
        """
        Args:
            private_in_homes: Private places in home folders, resolved.
        """
        self.readable = ReadablePaths([], [], private_in_homes)
        self._home = os.path.realpath(os.path.expanduser("~"))
        self._private = {*private_in_homes, *PRIVATE_IN_SYSTEM}

    def add(self, path: str, *, is_scanned: bool) -> None:
        """Add a resolved path, or what of it may be read. Raises `OSError` if a folder cannot be listed.

        Args:
            path: A file or a folder.
            is_scanned: Whether to look for files and folders in it that are private by their names.
        """
        if self._is_private(path):
            return
        if any(is_inside(place, path) for place in (self._home, *self._private)):
            for entry in _visible_entries(path, self._home):
                self.add(entry, is_scanned=is_scanned)
            return

        private_folders: frozenset[str] = frozenset()
        if is_scanned:
            private_folders = frozenset(_folders_with_private_entries(path))
        if private_folders:
            self.readable.listed.append(path)
            self._add_entries(path, private_folders)
        else:
            self.readable.whole.append(path)

    def _is_private(self, path: str) -> bool:
        """Return whether nothing of a path may be read."""
        if is_env_file(path) or is_private_anywhere(path):
            return True
        if any(is_inside(path, place) for place in self._private):
            return True
        return path in USERS_FOLDERS and not is_inside(self._home, path)

    def _add_entries(self, folder: str, private_folders: frozenset[str]) -> None:
        """Add the entries of a folder one by one, because there are private ones in it.

        Args:
            folder: The folder.
            private_folders: The folder, and those in it, for which this is so.
        """
        pending_folders = [folder]
        while pending_folders:
            current_folder = pending_folders.pop()
            for entry in sorted(os.listdir(current_folder))[:MAX_ENTRIES]:
                path = os.path.join(current_folder, entry)
                if path in private_folders:
                    pending_folders.append(path)
                elif not is_private_entry(path) and not os.path.islink(path):
                    self.readable.whole.append(path)


class _FolderScan(NamedTuple):
    """What is in a folder."""

    folders: tuple[str, ...]
    """Paths of the folders in a folder, without links."""
    has_private_entry: bool


def _folders_with_private_entries(project: str) -> Iterator[str]:
    """Yield the folders of a project that have private entries in them or below."""
    private_folders: dict[str, None] = {}
    pending = deque([project])
    for _ in range(MAX_SCANNED_FOLDERS):
        if not pending:
            break
        folder = pending.popleft()
        try:
            scan = _scan_folder(folder, os.stat(folder).st_mtime_ns)
        except OSError:  # a file, or a folder that cannot be listed
            continue
        pending.extend(scan.folders)
        if not scan.has_private_entry:
            continue
        # The folders above have to be listed, too, down to the private entry.
        while folder not in private_folders and is_inside(folder, project):
            private_folders[folder] = None
            folder = os.path.dirname(folder)
    yield from private_folders


@lru_cache(maxsize=2 * MAX_SCANNED_FOLDERS)
def _scan_folder(folder: str, modified_ns: int) -> _FolderScan:
    """Return the folders in a folder, and whether it has a private entry.

    Args:
        folder: The folder.
        modified_ns: When the names in it changed last; another time is another scan for the cache.

    Raises:
        OSError: The folder cannot be read.
    """
    folders = []
    has_private_entry = False
    with os.scandir(folder) as entries:
        for entry in entries:
            has_private_entry = has_private_entry or is_private_entry(entry.name)
            if entry.name not in _FOLDERS_OF_TOOLS and entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return _FolderScan(tuple(folders), has_private_entry)


def _visible_entries(folder: str, home: str) -> Iterator[str]:
    """Yield the resolved entries of a folder that contains private places, without hidden ones and
    links that lead out of it or to hidden ones."""
    if folder in USERS_FOLDERS and folder != home:
        yield home
        return
    names = (name for name in sorted(os.listdir(folder)) if not name.startswith("."))
    for _, name in zip(range(MAX_ENTRIES), names):
        path = os.path.join(folder, name)
        target = os.path.realpath(path)
        if target == path:
            yield path
        elif is_inside(target, folder):
            inner_parts = os.path.relpath(target, folder).split(os.sep)
            if not any(part.startswith(".") for part in inner_parts):
                yield target
