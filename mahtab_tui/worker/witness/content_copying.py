"""Copies the content of files: by sharing its blocks with the other file, if the file system can do that."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress

from .states import FileState, read_state

_FICLONE = 0x40049409
"""The request of Linux to let one file share the blocks of another until either is written."""
_COPY_BYTES = 2**20
"""Bytes that are copied at once."""


def read_free_bytes(folder: str) -> int:
    """Return how much may be written to the file system of a folder. Raises `OSError`."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def set_marks(path: str, state: FileState) -> None:
    """Give a file permissions, owner and time.

    Args:
        path: The file.
        state: What has them. Only root can give files away, so another owner is left as it is.

    Raises:
        OSError: It cannot have them.
    """
    now = read_state(path)
    if now.owner != state.owner:
        with suppress(OSError):
            os.chown(path, *state.owner)
    if stat.S_IMODE(now.mode) != stat.S_IMODE(state.mode):
        os.chmod(path, stat.S_IMODE(state.mode))
    os.utime(path, ns=(state.mtime_ns, state.mtime_ns))


def copy_content(source: str, target: str) -> None:
    """Copy the content of a file: by sharing its blocks, if the file system can, else only what is not a
    hole. What the target has had is overwritten, and cut off last.

    Args:
        source: The path of the file.
        target: The path of the copy, which need not exist.

    Raises:
        OSError: The content cannot be read or written, or both paths are the same file.
    """
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


def try_to_share_blocks(reader: int, writer: int) -> bool:
    """Let a file share the blocks of another one, if the file system can; return whether it does.

    Args:
        reader: The descriptor of the other one.
        writer: The descriptor of the file, whose content goes.
    """
    try:
        fcntl.ioctl(writer, _FICLONE, reader)
    except OSError:
        return False
    return True


def _copy_between(reader: int, writer: int, size: int, old_size: int) -> None:
    """Write the content of a file over that of another.

    Args:
        reader: The descriptor of the file.
        writer: The descriptor of the other one.
        size: The size of the file, in bytes.
        old_size: The size of the other one.
    """
    if try_to_share_blocks(reader, writer):
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
