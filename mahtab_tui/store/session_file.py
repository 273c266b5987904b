"""The SQLite file of all sessions."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mahtab_tui.bus import StoreError
from mahtab_tui.store.database import (
    decode_text,
    file_identity,
    is_corrupt,
    move_damaged_file,
    open_file,
)

SCHEMA_VERSION = 2
WRITE_TIMEOUT_S = 0.5
"""Seconds to wait for another program's write; few, because loggers wait with it."""
CREATION_TIMEOUT_MS = 5_000
"""Milliseconds to wait while another program creates the tables."""
LOG_PAUSE_S = 0.01
"""Seconds between attempts to use the write-ahead log."""

_SESSION_TABLES = """
create table if not exists session (
    id text primary key, name text not null, project text not null, started real not null, last real not null,
    first text not null default ''
);
create table if not exists record (
    number integer primary key, session text not null, time real not null, tag text not null, attrs text not null, text text not null
);
create index if not exists record_of_session on record (session, number);
create table if not exists partial (
    session text not null, key text not null, time real not null, tag text not null, attrs text not null, text text not null,
    primary key (session, key)
);
create table if not exists digest (
    session text primary key, upto integer, size integer not null default 0, title text not null default '', model text not null default '',
    cost real not null default 0
);
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open the sessions; for reading, if they cannot be written.

    Raises:
        StoreError: A newer version of mahtab-tui has written the file.
        sqlite3.Error: The file is damaged, or cannot be used at the moment.
        OSError: The file or its folder cannot be created.
    """
    can_write = not is_read_only(path)
    if can_write:
        connection = open_file(path, WRITE_TIMEOUT_S)
    else:
        connection = _open_read_only(path)
    try:
        version = _read_version(connection, path)
        if can_write:
            _use_write_ahead_log(connection)
            # A killed process loses nothing; only a power cut may lose the last moments.
            connection.execute("pragma synchronous = normal")
            if version < SCHEMA_VERSION:
                _create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def is_read_only(path: Path) -> bool:
    """Return whether there is a database that this user cannot write."""
    if not path.exists():
        return False
    return not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK)


def _open_read_only(path: Path) -> sqlite3.Connection:
    """Open the sessions for reading. Raises `sqlite3.Error`."""
    # SQLite would need to write next to the file, unless a killed program has left its log.
    uri = f"{path.absolute().as_uri()}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists():
        uri += "&immutable=1"
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    connection.text_factory = decode_text
    return connection


def _read_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the tables; 0 without tables. Raises `StoreError` for a newer one."""
    (version,) = connection.execute("pragma user_version").fetchone()
    if version > SCHEMA_VERSION:
        text = f"The session file {path} was written by a newer version of mahtab-tui. Update mahtab-tui to use it."
        raise StoreError(text)
    return int(version)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Let others read while one program writes.

    SQLite does not wait here if another program creates the file at the same time, so we do.
    """
    deadline = time.monotonic() + WRITE_TIMEOUT_S
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOG_PAUSE_S)


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables that do not exist, and note their version."""
    # Another program may create the tables at this moment, which takes longer than a record, and
    # happens once.
    connection.execute(f"pragma busy_timeout = {CREATION_TIMEOUT_MS}")
    script = f"begin immediate; {_SESSION_TABLES} pragma user_version = {SCHEMA_VERSION}; commit;"
    connection.executescript(script)
    connection.execute(f"pragma busy_timeout = {round(WRITE_TIMEOUT_S * 1000)}")


@contextlib.contextmanager
def as_sentences(path: Path, identity: tuple[int, int] | None = None) -> Iterator[None]:
    """Convert SQLite and file system errors to `StoreError`. A damaged file is set aside, so
    connections must be closed before an error leaves the block.

    Args:
        path: The file of the sessions.
        identity: The `file_identity` of the file that is open; None if the block opens it.
    """
    identity = identity or file_identity(path)
    try:
        yield
    except (sqlite3.Error, OverflowError) as error:
        text = f"The session file {path} cannot be used: {error}."
        if is_corrupt(error):
            text = _set_aside(path, identity)
        raise StoreError(text) from error
    except OSError as error:
        raise StoreError(f"The session file {path} cannot be used: {error.strerror}.") from error


def _set_aside(path: Path, identity: tuple[int, int] | None) -> str:
    """Set a damaged file aside; return sentences about it."""
    try:
        new_path = move_damaged_file(path, identity)
    except OSError as error:
        return f"The session file {path} is damaged and cannot be moved aside: {error.strerror}."
    place = "another program has moved it aside"
    if new_path is not None:
        place = f"it is now {new_path}"
    return f"The session file {path} was damaged; {place}, and a new one was started."


@contextlib.contextmanager
def suppress_all_but_corruption() -> Iterator[None]:
    """Ignore errors that the next access would raise again."""
    try:
        yield
    except StoreError as error:
        if is_corrupt(error.__cause__):
            raise


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the sessions for the block, in which any error becomes a `StoreError`."""
    with as_sentences(path), contextlib.closing(connect(path)) as connection:
        yield connection


def fetch_rows(path: Path, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query; none if there is no database. Raises `StoreError`."""
    if not path.exists():
        return []
    with opened(path) as connection:
        return connection.execute(query, parameters).fetchall()
