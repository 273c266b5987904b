"""Copies of files, as they were before a cell or an undo changed them.

Each witness has a folder for them, within limits. A copy is a file of its own, or another name of the file itself.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from array import array
from contextlib import suppress

from .content_copying import copy_content, read_free_bytes, try_to_share_blocks
from .drafts import Drafts, remove_drafts
from .opened_folders import OpenedFoldersList, close_opened_folders
from .states import FileState, read_state, unpack_state

_NO_COPY = -1
"""In place of a size, for a number of which there is no copy."""
_LOCK_GRACE_S = 60.0
"""Seconds in which a witness locks the folder that it has made."""

# Files in the folder of copies
_LOCK_NAME = "in-use"
"""Locked as long as the witness lives."""
_DRAFTS_NAME = "drafts"
_OPENED_FOLDERS_NAME = "opened-folders"


class Copy:
    """A file in the folder of copies, which goes with the last object that needs it."""

    __slots__ = ("_copies", "_packed_state", "is_name", "serial")

    def __init__(self, copies: Copies, serial: int, *, is_name: bool) -> None:
        """Own a file that was just made.

        Args:
            copies: The folder.
            serial: The name of the file in it.
            is_name: Whether it is the file itself, under another name.
        """
        self._copies = copies
        self.serial = serial
        """Its name in the folder; 0 once another object has taken its place."""
        self.is_name = is_name
        """Whether it is the file itself, under another name."""
        self._packed_state = read_state(copies.path_of(serial)).pack()

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Return its fields for an archive, without its number, which the archive keeps apart."""
        fields = {field: getattr(self, field) for field in self.__slots__}
        return None, {**fields, "serial": 0}

    def __del__(self) -> None:
        self._copies.remove(self.serial)

    @property
    def path(self) -> str:
        """Where it is; empty when it was removed because of the limit."""
        return self._copies.path_of(self.serial) if self._copies.has(self.serial) else ""

    @property
    def reason(self) -> str:
        """Why it was removed, as a clause; empty if it was not."""
        return "" if self._copies.has(self.serial) else self._copies.removal_reason

    @property
    def state(self) -> FileState:
        """What it was when it was made."""
        return unpack_state(self._packed_state)

    def is_name_of(self, state: FileState) -> bool:
        """Return whether it is a file itself, under another name."""
        return self.is_name and bool(self.path) and self.state.inode == state.inode

    @property
    def is_usable(self) -> bool:
        """Whether it still holds what it held: if it is the file itself, others may have written it."""
        if not self.path:
            return False
        now = read_state(self.path)
        return (now.size, now.mtime_ns) == (self.state.size, self.state.mtime_ns)


class Copies:
    """A folder with copies, within limits."""

    def __init__(self, folder: str, max_cell_bytes: int, max_bytes: int) -> None:
        """Make the folder, and remove those of ended processes beside it.

        Args:
            folder: For this process only.
            max_cell_bytes: For all copies of a cell.
            max_bytes: For all copies; the oldest are removed first.
        """
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.folder = folder
        self.drafts = Drafts(os.path.join(folder, _DRAFTS_NAME))
        self.opened_folders = OpenedFoldersList(os.path.join(folder, _OPENED_FOLDERS_NAME))
        self.max_cell_bytes = max_cell_bytes
        self.max_bytes = max_bytes
        self._cell_bytes = 0
        """Bytes of the copies that were made of files of the running cell."""
        self._sizes = array("q")
        """Bytes of the copies by their numbers, from the first one that is there; `_NO_COPY` for those
        that are not. (A dictionary would need ten times the memory.)"""
        self._first_serial = 1
        """The number of the first one."""
        self._count = 0
        """How many copies there are."""
        self._used_bytes = 0
        """Bytes of all copies on the disk."""
        self._is_undoing = False
        """Whether an undo is in progress, which may need each copy, and has seen that there is room."""
        self._lock = os.open(
            os.path.join(folder, _LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        )
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # What other witnesses have left must not keep this one from its work, whatever it is.
        with suppress(Exception):
            remove_abandoned(os.path.dirname(folder))

    def begin_cell(self) -> None:
        """Allow the next cell as many bytes as a cell may have."""
        self._cell_bytes = 0
        removed_count = 0
        for size in self._sizes:
            if size != _NO_COPY:
                break
            removed_count += 1
        self._forget_numbers(removed_count)

    def begin_undo(self) -> None:
        """Remove no copy because of the limit before `end_undo`."""
        self._is_undoing = True

    def end_undo(self) -> None:
        """Keep to the limit again."""
        self._is_undoing = False
        self.drafts.forget()
        self._evict()

    def can_name(self, state: FileState) -> bool:
        """Return whether a file lies on the file system of the copies, which can be names of it."""
        return state.inode[0] == read_state(self.folder).inode[0]

    def name(self, path: str, state: FileState) -> Copy:
        """Give a file another name here.

        Args:
            path: The file.
            state: What it is.

        Raises:
            OSError: It is too large to be kept, or lies on another file system.
        """
        if too_large := self._describe_size(state):
            raise OSError(0, too_large)
        serial = self._new_serial()
        os.link(path, self.path_of(serial), follow_symlinks=False)
        return self._add(serial, state, is_name=True)

    def copy(self, path: str, state: FileState) -> Copy:
        """Copy the content of a file.

        Args:
            path: The file.
            state: What it is.

        Raises:
            OSError: Its text says why there is no copy, as a clause.
        """
        obstacle = self.find_obstacle(path, state)
        if obstacle:
            raise OSError(0, obstacle)
        size = state.used_bytes
        if not self._is_undoing and self._cell_bytes + size > self.max_cell_bytes:
            megabytes = self.max_cell_bytes // 2**20
            raise OSError(
                0,
                f"it was not copied, because the cell changed more than {megabytes} MB (file_undo_mb)",
            )
        serial = self._new_serial()
        copy_path = self.path_of(serial)
        try:
            copy_content(path, copy_path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(copy_path)
            raise OSError(error.errno, _describe_failure(error.errno)) from None
        if not self._is_undoing:
            self._cell_bytes += size
        return self._add(serial, state, is_name=False)

    def find_obstacle(self, path: str, state: FileState, other_bytes: int = 0) -> str:
        """Return why a file cannot be copied, as far as this is known before, as a clause; empty if it
        can.

        Args:
            path: Where it is.
            state: Its state.
            other_bytes: Of copies that will be made before.
        """
        if too_large := self._describe_size(state):
            return too_large
        if not os.access(path, os.R_OK, effective_ids=True):
            return _describe_failure(errno.EACCES)
        try:
            free_bytes = read_free_bytes(self.folder)
        except OSError as error:
            return _describe_failure(error.errno)
        has_room = other_bytes + state.used_bytes <= free_bytes
        if has_room or self.can_share_blocks(path):
            return ""
        return _describe_failure(errno.ENOSPC)

    def can_share_blocks(self, path: str) -> bool:
        """Return whether a file and its copy share their blocks, so that neither the copy nor giving the
        file back what it held takes room. This tries it with a copy that it removes again."""
        trial_path = self.path_of(self._new_serial())
        try:
            with open(path, "rb") as reader, open(trial_path, "xb") as writer:
                return try_to_share_blocks(reader.fileno(), writer.fileno())
        except OSError:
            return False
        finally:
            with suppress(OSError):
                os.unlink(trial_path)

    def _describe_size(self, state: FileState) -> str:
        """Return why a file is too large to be kept; empty if it is not."""
        if state.used_bytes <= self.max_bytes:
            return ""
        return f"it was not copied, because it is larger than {self.max_bytes / 2**30:g} GB"

    def _new_serial(self) -> int:
        """Return the next number, of which there is no copy yet."""
        self._sizes.append(_NO_COPY)
        return self._first_serial + len(self._sizes) - 1

    def path_of(self, serial: int) -> str:
        """Return the path of a copy, also of one that was removed."""
        return os.path.join(self.folder, str(serial))

    def has(self, serial: int) -> bool:
        """Return whether a copy is there."""
        index = serial - self._first_serial
        return 0 <= index < len(self._sizes) and self._sizes[index] != _NO_COPY

    def _add(self, serial: int, state: FileState, *, is_name: bool) -> Copy:
        self._sizes[serial - self._first_serial] = state.used_bytes
        self._used_bytes += state.used_bytes
        self._count += 1
        copy = Copy(self, serial, is_name=is_name)
        if not self._is_undoing:
            self._evict()
        return copy

    def _evict(self) -> None:
        """Remove the oldest copies, until the others are within the limit."""
        while self._used_bytes > self.max_bytes and self._count > 1:
            self.remove(self._first_serial)
            self._forget_numbers(1)

    def _forget_numbers(self, count: int) -> None:
        """Forget the first numbers, of which there are no copies."""
        del self._sizes[:count]
        self._first_serial += count

    @property
    def removal_reason(self) -> str:
        """Why the oldest copies were removed, as a clause."""
        gigabytes = self.max_bytes / 2**30
        return f"its copy was removed, because all copies need more than {gigabytes:g} GB"

    def remove(self, serial: int) -> None:
        """Remove a copy, if it is there."""
        if self.has(serial):
            self._count -= 1
            self._used_bytes -= self._sizes[serial - self._first_serial]
            self._sizes[serial - self._first_serial] = _NO_COPY
            with suppress(OSError):
                os.unlink(self.path_of(serial))


def _describe_failure(number: int | None) -> str:
    """Return why a file could not be copied.

    Args:
        number: Of the system's error.
    """
    return f"it could not be copied ({os.strerror(number or 0)})"


def remove_abandoned(folder: str) -> int:
    """Remove the copies of witnesses that have ended; return how many folders there were.

    Args:
        folder: Of a session, with a folder for each witness.
    """
    removed_count = 0
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if _is_abandoned(entry.path):
                remove_copies(entry.path)
                removed_count += 1
    return removed_count


def remove_copies(folder: str) -> None:
    """Remove a folder of copies, that of its session if it is empty then, and what an undo that was not
    finished has left in the project. (Loading `shutil` would delay a kernel's end.)"""
    remove_drafts(os.path.join(folder, _DRAFTS_NAME))
    close_opened_folders(os.path.join(folder, _OPENED_FOLDERS_NAME))
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            os.unlink(entry.path)
        os.rmdir(folder)
        os.rmdir(os.path.dirname(folder))


def _is_abandoned(folder: str) -> bool:
    """Return whether the witness of a folder of copies has ended."""
    try:
        lock = os.open(os.path.join(folder, _LOCK_NAME), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # A witness that has just made its folder has no lock yet.
        return time.time() - read_state(folder).mtime_ns / 1e9 > _LOCK_GRACE_S
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
