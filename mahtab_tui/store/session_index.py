"""An index of the words in all sessions, and searches in it.

Nothing is indexed when a record is written. `catch_up` reads the new records in small steps, and
writes the words into a file of their own, which is made again if it is damaged."""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3
import time
import unicodedata
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.records import KINDS, Record
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.store.database import decode_text, encode_text, file_identity, transaction
from mahtab_tui.store.session_file import is_read_only, opened
from mahtab_tui.store.session_list import SESSION_COLUMNS, SessionRow, session_row
from mahtab_tui.store.session_preview import find_private_cells, shorten_middle
from mahtab_tui.store.spare_database import SpareDatabase
from mahtab_tui.store.stored_records import StoredRow, readable_record

RECORDS_PER_STEP = 100
"""Records whose words are written in one transaction."""

MAX_QUERY_WORDS = 20
"""Only this many words of a query count."""
MAX_WORD_CHARS = 100
"""Only this many characters of a query's word count."""
EXCERPT_CHARS = 160
"""Characters of the record shown for a hit."""
SEARCH_TIMEOUT_S = 1.0
"""A search ends after this many seconds: a common word may be in a million records."""
ROWS_PER_CLOCK_CHECK = 500
"""The time is looked at once for this many matching records."""
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
    "select number, session, time, tag, attrs, text, (select project from session where id = record.session)"
    f" {_FROM_NEW_RECORDS} order by number limit ?"
)
_SESSIONS_BEHIND = f"select distinct session {_FROM_NEW_RECORDS}"

_MATCHES = "select rowid, session from word where word match ? order by rowid desc"
_DESCRIPTIONS = (
    "select session.id, session.name, session.project, digest.title from session left join digest on digest.session = session.id"
    " where ? is null or project = ?"
)
_SESSION = f"select {SESSION_COLUMNS} from session left join digest on digest.session = session.id where session.id = ?"
_RECORD = "select time, tag, attrs, text from record where number = ? and session = ?"
_RECORD_INDEX = "select count(*) from record where session = ? and number <= ?"


class SessionHit(NamedTuple):
    """A session that a search found."""

    session: SessionRow
    excerpt: str
    """Excerpt of its newest matching record, on one line; empty if only its title or folder
    matches."""
    record: int = 0
    """The number of that record within the session, from 1; 0 for none."""


class SessionHits(NamedTuple):
    """The sessions that a search found, newest first."""

    hits: list[SessionHit]
    more: bool
    """Whether there may be more."""


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
    file = str(file_identity(path))
    with opened(path) as connection, contextlib.closing(open_words(path)) as index:

        def last_indexed() -> int:
            return index.run(partial(_last_indexed, file)) or 0

        (last_number,) = connection.execute(
            "select coalesce(max(number), 0) from record"
        ).fetchone()
        # A new database may have the identity of a deleted one.
        if last_indexed() > last_number:
            index.run(lambda index: index.execute("delete from indexed"))

        while time.monotonic() < deadline:
            step_start = time.monotonic()
            parameters = (last_indexed(), RECORDS_PER_STEP)
            rows = connection.execute(_NEW_RECORDS, parameters).fetchall()
            if not rows or not index.run(partial(_add_words, file, rows)):
                break
            if pause:
                time.sleep(pause * (time.monotonic() - step_start))
        sessions_behind = connection.execute(_SESSIONS_BEHIND, (last_indexed(),)).fetchall()
    return len(sessions_behind)


def _last_indexed(file: str, index: sqlite3.Connection) -> int:
    """Return the number of the last indexed record of a database; forget the words of another."""
    row = index.execute("select upto from indexed where file = ?", (file,)).fetchone()
    if row is None:
        index.execute("delete from word")
        return 0
    return int(row[0])


def _add_words(file: str, rows: Sequence[tuple[Any, ...]], index: sqlite3.Connection) -> bool:
    """Write the words of records. It does no harm if another program has written them."""
    word_rows = []
    for number, session, *columns, project in rows:
        record_words = indexed_words(readable_record(StoredRow(*columns)))
        word_rows.append((number, session, f"{folder_word(project or '')} {record_words}"))
    last_number = rows[-1][0]

    query = "insert or replace into word (rowid, session, text) values (?, ?, ?)"
    with transaction(index):
        index.executemany(query, word_rows)
        index.execute("delete from indexed")
        index.execute("insert into indexed values (?, ?)", (last_number, file))
    return True


def wanted_words(typed: str) -> list[str]:
    """Return the words of a query in the form in which they are compared."""
    return [word[:MAX_WORD_CHARS] for word in words(typed).split()[:MAX_QUERY_WORDS]]


def find_sessions(
    path: Path, typed: str, project: str | None = None, *, limit: int = 100
) -> SessionHits:
    """Find sessions in which an entry contains all words of a query. Id, name, folder and title
    together count as an entry. Raises `StoreError`.

    Args:
        path: The database.
        typed: The query; its last word may be a prefix.
        project: Only sessions of this folder; None for all.
        limit: How many sessions to return at most.
    """
    query_words = wanted_words(typed)
    if not query_words or not path.exists():
        return SessionHits([], False)

    with opened(path) as connection, contextlib.closing(open_words(path)) as index:
        folder = None if project is None else encode_text(project)
        search = _EntrySearch(connection, query_words, folder, limit)
        may_have_more = bool(index.run(search.collect))
        newest_records = search.newest_records
        for session, description in search.descriptions.items():
            if _has_words(description, query_words):
                newest_records.setdefault(session, 0)
        hits = [
            _read_hit(connection, session, number, query_words)
            for session, number in newest_records.items()
        ]

    hits.sort(key=lambda hit: -hit.session.last)
    return SessionHits(hits[:limit], may_have_more or len(hits) > limit)


class _EntrySearch:
    """Looks for the newest entry of each session that has all words of a query."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        query_words: Sequence[str],
        folder: str | bytes | None,
        limit: int,
    ) -> None:
        """
        Args:
            connection: The database of the sessions.
            query_words: The words.
            folder: The folder of the sessions, as stored; None for all.
            limit: How many sessions to find at most.
        """
        self._connection = connection
        self._query_words = query_words
        self._folder = folder
        self._limit = limit
        self.descriptions: dict[str, str] = {}
        """The words of each session's own texts."""
        for columns in connection.execute(_DESCRIPTIONS, (folder, folder)):
            self.descriptions[columns[0]] = _description_words(columns)
        self.newest_records: dict[str, int] = {}
        """The number of the newest matching record, by session."""
        self._hidden_by_session: dict[str, HiddenEntries] = {}
        """The entries of each session that must not be found."""

    def collect(self, index: sqlite3.Connection) -> bool:
        """Find the records, and return whether there may be more.

        Args:
            index: The words of the records.
        """
        deadline = time.monotonic() + SEARCH_TIMEOUT_S
        matches = index.execute(_MATCHES, (_match_query(self._query_words, self._folder),))
        for row_index, (number, session) in enumerate(matches):
            if row_index % ROWS_PER_CLOCK_CHECK == 0 and time.monotonic() > deadline:
                return True
            if session in self.newest_records or session not in self.descriptions:
                continue
            if len(self.newest_records) == self._limit:
                return True
            if self._is_visible(session, number):
                self.newest_records[session] = number
        return False

    def _is_visible(self, session: str, number: int) -> bool:
        """Return whether a record can be read and shows no private variable."""
        if session not in self._hidden_by_session:
            self._hidden_by_session[session] = find_private_cells(self._connection, session)
        record = _read_record(self._connection, session, number)
        if record is None:
            return False
        return not self._hidden_by_session[session].is_private(record.entry_name)


def _match_query(query_words: Sequence[str], folder: str | bytes | None) -> str:
    """Return SQLite's full-text query for words; the last one may be a prefix."""
    query = " ".join(f'"{word}"' for word in query_words)
    # A prefix of one letter would match most records.
    if len(query_words[-1]) > 1:
        query += " *"
    if folder is not None:
        query = f'"{folder_word(folder)}" {query}'
    return query


@functools.lru_cache(maxsize=20_000)
def _description_words(stored_texts: tuple[str | None, ...]) -> str:
    """Return the words of a session's id, name, folder and title."""
    return words(" ".join(decode_text(text) for text in stored_texts))


def _has_words(text: str, query_words: Sequence[str]) -> bool:
    """Return whether words occur in a text; the last one may be a prefix."""
    *whole_words, last_word = query_words
    text = f" {text} "
    return all(f" {word} " in text for word in whole_words) and f" {last_word}" in text


def _read_hit(
    connection: sqlite3.Connection, session: str, number: int, query_words: Sequence[str]
) -> SessionHit:
    """Return a session with the text around the words in a record.

    Args:
        number: That of the record; 0 for none.
    """
    row = session_row(connection.execute(_SESSION, (session,)).fetchone())
    record = _read_record(connection, session, number)
    (index,) = connection.execute(_RECORD_INDEX, (session, number)).fetchone()
    text = "" if record is None else excerpt(record.text, query_words)
    return SessionHit(row, text, index)


def _read_record(connection: sqlite3.Connection, session: str, number: int) -> Record | None:
    """Return a record; None if it was deleted, is damaged or of a newer version."""
    columns = connection.execute(_RECORD, (number, session)).fetchone()
    if columns is None:
        return None
    return readable_record(StoredRow(*columns))


def words_pattern(query_words: Sequence[str]) -> str:
    """Return a pattern of the words in a text; words with accents are not found."""
    return "|".join(map(re.escape, sorted(query_words, key=len, reverse=True)))


def excerpt(text: str, query_words: Sequence[str]) -> str:
    """Return the text around the first of the words, on one line."""
    match = re.search(words_pattern(query_words), text, re.IGNORECASE)
    start = 0 if match is None else max(0, match.start() - EXCERPT_CHARS // 3)
    # Twice as much as is shown, because blanks collapse.
    end = start + 2 * EXCERPT_CHARS
    line = " ".join(one_line(text[start:end]).split())
    is_cut = len(line) > EXCERPT_CHARS or end < len(text)
    beginning = "… " if start else ""
    ending = " …" if is_cut else ""
    return f"{beginning}{line[:EXCERPT_CHARS]}{ending}"
