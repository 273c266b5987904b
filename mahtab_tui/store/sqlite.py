"""Sessions on disk; each record is committed as it arrives."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.codec import InvalidRecord
from mahtab_tui.bus.records import Record
from mahtab_tui.store.database import decode_text, encode_text, file_identity, transaction
from mahtab_tui.store.first_text import (
    VALID_ATTRS,
    find_first_text,
    first_text,
    hides_first_text,
    is_first_question,
)
from mahtab_tui.store.session_file import as_sentences, connect, fetch_rows, opened
from mahtab_tui.store.session_lock import SessionLock
from mahtab_tui.store.stored_records import (
    StoredRow,
    decode_row,
    encode_row,
    readable_record,
    unfinished_streams,
)

ALL_RECORDS = -1
"""The limit that loads all records."""
DEFAULT_RECORDS = 200
"""Records that are loaded if no limit is given."""
_STARTUP_RECORDS = (
    records.KernelRecord
    | records.Namespace
    | records.Notice
    | records.Restore
    | records.NotebookOpened
    | records.NotebookCell
    | records.NotebookOutput
)
"""Records before anything happens. They are written with the first other record."""

_SET_FIRST_TEXT = "update session set first = ? where id = ?"
_INSERT_RECORD = "insert into record (session, time, tag, attrs, text) values (?, ?, ?, ?, ?)"
_INSERT_SESSION = """
insert or ignore into session (id, name, project, started, last) values (?, ?, ?, ?, ?)
"""
_UPDATE_SESSION = """
update session
set last = ?, first = case when ? or first = '' then ? else first end
where id = ?
"""
_LAST_OUTPUT = f"""
select text
from record
where session = ? and tag in (?, ?) and json_extract({VALID_ATTRS}, '$.cell') = ?
    and json_extract({VALID_ATTRS}, '$.late') is null
order by number desc
limit 1
"""
_PICTURES = f"""
select json_extract({VALID_ATTRS}, '$.data')
from record
where session = ? and tag = ? and json_extract({VALID_ATTRS}, '$.cell') = ?
    and json_extract({VALID_ATTRS}, '$.mime') in (?, ?)
order by number
"""
_LAST_RECORDS = """
select number, time, tag, attrs, text from record where session = ? order by number desc limit ?
"""
_EARLIER_COUNT = "select count(*) from record where session = ? and number < ?"
_RECORDS_WITH_TAG = """
select time, tag, attrs, text from record where session = ? and tag = ? order by number
"""
_COPY_RECORDS = """
insert into record (session, time, tag, attrs, text)
select ?, time, tag,
    case
        when tag = ? and json_valid(attrs) then json_set(attrs, '$.rewritable', json('false'))
        else attrs
    end,
    text
from record
where session = ? and (? is null or number < ?)
order by number
"""
"""The copy does not update the session's notebook file."""
_COPY_SESSION = """
insert into session (id, name, project, started, last, first)
select ?, name, project, ?, ?, first from session where id = ?
"""
_COPY_TITLE = """
insert or ignore into digest (session, title) select ?, title from digest where session = ?
"""


class _SessionUpdate(NamedTuple):
    """The values of `_UPDATE_SESSION`, in order."""

    last_use: float
    """In seconds since the epoch."""
    is_first_question: bool
    first_text: str | bytes
    """Names the session in lists; empty if the record does not."""
    session: str


class RecordPage(NamedTuple):
    """Records of a session, in order, with their numbers."""

    records: list[tuple[int, Record]]
    unreadable: int
    """How many more cannot be read."""
    earlier: int = 0
    """How many come before these."""


class SqliteStore:
    """The records of one session.

    The first one opens the file, so that an empty session leaves nothing behind.
    """

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
            path: The database.
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
        """Says which file is open, in case another one takes its place."""
        self.has_written = False
        self.cells_continue = False
        """Whether cells of an earlier program are still running: they send their output again."""
        self._startup_records: list[Record] = []
        """Records that wait until something happens in the session."""

    def everything(self) -> list[Record]:
        """Return all records of the session, in order. Raises `StoreError`."""
        if not self._is_own:
            return []
        page = load_records(self.path, self.session, limit=ALL_RECORDS)
        return [record for _, record in page.records]

    def append(self, *added: Record) -> None:
        """Store records: all of them, or none if this raises. Raises `StoreError`."""
        with self._lock:
            is_startup = all(isinstance(record, _STARTUP_RECORDS) for record in added)
            if not self.has_written and is_startup:
                self._startup_records += added
                return

            with self._writing() as connection:
                new_records = (*self._startup_records, *added)
                rows = [(self.session, *encode_row(record)) for record in new_records]
                connection.executemany(_INSERT_RECORD, rows)
                connection.executemany(_UPDATE_SESSION, map(self._session_update, added))
                if any(hides_first_text(connection, self.session, record) for record in added):
                    text = find_first_text(connection, self.session)
                    connection.execute(_SET_FIRST_TEXT, (text, self.session))
            self._startup_records.clear()

    def _session_update(self, record: Record) -> _SessionUpdate:
        """Return what a new record changes in the session's row."""
        last_use = record.time or time.time()
        return _SessionUpdate(last_use, is_first_question(record), first_text(record), self.session)

    def partial(self, key: str, record: Record | None) -> None:
        """Replace the partial record under a key; None deletes it. Raises `StoreError`."""
        with self._lock, self._writing() as connection:
            if record is None:
                query = "delete from partial where session = ? and key = ?"
                connection.execute(query, (self.session, key))
            else:
                row = (self.session, key, *encode_row(record))
                connection.execute("insert or replace into partial values (?, ?, ?, ?, ?, ?)", row)

    def output(self, cell: int) -> str | None:
        """Return the whole output of a cell; None if it was not stored, or while the cell runs.

        Raises `StoreError`.
        """
        rows = self._fetch(_LAST_OUTPUT, *records.OUTPUT_TAGS, cell)
        if not rows or rows[0][0] is None:
            return None
        return decode_text(rows[0][0])

    def pictures(self, cell: int) -> list[str]:
        """Return the stored pictures displayed by a cell, as base64. Raises `StoreError`."""
        rows = self._fetch(
            _PICTURES, records.DisplayRecord.tag, cell, *sorted(records.PICTURE_MIMES)
        )
        return [row[0] for row in rows if isinstance(row[0], str)]

    def _fetch(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query about this session. Raises `StoreError`."""
        if not self._is_own:
            return []
        return fetch_rows(self.path, query, (self.session, *parameters))

    @property
    def _is_own(self) -> bool:
        """Whether the stored records are this program's.

        Without the lock, another program's cells have the same numbers.
        """
        return self.path.exists() and not (self.claim is not None and self.claim.lost)

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        with self._lock:
            self._disconnect()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Write in one transaction; the first one opens the file and begins the session.

        Raises `StoreError`.
        """
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
        name = encode_text(self._name)
        project = encode_text(self._project)
        now = time.time()
        connection.execute(_INSERT_SESSION, (self.session, name, project, now, now))

        # When a closed file is opened again, the streams are this program's own.
        if self.has_written:
            return
        for stream in unfinished_streams(connection, self.session):
            if self.cells_continue and isinstance(stream.record, records.ReplOut):
                continue
            row = stream.row if stream.record is None else encode_row(stream.record)
            connection.execute(_INSERT_RECORD, (self.session, *row))
        connection.execute("delete from partial where session = ?", (self.session,))

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
            self._identity = None


def load_records(path: Path, session: str, *, limit: int = DEFAULT_RECORDS) -> RecordPage:
    """Return the last records of a session, without those of newer versions.

    Unfinished streams of a killed program come last, marked ``cut``. Raises `StoreError`.
    """
    if not path.exists():
        return RecordPage([], 0)

    with opened(path) as connection:
        rows = connection.execute(_LAST_RECORDS, (session, limit)).fetchall()
        rows.reverse()
        first_number = rows[0][0] if rows else 0
        (earlier_count,) = connection.execute(_EARLIER_COUNT, (session, first_number)).fetchone()
        unfinished = unfinished_streams(connection, session)

    numbered_records: list[tuple[int, Record]] = []
    unreadable_count = 0
    for number, *columns in rows:
        try:
            record = decode_row(StoredRow(*columns))
        except InvalidRecord:
            unreadable_count += 1
            continue
        # Records of newer versions are left out without a word.
        if record is not None:
            numbered_records.append((number, record))

    next_number = rows[-1][0] + 1 if rows else 1
    for number, stream in enumerate(unfinished, next_number):
        if stream.record is None:
            unreadable_count += 1
        else:
            numbered_records.append((number, stream.record))
    return RecordPage(numbered_records, unreadable_count, earlier_count)


def fork_session(path: Path, session: str, copy: str, *, before: int | None = None) -> None:
    """Copy a session to a new one. Raises `StoreError`.

    Args:
        path: The database.
        session: The session's id.
        copy: The id of the new session.
        before: Only records before this number are copied; None for all.
    """
    now = time.time()
    with opened(path) as connection, transaction(connection):
        connection.execute(
            _COPY_RECORDS, (copy, records.NotebookOpened.tag, session, before, before)
        )
        connection.execute(_COPY_SESSION, (copy, now, now, session))
        # A partial copy may lack the question that the title comes from.
        if before is None:
            connection.execute(_COPY_TITLE, (copy, session))


def records_with_tag(path: Path, session: str, tag: str) -> list[Record]:
    """Return the readable records of a session with one tag. Raises `StoreError`."""
    rows = fetch_rows(path, _RECORDS_WITH_TAG, (session, tag))
    read_records = (readable_record(StoredRow(*columns)) for columns in rows)
    return [record for record in read_records if record is not None]
