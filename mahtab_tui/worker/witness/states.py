"""What a path leads to: the metadata of a file, and the digest of a small one.

The witness compares states to find out what cells, and others, have changed, and gives files back those
that they had.
"""

from __future__ import annotations

import os
import stat
import struct
from contextlib import suppress
from typing import NamedTuple

MAX_HASHED_BYTES = 2**20
"""Larger files are compared by their metadata only."""

MISSING_KIND = "missing"
FILE = "file"
FOLDER = "folder"
LINK = "link"
OTHER = "other"
_KINDS = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFLNK: LINK}
_PACKED = struct.Struct("=IQQqqqIIIq")
"""Mode, device, number, size, times, names, user, group and used bytes."""
_BLOCK_BYTES = 512
"""The unit of `st_blocks`, whatever blocks the file system has."""
_DIGEST_BYTES = 16


class FileState(NamedTuple):
    """What a path leads to; without following a link."""

    kind: str
    """One of the constants above."""
    mode: int = 0
    """Kind and permissions, as in `os.stat_result.st_mode`."""
    inode: tuple[int, int] = (0, 0)
    """Device and number. Another file may get the number when this one is removed."""
    size: int = 0
    """In bytes."""
    mtime_ns: int = 0
    """When its content was written last. Programs can set it."""
    ctime_ns: int = 0
    """When anything of it was changed last, such as its permissions or the number of its names."""
    links: int = 0
    """How many names it has."""
    owner: tuple[int, int] = (0, 0)
    """Numbers of user and group."""
    used_bytes: int = 0
    """Bytes on the disk, fewer than `size` if it has holes."""
    target: str = ""
    """Where a link leads; empty for other files."""

    def pack(self) -> bytes:
        """Return it in a fifth of the memory, because it is kept of each file three times."""
        numbers = _PACKED.pack(
            self.mode,
            *self.inode,
            self.size,
            self.mtime_ns,
            self.ctime_ns,
            self.links,
            *self.owner,
            self.used_bytes,
        )
        return numbers + os.fsencode(self.target)

    @property
    def marks(self) -> tuple[object, ...]:
        """All that an undo restores, but for content and time of a file."""
        return self.kind, self.mode, self.owner, self.target

    def looks_like(self, other: FileState) -> bool:
        """Return whether nothing that an undo restores is different, as far as the metadata say."""
        if self.marks != other.marks:
            return False
        if self.kind != FILE:
            return True
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


def unpack_state(packed: bytes) -> FileState:
    """Return what `FileState.pack` has packed."""
    mode, device, number, size, mtime_ns, ctime_ns, links, user, group, used_bytes = (
        _PACKED.unpack_from(packed)
    )
    return FileState(
        _kind(mode),
        mode,
        (device, number),
        size,
        mtime_ns,
        ctime_ns,
        links,
        (user, group),
        used_bytes,
        os.fsdecode(packed[_PACKED.size :]),
    )


def _kind(mode: int) -> str:
    """Return the kind of what has a mode, which is 0 if nothing is there."""
    if not mode:
        return MISSING_KIND
    return _KINDS.get(stat.S_IFMT(mode), OTHER)


MISSING = FileState(MISSING_KIND)


def read_state(path: str, *, follows: bool = False) -> FileState:
    """Return what a path leads to; `MISSING` if it cannot be reached.

    Args:
        path: The path.
        follows: Whether a link at its end is followed.
    """
    try:
        status = os.stat(path, follow_symlinks=follows)
    except OSError:
        return MISSING
    kind = _kind(status.st_mode)
    target = ""
    if kind == LINK:
        with suppress(OSError):
            target = os.readlink(path)
    return FileState(
        kind,
        status.st_mode,
        (status.st_dev, status.st_ino),
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_nlink,
        (status.st_uid, status.st_gid),
        status.st_blocks * _BLOCK_BYTES,
        target,
    )


def read_digest(path: str) -> bytes:
    """Return the digest of a small file's content; empty for others."""
    try:
        # Not `hashlib`, which would load OpenSSL.
        from _blake2 import blake2b

        with open(path, "rb") as file:
            data = file.read(MAX_HASHED_BYTES + 1)
    except OSError:
        return b""
    if len(data) > MAX_HASHED_BYTES:
        return b""
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
