"""Finds sessions by their conversations and cells, and caches vectors for search by meaning."""

from __future__ import annotations

import functools
import re
import sqlite3
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.prompt import HiddenEntries
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.store.database import SpareDatabase, decode_text, make_index, transaction
from mahtab_tui.store.session_index import MatchedRecord, folder_word, open_index, words
from mahtab_tui.store.sqlite import SESSION_COLUMNS, SessionRow, readable_record, session_row

_TABLE = """
pragma synchronous = normal;
create table if not exists vector (number integer primary key, model text not null, digest blob not null, data blob not null, unique (model, digest));
"""
_CACHED = 200_000
"""Vectors that are cached at most; the oldest are dropped first."""
_AT_ONCE = 500
"""Digests in one query."""


class Vectors:
    """Caches vectors by model and digest of the text, in a file of its own, because they are large
    and can be computed again. Any thread may call it."""

    def __init__(self, path: Path | None, on_problem: Callable[[str], None]) -> None:
        """path: None to keep vectors only in memory. on_problem: called with a sentence if the file
        cannot be used."""
        self._database = SpareDatabase(
            path, _TABLE, 5.0, "The cache of vectors", "vectors", on_problem
        )

    def known(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        def read(at: sqlite3.Connection) -> dict[bytes, bytes]:
            found: dict[bytes, bytes] = {}
            for start in range(0, len(digests), _AT_ONCE):
                some = digests[start : start + _AT_ONCE]
                query = f"select digest, data from vector where model = ? and digest in ({', '.join('?' * len(some))})"
                found |= at.execute(query, (model, *some)).fetchall()
            return found

        return self._database.run(read) or {}

    def keep(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        def write(at: sqlite3.Connection) -> None:
            with transaction(at):
                at.executemany(
                    "insert or ignore into vector (model, digest, data) values (?, ?, ?)",
                    [(model, digest, data) for digest, data in vectors.items()],
                )
                at.execute(
                    "delete from vector where number <= (select max(number) from vector) - ?",
                    (_CACHED,),
                )

        self._database.run(write)

    def close(self) -> None:
        self._database.close()


MOST_WORDS, LONGEST_WORD = 20, 100
"""Maximum number of words in a query, and of characters in a word."""
EXCERPT = 160
"""Characters of the record shown for a hit."""
SECONDS = 1.0
"""After which a search ends: a common word may be in a million records."""
_ACCENTS = "[\u0300-\u036f]*"
_LOOK = 500
"""Rows between two checks of the clock."""
_NO_RECORD = -1

_MATCHES = "select rowid from said where said match ? order by rowid desc"
_SESSION = (
    f"select {SESSION_COLUMNS}, digest.private or digest.upto < (select max(number) from record where session = session.id)"
    " from digest join session on session.id = digest.session where digest.number = ?"
)
"""A session, and whether it may have private variables."""
_RECORD = (
    "select time, tag, attrs, text from record where session = ? order by number limit 1 offset ?"
)
_USES = f"select time, tag, attrs, '' from record where session = ? and tag in ({', '.join('?' * (1 + len(records.OUTPUTS)))}) order by number"
"""Marks of private variables, and the cells that use them; without texts, which may be long."""


class Hit(NamedTuple):
    """A session that matches."""

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
    first; the last word may be a prefix. Raises `StoreError`."""
    wanted = wanted_words(typed)
    if not wanted or not path.exists():
        return Found([], False)
    with open_index(path) as connection:
        if not make_index(connection):
            raise StoreError(
                "This Python's SQLite has no full-text index (FTS5), so sessions cannot be searched."
            )
        hits, more = _hits(connection, wanted, project, limit)
    hits.sort(key=lambda hit: -hit.session.last)
    return Found(hits, more)


def _hits(
    connection: sqlite3.Connection, wanted: Sequence[str], project: str | None, limit: int
) -> tuple[list[Hit], bool]:
    ends_at = time.monotonic() + SECONDS
    hits: list[Hit] = []
    last = _NO_RECORD
    """The previous row's session, if it needs no further check."""
    guarded: tuple[int, HiddenEntries] | None = None
    for count, (row,) in enumerate(connection.execute(_MATCHES, (_query(wanted, project),))):
        if count % _LOOK == 0 and time.monotonic() > ends_at:
            return hits, True
        matched = MatchedRecord.of(row)
        if matched.digest == last:
            continue
        if len(hits) == limit:
            return hits, True
        found = connection.execute(_SESSION, (matched.digest,)).fetchone()
        if found is None or project not in (None, decode_text(found[2])):
            last = matched.digest
            continue
        session = session_row(found[:-1])
        record = _record(connection, session.id, matched.record)
        if found[-1] and record is not None:
            if guarded is None or guarded[0] != matched.digest:
                guarded = matched.digest, _hidden_entries(connection, session.id)
            if guarded[1].is_private(record.entry_name):
                continue
        last = matched.digest
        hits.append(
            Hit(session, "" if record is None else excerpt(record.text, wanted), matched.record)
        )
    return hits, False


def _query(wanted: Sequence[str], project: str | None) -> str:
    """Return an FTS5 query, in which no word has a special meaning."""
    folder = [] if project is None else [folder_word(project)]
    prefix = " *" if len(wanted[-1]) > 1 else ""
    return " ".join(f'"{word}"' for word in (*folder, *wanted)) + prefix


def _record(connection: sqlite3.Connection, session: str, record: int) -> Record | None:
    row = connection.execute(_RECORD, (session, record - 1)).fetchone() if record else None
    return None if row is None else readable_record(row)


def _hidden_entries(connection: sqlite3.Connection, session: str) -> HiddenEntries:
    """Return which cells of a session use private variables."""
    hidden = HiddenEntries()
    for row in connection.execute(_USES, (session, records.Private.tag, *records.OUTPUTS)):
        if (record := readable_record(row)) is not None:
            hidden.fold(record)
    return hidden


def words_pattern(wanted: Sequence[str]) -> str:
    """Return a pattern of the words in a text, with or without accents."""
    accented = _accented()
    words = (
        "".join(f"[{re.escape(letter)}{accented.get(letter, '')}]{_ACCENTS}" for letter in word)
        for word in wanted
    )
    return "|".join(sorted(words, key=len, reverse=True))


@functools.cache
def _accented() -> dict[str, str]:
    """Latin, Greek and Cyrillic letters with accents, by their base letter."""
    found: dict[str, str] = {}
    for letter in map(chr, range(0xC0, 0x530)):
        base = unicodedata.normalize("NFKD", letter)[0].casefold()
        if base != letter.casefold():
            found[base] = found.get(base, "") + letter
    return found


def excerpt(text: str, wanted: Sequence[str]) -> str:
    """Return the text around the first of the words, on one line."""
    found = re.search(words_pattern(wanted), text, re.IGNORECASE)
    start = 0 if found is None else max(0, found.start() - EXCERPT // 3)
    cut = " ".join(one_line(text[start : start + 2 * EXCERPT]).split())
    after = " …" if len(cut) > EXCERPT or start + 2 * EXCERPT < len(text) else ""
    return f"{'… ' if start else ''}{cut[:EXCERPT]}{after}"
