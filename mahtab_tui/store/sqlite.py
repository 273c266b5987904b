"""Sessions on disk: one SQLite database, a record committed as it comes."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.handlers import StoreError as StoreError
from mahtab_tui.bus.records import Record

SCHEMA_VERSION = 1
_FIRST = 80
"""Characters of a session's first input that its row shows."""

_SCHEMA = """
create table if not exists session (
    id text primary key, name text not null, project text not null, started real not null, last real not null, first text not null default ''
);
create table if not exists record (
    number integer primary key, session text not null, time real not null, tag text not null, attrs text not null, text text not null
);
create index if not exists record_of_session on record (session, number);
create table if not exists partial (
    session text not null, key text not null, time real not null, tag text not null, attrs text not null, text text not null,
    primary key (session, key)
);
"""


class SessionRow(NamedTuple):
    """A session as a list shows it."""

    id: str
    name: str
    project: str
    started: float
    last: float
    """Seconds since the epoch."""
    records: int
    first: str
    """The first question or cell, in short."""


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """SQLite's errors as sentences."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}.") from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}.") from error


def connect(path: Path) -> sqlite3.Connection:
    """The database, made where it is not there yet. Raises `StoreError`."""
    with _told(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            path.touch(mode=0o600)
        connection = sqlite3.connect(path, check_same_thread=False, timeout=5, isolation_level=None)
        version = connection.execute("pragma user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            connection.close()
            raise StoreError(f"{path} was written by a newer version of mahtab-tui.")
        connection.execute("pragma journal_mode = wal")
        # A killed process loses nothing; only a power cut may take the last moments.
        connection.execute("pragma synchronous = normal")
        if version < SCHEMA_VERSION:
            connection.executescript(f"{_SCHEMA} pragma user_version = {SCHEMA_VERSION};")
        return connection


class SqliteStore:
    """The records of one session. Opened at its first record, so that an empty session leaves nothing."""

    def __init__(self, path: Path, session: str, *, name: str = "", project: str = "") -> None:
        self.path = path
        self.session = session
        self._name = name
        self._project = project
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._first = ""

    def append(self, record: Record) -> None:
        row = (record.time or time.time(), record.tag, json.dumps(record.attrs), _storable(record.text))
        with self._lock, _told(self.path):
            connection = self._opened()
            connection.execute("begin immediate")
            try:
                connection.execute("insert into record (session, time, tag, attrs, text) values (?, ?, ?, ?, ?)", (self.session, *row))
                connection.execute("update session set last = ? where id = ?", (row[0], self.session))
                if record.tag in (tags.USER_CHAT, tags.USER_REPL_IN):
                    first = " ".join(row[3].split())[:_FIRST]
                    connection.execute("update session set first = ? where id = ? and first = ''", (first, self.session))
                connection.execute("commit")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("rollback")
                raise

    def partial(self, key: str, record: Record | None) -> None:
        with self._lock, _told(self.path):
            connection = self._opened()
            if record is None:
                connection.execute("delete from partial where session = ? and key = ?", (self.session, key))
                return
            row = (self.session, key, record.time, record.tag, json.dumps(record.attrs), _storable(record.text))
            connection.execute("insert or replace into partial values (?, ?, ?, ?, ?, ?)", row)

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = connect(self.path)
            now = time.time()
            row = (self.session, self._name, self._project, now, now)
            connection.execute("insert or ignore into session (id, name, project, started, last) values (?, ?, ?, ?, ?)", row)
            self._connection = connection
        return self._connection


def _storable(text: str) -> str:
    """SQLite takes no lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def list_sessions(path: Path, project: str | None = None) -> list[SessionRow]:
    """The sessions, of one folder or of all, the newest first. Raises `StoreError`."""
    if not path.exists():
        return []
    query = (
        "select id, name, project, started, last, (select count(*) from record where session = session.id), first from session"
        " where ? is null or project = ? order by last desc, rowid desc"
    )
    with _told(path), contextlib.closing(connect(path)) as connection:
        return [SessionRow(*row) for row in connection.execute(query, (project, project))]


def load_records(path: Path, session: str, *, before: int | None = None, limit: int = 200) -> list[tuple[int, Record]]:
    """The last records of a session (before a number, for the page above), in order, with their numbers. What was being streamed when the
    program was killed comes last, marked ``cut``. Raises `StoreError`."""
    query = "select number, time, tag, attrs, text from record where session = ? and (? is null or number < ?) order by number desc limit ?"
    with _told(path), contextlib.closing(connect(path)) as connection:
        rows = connection.execute(query, (session, before, before, limit)).fetchall()
        left = connection.execute("select 0, time, tag, attrs, text from partial where session = ?", (session,)).fetchall()
    records = [(number, Record(tag, text, json.loads(attrs), moment)) for number, moment, tag, attrs, text in reversed(rows)]
    if before is None:
        last = records[-1][0] if records else 0
        records += [(last + 1, Record(tag, text, json.loads(attrs) | {"cut": True}, moment)) for _, moment, tag, attrs, text in left]
    return records


def delete_session(path: Path, session: str) -> None:
    """Forget a session. Raises `StoreError`."""
    with _told(path), contextlib.closing(connect(path)) as connection:
        for table, column in (("record", "session"), ("partial", "session"), ("session", "id")):
            connection.execute(f"delete from {table} where {column} = ?", (session,))


