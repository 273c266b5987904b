"""Folders that an undo opens for a moment, because their permissions keep their owner out."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from .drafts import is_protected_path
from .states import FileState

_END = b"\0"


class OpenedFoldersList:
    """A file with the permissions of opened folders, so that none stays open if the witness is killed."""

    def __init__(self, list_path: str) -> None:
        self._list_path = list_path
        self._is_written = False

    def add(self, path: str, state: FileState, mode: int) -> None:
        """List a folder. A folder that is listed again gets its last permissions.

        Args:
            path: Where it is.
            state: Its state, of which the number counts.
            mode: The permissions that it gets back.
        """
        device, number = state.inode
        entry = os.fsencode(path) + _END + b"%d %d %d" % (device, number, mode) + _END
        # Without the list, a folder stays open only if the witness is killed.
        with suppress(OSError), open(self._list_path, "ab") as file:
            file.write(entry)
            self._is_written = True

    def forget(self) -> None:
        """Forget all folders, because they have their permissions again."""
        if self._is_written:
            with suppress(OSError):
                os.unlink(self._list_path)
            self._is_written = False


def close_opened_folders(list_path: str) -> None:
    """Give the folders that a killed witness has left open their permissions back."""
    try:
        with open(list_path, "rb") as file:
            fields = file.read().split(_END)
    except OSError:
        return
    closed_inodes: set[tuple[int, int]] = set()
    # The last first: those in an opened folder can be reached only while it is open.
    for path, numbers in reversed(list(zip(fields[::2], fields[1::2]))):
        with suppress(OSError, ValueError):
            device, number, mode = map(int, numbers.split())
            inode = (device, number)
            if inode not in closed_inodes and not is_protected_path(path):
                closed_inodes.add(inode)
                _close_folder(path, inode, mode)


def _close_folder(path: bytes, inode: tuple[int, int], mode: int) -> None:
    """Take its owner's permissions from a folder, if nothing but these was added. A list that somebody
    has forged can do nothing else. Raises `OSError`."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(folder)
        is_listed = (status.st_dev, status.st_ino) == inode
        if is_listed and stat.S_IMODE(status.st_mode) == mode | stat.S_IRWXU:
            os.fchmod(folder, mode)
    finally:
        os.close(folder)
