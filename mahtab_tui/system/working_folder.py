"""Handles a deleted working directory: continue in the nearest folder above it that is still
there."""

from __future__ import annotations

import os
from pathlib import Path

_DELETED = " (deleted)"
"""Suffix that Linux writes after the path of a folder that is gone."""


def existing_folder(path: str) -> str:
    """The folder itself, or the nearest one above it that exists and can be entered; the home
    folder for a path that is not absolute."""
    if not os.path.isabs(path):
        return str(Path.home())
    return next(
        folder
        for folder in (path, *map(str, Path(path).parents))
        if folder == os.sep or (os.path.isdir(folder) and os.access(folder, os.X_OK))
    )


def moved(gone: str, now: str) -> str:
    """The sentence that says where work goes on."""
    return f"The {f'working directory {gone}' if gone else 'old working directory'} can no longer be used; it is now {now}."


def leave_deleted_folder() -> str:
    """If this process's working directory was deleted, change to the nearest folder above it;
    returns a sentence, empty if all is well."""
    try:
        os.getcwd()
    except FileNotFoundError:
        gone = _deleted_folder()
    else:
        return ""
    now = existing_folder(gone)
    os.chdir(now)
    return moved(gone, now)


def _deleted_folder() -> str:
    """The path that the working directory had, as the system or the shell knows it."""
    try:
        return os.readlink("/proc/self/cwd").removesuffix(_DELETED)
    except OSError:  # not on Linux
        return os.environ.get("PWD", "")
