"""Branches and copies: sessions that begin as another one was before one of its entries."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.handlers import StoreError
from mahtab_tui.bus.records import Branch
from mahtab_tui.store.database import fetched
from mahtab_tui.store.namespaces import copy_namespace
from mahtab_tui.store.resume import database, new_id
from mahtab_tui.store.sqlite import SessionRow, SqliteStore, fork_session, list_sessions, records_of, start_of_cell

_ENTRY = re.compile(r"(cell|question|answer|code|tool) (\d{1,9})\b")
_QUESTION = (
    "select number from record where session = ? and tag = ? and json_extract(case when json_valid(attrs) then attrs else '{}' end, '$.turn') = ?"
    " order by number limit 1"
)


class BranchRow(NamedTuple):
    """A session of a family."""

    session: SessionRow
    depth: int
    """0 for the first session, 1 for its branches, and so on."""
    cell: int
    """It begins before this cell of the session that it branched from; 0 for the first session, and for copies that begin before a question."""


def branch_session(path: Path, session: str, copy: str, cell: int) -> Branch:
    """Make a new session with the id `copy` and another one's records up to a cell, or up to the question that the cell answers.

    Returns the record for the log of the other one. Raises `StoreError`.
    """
    start = start_of_cell(path, session, cell)
    if start is None:
        raise StoreError(f"The session has no record of cell {cell}.")
    _begin(path, session, copy, start, f"a branch of {session}, before cell {cell}", cell)
    return Branch(f"Branch {copy} begins before cell {cell}. /branches lists the branches and switches.", origin=session, copy=copy, cell=cell)


def family_of(path: Path, session: str) -> list[BranchRow]:
    """Return the sessions that are connected with one by branches, itself included, in the order of a tree. Raises `StoreError`."""
    branches: dict[str, Branch] = {}
    known, pending = {session}, [session]
    while pending:
        for branch in records_of(path, pending.pop(), tags.BRANCH):
            if isinstance(branch, Branch):
                branches[branch.copy] = branch
                new = {branch.origin, branch.copy} - known
                known |= new
                pending += new
    rows = {row.id: row for row in list_sessions(path) if row.id in known}
    firsts = sorted(known - branches.keys()) or [session]
    seen: set[str] = set()
    return [row for first in firsts for row in _with_branches(first, 0, rows, branches, seen)]


def _with_branches(session: str, depth: int, rows: Mapping[str, SessionRow], branches: Mapping[str, Branch], seen: set[str]) -> Iterator[BranchRow]:
    """A session and its branches. Of a deleted one, only the branches."""
    seen.add(session)
    if session in rows:
        yield BranchRow(rows[session], depth, branches[session].cell if session in branches else 0)
        depth += 1
    below = sorted((branch for branch in branches.values() if branch.origin == session), key=lambda branch: branch.time)
    for branch in below:
        if branch.copy not in seen:
            yield from _with_branches(branch.copy, depth, rows, branches, seen)


def fork(session: str, entry: str = "") -> str:
    """Make a new session that begins as another one, or as it was before an entry (as `bus.left_out` names it); returns its id.

    A copy of all of it has the variables that were kept, too. Raises `StoreError`.
    """
    copy = new_id()
    if not entry:
        fork_session(database(), session, copy)
        copy_namespace(session, copy)
        return copy
    start, what, cell = _start(session, entry)
    _begin(database(), session, copy, start, f"a copy of {session}, before {what}", cell)
    return copy


def fork_before(session: str, number: int) -> str:
    """Make a new session of another one's records before this number; returns its id. Raises `StoreError`."""
    copy = new_id()
    _begin(database(), session, copy, number, f"a copy of {session}, as it was in the middle", 0)
    return copy


def _begin(path: Path, session: str, copy: str, start: int, what: str, cell: int) -> None:
    """Make a new session of another one's records before a number, and say in it what it is."""
    fork_session(path, session, copy, before=start)
    store = SqliteStore(path, copy)
    store.append(Branch(f"This session is {what}.", origin=session, copy=copy, cell=cell, time=time.time()))
    marks = records_of(path, copy, tags.PRIVATE)
    for mark in records_of(path, session, tags.PRIVATE):  # what is private now is private in its past, too
        if mark not in marks:
            store.append(mark)
    store.close()


def _start(session: str, entry: str) -> tuple[int, str, int]:
    """Return the number of the record with which an entry begins, its name, and its cell; 0 if it is none. Raises `StoreError`."""
    found = _ENTRY.match(entry)
    if found is None:
        raise StoreError("A copy begins before a cell, a question or an answer: choose one of them.")
    kind, number = found[1], int(found[2])
    if kind == "cell":
        start = start_of_cell(database(), session, number)
    else:
        start = next((int(row[0]) for row in fetched(database(), _QUESTION, (session, tags.USER_CHAT, number))), None)
    if start is None:
        raise StoreError("The session has no record of this entry.")
    return start, f"{kind} {number}" if kind == "cell" else f"question {number}", number if kind == "cell" else 0
