"""Copies of files, as they were before a cell or an undo changed them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from array import array
from contextlib import suppress

from .drafts import Drafts, remove_drafts
from .opened_folders import OpenedFoldersList, close_opened_folders
from .states import FileState, read_state, unpack_state

_FICLONE = 0x40049409
"""The request of Linux to let one file share the blocks of another until either is written."""
_COPY_BYTES = 2**20
_NO_COPY = -1
_LOCK_NAME = "in-use"
_DRAFTS_NAME = "drafts"
_OPENED_FOLDERS_NAME = "opened-folders"


class Copy:
    """A file in the folder of copies, which goes with the last object that needs it."""

    __slots__ = ("_copies", "_packed_state", "is_name", "serial")

    def __init__(self, copies: Copies, serial: int, *, is_name: bool) -> None:
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
        self._sizes = array("q")
        """Bytes of the copies by their numbers, from the first one that is there; `_NO_COPY` for those
        that are not. (A dictionary would need ten times the memory.)"""
        self._first_serial = 1
        """The number of the first one."""
        self._count = 0
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
        self._cell_bytes = 0
        removed_count = 0
        for size in self._sizes:
            if size != _NO_COPY:
                break
            removed_count += 1
        self._forget_numbers(removed_count)

    def begin_undo(self) -> None:
        self._is_undoing = True

    def end_undo(self) -> None:
        self._is_undoing = False
        self.drafts.forget()
        self._evict()

    def can_name(self, state: FileState) -> bool:
        """Return whether a file lies on the file system of the copies, which can be names of it."""
        return state.inode[0] == read_state(self.folder).inode[0]

    def name(self, path: str, state: FileState) -> Copy:
        """Give a file another name here. Raises `OSError`."""
        if too_large := self._describe_size(state):
            raise OSError(0, too_large)
        serial = self._new_serial()
        os.link(path, self.path_of(serial), follow_symlinks=False)
        return self._add(serial, state, is_name=True)

    def copy(self, path: str, state: FileState) -> Copy:
        """Copy the content of a file. Raises `OSError`, whose text says why there is no copy."""
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
        self._cell_bytes += 0 if self._is_undoing else size
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
                return _try_to_share_blocks(reader.fileno(), writer.fileno())
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


def read_free_bytes(folder: str) -> int:
    """Return how much may be written to the file system of a folder. Raises `OSError`."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def set_marks(path: str, state: FileState) -> None:
    """Give a file permissions, owner and time. Raises `OSError`."""
    now = read_state(path)
    if now.owner != state.owner:
        with suppress(OSError):
            os.chown(path, *state.owner)
    if stat.S_IMODE(now.mode) != stat.S_IMODE(state.mode):
        os.chmod(path, stat.S_IMODE(state.mode))
    os.utime(path, ns=(state.mtime_ns, state.mtime_ns))


def copy_content(source: str, target: str) -> None:
    """Copy a file: by sharing its blocks, if the file system can, else only what is not a hole. What the
    target has had is overwritten, and cut off last. Raises `OSError`."""
    reader = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        writer = os.open(target, flags, 0o600)
        try:
            source_status = os.fstat(reader)
            old_status = os.fstat(writer)
            if os.path.samestat(source_status, old_status):
                raise OSError(errno.EINVAL, "its copy is the file itself")
            _copy_between(reader, writer, source_status.st_size, old_status.st_size)
            os.ftruncate(writer, source_status.st_size)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _try_to_share_blocks(reader: int, writer: int) -> bool:
    """Let a file share the blocks of another one, if the file system can; return whether it does."""
    try:
        fcntl.ioctl(writer, _FICLONE, reader)
    except OSError:
        return False
    return True


def _copy_between(reader: int, writer: int, size: int, old_size: int) -> None:
    """Write the content of a file over that of another, whose size is old_size."""
    if _try_to_share_blocks(reader, writer):
        return
    position = 0
    while position < size:
        start, end = _next_data(reader, position, size)
        # There is nothing to overwrite behind the end of the old content.
        for hole_start in range(position, min(start, old_size), _COPY_BYTES):
            hole_end = min(hole_start + _COPY_BYTES, start, old_size)
            _write_all(writer, bytes(hole_end - hole_start), hole_start)
        for data_start in range(start, end, _COPY_BYTES):
            data = os.pread(reader, min(_COPY_BYTES, end - data_start), data_start)
            _write_all(writer, data, data_start)
        position = end


def _next_data(reader: int, position: int, size: int) -> tuple[int, int]:
    """Return where the next part of a file that is not a hole begins and ends."""
    try:
        start = os.lseek(reader, position, os.SEEK_DATA)
        return start, os.lseek(reader, start, os.SEEK_HOLE)
    except OSError as error:
        if error.errno == errno.ENXIO:  # only a hole follows
            return size, size
        return position, size


def _write_all(writer: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written_bytes = os.pwrite(writer, view, position)
        view = view[written_bytes:]
        position += written_bytes


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
    try:
        lock = os.open(os.path.join(folder, _LOCK_NAME), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # A witness that has just made its folder has no lock yet.
        return time.time() - read_state(folder).mtime_ns / 1e9 > 60
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
