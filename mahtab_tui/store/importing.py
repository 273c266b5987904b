"""Makes a saved session of a session's file."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.records.base import encode
from mahtab_tui.store.database import (
    new_session,
    remove_unfinished,
    suppress_all_but_damage,
    transaction,
)
from mahtab_tui.store.digest import Digest, catch_up
from mahtab_tui.store.encoding import as_json, stored
from mahtab_tui.store.resume import new_id
from mahtab_tui.store.session_file import Header, opened_session
from mahtab_tui.store.sqlite import INSERT, beginning

IMPORTED = "This session was imported from a file. None of its variables came with it, and files that it mentions may not be here."
_STEP = 500
"""Records to write in one transaction, so that others can write in between."""
_CATCH_UP = 10.0
"""Seconds for which the new session is read into the index at most; the rest follows when somebody searches."""
_TIED = (records.Branch, records.Skill, records.Plan, records.NotebookFile, records.NotebookWritten)
"""Records that would tie the new session to this machine's sessions, skills and files, or let it act."""


class Imported(NamedTuple):
    """What an import has made."""

    session: str
    """Its id, a new one."""
    title: str
    records: int
    unknown: int
    """Records that only a newer version knows; they are left out."""


def import_session(database: Path, file: Path, project: str, *, limit: int | None = None) -> Imported:
    """Make a new session of a folder from a file: all of it, or nothing. limit: only so many of its records, from the first.

    Raises `BadSessionFile`, `OSError`, `StoreError`."""
    with opened_session(file) as (_, found):
        for _ in found:  # a damaged file leaves no trace
            pass
    with suppress_all_but_damage():  # the next line meets the rest again
        remove_unfinished(database)
    session = new_id()
    with opened_session(file) as (header, found), new_session(database, session) as connection:
        made = _written(connection, session, project, header, _first(found, limit))
    with suppress_all_but_damage():
        catch_up(database, _CATCH_UP)
    return made


def _written(connection: sqlite3.Connection, session: str, project: str, header: Header, found: Iterator[Record | None]) -> Imported:
    count = unknown = 0
    first = ""
    while step := list(itertools.islice(found, _STEP)):
        known = [record for record in step if record is not None]
        unknown += len(step) - len(known)
        kept = [_without_program(record) for record in known if not isinstance(record, _TIED)]
        first = first or next((beginning(record) for record in kept if isinstance(record, records.UserChat | records.UserReplIn)), "")
        with transaction(connection):
            connection.executemany(INSERT, [_row(session, record) for record in kept])
        count += len(kept)
    now = time.time()
    with transaction(connection):  # last, so that no half imported session is listed
        connection.execute(INSERT, _row(session, records.Restore(IMPORTED, time=now)))
        row = (session, stored(header.name), stored(project), header.started or now, now, stored(first))
        connection.execute("insert into session (id, name, project, started, last, first) values (?, ?, ?, ?, ?, ?)", row)
        if header.title:
            Digest(connection, session).rename(header.title)
    return Imported(session, header.title or first, count, unknown)


def _without_program(record: Record) -> Record:
    """Remove what a kernel ran on: resuming the session would start it."""
    return record.changed(executable=None, address=None) if isinstance(record, records.Kernel) else record


def _first(found: Iterator[Record | None], limit: int | None) -> Iterator[Record | None]:
    """Yield up to so many known records."""
    for record in found:
        if limit is not None and record is not None:
            if limit == 0:
                return
            limit -= 1
        yield record


def _row(session: str, record: Record) -> tuple[str, float, str, str, str | bytes]:
    return session, record.time, record.tag, as_json(encode(record)), stored(record.text)
