"""Branches: sessions that begin as another one was before one of its cells."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Branch
from mahtab_tui.store.sqlite import SessionRow, SqliteStore, StoreError, fork_session, list_sessions, records_of, start_of_cell


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
    fork_session(path, session, copy, before=start)
    store = SqliteStore(path, copy)
    store.append(Branch(f"This session is a branch of {session}, before cell {cell}.", origin=session, copy=copy, cell=cell, time=time.time()))
    marks = records_of(path, copy, tags.PRIVATE)
    for mark in records_of(path, session, tags.PRIVATE):  # what is private now is private in its past, too
        if mark not in marks:
            store.append(mark)
    store.close()
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
