"""New, resumed and forked sessions on disk."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.records import (
    Agent,
    AssistantChat,
    Branch,
    NotebookFile,
    NotebookWritten,
    Notice,
    Private,
    Record,
    ReplIn,
    ReplOut,
    UserChat,
    UserReplIn,
)
from mahtab_tui.kernel.base import SaveTarget
from mahtab_tui.settings.model import home_folder
from mahtab_tui.store.database import LockedElsewhere, lock_session, locked_sessions
from mahtab_tui.store.sqlite import (
    ALL,
    SessionRow,
    SqliteStore,
    fork_session,
    list_sessions,
    load_records,
    records_with_tag,
)
from mahtab_tui.worker.saving.folder import INDEX

_KEY_BYTES = 32


def save_target(session: str, megabytes: int) -> SaveTarget | None:
    """Return where a session's variables are saved; None if they cannot be."""
    if sys.platform != "linux":  # elsewhere, forking a kernel with loaded libraries is unsafe
        return None
    try:
        _namespaces().mkdir(mode=0o700, parents=True, exist_ok=True)
        return SaveTarget(str(_folder(session)), _key().hex(), megabytes)
    except OSError:  # the store reports that the home folder is not writable
        return None


def is_saved(session: str) -> bool:
    return (_folder(session) / INDEX).exists()


def copy_namespace(session: str, copy: str) -> None:
    """Give a new session the saved variables of another one. Both share the files, which never
    change."""
    source, target = _folder(session), _folder(copy)
    with contextlib.suppress(OSError):
        target.mkdir(mode=0o700)
        # The index last, when everything it names exists.
        for file in sorted(source.iterdir(), key=lambda file: file.name == INDEX):
            os.link(file, target / file.name)


def draft_path(session: str) -> Path:
    """Return the file with the text that was in the editor of a session."""
    return home_folder() / "drafts" / f"session-{quote(session, safe='')}.json"


def _namespaces() -> Path:
    return home_folder() / "namespaces"


def _folder(session: str) -> Path:
    return _namespaces() / f"session-{quote(session, safe='')}"


def _key() -> bytes:
    """Return the key that signs this user's saved variables. Raises `OSError`."""
    path = _namespaces() / "key"
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    with contextlib.suppress(FileExistsError):
        new = path.with_name(f"key.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, secrets.token_bytes(_KEY_BYTES))
        finally:
            os.close(descriptor)
        try:
            os.link(new, path)
        finally:
            new.unlink()
    return path.read_bytes()


TAIL = 5_000


class SessionNotFound(Exception):
    """A session does not exist or cannot be read; the message is a sentence."""


def database() -> Path:
    return home_folder() / "sessions.db"


_Opened = tuple[SqliteStore, str, list[Record]]
"""The store of a session, its name, and its past records."""


def new_store(project: Path) -> _Opened:
    name, session = project.name or "session", new_id()
    claim = lock_session(session)
    store = SqliteStore(database(), session, name=name, project=str(project), claim=claim)
    return store, name, []


def new_id() -> str:
    return uuid.uuid4().hex[:8]


def find_session(session: str | None, project: Path | None) -> SessionRow:
    """Find a session by the start of its id; None for the last one. Raises `SessionNotFound`."""
    folder = None if project is None else str(project)
    limit = 1 if session is None else ALL
    try:
        rows = list_sessions(database(), folder, begins=session or "", limit=limit)
    except StoreError as error:
        raise SessionNotFound(str(error)) from None
    if session is None and not rows:
        raise SessionNotFound("There is no session to resume.")
    if session is not None and len(rows) != 1:
        count = f"{len(rows)} sessions" if rows else "no session"
        text = f"There is {count} whose ID begins with {session!r}. mahtab-tui sessions --all lists them."
        raise SessionNotFound(text)
    return rows[0]


def resumed_store(row: SessionRow, *, variables: bool = False) -> _Opened:
    """Open a session. Raises `SessionNotFound`, or `LockedElsewhere` if another program has it
    open."""
    try:
        lock = lock_session(row.id)
        page = load_records(database(), row.id, limit=TAIL)
        marks, files, written = (
            records_with_tag(database(), row.id, kind.tag)
            for kind in (Private, NotebookFile, NotebookWritten)
        )
    except StoreError as error:
        raise SessionNotFound(str(error)) from None
    past = [record for _, record in page.records]
    # These apply no matter how old they are.
    marks = [mark for mark in (*marks, *files, *written[-1:]) if mark not in past]
    if page.earlier:
        text = f"Earlier records not shown here: {page.earlier:,}. /export writes all of them."
        marks.append(_notice(text))
    past = [*marks, *past]
    if page.unreadable:
        text = f"{page.unreadable:,} of the session's records cannot be read and are left out."
        past.append(_notice(text, "warning"))
    follows = variables and is_saved(row.id)
    what = "variables follow." if follows else "variables were not. Re-run what you need."
    past.append(_notice(f"Conversation restored; {what}{_about_cut_answer(past)}"))
    store = SqliteStore(database(), row.id, name=row.name, project=row.project, claim=lock)
    return store, row.name, past


def reattach(store: SqliteStore, past: Sequence[Record], cell: int) -> list[Record]:
    """Return the past records of a session whose kernel was reattached. cell: the running cell; 0
    for none."""
    store.cells_continue = True
    records = list(past)
    if records and isinstance(records[-1], Notice):
        records.pop()
    end = len(records)
    while end and (
        isinstance(last := records[end - 1], Notice)
        or (isinstance(last, ReplOut | AssistantChat) and last.cut)
    ):
        end -= 1
    # The output is sent again from its start.
    records[end:] = [record for record in records[end:] if not isinstance(record, ReplOut)]
    runs = f" Cell {cell} is still running." if cell else ""
    text = f"Reattached to the running kernel.{runs}{_about_cut_answer(past)}"
    return [*records, _notice(text)]


def _about_cut_answer(past: Sequence[Record]) -> str:
    kinds = Agent | UserReplIn | UserChat
    last = next((record for record in reversed(past) if isinstance(record, kinds)), None)
    cut = isinstance(last, Agent) and last.state in ("thinking", "reflecting")
    return " The model's answer was cut off: ask again if you need the rest." if cut else ""


def forked_store(row: SessionRow, *, variables: bool = False) -> _Opened:
    """Open a copy of a session. Raises `SessionNotFound`."""
    try:
        copy = fork(row.id)
    except StoreError as error:
        raise SessionNotFound(str(error)) from None
    store, name, past = resumed_store(row._replace(id=copy), variables=variables)
    text = f"This is now the session {copy}, a copy of {row.id}. Both continue independently."
    past.append(_notice(text))
    return store, name, past


def remove_session(row: SessionRow) -> None:
    """Delete a session's records and variables. Raises `SessionNotFound` if it is open or its
    kernel waits, and `StoreError`."""
    from mahtab_tui.kernel.detached import recovered_output, waiting_kernels
    from mahtab_tui.kernel.remote.process import noted_kernels
    from mahtab_tui.store.session_index import delete_session

    id = row.id
    if any(not kernel.has_host for kernel in waiting_kernels(id)) or (
        id not in locked_sessions() and noted_kernels(id)
    ):
        how = f"Stop it first: mahtab-tui sessions stop {id}"
        raise SessionNotFound(f"Session {id} has a kernel in the background. {how}")
    try:
        lock = lock_session(id)
    except LockedElsewhere as error:
        holder = error.holder.sentence_part()
        raise SessionNotFound(f"The session {id} is open ({holder}). Close it first.") from None
    try:
        delete_session(database(), id)
        shutil.rmtree(_folder(id), ignore_errors=True)
        draft_path(id).unlink(missing_ok=True)
        for _, _, path in recovered_output(id):
            path.unlink(missing_ok=True)
    finally:
        if lock is not None:
            lock.release()


def _notice(text: str, level: str = "info") -> Record:
    return Notice(text, level=level, time=time.time())


_ENTRY = re.compile(r"(cell|question|answer|code|tool) (\d{1,9})\b")


def fork(session: str, entry: str = "") -> str:
    """Copy a session, or its part before an entry (`Record.entry_name`); returns the copy's id.
    Raises `StoreError`."""
    copy = new_id()
    if not entry:
        fork_session(database(), session, copy)
        copy_namespace(session, copy)
        return copy
    start, before, cell = _entry_start(session, entry)
    fork_session(database(), session, copy, before=start)
    store = SqliteStore(database(), copy)
    text = f"This session is a copy of {session}, before {before}."
    store.append(Branch(text, origin=session, copy=copy, cell=cell, time=time.time()))
    marks = records_with_tag(database(), copy, Private.tag)
    # Variables that are private now are private in the past, too.
    for mark in records_with_tag(database(), session, Private.tag):
        if mark not in marks:
            store.append(mark)
    store.close()
    return copy


def _entry_start(session: str, entry: str) -> tuple[int, str, int]:
    """Return an entry's first record, its name, and its cell (0 for a question)."""
    found = _ENTRY.match(entry)
    if found is None:
        text = "A copy begins before a cell, a question or an answer: choose one of them."
        raise StoreError(text)
    number, of_cell, question = int(found[2]), found[1] == "cell", 0
    for index, record in load_records(database(), session, limit=ALL).records:
        if isinstance(record, UserChat):
            question = index
            if not of_cell and record.turn == number:
                return index, f"question {number}", 0
        elif of_cell and isinstance(record, ReplIn) and record.cell == number:
            start = question if question and record.turn is not None else index
            return start, f"cell {number}", number
    raise StoreError("The session has no record of this entry.")
