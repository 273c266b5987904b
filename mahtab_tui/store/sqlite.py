"""Sessions on disk: a record is committed as it comes."""

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
from mahtab_tui.bus.handlers import StoreError
from mahtab_tui.bus.records import Record
from mahtab_tui.store.database import as_sentences, connect, transaction
from mahtab_tui.store.encoding import as_json, restored, stored

__all__ = ["SessionRow", "SqliteStore", "StoreError", "delete_session", "list_sessions", "load_records"]

_FIRST = 80
"""Characters of a session's first input that its row shows."""

_SURROUNDINGS = frozenset((tags.KERNEL, tags.NAMESPACE, tags.NOTICE))
"""What is logged before the person or the model has done anything. Alone it makes no session; it is written with what follows it."""

_INSERT = "insert into record (session, time, tag, attrs, text) values (?, ?, ?, ?, ?)"
_OUTPUT = (
    "select text from record where session = ? and tag in (?, ?) and json_extract(attrs, '$.cell') = ?"
    " and json_extract(attrs, '$.late') is null order by number desc limit 1"
)
_SHOWN = (
    "select json_extract(attrs, '$.data') from record where session = ? and tag = ? and json_extract(attrs, '$.cell') = ?"
    " and json_extract(attrs, '$.mime') in (?, ?) order by number"
)


class SessionRow(NamedTuple):
    """A session as a list shows it."""

    id: str
    name: str
    project: str
    started: float
    """Seconds since the epoch, as `last`."""
    last: float
    records: int
    first: str
    """The first question or cell, in short."""


class SqliteStore:
    """The records of one session. The file is opened at its first record, so that an empty session leaves nothing."""

    def __init__(self, path: Path, session: str, *, name: str = "", project: str = "") -> None:
        self.path = path
        self.session = session
        self._name = name
        self._project = project
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._begun = False
        self._surroundings: list[Record] = []

    def append(self, record: Record) -> None:
        """Keep a record. Raises `StoreError`; it is not kept then."""
        with self._lock:
            if not self._begun and record.tag in _SURROUNDINGS:
                self._surroundings.append(record)
                return
            with self._writing() as connection:
                for each in (*self._surroundings, record):
                    connection.execute(_INSERT, (self.session, *_columns(each)))
                connection.execute("update session set last = ? where id = ?", (record.time or time.time(), self.session))
                if record.tag in (tags.USER_CHAT, tags.USER_REPL_IN):
                    first = stored(" ".join(record.text[: 10 * _FIRST].split())[:_FIRST])
                    connection.execute("update session set first = ? where id = ? and first = ''", (first, self.session))
            self._surroundings.clear()

    def partial(self, key: str, record: Record | None) -> None:
        """Keep the text so far of what is being streamed; None drops it. Raises `StoreError`."""
        with self._lock, self._writing() as connection:
            if record is None:
                connection.execute("delete from partial where session = ? and key = ?", (self.session, key))
            else:
                row = (self.session, key, *_columns(record))
                connection.execute("insert or replace into partial values (?, ?, ?, ?, ?, ?)", row)

    def output(self, cell: int) -> str | None:
        """All that a cell has printed; None where it is not kept, or as long as it runs. Raises `StoreError`."""
        if not self.path.exists():
            return None
        with as_sentences(self.path), contextlib.closing(connect(self.path)) as connection:
            row = connection.execute(_OUTPUT, (self.session, *sorted(tags.OUTPUTS), cell)).fetchone()
        return None if row is None else restored(row[0])

    def pictures(self, cell: int) -> list[str]:
        """The pictures that a cell has shown, as far as they are kept: base64. Raises `StoreError`."""
        if not self.path.exists():
            return []
        with as_sentences(self.path), contextlib.closing(connect(self.path)) as connection:
            rows = connection.execute(_SHOWN, (self.session, tags.DISPLAY, cell, *sorted(tags.PICTURES))).fetchall()
        return [row[0] for row in rows]

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        with self._lock:
            self._disconnect()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction. A file that has failed, or is not open yet, is opened."""
        try:
            with as_sentences(self.path):
                fresh = self._connection is None
                connection = self._connection = self._connection or connect(self.path)
                with transaction(connection):
                    if fresh:
                        self._begin(connection)
                    yield connection
        except StoreError:
            self._disconnect()
            raise
        self._begun = True

    def _begin(self, connection: sqlite3.Connection) -> None:
        """The session's row; and what a killed program left half said becomes records, before its keys are used again."""
        now = time.time()
        row = (self.session, self._name, self._project, now, now)
        connection.execute("insert or ignore into session (id, name, project, started, last) values (?, ?, ?, ?, ?)", row)
        if not self._begun:
            for record in _left_over(connection, self.session):
                connection.execute(_INSERT, (self.session, *_columns(record)))
            connection.execute("delete from partial where session = ?", (self.session,))

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _columns(record: Record) -> tuple[float, str, str, str | bytes]:
    return record.time or time.time(), record.tag, as_json(record.attrs), stored(record.text)


def _record(moment: float, tag: str, attrs: str, text: str | bytes) -> Record:
    return Record(tag, restored(text), json.loads(attrs), moment)


def _left_over(connection: sqlite3.Connection, session: str) -> list[Record]:
    """What was being streamed when the program was killed."""
    rows = connection.execute("select time, tag, attrs, text from partial where session = ? order by time", (session,))
    records = [_record(*row) for row in rows]
    for record in records:
        record.attrs["cut"] = True
    return records


def list_sessions(path: Path, project: str | None = None) -> list[SessionRow]:
    """The sessions, of one folder or of all, the newest first. Raises `StoreError`."""
    if not path.exists():
        return []
    query = (
        "select id, name, project, started, last, (select count(*) from record where session = session.id), first from session"
        " where ? is null or project = ? order by last desc, rowid desc"
    )
    with as_sentences(path), contextlib.closing(connect(path)) as connection:
        rows = connection.execute(query, (project, project)).fetchall()
    return [SessionRow(id, name, folder, started, last, records, restored(first)) for id, name, folder, started, last, records, first in rows]


def load_records(path: Path, session: str, *, before: int | None = None, limit: int = 200) -> list[tuple[int, Record]]:
    """The last records of a session, or those before a number (the page above), in order, with their numbers.

    What was being streamed when the program was killed comes last, marked ``cut``. Raises `StoreError`.
    """
    if not path.exists():
        return []
    query = "select number, time, tag, attrs, text from record where session = ? and (? is null or number < ?) order by number desc limit ?"
    with as_sentences(path), contextlib.closing(connect(path)) as connection:
        rows = connection.execute(query, (session, before, before, limit)).fetchall()
        left_over = _left_over(connection, session) if before is None else []
    records = [(row[0], _record(*row[1:])) for row in reversed(rows)]
    last = records[-1][0] if records else 0
    return records + list(enumerate(left_over, last + 1))


def delete_session(path: Path, session: str) -> None:
    """Forget a session. Raises `StoreError`."""
    if not path.exists():
        return
    with as_sentences(path), contextlib.closing(connect(path)) as connection, transaction(connection):
        for table, column in (("record", "session"), ("partial", "session"), ("session", "id")):
            connection.execute(f"delete from {table} where {column} = ?", (session,))
