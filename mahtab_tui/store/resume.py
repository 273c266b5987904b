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
from typing import NamedTuple
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
from mahtab_tui.kernel.values import SaveTarget
from mahtab_tui.settings.model import home_folder
from mahtab_tui.store.file_copies import delete_file_copies
from mahtab_tui.store.session_list import SessionRow, list_sessions
from mahtab_tui.store.session_lock import LockedElsewhere, lock_session, locked_sessions
from mahtab_tui.store.sqlite import (
    ALL_RECORDS,
    SqliteStore,
    fork_session,
    load_records,
    records_with_tag,
)
from mahtab_tui.worker.saving.folder import INDEX, OWNER

SIGNING_KEY_BYTES = 32
MAX_PAST_RECORDS = 5_000
"""Records of a resumed session that are read, from the end."""

_ENTRY_NAME = re.compile(r"(cell|question|answer|code|tool) (\d{1,9})\b")


class OpenedSession(NamedTuple):
    """A session in the store that this program may write."""

    store: SqliteStore
    name: str
    past: list[Record]
    """Its newest records, the oldest first; empty for a new session."""


def save_target(session: str, megabytes: int) -> SaveTarget | None:
    """Return where a session's variables are saved; None if they cannot be."""
    if sys.platform != "linux":  # elsewhere, forking a kernel with loaded libraries is unsafe
        return None
    try:
        _namespaces().mkdir(mode=0o700, parents=True, exist_ok=True)
        return SaveTarget(str(_namespace_folder(session)), _signing_key().hex(), megabytes)
    except OSError:  # the store reports that the home folder is not writable
        return None


def is_saved(session: str) -> bool:
    """Whether a session has saved variables."""
    return (_namespace_folder(session) / INDEX).exists()


def copy_namespace(session: str, copy: str) -> None:
    """Give a new session the saved variables of another one. Both share the files, which never
    change."""
    source = _namespace_folder(session)
    target = _namespace_folder(copy)
    with contextlib.suppress(OSError):
        target.mkdir(mode=0o700)
        # The index last, when everything it names exists.
        for file in sorted(source.iterdir(), key=lambda file: file.name == INDEX):
            # Each session has a kernel of its own, which may write.
            if file.name != OWNER:
                os.link(file, target / file.name)


def draft_path(session: str) -> Path:
    """Return the file with the text that was in the editor of a session."""
    return home_folder() / "drafts" / f"session-{quote(session, safe='')}.json"


def _namespaces() -> Path:
    return home_folder() / "namespaces"


def _namespace_folder(session: str) -> Path:
    return _namespaces() / f"session-{quote(session, safe='')}"


def _signing_key() -> bytes:
    """Return the key that signs this user's saved variables. Raises `OSError`."""
    path = _namespaces() / "key"
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    # A link, so that the file is complete when it appears, and the first of two programs wins.
    with contextlib.suppress(FileExistsError):
        new_path = path.with_name(f"key.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(new_path, flags, 0o600)
        try:
            os.write(descriptor, secrets.token_bytes(SIGNING_KEY_BYTES))
        finally:
            os.close(descriptor)
        try:
            os.link(new_path, path)
        finally:
            new_path.unlink()
    return path.read_bytes()


class SessionNotFound(Exception):
    """A session does not exist or cannot be read; the message is a sentence."""


def database() -> Path:
    """Return the file of all sessions."""
    return home_folder() / "sessions.db"


def new_store(project: Path) -> OpenedSession:
    """Begin a session in a folder. Nothing is written before its first record."""
    name = project.name or "session"
    session = new_id()
    claim = lock_session(session)
    store = SqliteStore(database(), session, name=name, project=str(project), claim=claim)
    return OpenedSession(store, name, past=[])


def new_id() -> str:
    """Return an unused session id."""
    return uuid.uuid4().hex[:8]


def find_session(session: str | None, project: Path | None) -> SessionRow:
    """Find a session by the start of its id; None for the last one. Raises `SessionNotFound`."""
    if session == "":
        raise SessionNotFound(
            "The session's ID is empty. mahtab-tui sessions --all lists all sessions."
        )
    folder = None if project is None else str(project)
    limit = 1 if session is None else ALL_RECORDS
    try:
        rows = list_sessions(database(), folder, begins=session or "", limit=limit)
    except StoreError as error:
        raise SessionNotFound(str(error)) from None
    if session is None and not rows:
        raise SessionNotFound("There is no session to resume.")
    if session is not None and len(rows) != 1:
        count = f"{len(rows):,} sessions" if rows else "no session"
        text = f"There is {count} whose ID begins with {session!r}. mahtab-tui sessions --all lists them."
        raise SessionNotFound(text)
    return rows[0]


def resumed_store(row: SessionRow, *, variables: bool = False) -> OpenedSession:
    """Open a session. Raises `SessionNotFound`, or `LockedElsewhere` if another program has it
    open."""
    try:
        lock = lock_session(row.id)
        page = load_records(database(), row.id, limit=MAX_PAST_RECORDS)
        private_marks = records_with_tag(database(), row.id, Private.tag)
        notebook_files = records_with_tag(database(), row.id, NotebookFile.tag)
        notebook_writes = records_with_tag(database(), row.id, NotebookWritten.tag)
    except StoreError as error:
        raise SessionNotFound(str(error)) from None
    last_records = [record for _, record in page.records]

    # These apply no matter how old they are.
    lasting_records = (*private_marks, *notebook_files, *notebook_writes[-1:])
    past = [record for record in lasting_records if record not in last_records]
    if page.earlier:
        text = f"Earlier records not shown here: {page.earlier:,}. /export writes all of them."
        past.append(_notice(text))
    past += last_records
    if page.unreadable:
        text = f"{page.unreadable:,} of the session's records cannot be read and are left out."
        past.append(_notice(text, "warning"))
    if variables and is_saved(row.id):
        text = "Conversation restored; variables follow."
    else:
        text = "Conversation restored; variables were not. Re-run what you need."
    past.append(_notice(text + _cut_answer_note(past)))
    store = SqliteStore(database(), row.id, name=row.name, project=row.project, claim=lock)
    return OpenedSession(store, row.name, past)


def reattach(store: SqliteStore, past: Sequence[Record], cell: int) -> list[Record]:
    """Return the past records of a session whose kernel was reattached. cell: the running cell; 0
    for none."""
    store.cells_continue = True
    records = list(past)
    # The notice that the conversation was restored.
    if records and isinstance(records[-1], Notice):
        records.pop()

    # The running cell sends its output again from its start, so what is stored is dropped.
    end = len(records)
    while end and _is_unfinished(records[end - 1]):
        end -= 1
    records[end:] = [record for record in records[end:] if not isinstance(record, ReplOut)]

    text = "Reattached to the running kernel."
    if cell:
        text += f" Cell {cell} is still running."
    records.append(_notice(text + _cut_answer_note(past)))
    return records


def _is_unfinished(record: Record) -> bool:
    """Whether a record at the end of a session was not complete when its program ended, or follows
    such a record."""
    if isinstance(record, ReplOut | AssistantChat):
        return bool(record.cut)
    return isinstance(record, Notice)


def _cut_answer_note(past: Sequence[Record]) -> str:
    """Return a sentence if the program ended while the model was answering."""
    for record in reversed(past):
        if isinstance(record, UserReplIn | UserChat):
            return ""
        if isinstance(record, Agent):
            if record.state in ("thinking", "reflecting"):
                return " The model's answer was cut off: ask again if you need the rest."
            return ""
    return ""


def forked_store(row: SessionRow, *, variables: bool = False) -> OpenedSession:
    """Open a copy of a session. Raises `SessionNotFound`."""
    try:
        copy = fork(row.id)
    except StoreError as error:
        raise SessionNotFound(str(error)) from None
    opened = resumed_store(row._replace(id=copy), variables=variables)
    text = f"This is now the session {copy}, a copy of {row.id}. Both continue independently."
    opened.past.append(_notice(text))
    return opened


def remove_session(row: SessionRow) -> None:
    """Delete a session's records and variables. Raises `SessionNotFound` if it is open or its
    kernel waits, and `StoreError`."""
    from mahtab_tui.kernel.detached import detached_kernels, recovered_output
    from mahtab_tui.kernel.remote.notes import noted_kernels
    from mahtab_tui.store.session_index import delete_session

    session = row.id
    has_local_kernel = any(not kernel.has_host for kernel in detached_kernels(session))
    has_remote_kernel = session not in locked_sessions() and bool(noted_kernels(session))
    if has_local_kernel or has_remote_kernel:
        advice = f"Stop it first: mahtab-tui sessions stop {session}"
        raise SessionNotFound(f"Session {session} has a kernel in the background. {advice}")
    try:
        lock = lock_session(session)
    except LockedElsewhere as error:
        holder = error.holder.sentence_part()
        raise SessionNotFound(
            f"The session {session} is open ({holder}). Close it first."
        ) from None
    try:
        delete_session(database(), session)
        shutil.rmtree(_namespace_folder(session), ignore_errors=True)
        delete_file_copies(session)
        draft_path(session).unlink(missing_ok=True)
        for recovered in recovered_output(session):
            recovered.path.unlink(missing_ok=True)
    finally:
        if lock is not None:
            lock.release()


def _notice(text: str, level: str = "info") -> Record:
    return Notice(text, level=level, time=time.time())


def fork(session: str, entry: str = "") -> str:
    """Copy a session, or its part before an entry (`Record.entry_name`); returns the copy's id.
    Raises `StoreError`."""
    copy = new_id()
    if not entry:
        fork_session(database(), session, copy)
        copy_namespace(session, copy)
        return copy

    first_record, entry_name, cell = _entry_start(session, entry)
    fork_session(database(), session, copy, before=first_record)
    store = SqliteStore(database(), copy)
    text = f"This session is a copy of {session}, before {entry_name}."
    store.append(Branch(text, origin=session, copy=copy, cell=cell, time=time.time()))

    # Variables that are private now are private in the past, too.
    copied_marks = records_with_tag(database(), copy, Private.tag)
    for mark in records_with_tag(database(), session, Private.tag):
        if mark not in copied_marks:
            store.append(mark)
    store.close()
    return copy


def _entry_start(session: str, entry: str) -> tuple[int, str, int]:
    """Return where a copy ends that has everything before an entry.

    Returns:
        The number of the first record that is not copied, the name of the entry, and its cell (0
        for a question).

    Raises:
        StoreError: There is no such entry.
    """
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
                return number, f"question {entry_number}", 0
        elif is_cell and isinstance(record, ReplIn) and record.cell == entry_number:
            # A cell of an answer goes with its question.
            belongs_to_question = last_question and record.turn is not None
            first_record = last_question if belongs_to_question else number
            return first_record, f"cell {entry_number}", entry_number
    raise StoreError("The session has no record of this entry.")
