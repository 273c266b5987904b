"""Searches in the texts of all sessions, by an index of their words (`session_words`)."""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.store.database import decode_text, encode_text
from mahtab_tui.store.session_file import opened
from mahtab_tui.store.session_list import SESSION_COLUMNS, SessionRow, session_row
from mahtab_tui.store.session_preview import find_private_cells
from mahtab_tui.store.session_words import folder_word, open_words, words
from mahtab_tui.store.stored_records import StoredRow, readable_record

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
_MATCHES = "select rowid, session from word where word match ? order by rowid desc"
_FROM_SESSIONS = "from session left join digest on digest.session = session.id"
_DESCRIPTIONS = (
    f"select session.id, session.name, session.project, digest.title {_FROM_SESSIONS}"
    " where ? is null or project = ?"
)
_SESSION = f"select {SESSION_COLUMNS} {_FROM_SESSIONS} where session.id = ?"
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
        # A session whose title or folder matches is a hit without a record.
        record_numbers = search.newest_records
        for session, description in search.descriptions.items():
            if _has_words(description, query_words):
                record_numbers.setdefault(session, 0)
        hits = [
            _read_hit(connection, session, number, query_words)
            for session, number in record_numbers.items()
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
        connection: The database.
        session: The id of the session.
        number: That of the record; 0 for none.
        query_words: The words.
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
