"""The SQLite file of all sessions, and the locks of the open ones.

The lock is a system lock (`flock`), so it ends with the program in any case. If the file is deleted
and another program locks a new one, the first program notices before its next write.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from mahtab_tui.bus.logger import StoreError
from mahtab_tui.settings.model import home_folder
from mahtab_tui.store.corruption import (
    decode_lossy,
    file_identity,
    is_corrupt,
    is_index_corrupt,
    move_damaged_file,
    open_file,
)

_ATTEMPTS, _PAUSE = 5, 0.05
"""Attempts to get a lock, and seconds between them: listing the sessions briefly locks each of
them."""

_LARGEST = 10_000
"""Maximum bytes of a lock file to read."""

_START, _END = "session-", ".lock"


class Holder(NamedTuple):
    """The program that has a session open."""

    pid: int
    host: str
    since: float
    """Seconds since the epoch."""

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine, not on another one with the same home folder."""
        return self.host == socket.gethostname()

    def sentence_part(self) -> str:
        """Describe the holder, as in "process 4711 since 2026-03-01 14:02"."""
        where = "" if self.is_here else f" on {self.host}"
        return f"process {self.pid}{where} since {time.strftime('%Y-%m-%d %H:%M', time.localtime(self.since))}"


class LockedElsewhere(Exception):
    """Another program has the session open."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder)
        self.holder = holder


class SessionLock:
    """A lock that allows writing a session, until it is released or lost."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        found = os.fstat(descriptor)
        self._identity = found.st_dev, found.st_ino

    @property
    def lost(self) -> bool:
        """Whether another program now holds the session's lock."""
        return file_identity(self._path) not in (None, self._identity)

    def release(self) -> None:
        """Release the session."""
        if not self.lost:
            with contextlib.suppress(OSError):  # the next program removes a leftover file
                self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def lock_session(session: str) -> SessionLock | None:
    """Lock a session; None if the system does not support locks. Raises `LockedElsewhere`."""
    for attempt in range(_ATTEMPTS):
        try:
            path = _path(session)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            if attempt + 1 == _ATTEMPTS:
                raise LockedElsewhere(holder) from None
            time.sleep(_PAUSE)
        except OSError:  # a file system without locks, on which SQLite cannot write either
            os.close(descriptor)
            return None
        else:
            made = SessionLock(path, descriptor)
            if file_identity(path) == made._identity:  # not released between the two calls
                with contextlib.suppress(OSError):  # a full disk; the lock works without the text
                    _write_holder(descriptor)
                return made
            os.close(descriptor)
    return None


def locked_sessions() -> dict[str, Holder]:
    """Return the open sessions, and remove lock files of killed programs."""
    found: dict[str, Holder] = {}
    for path in sorted(_folder().glob(f"{_START}*{_END}")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not SessionLock(path, descriptor).lost:
                path.unlink(missing_ok=True)
        except BlockingIOError:
            found[unquote(path.name[len(_START) : -len(_END)])] = _holder(descriptor)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return found


def is_open(session: str) -> bool:
    """Return whether a program has a session open, as far as the system can tell."""
    locked_sessions()
    try:
        return _path(session).exists()
    except OSError:
        return True


def _folder() -> Path:
    return home_folder() / "open"


def _path(session: str) -> Path:
    """Return the lock file of a session, creating its folder. Raises `OSError`."""
    _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return _folder() / f"{_START}{quote(session, safe='')}{_END}"


def _write_holder(descriptor: int) -> None:
    """Write the lock's owner. Raises `OSError`."""
    os.ftruncate(descriptor, 0)
    os.pwrite(
        descriptor,
        json.dumps(Holder(os.getpid(), socket.gethostname(), time.time())._asdict()).encode(),
        0,
    )


def _holder(descriptor: int) -> Holder:
    try:
        holder = json.loads(os.pread(descriptor, _LARGEST, 0))
        since = float(holder["since"])
        time.localtime(since)  # raises if it is not a valid time
        return Holder(int(holder["pid"]), str(holder["host"]), since)
    except (OSError, ValueError, OverflowError, TypeError, KeyError, RecursionError):
        return Holder(0, socket.gethostname(), time.time())


SCHEMA = 2
"""The version of the tables, stored as `user_version`."""

WAIT = 0.5
"""Seconds to wait for another program's write. Short, because loggers wait with it; failed writes
are retried."""

PATIENCE = 30.0
"""Seconds to wait where no logger waits, and where giving up would leave half a session."""

_TABLES = """
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
    number integer primary key, session text not null unique, upto integer, records integer not null default 0,
    size integer not null default 0, title text not null default '', model text not null default '', cost real not null default 0,
    private integer not null default 0
);
"""

_INDEX = "create virtual table if not exists said using fts5(text, content='', detail=none, prefix='2 3', tokenize='ascii')"
"""The words of questions, answers and cells (extracted by `store.session_index`), for finding
records, not for reading them."""

_UNFINISHED = (
    "with recursive written(id) as (select min(session) from record union all"
    " select (select min(session) from record where session > written.id) from written where written.id is not null)"
    " select id from written where id is not null and id not in (select id from session)"
)
"""Sessions that have records but no row, because the row is written last."""
_REMOVE = "delete from record where number in (select number from record where session = ? and session not in (select id from session) limit 500)"


@contextlib.contextmanager
def as_sentences(path: Path, identity: tuple[int, int] | None = None) -> Iterator[None]:
    """Convert SQLite and file system errors to `StoreError`. A damaged file is set aside, so that
    the next connection creates a new one.

    identity: the `file_identity` of a file that is already open. Connections must be closed before
    an error leaves the block.
    """
    identity = identity or file_identity(path)
    try:
        yield
    except (sqlite3.Error, OverflowError) as error:
        if is_index_corrupt(error):
            raise StoreError(
                "The search index of the sessions is damaged; it is being rebuilt."
            ) from error
        if is_corrupt(error):
            raise StoreError(_without_damaged(path, identity)) from error
        raise StoreError(f"The session file {path} cannot be used: {error}.") from error
    except OSError as error:
        raise StoreError(f"The session file {path} cannot be used: {error.strerror}.") from error


@contextlib.contextmanager
def suppress_all_but_corruption() -> Iterator[None]:
    """Ignore errors that the next access would raise again. Corruption is still raised, because its
    file was set aside.

    Raises `StoreError`.
    """
    try:
        yield
    except StoreError as error:
        if is_corrupt(error.__cause__):
            raise


def _without_damaged(path: Path, identity: tuple[int, int] | None) -> str:
    """Set a damaged file aside; returns a sentence about it."""
    try:
        moved = move_damaged_file(path, identity)
    except OSError as error:
        return f"The session file {path} is damaged and cannot be moved aside: {error.strerror}."
    where = "another program has moved it aside" if moved is None else f"it is now {moved}"
    return f"The session file {path} was damaged; {where}, and a new one was started."


def connect(path: Path) -> sqlite3.Connection:
    """Open the database; a new one is readable only by this user. If it cannot be written, it is
    opened for reading. Raises `StoreError`."""
    with as_sentences(path):
        if is_read_only(path):
            return _opened_for_reading(path)
        connection = open_file(path, "", WAIT)
        connection.text_factory = decode_lossy
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def is_read_only(path: Path) -> bool:
    """Return whether there is a database that this user cannot write."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _opened_for_reading(path: Path) -> sqlite3.Connection:
    # The first also reads what is only in the write-ahead log, if SQLite can.
    for options in (
        "mode=ro",
        "mode=ro&immutable=1",
    ):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{options}",
            uri=True,
            check_same_thread=False,
            timeout=WAIT,
            isolation_level=None,
        )
        connection.text_factory = decode_lossy
        try:
            connection.execute("select count(*) from sqlite_master").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if options.endswith("1"):
                raise
        else:
            break
    return connection


def fetched(path: Path, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query; none if there is no database. Raises `StoreError`."""
    if not path.exists():
        return []
    with as_sentences(path), contextlib.closing(connect(path)) as connection:
        return connection.execute(query, values).fetchall()


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything written in the block, or nothing."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # a full disk has already ended it
            connection.execute("rollback")
        raise


@contextlib.contextmanager
def new_session(path: Path, session: str) -> Iterator[sqlite3.Connection]:
    """Open the database for a session that is written in several transactions, its row last. If
    that fails, its records are deleted again.

    Raises `StoreError`.
    """
    with as_sentences(path), contextlib.closing(connect(path)) as connection:
        connection.execute(f"pragma busy_timeout = {1000 * PATIENCE:.0f}")
        own = lock_session(session)  # tells other programs that it is still being written
        try:
            yield connection
        except BaseException:  # in any case, because nobody could see the records already written
            with contextlib.suppress(sqlite3.Error), transaction(connection):
                connection.execute("delete from record where session = ?", (session,))
            raise
        finally:
            if own is not None:
                own.release()


def remove_unfinished(path: Path) -> None:
    """Delete the records of new sessions whose program was killed while writing them, in steps.
    Raises `StoreError`."""
    if not path.exists():
        return
    with as_sentences(path), contextlib.closing(connect(path)) as connection:
        for (session,) in connection.execute(_UNFINISHED).fetchall():
            while not is_open(session) and connection.execute(_REMOVE, (session,)).rowcount > 0:
                pass


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("pragma user_version").fetchone()[0]
    if version > SCHEMA:
        raise StoreError(
            f"The session file {path} was written by a newer version of mahtab-tui. Update mahtab-tui to use it."
        )
    _write_ahead(connection)
    # A killed process loses nothing; only a power cut may lose the last moments.
    connection.execute("pragma synchronous = normal")
    if version < SCHEMA:
        connection.executescript(
            f"begin immediate; {_TABLES} pragma user_version = {SCHEMA}; commit;"
        )
        make_index(connection)


def make_index(connection: sqlite3.Connection) -> bool:
    """Create the word index if it is missing; returns whether this SQLite supports it. Raises
    `sqlite3.Error`."""
    try:
        connection.execute(_INDEX)
        connection.execute("select rowid from said where rowid = 0")
    except sqlite3.OperationalError as error:
        if "no such module" in str(error):
            return False
        raise
    return True


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log. SQLite does not wait here, so if two programs create a file at
    the same time, one must retry."""
    ends_at = time.monotonic() + WAIT
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > ends_at:
                raise
            time.sleep(0.01)
