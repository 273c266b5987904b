"""Sessions on disk; each record is committed as it arrives."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.codec import InvalidRecord, decode
from mahtab_tui.bus.records import Record, encode
from mahtab_tui.store.database import (
    SessionLock,
    as_sentences,
    connect,
    decode_text,
    encode_text,
    fetched,
    file_identity,
    opened,
    transaction,
)


class MemoryStore:
    """Keeps every record in `records`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.partials: dict[str, Record] = {}

    def append(self, record: Record) -> None:
        self.records.append(record)

    def partial(self, key: str, record: Record | None) -> None:
        if record is None:
            self.partials.pop(key, None)
        else:
            self.partials[key] = record

    def output(self, cell: int) -> str | None:
        outputs = [record for record in self.records if isinstance(record, records.ReplOut)]
        texts = [record.text for record in outputs if record.cell == cell and not record.late]
        return texts[-1] if texts else None

    def pictures(self, cell: int) -> list[str]:
        shown = [record for record in self.records if isinstance(record, records.Display)]
        return [each.data for each in shown if each.cell == cell and each.mime in records.PICTURES]

    def everything(self) -> list[Record]:
        return list(self.records)

    def close(self) -> None:
        """Do nothing, because the records stay."""


StoredRow = tuple[Any, Any, Any, Any]
"""Time, tag, attributes and text of a record as stored, not validated."""


def decoded(row: StoredRow) -> Record | None:
    """Decode a record; None if a newer version wrote it. Raises `InvalidRecord`."""
    moment, tag, attrs, text = row
    try:
        values = json.loads(attrs)
    except (ValueError, TypeError, RecursionError):
        raise InvalidRecord("The attributes are not JSON.") from None
    if not (isinstance(tag, str) and isinstance(moment, float)):
        raise InvalidRecord("The tag or the time is missing.")
    return decode(tag, decode_text(text), values, moment)


def readable_record(row: StoredRow) -> Record | None:
    try:
        return decoded(row)
    except InvalidRecord:
        return None


_FIRST = 80

_SURROUNDINGS = (
    records.Kernel
    | records.Namespace
    | records.Notice
    | records.Restore
    | records.NotebookFile
    | records.NotebookCell
    | records.NotebookOutput
)
"""Records before anything happens. They are written with the first other record."""

_INSERT = "insert into record (session, time, tag, attrs, text) values (?, ?, ?, ?, ?)"
_TOUCH = "update session set last = ?, first = case when ? or first = '' then ? else first end where id = ?"
_ATTRS = "case when json_valid(attrs) then attrs else '{}' end"
"""Invalid JSON would fail the query."""
_OUTPUT = (
    f"select text from record where session = ? and tag in (?, ?) and json_extract({_ATTRS}, '$.cell') = ?"
    f" and json_extract({_ATTRS}, '$.late') is null order by number desc limit 1"
)
_SHOWN = (
    f"select json_extract({_ATTRS}, '$.data') from record where session = ? and tag = ? and json_extract({_ATTRS}, '$.cell') = ?"
    f" and json_extract({_ATTRS}, '$.mime') in (?, ?) order by number"
)

_COPY = (
    "insert into record (session, time, tag, attrs, text)"
    " select ?, time, tag, case when tag = ? and json_valid(attrs) then json_set(attrs, '$.rewritable', json('false')) else attrs end, text"
    " from record where session = ? and (? is null or number < ?) order by number"
)
"""The copy does not update the session's notebook file."""

SESSION_COLUMNS = (
    "session.id, session.name, session.project, session.started, session.last, (select count(*) from record where session = session.id),"
    " session.first, digest.title"
)
_LIST = (
    f"select {SESSION_COLUMNS} from (select rowid as place, * from session where (? is null or project = ?)"
    " and substr(id, 1, length(?)) = ? order by last desc, rowid desc limit ?) as session"
    " left join digest on digest.session = session.id order by session.last desc, place desc"
)

ALL = -1

YEAR_10000 = 253_402_300_800.0
"""Dates from then on cannot be shown."""


class SessionRow(NamedTuple):
    id: str
    name: str
    project: str
    started: float
    """Seconds since the epoch, like `last`."""
    last: float
    records: int
    first: str
    """The start of the first question, or of the first cell."""
    title: str = ""
    """From the user."""

    @property
    def heading(self) -> str:
        return self.title or self.first


class RecordPage(NamedTuple):
    """Records of a session, in order, with their numbers."""

    records: list[tuple[int, Record]]
    unreadable: int
    """How many more cannot be read."""
    earlier: int = 0
    """How many come before these."""


class SqliteStore:
    """The records of one session. The first one opens the file, so that an empty session leaves
    nothing behind."""

    def __init__(
        self,
        path: Path,
        session: str,
        *,
        name: str = "",
        project: str = "",
        claim: SessionLock | None = None,
    ) -> None:
        """claim: the session's lock; once it is lost, every write raises `StoreError`."""
        self.path = path
        self.claim = claim
        self.session = session
        self._name = name
        self._project = project
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self.has_written = False
        self.cells_continue = False
        """Whether cells of an earlier program are still running: they send their output again."""
        self._surroundings: list[Record] = []

    def everything(self) -> list[Record]:
        if not self._is_own:
            return []
        return [record for _, record in load_records(self.path, self.session, limit=ALL).records]

    def append(self, record: Record) -> None:
        with self._lock:
            if not self.has_written and isinstance(record, _SURROUNDINGS):
                self._surroundings.append(record)
                return
            with self._writing() as connection:
                rows = [(self.session, *_columns(each)) for each in (*self._surroundings, record)]
                connection.executemany(_INSERT, rows)
                is_input = isinstance(record, records.UserChat | records.ReplIn)
                start = " ".join(record.text[: 10 * _FIRST].split())[:_FIRST]
                first = encode_text(start) if is_input else ""
                replaces = isinstance(record, records.UserChat) and record.turn == 1
                values = (record.time or time.time(), replaces, first, self.session)
                connection.execute(_TOUCH, values)
            self._surroundings.clear()

    def partial(self, key: str, record: Record | None) -> None:
        with self._lock, self._writing() as connection:
            if record is None:
                query = "delete from partial where session = ? and key = ?"
                connection.execute(query, (self.session, key))
            else:
                row = (self.session, key, *_columns(record))
                connection.execute("insert or replace into partial values (?, ?, ?, ?, ?, ?)", row)

    def output(self, cell: int) -> str | None:
        rows = self._fetched(_OUTPUT, *records.OUTPUTS, cell)
        return decode_text(rows[0][0]) if rows else None

    def pictures(self, cell: int) -> list[str]:
        rows = self._fetched(_SHOWN, records.Display.tag, cell, *sorted(records.PICTURES))
        return [row[0] for row in rows if isinstance(row[0], str)]

    def _fetched(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return fetched(self.path, query, (self.session, *values)) if self._is_own else []

    @property
    def _is_own(self) -> bool:
        """Without the lock, another program's cells have the same numbers."""
        return self.path.exists() and not (self.claim is not None and self.claim.lost)

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        with self._lock:
            self._disconnect()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with as_sentences(self.path, self._identity):
            try:
                fresh = self._connection is None
                connection = self._connection = self._connection or connect(self.path)
                if fresh:
                    self._identity = file_identity(self.path)
                with transaction(connection):
                    if self.claim is not None and self.claim.lost:
                        raise StoreError("Another program now writes this session.")
                    if fresh:
                        self._begin(connection)
                    yield connection
            except (sqlite3.Error, OverflowError, OSError, StoreError):
                self._disconnect()
                raise
        self.has_written = True

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Write the session's row, and the unfinished streams of a killed program as records,
        before their keys are reused."""
        query = "insert or ignore into session (id, name, project, started, last) values (?, ?, ?, ?, ?)"
        name, project, now = encode_text(self._name), encode_text(self._project), time.time()
        connection.execute(query, (self.session, name, project, now, now))
        if not self.has_written:
            for row, stream in _unfinished_streams(connection, self.session):
                if not (self.cells_continue and isinstance(stream, records.ReplOut)):
                    values = _columns(stream) if stream else row
                    connection.execute(_INSERT, (self.session, *values))
            connection.execute("delete from partial where session = ?", (self.session,))

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = self._identity = None


def _columns(record: Record) -> tuple[float, str, str, str | bytes]:
    attrs = json.dumps(encode(record), default=str)
    return record.time or time.time(), record.tag, attrs, encode_text(record.text)


def _unfinished_streams(
    connection: sqlite3.Connection, session: str
) -> list[tuple[StoredRow, Record | None]]:
    """Return the streams that were unfinished when the program was killed, as stored and as records
    marked ``cut``; None if they cannot be read."""
    rows: list[StoredRow] = connection.execute(
        "select time, tag, attrs, text from partial where session = ? order by time", (session,)
    ).fetchall()
    found = [(row, readable_record(row)) for row in rows]
    streams = records.ReplOut | records.AssistantChat
    return [
        (row, record.changed(cut=True) if isinstance(record, streams) else None)
        for row, record in found
    ]


def list_sessions(
    path: Path, project: str | None = None, *, begins: str = "", limit: int = ALL
) -> list[SessionRow]:
    """Return the sessions of one project or of all whose ids begin so, newest first. Raises
    `StoreError`."""
    folder, start = None if project is None else encode_text(project), encode_text(begins)
    return [session_row(row) for row in fetched(path, _LIST, (folder, folder, start, start, limit))]


def session_row(row: tuple[Any, ...]) -> SessionRow:
    id, name, folder, started, last, count, first, title = row
    id, name, folder, first, title = map(decode_text, (id, name, folder, first or "", title or ""))
    return SessionRow(id, name, folder, _moment(started), _moment(last), count, first, title)


def _moment(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < YEAR_10000 else 0.0


def load_records(path: Path, session: str, *, limit: int = 200) -> RecordPage:
    """Return the last records of a session, without those of newer versions; unfinished streams of
    a killed program come last, marked ``cut``. Raises `StoreError`."""
    if not path.exists():
        return RecordPage([], 0)
    query = "select number, time, tag, attrs, text from record where session = ? order by number desc limit ?"
    with opened(path) as connection:
        rows = connection.execute(query, (session, limit)).fetchall()
        count = "select count(*) from record where session = ? and number < ?"
        first = rows[-1][0] if rows else 0
        (earlier,) = connection.execute(count, (session, first)).fetchone()
        unfinished = _unfinished_streams(connection, session)
    read: list[tuple[int, Record]] = []
    unreadable = [record for _, record in unfinished].count(None)
    for number, *row in reversed(rows):
        try:
            record = decoded(tuple(row))
        except InvalidRecord:
            unreadable += 1
        else:
            read += [] if record is None else [(number, record)]
    for number, (_, stream) in enumerate(unfinished, rows[0][0] + 1 if rows else 1):
        read += [] if stream is None else [(number, stream)]
    return RecordPage(read, unreadable, earlier)


def fork_session(path: Path, session: str, copy: str, *, before: int | None = None) -> None:
    """Copy a session's records, or those before a number, to a new one. Raises `StoreError`."""
    now = time.time()
    with opened(path) as connection, transaction(connection):
        connection.execute(_COPY, (copy, records.NotebookFile.tag, session, before, before))
        query = "insert into session (id, name, project, started, last, first) select ?, name, project, ?, ?, first from session where id = ?"
        connection.execute(query, (copy, now, now, session))
        if before is None:  # a partial copy may lack the question that the title comes from
            query = "insert or ignore into digest (session, title) select ?, title from digest where session = ?"
            connection.execute(query, (copy, session))


def records_with_tag(path: Path, session: str, tag: str) -> list[Record]:
    query = (
        "select time, tag, attrs, text from record where session = ? and tag = ? order by number"
    )
    found = map(readable_record, fetched(path, query, (session, tag)))
    return list(filter(None, found))
