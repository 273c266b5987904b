"""Opens SQLite files, encodes their texts, and sets damaged files aside."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

STEP = 65_536
"""Characters of a long attribute, such as a picture, to encode at once, so that other threads can
run in between."""


def encode_text(text: str) -> str | bytes:
    """Return the value to store for a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def decode_text(value: object) -> str:
    """Return the text of a value from `encode_text`; of any other value, as much as can be read."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return decode_lossy(value)


def decode_lossy(value: bytes) -> str:
    """Decode text from a file that may be damaged, for `sqlite3.Connection.text_factory`: invalid
    bytes become question marks."""
    return value.decode("utf-8", "replace")


def as_json(attrs: Mapping[str, Any]) -> str:
    """Encode attributes as `json.dumps` does, but without blocking other threads for long."""
    return (
        "{"
        + ", ".join(f"{json.dumps(name)}: {_value(value)}" for name, value in attrs.items())
        + "}"
    )


def _value(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    return (
        '"'
        + "".join(
            json.dumps(value[start : start + STEP])[1:-1] for start in range(0, len(value), STEP)
        )
        + '"'
    )


_WAL, _SHM = "-wal", "-shm"
"""Suffixes of the files that SQLite keeps next to a database: the write-ahead log and its index."""


def open_file(path: Path | None, tables: str, wait: float) -> sqlite3.Connection:
    """Open a database in autocommit mode; a new file is readable only by this user.

    path: None for memory. tables: statements that create the tables; empty if the caller does that.
    wait: seconds to wait for another program's write. Raises `sqlite3.Error` and `OSError`.
    """
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.touch(mode=0o600, exist_ok=False)
    connection = sqlite3.connect(
        path or ":memory:", check_same_thread=False, timeout=wait, isolation_level=None
    )
    try:
        if tables:
            connection.execute("pragma journal_mode = wal")
            connection.executescript(tables)
    except BaseException:
        connection.close()
        raise
    return connection


def is_corrupt(error: BaseException | None) -> bool:
    """Return whether the file's content is damaged, rather than just unusable at the moment
    (locked, full, not permitted)."""
    return isinstance(error, sqlite3.DatabaseError) and getattr(
        error, "sqlite_errorcode", 0
    ) & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    )


def is_index_corrupt(error: BaseException | None) -> bool:
    """Return whether only the word index is damaged, which can be rebuilt from the records."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CORRUPT_VTAB


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another program is writing at the moment."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, which changes if the file is replaced; None if there is
    none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def move_damaged_file(path: Path, damaged: tuple[int, int] | None) -> Path | None:
    """Rename a damaged database; returns its new name. No connection of this process may have it
    open.

    damaged: the `file_identity` of the damaged file. Returns None if another program has already
    set it aside. Raises `OSError`.
    """
    with _locked_folder(path.parent):
        if damaged is None or file_identity(path) != damaged:
            return None
        moved = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        path.replace(moved)
        # It belongs to the old file, and may help to recover it.
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + _WAL).replace(moved.with_name(moved.name + _WAL))
        path.with_name(path.name + _SHM).unlink(missing_ok=True)
        return moved


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, because several programs may find the damage, and only one at a time may
    check and rename."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # the file system has no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
