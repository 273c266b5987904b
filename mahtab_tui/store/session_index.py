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

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.prompt import HiddenEntries
from mahtab_tui.bus.records import KINDS, Record, cell_entry
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.store.database import (
    SpareDatabase,
    decode_text,
    encode_text,
    file_identity,
    is_read_only,
    opened,
    transaction,
)
from mahtab_tui.store.sqlite import SESSION_COLUMNS, SessionRow, readable_record, session_row


def day(row: SessionRow) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(row.last))


LONGEST_TITLE = 100
"""Characters of a title at most."""
STEP = 100
"""Records whose words are written in one transaction."""
_NOTHING = "Nothing of this session is saved yet, so it has no title."
_EASTERN = "\u3040-\u30ff\u3400-\u9fff"
"""Letters of scripts without spaces, each of which is indexed as a word."""
_WORD = re.compile(rf"[{_EASTERN}]|[^\W_{_EASTERN}]+")
_NO_WORD = re.compile(r"[^a-z0-9]+")

_TABLES = """
create table if not exists indexed (upto integer not null, file text not null);
create virtual table if not exists word
    using fts5(session unindexed, text, detail=none, prefix='2 3', tokenize='ascii');
"""
"""The words of a record have its number. `upto`: the number of the last indexed record. `file`: the
identity of the database, which may be replaced."""
_TAGS = ", ".join(sorted({f"'{tag}'" for (tag, _), kind in KINDS.items() if kind.indexed}))
_NEW = f"from record where number > ? and tag in ({_TAGS})"
_NEW_RECORDS = (
    "select number, session, time, tag, attrs, text, (select project from session where id = record.session)"
    f" {_NEW} order by number limit ?"
)


def words(text: str) -> str:
    """Return the words of a text without case, accents and punctuation, separated by spaces."""
    text = plain(text).lower()
    if text.isascii():
        return _NO_WORD.sub(" ", text)
    letters = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(_WORD.findall(unicodedata.normalize("NFC", bare)))


def indexed_words(record: Record | None) -> str:
    """Return the indexed words of a record; none of an output that shows a private variable."""
    if record is None or (isinstance(record, records.ReplOut) and record.private):
        return ""
    return words(shortened(record.text, record.indexed)).strip()


def folder_word(project: str | bytes) -> str:
    """Return the word that marks each record of a folder, and occurs in no text. project: as
    stored."""
    return f"§{zlib.crc32(project.encode() if isinstance(project, str) else project):x}"


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest // 2]}\n{text[-(longest // 2) :]}"


def question_title(text: str) -> str:
    """Return the first line of a question, as a title."""
    for line in text[:10_000].splitlines():
        if cleaned := " ".join(plain(line).split()):
            return cleaned[:LONGEST_TITLE]
    return ""


def open_words(path: Path) -> SpareDatabase:
    """Open the words of the sessions in a database."""
    words = path.with_name(f"{path.stem}-words.db")
    return SpareDatabase(words, _TABLES, 5.0, "The index of words", lambda problem: None)


def catch_up(path: Path, seconds: float, pause: float = 0.0) -> int:
    """Index new records, for at most that many seconds; returns how many sessions are still behind.
    pause: after each step, as a multiple of its duration. Raises `StoreError`."""
    if not path.exists() or is_read_only(path):
        return 0
    ends_at, file = time.monotonic() + seconds, str(file_identity(path))
    with opened(path) as connection, contextlib.closing(open_words(path)) as index:

        def upto() -> int:
            return index.run(partial(_upto, file)) or 0

        (last,) = connection.execute("select coalesce(max(number), 0) from record").fetchone()
        if upto() > last:  # a new database may have the identity of a deleted one
            index.run(lambda at: at.execute("delete from indexed"))
        while time.monotonic() < ends_at:
            began = time.monotonic()
            rows = connection.execute(_NEW_RECORDS, (upto(), STEP)).fetchall()
            if not rows or not index.run(partial(_add_words, file, rows)):
                break
            if pause:
                time.sleep(pause * (time.monotonic() - began))
        behind = connection.execute(f"select distinct session {_NEW}", (upto(),)).fetchall()
    return len(behind)


def _upto(file: str, index: sqlite3.Connection) -> int:
    found = index.execute("select upto from indexed where file = ?", (file,)).fetchone()
    if found is None:
        index.execute("delete from word")
    return int(found[0]) if found else 0


def _add_words(file: str, rows: Sequence[tuple[Any, ...]], index: sqlite3.Connection) -> bool:
    """Write the words of records. It does no harm if another program has written them."""
    added = []
    for number, session, *stored, project in rows:
        found = indexed_words(readable_record(tuple(stored)))
        added.append((number, session, f"{folder_word(project or '')} {found}"))
    query = "insert or replace into word (rowid, session, text) values (?, ?, ?)"
    with transaction(index):
        index.executemany(query, added)
        index.execute("delete from indexed")
        index.execute("insert into indexed values (?, ?)", (rows[-1][0], file))
    return True


def rename_session(path: Path, session: str, title: str) -> None:
    """Change the title of a session. Raises `StoreError`, also if there is no such session."""
    if not path.exists():
        raise StoreError(_NOTHING)
    with opened(path) as connection, transaction(connection):
        if connection.execute("select 1 from session where id = ?", (session,)).fetchone() is None:
            raise StoreError(_NOTHING)
        query = "insert into digest (session, title) values (?, ?) on conflict (session) do update set title = excluded.title"
        connection.execute(query, (session, encode_text(question_title(title))))


def delete_session(path: Path, session: str) -> None:
    """Delete all of a session. Raises `StoreError`."""
    if not path.exists():
        return
    with opened(path) as connection:
        with transaction(connection):
            for table in ("record", "partial", "digest"):
                connection.execute(f"delete from {table} where session = ?", (session,))
            connection.execute("delete from session where id = ?", (session,))
        (last,) = connection.execute("select coalesce(max(number), 0) from record").fetchone()

    def forget(index: sqlite3.Connection) -> None:
        with transaction(index):
            index.execute("delete from word where session = ?", (session,))
            # New records may have the numbers of deleted ones.
            index.execute("update indexed set upto = min(upto, ?)", (last,))

    with contextlib.closing(open_words(path)) as index:
        index.run(forget)


SHOWN = 300
LONGEST = 20_000
"""Characters of a text in a preview at most, because rendering long Markdown would block the
screen."""
PRIVATE = "# This cell uses a private variable, so it is left out."

_COUNT = "select count(*) from record where session = ?"
_PAGE = (
    "select time, tag, attrs, text from record where session = ? order by number limit ? offset ?"
)
_IS_PRIVATE = "select 1 from record where session = ? and tag = ? limit 1"
_USES = f"select time, tag, attrs, '' from record where session = ? and tag in ({', '.join('?' * (1 + len(records.OUTPUTS)))}) order by number"
"""Marks of private variables, and the cells that use them; without texts, which may be long."""


def hidden_entries(connection: sqlite3.Connection, session: str) -> HiddenEntries:
    """Find the cells of a session that use private variables."""
    hidden = HiddenEntries()
    if connection.execute(_IS_PRIVATE, (session, records.Private.tag)).fetchone() is None:
        return hidden
    for row in connection.execute(_USES, (session, records.Private.tag, *records.OUTPUTS)):
        if (record := readable_record(row)) is not None:
            hidden.fold(record)
    return hidden


def preview(path: Path, session: str, number: int = 0) -> list[Record]:
    """Return the last records of a session, or those around a given one (from 1), without cells
    that use private variables. Raises `StoreError`."""
    with opened(path) as connection:
        (count,) = connection.execute(_COUNT, (session,)).fetchone()
        first = max(0, min(count - SHOWN, number - SHOWN // 2 if number else count))
        rows = [readable_record(row) for row in connection.execute(_PAGE, (session, SHOWN, first))]
        hidden = hidden_entries(connection, session)
    found = (without_private(_shortened(row), hidden) for row in rows if row is not None)
    shown = list(filter(None, found))
    if first:
        shown.insert(0, records.Notice(f"{first:,} earlier records are not shown here."))
    if unreadable := rows.count(None):
        shown.append(records.Notice(f"{unreadable:,} records cannot be read.", level="warning"))
    return shown


def _shortened(record: Record) -> Record:
    if isinstance(record, records.ReplOut) and len(record.text) > LONGEST:
        return record.changed(text=shortened(record.text, LONGEST), kinds=None, frames=None)
    return record.changed(text=shortened(record.text, LONGEST)) if record.indexed else record


def without_private(record: Record, hidden: HiddenEntries) -> Record | None:
    """Return a record without private variables, or None for a cell that uses them."""
    if isinstance(record, records.Display) and record.cell is not None:
        return None if hidden.is_private(cell_entry(record.cell)) else record
    if isinstance(record, records.Namespace | records.Review):
        changes = tuple(each for each in record.changes if each.name not in hidden.private)
        return record.changed(changes=changes)
    if not hidden.is_private(record.entry_name):
        return record
    return record.changed(text=PRIVATE) if isinstance(record, records.ReplIn) else None


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
