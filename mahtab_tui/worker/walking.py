"""Walks through folders, however deep they are: until Python 3.12, `os.walk` calls itself for each level."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress


def walk_folders(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder in a folder, and this one first, as `os.walk` does: its path, and the names of
    the folders and of the files in it. Those folders are walked that stay in the list."""
    pending_paths = [path]
    while pending_paths:
        folder = pending_paths.pop()
        subfolders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    (subfolders if _is_folder(entry) else files).append(entry.name)
        except OSError:
            continue
        yield folder, subfolders, files
        paths = [os.path.join(folder, name) for name in reversed(subfolders)]
        pending_paths += [path for path in paths if not os.path.islink(path)]


def remove_folder(path: str) -> None:
    """Remove a folder and all that is in it, as far as that is possible."""
    for folder, subfolders, files in reversed(list(walk_folders(path))):
        # What is still there of the folders are links to others.
        for name in (*subfolders, *files):
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))
        with suppress(OSError):
            os.rmdir(folder)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
