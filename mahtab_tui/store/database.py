"""SQLite files: how they are opened and written, and what happens to damaged ones."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path


def encode_text(text: str) -> str | bytes:
    """Return a text as it is stored: as bytes if it has lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def decode_text(value: object) -> str:
    """Return a stored text; an empty one if it is missing, as in a damaged file."""
    if value is None:
        return ""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # the file may be damaged
        return value.decode("utf-8", "replace")


def open_file(path: Path | None, timeout_s: float) -> sqlite3.Connection:
    """Open a database in autocommit mode; a new file is readable only by this user.

    Args:
        path: None for a database in memory.
        timeout_s: Seconds to wait for another program's write.

    Returns:
        A connection for any thread, but only one at a time.

    Raises:
        sqlite3.Error: SQLite cannot open the file. A damaged file fails only when it is read.
        OSError: The file or its folder cannot be created.
    """
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.touch(mode=0o600, exist_ok=False)
    connection = sqlite3.connect(
        path or ":memory:", check_same_thread=False, timeout=timeout_s, isolation_level=None
    )
    connection.text_factory = decode_text
    return connection


def is_corrupt(error: BaseException | None) -> bool:
    """Return whether the file's content is damaged, rather than unusable at the moment."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(error, sqlite3.DatabaseError) and code in damage


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return what stays the same while a file is not replaced; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def move_damaged_file(path: Path, damaged: tuple[int, int] | None) -> Path | None:
    """Rename a damaged database, which no connection of this process may have open. Raises
    `OSError`.

    Args:
        damaged: The identity of the damaged file.

    Returns:
        Its new name, or None if another program has already set it aside.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # the file system has no locks
            fcntl.flock(folder, fcntl.LOCK_EX)  # of several programs, one checks and renames
        if damaged is None or file_identity(path) != damaged:
            return None
        new_path = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        path.replace(new_path)
        with contextlib.suppress(FileNotFoundError):  # the log may help to recover the old file
            log_path = path.with_name(f"{path.name}-wal")
            log_path.replace(new_path.with_name(f"{new_path.name}-wal"))
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        return new_path
    finally:
        os.close(folder)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, or nothing of it if it raises."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # a full disk has already ended it
            connection.execute("rollback")
        raise
