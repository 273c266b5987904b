"""Copies of sessions, whole or up to an entry."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.records import Branch, Private, ReplIn, UserChat
from mahtab_tui.store.resume import (
    OpenedSession,
    SessionNotFound,
    database,
    new_id,
    notice,
    resumed_store,
)
from mahtab_tui.store.saved_namespace import copy_namespace
from mahtab_tui.store.session_list import SessionRow
from mahtab_tui.store.sqlite import (
    ALL_RECORDS,
    SqliteStore,
    fork_session,
    load_records,
    records_with_tag,
)

_ENTRY_NAME = re.compile(r"(cell|question|answer|code|tool) (\d{1,9})\b")


def forked_store(row: SessionRow, *, variables: bool = False) -> OpenedSession:
    """Open a copy of a session. Raises `SessionNotFound`."""
    try:
        copy = fork(row.id)
    except StoreError as error:
        raise SessionNotFound(str(error)) from None
    opened = resumed_store(row._replace(id=copy), variables=variables)
    text = f"This is now the session {copy}, a copy of {row.id}. Both continue independently."
    opened.past.append(notice(text))
    return opened


def fork(session: str, entry: str = "") -> str:
    """Copy a session, or its part before an entry (`Record.entry_name`); returns the copy's id.

    Raises `StoreError`.
    """
    copy = new_id()
    if not entry:
        fork_session(database(), session, copy)
        copy_namespace(session, copy)
        return copy

    start = _find_start(session, entry)
    fork_session(database(), session, copy, before=start.record_number)
    store = SqliteStore(database(), copy)
    text = f"This session is a copy of {session}, before {start.name}."
    store.append(Branch(text, origin=session, copy=copy, cell=start.cell, time=time.time()))

    # Variables that are private now are private in the past, too.
    copied_marks = records_with_tag(database(), copy, Private.tag)
    for mark in records_with_tag(database(), session, Private.tag):
        if mark not in copied_marks:
            store.append(mark)
    store.close()
    return copy


class _EntryStart(NamedTuple):
    """Where an entry begins, so that a copy of what is before it ends there."""

    record_number: int
    """The first record that is not copied."""
    name: str
    """Such as ``question 2``."""
    cell: int
    """0 for a question."""


def _find_start(session: str, entry: str) -> _EntryStart:
    """Return where an entry begins. Raises `StoreError` if there is no such entry."""
    match = _ENTRY_NAME.match(entry)
    if match is None:
        text = "A copy begins before a cell, a question or an answer: choose one of them."
        raise StoreError(text)
    is_cell = match[1] == "cell"
    entry_number = int(match[2])
    last_question = 0
    for number, record in load_records(database(), session, limit=ALL_RECORDS).records:
        if isinstance(record, UserChat):
            last_question = number
            if not is_cell and record.turn == entry_number:
                return _EntryStart(number, f"question {entry_number}", 0)
        elif is_cell and isinstance(record, ReplIn) and record.cell == entry_number:
            # A cell of an answer goes with its question.
            belongs_to_question = last_question and record.turn is not None
            first_record = last_question if belongs_to_question else number
            return _EntryStart(first_record, f"cell {entry_number}", entry_number)
    raise StoreError("The session has no record of this entry.")
