"""What a path leads to, before and after a change."""

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
    links: int = 0
    owner: tuple[int, int] = (0, 0)
    """Numbers of user and group."""
    used_bytes: int = 0
    """Bytes on the disk, fewer than `size` if it has holes."""
    target: str = ""
    """Of a link."""


MISSING = FileState(MISSING_KIND)


def read_state(path: str) -> FileState:
    """Return what a path leads to; `MISSING` if it cannot be reached."""
    try:
        status = os.lstat(path)
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
        status.st_nlink,
        (status.st_uid, status.st_gid),
        status.st_blocks * 512,
        target,
    )


def is_same(before: FileState, now: FileState) -> bool:
    """Return whether nothing that an undo restores is different."""
    if before.kind != now.kind or before.kind == MISSING_KIND:
        return before.kind == now.kind
    if before.kind == FOLDER:
        return before.mode == now.mode
    return before[:5] == now[:5] and before.target == now.target


def is_restored(before: FileState, now: FileState) -> bool:
    """Return whether a path is as it was, although perhaps in another file."""
    if before.kind != FILE:
        return is_same(
            before, now._replace(inode=before.inode, size=before.size, mtime_ns=before.mtime_ns)
        )
    return is_same(before, now._replace(inode=before.inode))


class FileFingerprint(NamedTuple):
    """By which a later change is noticed."""

    state: FileState
    digest: bytes
    """Of the content; empty for large files and for what is not a file."""

    def matches(self, now: FileState, content: str) -> bool:
        """Return whether a path still leads to the same.

        Args:
            now: The state of the path.
            content: Where the content of a file can be read.
        """
        if now.kind == self.state.kind and (self.state.kind == MISSING_KIND or now.kind == FOLDER):
            return True
        if now[:5] == self.state[:5] and now.target == self.state.target:
            return True
        is_comparable = now.kind == FILE == self.state.kind and now.mode == self.state.mode
        return bool(is_comparable and self.digest and self.digest == read_digest(content, now))


def take_fingerprint(path: str) -> FileFingerprint:
    state = read_state(path)
    return FileFingerprint(state, read_digest(path, state))


def read_digest(path: str, state: FileState) -> bytes:
    """Return the digest of a small file's content; empty for others."""
    if state.kind != FILE or state.size > MAX_HASHED_BYTES:
        return b""
    try:
        import hashlib  # late, because it takes long

        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(MAX_HASHED_BYTES + 1), digest_size=16).digest()
    except OSError:
        return b""
