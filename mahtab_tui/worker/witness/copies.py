"""Copies of files, as they were before a cell changed them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress

from .states import FILE, FileState, is_same, read_state

_FICLONE = 0x40049409
"""The request of Linux to let one file share the blocks of another until either is written."""
_COPY_BYTES = 2**20
_FRESH_NS = 50_000_000
"""A file written less than this before its copy may change again without a new time."""
_LOCK_NAME = "in-use"


class Snapshot:
    """A path as it was, with its content if there is a copy."""

    __slots__ = (
        "file",
        "has_new_time",
        "has_other_names",
        "is_linked",
        "is_mapped",
        "reason",
        "state",
        "taken_ns",
        "users",
    )

    def __init__(self, state: FileState, *, has_other_names: bool = False) -> None:
        self.state = state
        self.has_other_names = has_other_names
        """Whether the file had names beside its path and those of copies."""
        self.file = ""
        """The path of the copy; empty if there is none."""
        self.reason = ""
        """Why there is no copy, although one was needed, as a clause."""
        self.users = 0
        """How many steps use the copy."""
        self.is_linked = False
        """Whether the copy is the file itself, under a second name."""
        self.has_new_time = False
        """Whether a cell has changed the time of the file that is the copy."""
        self.is_mapped = False
        """Whether a process of the kernel has the file in its memory, and can change it there."""
        self.taken_ns = time.time_ns()

    @property
    def _is_fresh(self) -> bool:
        """Whether the file could change after the snapshot without a new time."""
        return self.is_mapped or self.taken_ns - self.state.mtime_ns < _FRESH_NS

    @property
    def is_for_marks(self) -> bool:
        """Whether only the permissions or times of a file were to change."""
        return self.state.kind == FILE and not self.file and not self.reason

    @property
    def is_spoiled(self) -> bool:
        """Whether the copy is the file itself, and something outside the cells has written it."""
        if not self.is_linked or not self.file:
            return False
        now = read_state(self.file)
        has_new_time = now.mtime_ns != self.state.mtime_ns and not self.has_new_time
        return now.size != self.state.size or has_new_time

    @property
    def may_be_shared(self) -> bool:
        """Whether the copy still serves if the state of the file is the same."""
        return bool(self.file) and not self._is_fresh

    def is_same(self, content: str, now: FileState) -> bool:
        """Return whether nothing that an undo restores is different.

        Args:
            content: Where the present content can be read.
            now: The present state.
        """
        if not is_same(self.state, now):
            return False
        is_comparable = self.file and self.state.kind == FILE and not self.is_linked
        return not (is_comparable and self._is_fresh) or _have_same_content(self.file, content)


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
        self.max_cell_bytes = max_cell_bytes
        self.max_bytes = max_bytes
        self._cell_bytes = 0
        self._used: dict[str, int] = {}
        """Bytes by copy, the oldest first."""
        self._used_bytes = 0
        """Of all copies."""
        self._snapshots: dict[str, Snapshot] = {}
        """By copy."""
        self._linked: dict[tuple[int, int], list[Snapshot]] = {}
        """Those whose copy is the file itself, by device and number."""
        self._protected: dict[str, None] | None = None
        """The copies that the undo in progress has made; None while none is."""
        self._serial = 0
        self._lock = os.open(
            os.path.join(folder, _LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        )
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_abandoned(os.path.dirname(folder))

    def begin_cell(self) -> None:
        self._cell_bytes = 0
        self._protected = None

    def begin_undo(self) -> None:
        """Make the next copies of what an undo replaces. They are never removed for each other."""
        self._cell_bytes = 0
        self._protected = {}

    def end_undo(self) -> None:
        """Remove the oldest copies, of which none was removed meanwhile: the undo may have needed it."""
        self._evict()
        self._protected = None

    def count_links(self, inode: tuple[int, int]) -> int:
        """Return how many copies are names of a file itself."""
        return len(self._linked.get(inode, ()))

    def can_link(self, state: FileState) -> bool:
        """Return whether a file lies on the file system of the copies, which can be names of it."""
        return state.inode[0] == os.stat(self.folder).st_dev

    def may_save(self, size: int, kept_bytes: int, copied_bytes: int, is_linked: bool) -> bool:
        """Return whether an undo may keep a file that it replaces.

        Args:
            size: Of the file, in bytes.
            kept_bytes: Of the files that it keeps already.
            copied_bytes: Of those among them that are copied.
            is_linked: Whether the file is kept by another name.
        """
        if size > self.max_bytes or is_linked:
            return size <= self.max_bytes
        has_room = size + kept_bytes <= self.max_bytes
        return has_room and copied_bytes + size <= self.max_cell_bytes

    def kept_name(self, inode: tuple[int, int]) -> str:
        """Return a copy that is a name of a file itself; empty if there is none, or if something outside
        the cells has written it."""
        for snapshot in self._linked.get(inode, ()):
            if not snapshot.is_spoiled:
                return snapshot.file
        return ""

    def save(self, path: str, snapshot: Snapshot, *, may_link: bool) -> None:
        """Copy a file into its snapshot, or note why that is impossible.

        Args:
            path: The file.
            snapshot: Of it.
            may_link: Whether only its name changes, so that its content can be kept by another name.
        """
        state = snapshot.state
        size = state.used_bytes
        if size > self.max_bytes:
            gigabytes = self.max_bytes / 2**30
            snapshot.reason = f"it was not copied, because it is larger than {gigabytes:g} GB"
            return
        if may_link and self._link(path, snapshot):
            return
        if self._cell_bytes + size > self.max_cell_bytes:
            megabytes = self.max_cell_bytes // 2**20
            snapshot.reason = f"it was not copied, because the cell changed more than {megabytes} MB (file_undo_mb)"
            return
        if self._protected is not None and not self._has_room(size):
            snapshot.reason = "it was not copied, because there is no room for more copies"
            return
        copy = self._new_name()
        try:
            copy_content(path, copy)
        except OSError as error:
            with suppress(OSError):
                os.unlink(copy)
            snapshot.reason = f"it could not be copied ({error.strerror})"
            return
        self._cell_bytes += size
        self._add(copy, size, snapshot)

    def _link(self, path: str, snapshot: Snapshot) -> bool:
        copy = self._new_name()
        try:
            os.link(path, copy, follow_symlinks=False)
        except OSError:
            return False
        snapshot.is_linked = True
        self._linked.setdefault(snapshot.state.inode, []).append(snapshot)
        self._add(copy, snapshot.state.used_bytes, snapshot)
        return True

    def separate(self, inode: tuple[int, int]) -> None:
        """Copy the content of a file that is about to be written, and was kept by another name."""
        for snapshot in self._linked.pop(inode, ()):
            linked = snapshot.file
            snapshot.file = ""
            snapshot.is_linked = False
            self._forget(linked)
            self.save(linked, snapshot, may_link=False)
            os.unlink(linked)

    def note_new_time(self, inode: tuple[int, int]) -> None:
        """Note that a cell is about to change the time of a file, which may be a copy."""
        for snapshot in self._linked.get(inode, ()):
            snapshot.has_new_time = True

    def _has_room(self, size: int) -> bool:
        """Return whether a copy fits beside those that the undo in progress has made."""
        protected = self._protected or {}
        return size + sum(self._used.get(copy, 0) for copy in protected) <= self.max_bytes

    def _new_name(self) -> str:
        self._serial += 1
        return os.path.join(self.folder, str(self._serial))

    def _add(self, copy: str, size: int, snapshot: Snapshot) -> None:
        snapshot.file = copy
        self._used[copy] = size
        self._used_bytes += size
        self._snapshots[copy] = snapshot
        if self._protected is not None:
            self._protected[copy] = None
        else:
            self._evict()

    def _evict(self) -> None:
        """Remove the oldest copies, until the others are within the limit."""
        protected = self._protected or {}
        while self._used_bytes > self.max_bytes and len(self._used) > 1:
            oldest = next(iter(self._used))
            if oldest in protected:
                break
            evicted = self._snapshots[oldest]
            self._remove(evicted)
            gigabytes = self.max_bytes / 2**30
            evicted.reason = (
                f"its copy was removed, because all copies need more than {gigabytes:g} GB"
            )

    def _forget(self, copy: str) -> None:
        self._used_bytes -= self._used.pop(copy, 0)
        self._snapshots.pop(copy, None)

    def release(self, snapshot: Snapshot) -> None:
        """Note that one step less uses a snapshot."""
        snapshot.users -= 1
        if snapshot.users <= 0:
            self._remove(snapshot)

    def _remove(self, snapshot: Snapshot) -> None:
        if not snapshot.file:
            return
        self._forget(snapshot.file)
        linked = self._linked.get(snapshot.state.inode, [])
        if snapshot in linked:
            linked.remove(snapshot)
            if not linked:
                del self._linked[snapshot.state.inode]
        with suppress(OSError):
            os.unlink(snapshot.file)
        snapshot.file = ""


def _have_same_content(path: str, other_path: str) -> bool:
    with suppress(OSError), open(path, "rb") as file, open(other_path, "rb") as other_file:
        while True:
            data = file.read(_COPY_BYTES)
            if data != other_file.read(_COPY_BYTES):
                return False
            if not data:
                return True
    return False


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


def _copy_between(reader: int, writer: int, size: int, old_size: int) -> None:
    """Write the content of a file over that of another, whose size is old_size."""
    try:
        fcntl.ioctl(writer, _FICLONE, reader)
    except OSError:
        pass
    else:
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
    """Remove a folder of copies, and that of its session if it is empty then. (Loading `shutil` would
    delay a kernel's end.)"""
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
