"""Finds sessions by their conversations and cells, and caches vectors for search by meaning."""

from __future__ import annotations

import functools
import re
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.prompt import HiddenEntries
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.store.corruption import (
    decode_text,
    file_identity,
    is_corrupt,
    move_damaged_file,
    open_file,
)
from mahtab_tui.store.database import make_index, transaction
from mahtab_tui.store.session_index import (
    MatchedRecord,
    folder_word,
    indexed_words,
    open_index,
    words,
)
from mahtab_tui.store.sqlite import SESSION_COLUMNS, SessionRow, readable_record, session_row

_TABLE = """
create table if not exists vector (number integer primary key, model text not null, digest blob not null, data blob not null, unique (model, digest));
"""
_CACHE_CHARS = 200_000
"""Maximum number of cached vectors; the oldest are dropped first."""
_WAIT = 5.0
"""Seconds to wait for another program's write; only background threads write."""
_AT_ONCE = 500
"""Number of digests per query."""


class Vectors:
    """Caches vectors by model and digest of the text. Any thread may call it. Nothing here raises:
    without the file, vectors are kept in memory.

    The file is separate from the sessions' file, because that must only be locked briefly, whereas
    vectors are large and can be computed again.
    """

    def __init__(self, path: Path | None, on_problem: Callable[[str], None]) -> None:
        """path: the file; None to keep vectors only in memory. on_problem: called with a sentence
        if the file cannot be used."""
        self._path = path
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._identity = None if path is None else file_identity(path)
        self._connection = self._opened()

    def known(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the cached vectors."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(digests), _AT_ONCE):
            some = digests[start : start + _AT_ONCE]
            statement = f"select digest, data from vector where model = ? and digest in ({', '.join('?' * len(some))})"
            with self._lock:
                found |= (
                    self._tried(
                        lambda at, statement=statement, some=some: dict(  # type: ignore[misc]
                            at.execute(statement, (model, *some)).fetchall()
                        )
                    )
                    or {}
                )
        return found

    def keep(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Cache vectors."""
        rows = [(model, digest, data) for digest, data in vectors.items()]

        def write(at: sqlite3.Connection) -> dict[bytes, bytes]:
            with transaction(at):
                at.executemany(
                    "insert or ignore into vector (model, digest, data) values (?, ?, ?)", rows
                )
                at.execute(
                    "delete from vector where number <= (select max(number) from vector) - ?",
                    (_CACHE_CHARS,),
                )
            return {}

        with self._lock:
            self._tried(write)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _tried(
        self, work: Callable[[sqlite3.Connection], dict[bytes, bytes]]
    ) -> dict[bytes, bytes] | None:
        """Use the database; a damaged one is replaced."""
        try:
            return work(self._connection)
        except sqlite3.Error as error:
            if is_corrupt(error) and self._path is not None:
                self._connection.close()
                self._replace()
                self._connection = self._opened()
            else:
                self._on_problem(f"The vectors in {self._path} cannot be used: {error}.")
            return None

    def _opened(self) -> sqlite3.Connection:
        for _ in range(2):
            try:
                return _connect(self._path)
            except (sqlite3.Error, OSError) as error:
                if self._path is None or not is_corrupt(error):
                    self._on_problem(
                        f"The vectors in {self._path} cannot be used: {error}. They are kept in memory only."
                    )
                    break
                self._replace()
        return _connect(None)

    def _replace(self) -> None:
        """Rename a damaged file."""
        assert self._path is not None
        with suppress(OSError):
            move_damaged_file(self._path, self._identity or file_identity(self._path))
        self._identity = None


def _connect(path: Path | None) -> sqlite3.Connection:
    connection = open_file(path, _TABLE, _WAIT)
    connection.execute("pragma synchronous = normal")
    return connection


MOST_WORDS = 20
"""Maximum number of words in a query."""
LONGEST_WORD = 100
"""Maximum characters of a word in a query."""
EXCERPT = 160
"""Characters of the record shown for a hit."""
SECONDS = 1.0
"""Seconds after which a search ends with what it has found, because a common word may be in a
million records."""
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
_NEWEST = (
    "select session, time, tag, attrs, text from record where tag in ({}) order by number desc"
)


class Hit(NamedTuple):
    """A session that matches."""

    session: SessionRow
    excerpt: str
    """Excerpt of its newest matching record, on one line; empty if only its title or folder
    matches."""
    record: int = 0
    """The number of that record within the session, from 1; 0 for none."""


class Found(NamedTuple):
    """The result of a search."""

    hits: list[Hit]
    more: bool
    """Whether there may be more."""
    note: str = ""
    """A sentence that says that there is no index; otherwise empty."""


def wanted_words(typed: str) -> list[str]:
    """Return the words of a query in the form in which they are compared."""
    return [word[:LONGEST_WORD] for word in words(typed).split()[:MOST_WORDS]]


def find_sessions(path: Path, typed: str, project: str | None = None, *, limit: int = 100) -> Found:
    """Return the sessions of a project, or of all, in which an entry contains all the words, newest
    first; the last word may be a prefix.

    Raises `StoreError`.
    """
    wanted = wanted_words(typed)
    if not wanted or not path.exists():
        return Found([], False)
    with open_index(path) as connection:
        if not make_index(connection):
            return _read_all(connection, wanted, project, limit)
        hits, more = _hits(connection, wanted, project, limit)
    hits.sort(key=lambda hit: -hit.session.last)
    return Found(hits, more)


def _hits(
    connection: sqlite3.Connection, wanted: Sequence[str], project: str | None, limit: int
) -> tuple[list[Hit], bool]:
    ends_at = time.monotonic() + SECONDS
    hits: list[Hit] = []
    last = _NO_RECORD
    """The session of the previous row, if it needs no further check."""
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
    """Return the words as an FTS5 query; each is a token of its own, so nothing in it has a special
    meaning."""
    folder = [] if project is None else [folder_word(project)]
    return " ".join(f'"{word}"' for word in (*folder, *wanted)) + (
        " *" if len(wanted[-1]) > 1 else ""
    )


def _record(connection: sqlite3.Connection, session: str, record: int) -> Record | None:
    """Return a record by its number in the index; None for the session itself."""
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
    """Return a regular expression that matches words of a query in a text, with or without
    accents."""
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
    """Return the part of a text around the first line that contains one of the words, on one
    line."""
    found = re.search(words_pattern(wanted), text, re.IGNORECASE)
    start = 0 if found is None else max(0, found.start() - EXCERPT // 3)
    cut = " ".join(one_line(text[start : start + 2 * EXCERPT]).split())
    return (
        ("… " if start else "")
        + cut[:EXCERPT]
        + (" …" if len(cut) > EXCERPT or start + 2 * EXCERPT < len(text) else "")
    )


def _read_all(
    connection: sqlite3.Connection, wanted: Sequence[str], project: str | None, limit: int
) -> Found:
    """Search without an index: read the newest records, as far as time allows."""
    ends_at = time.monotonic() + SECONDS
    hits: dict[str, Hit] = {}
    guards: dict[str, HiddenEntries] = {}
    more = False
    for session, record in _newest(connection):
        if more := time.monotonic() > ends_at or len(hits) == limit:
            break
        if session in hits or not _has(indexed_words(record), wanted):
            continue
        row = connection.execute(
            f"select {SESSION_COLUMNS} from session left join digest on digest.session = session.id where session.id = ?",
            (session,),
        ).fetchone()
        if row is None or project not in (None, decode_text(row[2])):
            continue
        if session not in guards:
            guards[session] = _hidden_entries(connection, session)
        if not guards[session].is_private(record.entry_name):
            hits[session] = Hit(session_row(row), excerpt(record.text, wanted))
    note = (
        "This Python's SQLite has no full-text index (FTS5), so only the newest records were searched."
        if more
        else ""
    )
    return Found(sorted(hits.values(), key=lambda hit: -hit.session.last), more, note)


def _newest(connection: sqlite3.Connection) -> Iterator[tuple[str, Record]]:
    texts = (
        records.UserChat.tag,
        records.AssistantChat.tag,
        records.UserReplIn.tag,
        records.AssistantReplIn.tag,
        *records.OUTPUTS,
    )
    for session, *row in connection.execute(_NEWEST.format(", ".join("?" * len(texts))), texts):
        if (record := readable_record(tuple(row))) is not None:
            yield session, record


def _has(text: str, wanted: Sequence[str]) -> bool:
    found = text.split()
    return all(word in found for word in wanted[:-1]) and any(
        word.startswith(wanted[-1]) for word in found
    )
