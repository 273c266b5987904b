"""Copies of a session: of all of it, or of what was before one of its entries."""

from __future__ import annotations

import re
import time

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Branch
from mahtab_tui.bus.store_handler import StoreError
from mahtab_tui.store.database import fetched
from mahtab_tui.store.namespaces import copy_namespace
from mahtab_tui.store.resume import database, new_id
from mahtab_tui.store.sqlite import SqliteStore, fork_session, records_of, start_of_cell

_ENTRY = re.compile(r"(cell|question|answer|code|tool) (\d{1,9})\b")
_QUESTION = (
    "select number from record where session = ? and tag = ? and json_extract(case when json_valid(attrs) then attrs else '{}' end, '$.turn') = ?"
    " order by number limit 1"
)


def fork(session: str, entry: str = "") -> str:
    """Make a new session that begins as another one, or as it was before an entry (as
    `bus.left_out` names it); returns its id.

    A copy of all of it has the variables that were kept, too. Raises `StoreError`.
    """
    copy = new_id()
    if not entry:
        fork_session(database(), session, copy)
        copy_namespace(session, copy)
        return copy
    start, before, cell = _start(session, entry)
    fork_session(database(), session, copy, before=start)
    store = SqliteStore(database(), copy)
    text = f"This session is a copy of {session}, before {before}."
    store.append(Branch(text, origin=session, copy=copy, cell=cell, time=time.time()))
    marks = records_of(database(), copy, tags.PRIVATE)
    for mark in records_of(
        database(), session, tags.PRIVATE
    ):  # what is private now is private in its past, too
        if mark not in marks:
            store.append(mark)
    store.close()
    return copy


def _start(session: str, entry: str) -> tuple[int, str, int]:
    """Return the number of the record with which an entry begins, its name, and its cell; 0 if it
    is none. Raises `StoreError`."""
    found = _ENTRY.match(entry)
    if found is None:
        raise StoreError(
            "A copy begins before a cell, a question or an answer: choose one of them."
        )
    kind, number = found[1], int(found[2])
    if kind == "cell":
        start = start_of_cell(database(), session, number)
    else:
        start = next(
            (
                int(row[0])
                for row in fetched(database(), _QUESTION, (session, tags.USER_CHAT, number))
            ),
            None,
        )
    if start is None:
        raise StoreError("The session has no record of this entry.")
    return (
        start,
        f"{kind} {number}" if kind == "cell" else f"question {number}",
        number if kind == "cell" else 0,
    )
