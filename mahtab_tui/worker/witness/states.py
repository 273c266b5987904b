"""What a path leads to."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import NamedTuple

MAX_HASHED_BYTES = 2**20
"""Larger files are compared by their metadata only."""

MISSING_KIND = "missing"
FILE = "file"
FOLDER = "folder"
LINK = "link"
OTHER = "other"


class FileState(NamedTuple):
    """What a path leads to; without following a link."""

    kind: str
    """One of the constants above."""
    mode: int = 0
    inode: tuple[int, int] = (0, 0)
    """Device and number."""
    size: int = 0
    """In bytes."""
    mtime_ns: int = 0
    ctime_ns: int = 0
    links: int = 0
    owner: tuple[int, int] = (0, 0)
    """Numbers of user and group."""
    used_bytes: int = 0
    """Bytes on the disk, fewer than `size` if it has holes."""
    target: str = ""
    """Of a link."""

    @property
    def marks(self) -> tuple[object, ...]:
        """All that an undo restores, but for content and time of a file."""
        return self.kind, self.mode, self.owner, self.target

    @property
    def has_content(self) -> bool:
        return self.kind == FILE

    def looks_like(self, other: FileState) -> bool:
        """Return whether nothing that an undo restores is different, as far as the metadata say."""
        if self.marks != other.marks:
            return False
        is_same_content = (self.size, self.mtime_ns) == (other.size, other.mtime_ns)
        return is_same_content or not self.has_content


MISSING = FileState(MISSING_KIND)


def read_state(path: str, *, follows: bool = False) -> FileState:
    """Return what a path leads to; `MISSING` if it cannot be reached. follows: whether a link at its end
    is followed."""
    try:
        status = os.stat(path, follow_symlinks=follows)
    except OSError:
        return MISSING
    kind = OTHER
    target = ""
    if stat.S_ISREG(status.st_mode):
        kind = FILE
    elif stat.S_ISDIR(status.st_mode):
        kind = FOLDER
    elif stat.S_ISLNK(status.st_mode):
        kind = LINK
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
        status.st_blocks * 512,
        target,
    )


def read_digest(path: str) -> bytes:
    """Return the digest of a small file's content; empty for others."""
    try:
        import hashlib  # late, because it takes long

        with open(path, "rb") as file:
            data = file.read(MAX_HASHED_BYTES + 1)
    except OSError:
        return b""
    if len(data) > MAX_HASHED_BYTES:
        return b""
    return hashlib.blake2b(data, digest_size=16).digest()
