"""Deletes sessions with all that they have stored."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

from mahtab_tui.store.database import transaction
from mahtab_tui.store.file_copies import delete_file_copies
from mahtab_tui.store.resume import SessionNotFound, database, draft_path
from mahtab_tui.store.saved_namespace import namespace_folder
from mahtab_tui.store.session_file import opened
from mahtab_tui.store.session_list import SessionRow
from mahtab_tui.store.session_lock import LockedElsewhere, lock_session, locked_sessions
from mahtab_tui.store.session_words import open_words


def delete_records(path: Path, session: str) -> None:
    """Delete a session from a database, and its words from the index. Raises `StoreError`."""
    if not path.exists():
        return
    with opened(path) as connection:
        with transaction(connection):
            for table in ("record", "partial", "digest"):
                connection.execute(f"delete from {table} where session = ?", (session,))
            connection.execute("delete from session where id = ?", (session,))
        (last_number,) = connection.execute(
            "select coalesce(max(number), 0) from record"
        ).fetchone()

    def delete_words(index: sqlite3.Connection) -> None:
        with transaction(index):
            index.execute("delete from word where session = ?", (session,))
            # New records may have the numbers of deleted ones.
            index.execute("update indexed set upto = min(upto, ?)", (last_number,))

    with contextlib.closing(open_words(path)) as index:
        index.run(delete_words)


def remove_session(row: SessionRow) -> None:
    """Delete a session's records and variables.

    Raises `SessionNotFound` if it is open or its kernel waits, and `StoreError`.
    """
    from mahtab_tui.kernel.detached import detached_kernels, recovered_output
    from mahtab_tui.kernel.remote.notes import noted_kernels

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
        delete_records(database(), session)
        shutil.rmtree(namespace_folder(session), ignore_errors=True)
        delete_file_copies(session)
        draft_path(session).unlink(missing_ok=True)
        for recovered in recovered_output(session):
            recovered.path.unlink(missing_ok=True)
    finally:
        if lock is not None:
            lock.release()
