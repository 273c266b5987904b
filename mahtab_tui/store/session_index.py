"""An index of sessions: facts that can be looked up without reading their records.

A session's entry (table `digest`) is updated in the transaction that writes a record. Copies, and
sessions of older versions, are behind: `catch_up` reads them in small steps. The word index has a
row for each record with words, and one (`_ABOUT`) for the session's id, folder and title. It stores
no texts: a row is deleted by passing the same words again.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
import unicodedata
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.prompt import HiddenEntries
from mahtab_tui.bus.records import Record, cell_entry
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.store.database import (
    as_sentences,
    connect,
    decode_text,
    encode_text,
    is_busy,
    is_index_corrupt,
    make_index,
    transaction,
)
from mahtab_tui.store.sqlite import SessionRow, readable_record


def day(row: SessionRow) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(row.last))


def cost(row: SessionRow) -> str:
    return f"${row.cost:.2f}" if row.cost else "–"


def size(row: SessionRow) -> str:
    amount = float(row.size)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if row.size else "–"
        amount /= 1000
    return f"{amount:.0f} GB"


LONGEST_TITLE = 100
"""Characters of a title at most."""
RECORDS = 1 << 20
"""Indexed records of a session at most; rows of the word index have numbers of session and record."""
STEP = 100
"""Records to read in one transaction, so that others can write in between."""
_NOTHING = "Nothing of this session is saved yet, so it has no title."
_ABOUT = 0
"""The record number of the session's own row, before its records."""
_EASTERN = "\u3040-\u30ff\u3400-\u9fff"
"""Letters of scripts without spaces, each of which is indexed as a word."""
_WORD = re.compile(rf"[{_EASTERN}]|[^\W_{_EASTERN}]+")
_NO_WORD = re.compile(r"[^a-z0-9]+")

_UPDATE = (
    "update digest set upto = ?, records = records + 1, size = size + ?, cost = cost + ?, model = case when ? = '' then model else ? end,"
    " private = max(private, ?) where session = ? and upto = ?"
)
_BEHIND = (
    "select session.id from session left join digest on digest.session = session.id"
    " where coalesce(digest.upto, 0) < (select coalesce(max(number), 0) from record where record.session = session.id) order by session.last desc"
)
"""Sessions whose index lacks records, most recently used first."""
_NUMBER = "insert into digest (session) select id from session where id not in (select session from digest) order by last, rowid"
"""Numbers the sessions from the oldest on, so that a search finds the newest first."""


class MatchedRecord(NamedTuple):
    digest: int
    record: int
    """1 for the session's first record; `_ABOUT` for the session itself."""

    @classmethod
    def of(cls, row: int) -> MatchedRecord:
        return cls(row // RECORDS, row % RECORDS)

    @property
    def row(self) -> int:
        return self.digest * RECORDS + self.record


def words(text: str) -> str:
    """Return the words of a text without case, accents and punctuation, separated by spaces."""
    text = plain(text).lower()
    if text.isascii():
        return _NO_WORD.sub(" ", text)
    letters = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(_WORD.findall(unicodedata.normalize("NFC", bare)))


def indexed_words(record: Record) -> str:
    """Return the indexed words of a record; none of an output that shows a private variable."""
    if not record.indexed or (isinstance(record, records.ReplOut) and record.private):
        return ""
    return words(shortened(record.text, record.indexed))


def shortened(text: str, longest: int) -> str:
    """Return the start and end of a text."""
    return text if len(text) <= longest else f"{text[: longest // 2]}\n{text[-(longest // 2) :]}"


def folder_word(project: str) -> str:
    """Return the word that marks each record of a folder, and occurs in no text."""
    return f"§{zlib.crc32(project.encode('utf-8', 'replace')):x}"


def question_title(text: str) -> str:
    """Return the first line of a question, as a title."""
    for line in text[:10_000].splitlines():
        if cleaned := " ".join(plain(line).split()):
            return cleaned[:LONGEST_TITLE]
    return ""


class SessionIndex:
    """Updates the index of one session. Every method is called within a transaction and raises
    `sqlite3.Error`."""

    def __init__(self, connection: sqlite3.Connection, session: str) -> None:
        self._connection = connection
        self._session = session
        connection.execute("insert or ignore into digest (session) values (?)", (session,))
        row = self._row("select number, upto, records from digest where session = ?")
        self._number: int = row[0]
        self._upto: int | None = row[1]
        """The number of the last indexed record; None until the session itself is indexed."""
        self._records: int = row[2]
        project = self._row("select project from session where id = ?")
        self._folder = folder_word(decode_text(project[0]) if project else "")
        (last,) = self._row("select coalesce(max(number), 0) from record where session = ?")
        self._indexes = make_index(connection)
        self.behind = not self._indexes or (self._upto or 0) < last
        """Whether it waits for `catch_up`."""

    def _row(self, query: str) -> tuple[Any, ...]:
        """Return the first row of a query about the session; empty if there is none."""
        row: tuple[Any, ...] | None = self._connection.execute(query, (self._session,)).fetchone()
        return row or ()

    def begin(self) -> None:
        """Index the session itself, whose row was just written."""
        if not self.behind and self._upto is None:
            self._index_session()

    def note(self, number: int, record: Record | None, size: int) -> None:
        """Index a record that was just written. record: None if it cannot be read. size: its
        characters as stored."""
        if self.behind:
            return
        cost = record.cost or 0.0 if isinstance(record, records.Usage) else 0.0
        party = (record.party or "") if isinstance(record, records.AssistantChat) else ""
        model = encode_text(party[:LONGEST_TITLE])
        private = isinstance(record, records.Private)
        values = (number, size, cost, model, model, private, self._session, self._upto)
        if self._connection.execute(_UPDATE, values).rowcount == 0:
            self.behind = True  # another program rebuilt the index
            return
        self._upto, self._records = number, self._records + 1
        if isinstance(record, records.UserChat) and not self._title():
            self.rename(question_title(record.text))
        if words := self._indexed(record):
            self._add_text(self._records, words)

    def _indexed(self, record: Record | None) -> str:
        """Return the words of the session's last record."""
        return indexed_words(record).strip() if record and self._records < RECORDS else ""

    def rename(self, title: str) -> None:
        before = self._about()
        self._connection.execute(
            "update digest set title = ? where session = ?", (encode_text(title), self._session)
        )
        if self._upto is not None and self._indexes:
            self._remove_text(_ABOUT, before)
            self._add_text(_ABOUT, self._about())

    def read_step(self) -> bool:
        """Index the next records of a session that is behind; returns whether it still is."""
        query = "select number, time, tag, attrs, text from record where session = ? and number > ? order by number limit ?"
        if not self._indexes:
            return False
        if self._upto is None:
            self._index_session()
        rows = self._connection.execute(query, (self._session, self._upto, STEP)).fetchall()
        self.behind = False
        for number, *row in rows:
            self.note(number, readable_record(tuple(row)), len(row[2]) + len(row[3]))
        return len(rows) == STEP

    def remove_step(self) -> bool:
        """Delete the session's last records; returns whether there are more. At the end, its digest
        is deleted too."""
        query = "select number, time, tag, attrs, text from record where session = ? order by number desc limit ?"
        rows = self._connection.execute(query, (self._session, STEP)).fetchall()
        for number, *row in rows:
            if number <= (self._upto or 0) and self._indexes:
                if words := self._indexed(readable_record(tuple(row))):
                    self._remove_text(self._records, words)
                self._records -= 1
        if rows:
            self._connection.execute(
                "delete from record where session = ? and number >= ?", (self._session, rows[-1][0])
            )
            self._connection.execute(
                "update digest set records = ? where session = ?",
                (max(0, self._records), self._session),
            )
        if len(rows) == STEP:
            return True
        if self._indexes and self._upto is not None:
            self._remove_text(_ABOUT, self._about())
        self._connection.execute("delete from digest where session = ?", (self._session,))
        return False

    def _about(self) -> str:
        row = self._row("select id, name, project from session where id = ?")
        return words(" ".join((*map(decode_text, row), self._title())))

    def _title(self) -> str:
        """Return the current title, which another connection may have changed."""
        row = self._row("select title from digest where session = ?")
        return decode_text(row[0]) if row else ""

    def _index_session(self) -> None:
        self._add_text(_ABOUT, self._about())
        self._connection.execute("update digest set upto = 0 where session = ?", (self._session,))
        self._upto = 0

    def _add_text(self, record: int, words: str) -> None:
        row = MatchedRecord(self._number, record).row
        values = (row, f"{self._folder} {words}")
        self._connection.execute("insert into said (rowid, text) values (?, ?)", values)

    def _remove_text(self, record: int, words: str) -> None:
        row = MatchedRecord(self._number, record).row
        values = (row, f"{self._folder} {words}")
        self._connection.execute(
            "insert into said (said, rowid, text) values ('delete', ?, ?)", values
        )


def catch_up(path: Path, seconds: float, pause: float = 0.0) -> int:
    """Index sessions that are behind, for at most that many seconds; returns how many still are.
    pause: after each step, as a multiple of its duration. Raises `StoreError`."""
    if not path.exists():
        return 0
    with open_index(path) as connection:
        if not make_index(connection):
            return 0
        waiting = [row[0] for row in connection.execute(_BEHIND)]
        try:
            _read_steps(connection, waiting, time.monotonic() + seconds, pause)
        except sqlite3.OperationalError as error:
            if not is_busy(error):  # otherwise the rest follows another time
                raise
        return len(waiting)


def _read_steps(
    connection: sqlite3.Connection, waiting: list[str], ends_at: float, pause: float
) -> None:
    """Index sessions, and remove them from those that wait."""
    if waiting:
        with transaction(connection):
            connection.execute(_NUMBER)
    while waiting and time.monotonic() < ends_at:
        began = time.monotonic()
        with transaction(connection):
            query = "select 1 from session where id = ?"  # it may have been deleted meanwhile
            there = connection.execute(query, waiting[:1]).fetchone()
            more = there is not None and SessionIndex(connection, waiting[0]).read_step()
        if not more:
            del waiting[0]
        if pause:
            time.sleep(pause * (time.monotonic() - began))


@contextlib.contextmanager
def open_index(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database, and empty its index if that is damaged. Raises `StoreError`."""
    try:
        with as_sentences(path), contextlib.closing(connect(path)) as connection:
            yield connection
    except StoreError as error:
        if is_index_corrupt(error.__cause__):
            rebuild_index(path)
        raise


def rebuild_index(path: Path) -> None:
    """Empty a damaged index, so that `catch_up` fills it again. Raises `StoreError`."""
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        make_index(empty)
        blocks = empty.execute("select id, block from said_data").fetchall()
    with (
        as_sentences(path),
        contextlib.closing(connect(path)) as connection,
        transaction(connection),
    ):
        # A damaged index can be neither opened nor dropped.
        for table in ("said_data", "said_idx", "said_docsize"):
            connection.execute(f"delete from {table}")
        connection.executemany("insert into said_data (id, block) values (?, ?)", blocks)
        connection.execute("update digest set upto = null, records = 0, size = 0, cost = 0")


def rename_session(path: Path, session: str, title: str) -> None:
    """Change the title of a session. Raises `StoreError`, also if there is no such session."""
    if not path.exists():
        raise StoreError(_NOTHING)
    with open_index(path) as connection, transaction(connection):
        if connection.execute("select 1 from session where id = ?", (session,)).fetchone() is None:
            raise StoreError(_NOTHING)
        SessionIndex(connection, session).rename(question_title(title))


def delete_session(path: Path, session: str) -> None:
    """Delete a session from its end, in steps between which others can write. Raises
    `StoreError`."""
    if not path.exists():
        return
    more = True
    with open_index(path) as connection:
        while more:
            with transaction(connection):
                more = SessionIndex(connection, session).remove_step()
                if not more:
                    connection.execute("delete from partial where session = ?", (session,))
                    connection.execute("delete from session where id = ?", (session,))


SHOWN = 300
"""Records in a preview."""
LONGEST, LONGEST_INDEXED = 10_000, 20_000
"""Characters of an output in a preview at most, and of a question, an answer or a cell, because
rendering long Markdown would block the screen."""
PRIVATE = "# This cell uses a private variable, so it is left out."

_COUNT = "select count(*) from record where session = ?"
_PAGE = (
    "select time, tag, attrs, text from record where session = ? order by number limit ? offset ?"
)
_MARKS = "select time, tag, attrs, text from record where session = ? and tag = ? order by number"


def preview(path: Path, session: str, number: int = 0) -> list[Record]:
    """Return the last records of a session, or those around a given one (from 1), without cells
    that use private variables. Raises `StoreError`."""
    with as_sentences(path), contextlib.closing(connect(path)) as connection:
        (count,) = connection.execute(_COUNT, (session,)).fetchone()
        first = max(0, min(count - SHOWN, number - SHOWN // 2 if number else count))
        rows = [readable_record(row) for row in connection.execute(_PAGE, (session, SHOWN, first))]
        marks = [
            readable_record(row)
            for row in connection.execute(_MARKS, (session, records.Private.tag))
        ]
    found = [_shortened(record) for record in rows if record is not None]
    hidden = HiddenEntries()
    for record in (*found, *(mark for mark in marks if mark is not None)):
        hidden.fold(record)
    shown = [
        visible for record in found if (visible := without_private(record, hidden)) is not None
    ]
    notices = [records.Notice(f"{first:,} earlier records are not shown here.")] if first else []
    if unreadable := rows.count(None):
        shown.append(records.Notice(f"{unreadable:,} records cannot be read.", level="warning"))
    return [*notices, *shown]


def _shortened(record: Record) -> Record:
    if isinstance(record, records.ReplOut) and len(record.text) > LONGEST:
        return record.changed(text=shortened(record.text, LONGEST), kinds=None, frames=None)
    if record.indexed and len(record.text) > LONGEST_INDEXED:
        return record.changed(text=shortened(record.text, LONGEST_INDEXED))
    return record


def without_private(record: Record, hidden: HiddenEntries) -> Record | None:
    """Return what may be shown of a record without private variables and the cells that use
    them."""
    if isinstance(record, records.Display) and record.cell is not None:
        return None if hidden.is_private(cell_entry(record.cell)) else record
    if isinstance(record, records.Namespace | records.Review):
        return record.changed(
            changes=tuple(change for change in record.changes if change.name not in hidden.private)
        )
    if not hidden.is_private(record.entry_name):
        return record
    return record.changed(text=PRIVATE) if isinstance(record, records.ReplIn) else None
