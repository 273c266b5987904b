"""The words of all sessions, for searches in them (`session_index`).

Nothing is indexed when a record is written. `catch_up` reads the new records in small steps, and
writes the words into a file of their own, which is made again if it is damaged.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
import unicodedata
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.records import KINDS, Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.store.database import file_identity, transaction
from mahtab_tui.store.session_file import is_read_only, opened
from mahtab_tui.store.session_preview import shorten_middle
from mahtab_tui.store.spare_database import SpareDatabase
from mahtab_tui.store.stored_records import StoredRow, readable_record

RECORDS_PER_STEP = 100
"""Records whose words are written in one transaction."""
_EASTERN_LETTERS = "\u3040-\u30ff\u3400-\u9fff"
"""Letters of scripts without spaces; each one is indexed as a word."""
_WORD = re.compile(rf"[{_EASTERN_LETTERS}]|[^\W_{_EASTERN_LETTERS}]+")
_NOT_ASCII_WORD = re.compile(r"[^a-z0-9]+")

_INDEX_TABLES = """
create table if not exists indexed (upto integer not null, file text not null);
create virtual table if not exists word
    using fts5(session unindexed, text, detail=none, prefix='2 3', tokenize='ascii');
"""
"""The words of a record have its number. `upto`: the number of the last indexed record. `file`: the
identity of the database, which may be replaced."""

_INDEXED_TAGS = ", ".join(sorted({f"'{tag}'" for (tag, _), kind in KINDS.items() if kind.indexed}))
_FROM_NEW_RECORDS = f"from record where number > ? and tag in ({_INDEXED_TAGS})"
_NEW_RECORDS = (
    "select number, session, time, tag, attrs, text,"
    " (select project from session where id = record.session)"
    f" {_FROM_NEW_RECORDS} order by number limit ?"
)
_SESSIONS_BEHIND = f"select distinct session {_FROM_NEW_RECORDS}"


def words(text: str) -> str:
    """Return the words of a text without case, accents and punctuation, separated by spaces."""
    text = plain(text).lower()
    if text.isascii():
        return _NOT_ASCII_WORD.sub(" ", text)
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(_WORD.findall(unicodedata.normalize("NFC", letters)))


def indexed_words(record: Record | None) -> str:
    """Return the indexed words of a record; none of an output that shows a private variable."""
    if record is None or (isinstance(record, records.ReplOut) and record.private):
        return ""
    return words(shorten_middle(record.text, record.indexed)).strip()


def folder_word(project: str | bytes) -> str:
    """Return the word that marks each record of a folder, and occurs in no text.

    Args:
        project: The folder, as it is stored.
    """
    data = project.encode() if isinstance(project, str) else project
    return f"§{zlib.crc32(data):x}"


def open_words(path: Path) -> SpareDatabase:
    """Open the words of the sessions in a database."""
    words_path = path.with_name(f"{path.stem}-words.db")
    return SpareDatabase(words_path, _INDEX_TABLES, 5.0, "The index of words", lambda problem: None)


def catch_up(path: Path, seconds: float, pause: float = 0.0) -> int:
    """Index new records. Raises `StoreError`.

    Args:
        path: The database.
        seconds: How long to index at most.
        pause: How long to sleep after each step, as a multiple of its duration.

    Returns:
        How many sessions are still behind.
    """
    if not path.exists() or is_read_only(path):
        return 0
    deadline = time.monotonic() + seconds
    database = str(file_identity(path))
    with opened(path) as connection, contextlib.closing(open_words(path)) as index:
        _forget_deleted_database(connection, index, database)
        while time.monotonic() < deadline:
            step_start = time.monotonic()
            parameters = (_last_indexed(index, database), RECORDS_PER_STEP)
            rows = connection.execute(_NEW_RECORDS, parameters).fetchall()
            if not rows or not index.run(partial(_add_words, database, rows)):
                break
            if pause:
                time.sleep(pause * (time.monotonic() - step_start))
        last_number = _last_indexed(index, database)
        sessions_behind = connection.execute(_SESSIONS_BEHIND, (last_number,)).fetchall()
    return len(sessions_behind)


def _forget_deleted_database(
    connection: sqlite3.Connection, index: SpareDatabase, database: str
) -> None:
    """Index all records again if more are indexed than there are: a new database may have the identity
    of a deleted one."""
    query = "select coalesce(max(number), 0) from record"
    (last_number,) = connection.execute(query).fetchone()
    if _last_indexed(index, database) > last_number:
        index.run(lambda words_file: words_file.execute("delete from indexed"))


def _last_indexed(index: SpareDatabase, database: str) -> int:
    """Return the number of the last indexed record; 0 if the index cannot be read."""
    return index.run(partial(_read_last_indexed, database)) or 0


def _read_last_indexed(database: str, words_file: sqlite3.Connection) -> int:
    """Return the number of the last indexed record of a database; forget the words of another one."""
    row = words_file.execute("select upto from indexed where file = ?", (database,)).fetchone()
    if row is None:
        words_file.execute("delete from word")
        return 0
    return int(row[0])


def _add_words(
    database: str, rows: Sequence[tuple[Any, ...]], words_file: sqlite3.Connection
) -> bool:
    """Write the words of records, and return True. It does no harm if another program has written
    them."""
    word_rows = []
    for number, session, *columns, project in rows:
        record_words = indexed_words(readable_record(StoredRow(*columns)))
        word_rows.append((number, session, f"{folder_word(project or '')} {record_words}"))
    last_number = rows[-1][0]

    query = "insert or replace into word (rowid, session, text) values (?, ?, ?)"
    with transaction(words_file):
        words_file.executemany(query, word_rows)
        words_file.execute("delete from indexed")
        words_file.execute("insert into indexed values (?, ?)", (last_number, database))
    return True
