"""New and resumed sessions on disk."""

from __future__ import annotations

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
    NotebookOpened,
    NotebookWritten,
    Notice,
    Private,
    Record,
    ReplOut,
    UserChat,
    UserReplIn,
)
from mahtab_tui.settings.model import home_folder
from mahtab_tui.store.saved_namespace import is_saved
from mahtab_tui.store.session_list import SessionRow, list_sessions
from mahtab_tui.store.session_lock import lock_session
from mahtab_tui.store.sqlite import SqliteStore, load_records, records_with_tag

MAX_PAST_RECORDS = 5_000
"""Records of a resumed session that are read, from the end."""


class OpenedSession(NamedTuple):
    """A session in the store that this program may write."""

    store: SqliteStore
    name: str
    past: list[Record]
    """Its newest records, the oldest first; empty for a new session."""


def draft_path(session: str) -> Path:
    """Return the file with the text that was in the editor of a session."""
    return home_folder() / "drafts" / f"session-{quote(session, safe='')}.json"


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
    """Find a saved session. Raises `SessionNotFound`, also if there are several.

    Args:
        session: The beginning of its ID, or its whole title; None is the last one.
        project: Only sessions of this folder.
    """
    if session == "":
        raise SessionNotFound(
            "The session's ID is empty. mahtab-tui sessions --all lists all sessions."
        )
    folder = None if project is None else str(project)
    try:
        if session is None:
            rows = list_sessions(database(), folder, limit=1)
        else:
            rows = list_sessions(database(), folder, begins=session)
            rows = rows or list_sessions(database(), folder, title=session)
    except StoreError as error:
        raise SessionNotFound(str(error)) from None
    if session is None and not rows:
        raise SessionNotFound("There is no session to resume.")
    if session is not None and len(rows) != 1:
        count = f"are {len(rows):,} sessions" if rows else "is no session"
        raise SessionNotFound(
            f"There {count} whose ID begins with {session!r}, or with this title."
            " mahtab-tui sessions --all lists them."
        )
    return rows[0]


def resumed_store(row: SessionRow, *, variables: bool = False) -> OpenedSession:
    """Open a session.

    Raises `SessionNotFound`, or `LockedElsewhere` if another program has it open.
    """
    try:
        lock = lock_session(row.id)
        page = load_records(database(), row.id, limit=MAX_PAST_RECORDS)
        private_marks = records_with_tag(database(), row.id, Private.tag)
        notebook_files = records_with_tag(database(), row.id, NotebookOpened.tag)
        notebook_writes = records_with_tag(database(), row.id, NotebookWritten.tag)
    except StoreError as error:
        raise SessionNotFound(str(error)) from None
    last_records = [record for _, record in page.records]

    # These apply no matter how old they are.
    lasting_records = (*private_marks, *notebook_files, *notebook_writes[-1:])
    past = [record for record in lasting_records if record not in last_records]
    if page.earlier:
        text = f"Earlier records not shown here: {page.earlier:,}. /export writes all of them."
        past.append(notice(text))
    past += last_records
    if page.unreadable:
        text = f"Records left out because they cannot be read: {page.unreadable:,}."
        past.append(notice(text, "warning"))
    if variables and is_saved(row.id):
        text = "Conversation restored; variables follow."
    else:
        text = "Conversation restored; variables were not. Re-run what you need."
    past.append(notice(text + _cut_answer_note(past)))
    store = SqliteStore(database(), row.id, name=row.name, project=row.project, claim=lock)
    return OpenedSession(store, row.name, past)


def reattach(store: SqliteStore, past: Sequence[Record], cell: int) -> list[Record]:
    """Return the past records of a session whose kernel was reattached.

    Args:
        cell: The running cell; 0 for none.
    """
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
    records.append(notice(text + _cut_answer_note(past)))
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


def notice(text: str, level: str = "info") -> Record:
    """Return a notice of now."""
    return Notice(text, level=level, time=time.time())
