"""The titles that users give to sessions."""

from __future__ import annotations

from pathlib import Path

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.store.database import encode_text, transaction
from mahtab_tui.store.session_file import opened

MAX_TITLE_CHARS = 100
"""Characters of a session's title."""
NOT_SAVED = "Nothing of this session is saved yet, so it has no title."


def question_title(text: str) -> str:
    """Return the first line of a question, as a title."""
    for line in text[:10_000].splitlines():
        title = " ".join(plain(line).split())
        if title:
            return title[:MAX_TITLE_CHARS]
    return ""


def rename_session(path: Path, session: str, title: str) -> None:
    """Change the title of a session. Raises `StoreError`, also if there is no such session."""
    if not path.exists():
        raise StoreError(NOT_SAVED)
    with opened(path) as connection, transaction(connection):
        if connection.execute("select 1 from session where id = ?", (session,)).fetchone() is None:
            raise StoreError(NOT_SAVED)
        query = "insert into digest (session, title) values (?, ?) on conflict (session) do update set title = excluded.title"
        connection.execute(query, (session, encode_text(question_title(title))))
