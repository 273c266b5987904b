"""Sessions on disk; each record is committed as it arrives."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.codec import InvalidRecord, decode
from mahtab_tui.bus.records import Record, encode
from mahtab_tui.store.database import decode_text, encode_text, file_identity, transaction
from mahtab_tui.store.session_file import as_sentences, connect, fetch_rows, opened
from mahtab_tui.store.session_lock import SessionLock

ALL_RECORDS = -1
"""As a limit: no limit."""
FIRST_TEXT_CHARS = 80
"""Characters of a question that identify a session without a title."""
LIST_PART_ITEMS = 2_000
"""Items of a long list that are written as JSON at once."""
YEAR_10000_S = 253_402_300_800.0
"""Dates from then on cannot be displayed. Seconds since the epoch."""

StoredRow = tuple[Any, Any, Any, Any]
"""Time, tag, attributes and text of a record as stored, not validated."""

_STARTUP_RECORDS = (
    records.KernelRecord
    | records.Namespace
    | records.Notice
    | records.Restore
    | records.NotebookFile
    | records.NotebookCell
    | records.NotebookOutput
)
"""Records before anything happens. They are written with the first other record."""

_INSERT_RECORD = "insert into record (session, time, tag, attrs, text) values (?, ?, ?, ?, ?)"
_UPDATE_SESSION = "update session set last = ?, first = case when ? or first = '' then ? else first end where id = ?"
_VALID_ATTRS = "case when json_valid(attrs) then attrs else '{}' end"
"""Invalid JSON would fail the query."""
_LAST_OUTPUT = (
    f"select text from record where session = ? and tag in (?, ?) and json_extract({_VALID_ATTRS}, '$.cell') = ?"
    f" and json_extract({_VALID_ATTRS}, '$.late') is null order by number desc limit 1"
)
_PICTURES = (
    f"select json_extract({_VALID_ATTRS}, '$.data') from record where session = ? and tag = ? and json_extract({_VALID_ATTRS}, '$.cell') = ?"
    f" and json_extract({_VALID_ATTRS}, '$.mime') in (?, ?) order by number"
)
_COPY_RECORDS = (
    "insert into record (session, time, tag, attrs, text)"
    " select ?, time, tag, case when tag = ? and json_valid(attrs) then json_set(attrs, '$.rewritable', json('false')) else attrs end, text"
    " from record where session = ? and (? is null or number < ?) order by number"
)
"""The copy does not update the session's notebook file."""

SESSION_COLUMNS = (
    "session.id, session.name, session.project, session.started, session.last, (select count(*) from record where session = session.id),"
    " session.first, digest.title"
)
_SESSIONS = (
    f"select {SESSION_COLUMNS} from (select rowid as place, * from session where (? is null or project = ?)"
    " and substr(id, 1, length(?)) = ? order by last desc, rowid desc limit ?) as session"
    " left join digest on digest.session = session.id order by session.last desc, place desc"
)


class MemoryStore:
    """Keeps every record in `records`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.partials: dict[str, Record] = {}

    def append(self, *added: Record) -> None:
        self.records += added

    def partial(self, key: str, record: Record | None) -> None:
        if record is None:
            self.partials.pop(key, None)
        else:
            self.partials[key] = record

    def output(self, cell: int) -> str | None:
        for record in reversed(self.records):
            if isinstance(record, records.ReplOut) and record.cell == cell and not record.late:
                return record.text
        return None

    def pictures(self, cell: int) -> list[str]:
        return [
            record.data
            for record in self.records
            if isinstance(record, records.DisplayRecord)
            and record.cell == cell
            and record.mime in records.PICTURES
        ]

    def everything(self) -> list[Record]:
        return list(self.records)

    def close(self) -> None:
        """Do nothing, because the records stay."""


def decode_row(row: StoredRow) -> Record | None:
    """Decode a record; None if a newer version wrote it. Raises `InvalidRecord`."""
    timestamp, tag, attrs, text = row
    try:
        attributes = json.loads(attrs)
    except (ValueError, TypeError, RecursionError):
        raise InvalidRecord("The attributes are not JSON.") from None
    if not (isinstance(tag, str) and isinstance(timestamp, float)):
        raise InvalidRecord("The tag or the time is missing.")
    return decode(tag, decode_text(text), attributes, timestamp)


def readable_record(row: StoredRow) -> Record | None:
    """Decode a record; None if it is damaged, or if a newer version wrote it."""
    try:
        return decode_row(row)
    except InvalidRecord:
        return None


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
        """
        Args:
            session: The session's id.
            name: Its name, if it is new.
            project: The folder to which it belongs, if it is new.
            claim: The session's lock; once it is lost, every write raises `StoreError`.
        """
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
        self._startup_records: list[Record] = []

    def everything(self) -> list[Record]:
        if not self._is_own:
            return []
        page = load_records(self.path, self.session, limit=ALL_RECORDS)
        return [record for _, record in page.records]

    def append(self, *added: Record) -> None:
        with self._lock:
            is_startup = all(isinstance(record, _STARTUP_RECORDS) for record in added)
            if not self.has_written and is_startup:
                self._startup_records += added
                return

            with self._writing() as connection:
                new_records = (*self._startup_records, *added)
                rows = [(self.session, *_encode_columns(record)) for record in new_records]
                connection.executemany(_INSERT_RECORD, rows)
                connection.executemany(_UPDATE_SESSION, map(self._session_values, added))
            self._startup_records.clear()

    def _session_values(self, record: Record) -> tuple[float, bool, str | bytes, str]:
        """Return the values of `_UPDATE_SESSION` for a new record."""
        # The first question, or else the first cell, names the session in lists.
        first_text: str | bytes = ""
        if isinstance(record, records.UserChat | records.ReplIn):
            start = " ".join(record.text[: 10 * FIRST_TEXT_CHARS].split())
            first_text = encode_text(start[:FIRST_TEXT_CHARS])
        is_first_question = isinstance(record, records.UserChat) and record.turn == 1
        last_use = record.time or time.time()
        return last_use, is_first_question, first_text, self.session

    def partial(self, key: str, record: Record | None) -> None:
        with self._lock, self._writing() as connection:
            if record is None:
                query = "delete from partial where session = ? and key = ?"
                connection.execute(query, (self.session, key))
            else:
                row = (self.session, key, *_encode_columns(record))
                connection.execute("insert or replace into partial values (?, ?, ?, ?, ?, ?)", row)

    def output(self, cell: int) -> str | None:
        rows = self._fetch(_LAST_OUTPUT, *records.OUTPUTS, cell)
        return decode_text(rows[0][0]) if rows else None

    def pictures(self, cell: int) -> list[str]:
        rows = self._fetch(_PICTURES, records.DisplayRecord.tag, cell, *sorted(records.PICTURES))
        return [row[0] for row in rows if isinstance(row[0], str)]

    def _fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        if not self._is_own:
            return []
        return fetch_rows(self.path, query, (self.session, *parameters))

    @property
    def _is_own(self) -> bool:
        """Whether the stored records are this program's. Without the lock, another program's cells
        have the same numbers."""
        return self.path.exists() and not (self.claim is not None and self.claim.lost)

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        with self._lock:
            self._disconnect()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Write in one transaction; the first one opens the file and begins the session. Raises
        `StoreError`."""
        with as_sentences(self.path, self._identity):
            try:
                is_new = self._connection is None
                connection = self._connection or connect(self.path)
                self._connection = connection
                if is_new:
                    self._identity = file_identity(self.path)
                with transaction(connection):
                    if self.claim is not None and self.claim.lost:
                        raise StoreError("Another program now writes this session.")
                    if is_new:
                        self._begin_session(connection)
                    yield connection
            except (sqlite3.Error, OverflowError, OSError, StoreError):
                self._disconnect()
                raise
        self.has_written = True

    def _begin_session(self, connection: sqlite3.Connection) -> None:
        """Write the session's row, and the unfinished streams of a killed program as records,
        before their keys are reused."""
        query = "insert or ignore into session (id, name, project, started, last) values (?, ?, ?, ?, ?)"
        name = encode_text(self._name)
        project = encode_text(self._project)
        now = time.time()
        connection.execute(query, (self.session, name, project, now, now))

        # When a closed file is opened again, the streams are this program's own.
        if self.has_written:
            return
        for row, stream in _unfinished_streams(connection, self.session):
            if self.cells_continue and isinstance(stream, records.ReplOut):
                continue
            columns = _encode_columns(stream) if stream else row
            connection.execute(_INSERT_RECORD, (self.session, *columns))
        connection.execute("delete from partial where session = ?", (self.session,))

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
            self._identity = None


def _encode_columns(record: Record) -> tuple[float, str, str, str | bytes]:
    """Return time, tag, attributes and text of a record as they are stored."""
    attrs = _as_json(encode(record))
    return record.time or time.time(), record.tag, attrs, encode_text(record.text)


def _as_json(attributes: Mapping[str, Any]) -> str:
    """Return the fields of a record as JSON. Long lists are written in parts, because Python's other
    threads, such as the one that reads keys, wait while a value is written."""
    if not any(map(_is_long_list, attributes.values())):
        return json.dumps(attributes, default=str)
    members: list[str] = []
    for name, value in attributes.items():
        text = ""
        if _is_long_list(value):
            starts = range(0, len(value), LIST_PART_ITEMS)
            parts = (json.dumps(value[i : i + LIST_PART_ITEMS], default=str) for i in starts)
            text = f"[{', '.join(part[1:-1] for part in parts)}]"
        else:
            text = json.dumps(value, default=str)
        members.append(f"{json.dumps(name)}: {text}")
    return f"{{{', '.join(members)}}}"


def _is_long_list(value: object) -> bool:
    return isinstance(value, list) and len(value) > LIST_PART_ITEMS


def _unfinished_streams(
    connection: sqlite3.Connection, session: str
) -> list[tuple[StoredRow, Record | None]]:
    """Return the streams that were unfinished when the program was killed, as stored and as records
    marked ``cut``; None if they cannot be read."""
    rows: list[StoredRow] = connection.execute(
        "select time, tag, attrs, text from partial where session = ? order by time", (session,)
    ).fetchall()
    streams: list[tuple[StoredRow, Record | None]] = []
    for row in rows:
        record = readable_record(row)
        if isinstance(record, records.ReplOut | records.AssistantChat):
            streams.append((row, record.changed(cut=True)))
        else:
            streams.append((row, None))
    return streams


def list_sessions(
    path: Path, project: str | None = None, *, begins: str = "", limit: int = ALL_RECORDS
) -> list[SessionRow]:
    """Return sessions, newest first. Raises `StoreError`.

    Args:
        project: Only sessions of this folder; None for all.
        begins: Only sessions whose ids begin so.
    """
    folder = None if project is None else encode_text(project)
    id_start = encode_text(begins)
    rows = fetch_rows(path, _SESSIONS, (folder, folder, id_start, id_start, limit))
    return [session_row(row) for row in rows]


def session_row(row: tuple[Any, ...]) -> SessionRow:
    """Decode the `SESSION_COLUMNS`."""
    id, name, project, started, last, record_count, first, title = row
    return SessionRow(
        decode_text(id),
        decode_text(name),
        decode_text(project),
        _valid_time(started),
        _valid_time(last),
        record_count,
        decode_text(first or ""),
        decode_text(title or ""),
    )


def _valid_time(value: object) -> float:
    """Return a stored time in seconds since the epoch; 0 if it cannot be displayed."""
    if isinstance(value, int | float) and 0 <= value < YEAR_10000_S:
        return float(value)
    return 0.0


def load_records(path: Path, session: str, *, limit: int = 200) -> RecordPage:
    """Return the last records of a session, without those of newer versions; unfinished streams of
    a killed program come last, marked ``cut``. Raises `StoreError`."""
    if not path.exists():
        return RecordPage([], 0)
    query = "select number, time, tag, attrs, text from record where session = ? order by number desc limit ?"
    with opened(path) as connection:
        rows = connection.execute(query, (session, limit)).fetchall()
        rows.reverse()
        first_number = rows[0][0] if rows else 0
        count_query = "select count(*) from record where session = ? and number < ?"
        (earlier,) = connection.execute(count_query, (session, first_number)).fetchone()
        unfinished = _unfinished_streams(connection, session)

    numbered_records: list[tuple[int, Record]] = []
    unreadable_count = 0
    for number, *row in rows:
        try:
            record = decode_row(tuple(row))
        except InvalidRecord:
            unreadable_count += 1
            continue
        if record is not None:
            numbered_records.append((number, record))

    next_number = rows[-1][0] + 1 if rows else 1
    for number, (_, stream) in enumerate(unfinished, next_number):
        if stream is None:
            unreadable_count += 1
        else:
            numbered_records.append((number, stream))
    return RecordPage(numbered_records, unreadable_count, earlier)


def fork_session(path: Path, session: str, copy: str, *, before: int | None = None) -> None:
    """Copy a session's records, or those before a number, to a new one. Raises `StoreError`."""
    now = time.time()
    with opened(path) as connection, transaction(connection):
        connection.execute(_COPY_RECORDS, (copy, records.NotebookFile.tag, session, before, before))
        query = "insert into session (id, name, project, started, last, first) select ?, name, project, ?, ?, first from session where id = ?"
        connection.execute(query, (copy, now, now, session))
        if before is None:  # a partial copy may lack the question that the title comes from
            query = "insert or ignore into digest (session, title) select ?, title from digest where session = ?"
            connection.execute(query, (copy, session))


def records_with_tag(path: Path, session: str, tag: str) -> list[Record]:
    """Return the readable records of a session with one tag. Raises `StoreError`."""
    query = (
        "select time, tag, attrs, text from record where session = ? and tag = ? order by number"
    )
    rows = fetch_rows(path, query, (session, tag))
    return [record for row in rows if (record := readable_record(row)) is not None]
