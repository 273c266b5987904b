"""Which files are watched."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..guard.side_effects import is_ignored_path

SHARED_MEMORY_FOLDER = "/dev/shm/"


class WatchedFolders:
    """The folders whose files are watched, and those in them that are left alone."""

    def __init__(self, folders: Sequence[str], ignored: Sequence[str]) -> None:
        self.folders = tuple(os.path.realpath(folder) for folder in folders)
        home = os.path.expanduser("~")
        # Programs keep their own files in hidden folders of the home folder.
        hidden = f"{os.path.realpath(home)}/."
        if any(folder.startswith(hidden) for folder in self.folders):
            hidden = ""
        self._ignored_prefixes = tuple(
            filter(None, (*(os.path.realpath(folder) + os.sep for folder in ignored), hidden))
        )

    def shorten(self, path: str) -> str:
        """Return a path as text, relative to the first folder if it is in it."""
        first_folder = self.folders[0]
        if path.startswith(first_folder + os.sep):
            path = path[len(first_folder) + 1 :]
        return os.fsencode(path).decode("utf-8", "backslashreplace")

    def contains(self, path: str, working_folder: str) -> bool:
        """Return whether the files at a path are watched.

        Args:
            path: Without links, except perhaps at its end.
            working_folder: The kernel's, which is watched, too.
        """
        if not path or path.startswith(self._ignored_prefixes):
            return False
        if is_ignored_path(path) and not path.startswith(SHARED_MEMORY_FOLDER):
            return False
        if any(path.startswith(folder + os.sep) for folder in self.folders):
            return True
        return working_folder not in ("", "/") and path.startswith(working_folder + os.sep)
