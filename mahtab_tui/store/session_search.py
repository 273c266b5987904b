"""Finds sessions by their conversations and cells."""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.prompt import HiddenEntries
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.store.database import decode_text, encode_text, opened
from mahtab_tui.store.session_index import folder_word, hidden_entries, open_words, words
from mahtab_tui.store.sqlite import SESSION_COLUMNS, SessionRow, readable_record, session_row

MOST_WORDS, LONGEST_WORD = 20, 100
"""Maximum number of words in a query, and of characters in a word."""
EXCERPT = 160
"""Characters of the record shown for a hit."""
SECONDS = 1.0
"""After which a search ends: a common word may be in a million records."""
_CHECK = 500
"""Rows between two checks of the clock."""

_MATCHES = "select rowid, session from word where word match ? order by rowid desc"
_ABOUT = (
    "select session.id, session.name, session.project, digest.title from session left join digest on digest.session = session.id"
    " where ? is null or project = ?"
)
_SESSION = f"select {SESSION_COLUMNS} from session left join digest on digest.session = session.id where session.id = ?"
_RECORD = "select time, tag, attrs, text from record where number = ? and session = ?"
_NUMBER = "select count(*) from record where session = ? and number <= ?"


class Hit(NamedTuple):
    session: SessionRow
    excerpt: str
    """Excerpt of its newest matching record, on one line; empty if only its title or folder
    matches."""
    record: int = 0
    """The number of that record within the session, from 1; 0 for none."""


class Found(NamedTuple):
    hits: list[Hit]
    more: bool


def wanted_words(typed: str) -> list[str]:
    """Return the words of a query in the form in which they are compared."""
    return [word[:LONGEST_WORD] for word in words(typed).split()[:MOST_WORDS]]


def find_sessions(path: Path, typed: str, project: str | None = None, *, limit: int = 100) -> Found:
    """Return the sessions of a project, or of all, in which an entry contains all the words, newest
    first; the last word may be a prefix. Id, name, folder and title together count as an entry.
    Raises `StoreError`."""
    wanted = wanted_words(typed)
    if not wanted or not path.exists():
        return Found([], False)
    with opened(path) as connection, contextlib.closing(open_words(path)) as index:
        folder = None if project is None else encode_text(project)
        query = " ".join(f'"{word}"' for word in wanted) + (" *" if len(wanted[-1]) > 1 else "")
        if folder is not None:
            query = f'"{folder_word(folder)}" {query}'
        about = {row[0]: _about_words(row) for row in connection.execute(_ABOUT, (folder, folder))}
        newest: dict[str, int] = {}
        """The newest matching record of each session; 0 for what it is about."""
        hidden: dict[str, HiddenEntries] = {}

        def collect(at: sqlite3.Connection) -> bool:
            """Find the newest records; returns whether there may be more."""
            ends_at = time.monotonic() + SECONDS
            for count, (number, session) in enumerate(at.execute(_MATCHES, (query,))):
                if count % _CHECK == 0 and time.monotonic() > ends_at:
                    return True
                if session in newest or session not in about:
                    continue
                if len(newest) == limit:
                    return True
                if session not in hidden:
                    hidden[session] = hidden_entries(connection, session)
                record = _record(connection, session, number)
                if record is not None and not hidden[session].is_private(record.entry_name):
                    newest[session] = number
            return False

        more = bool(index.run(collect))
        for session in about:
            if _has_words(about[session], wanted):
                newest.setdefault(session, 0)
        hits = [_hit(connection, session, newest[session], wanted) for session in newest]
    hits.sort(key=lambda hit: -hit.session.last)
    return Found(hits[:limit], more or len(hits) > limit)


@functools.lru_cache(maxsize=20_000)
def _about_words(stored: tuple[str | None, ...]) -> str:
    """Return the words of a session's id, name, folder and title."""
    return words(" ".join(decode_text(each or "") for each in stored))


def _has_words(text: str, wanted: Sequence[str]) -> bool:
    *whole, last = wanted
    text = f" {text} "
    return all(f" {word} " in text for word in whole) and f" {last}" in text


def _hit(connection: sqlite3.Connection, session: str, number: int, wanted: Sequence[str]) -> Hit:
    row = session_row(connection.execute(_SESSION, (session,)).fetchone())
    record = _record(connection, session, number)
    (index,) = connection.execute(_NUMBER, (session, number)).fetchone()
    return Hit(row, "" if record is None else excerpt(record.text, wanted), index)


def _record(connection: sqlite3.Connection, session: str, number: int) -> Record | None:
    row = connection.execute(_RECORD, (number, session)).fetchone()
    return None if row is None else readable_record(row)


def words_pattern(wanted: Sequence[str]) -> str:
    """Return a pattern of the words in a text; words with accents are not found."""
    return "|".join(map(re.escape, sorted(wanted, key=len, reverse=True)))


def excerpt(text: str, wanted: Sequence[str]) -> str:
    """Return the text around the first of the words, on one line."""
    found = re.search(words_pattern(wanted), text, re.IGNORECASE)
    start = 0 if found is None else max(0, found.start() - EXCERPT // 3)
    cut = " ".join(one_line(text[start : start + 2 * EXCERPT]).split())
    after = " …" if len(cut) > EXCERPT or start + 2 * EXCERPT < len(text) else ""
    return f"{'… ' if start else ''}{cut[:EXCERPT]}{after}"
