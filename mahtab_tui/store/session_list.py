"""Lists the sessions of a database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.store.database import decode_text, encode_text
from mahtab_tui.store.session_file import fetch_rows

ALL_SESSIONS = -1
"""The limit that lists all sessions."""
YEAR_10000_S = 253_402_300_800.0
"""The first moment that cannot be displayed as a date, in seconds since the epoch."""
SESSION_COLUMNS = (
    "session.id, session.name, session.project, session.started, session.last, (select count(*) from record where session = session.id),"
    " session.first, digest.title"
)
_SESSIONS = (
    f"select {SESSION_COLUMNS} from (select rowid as place, * from session where (? is null or project = ?)"
    " and substr(id, 1, length(?)) = ?"
    " and (? is null or id in (select session from digest where title = ?)) order by last desc, rowid desc limit ?) as session"
    " left join digest on digest.session = session.id order by session.last desc, place desc"
)


class SessionRow(NamedTuple):
    """What a list of sessions shows of one."""

    id: str
    name: str
    """The name that the program has made, or that ``--name`` has given it."""
    project: str
    """The folder to which it belongs."""
    started: float
    """When it began, in seconds since the epoch."""
    last: float
    """When it was used last, in seconds since the epoch."""
    records: int
    """How many records it has."""
    first: str
    """The start of the first question, or of the first cell."""
    title: str = ""
    """The title that the user has given it."""

    @property
    def heading(self) -> str:
        """How lists name it: its title, or how it began."""
        return self.title or self.first

    @property
    def last_use_date(self) -> str:
        """The day and the minute of its last use, in local time."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.last))


def list_sessions(
    path: Path,
    project: str | None = None,
    *,
    begins: str = "",
    title: str | None = None,
    limit: int = ALL_SESSIONS,
) -> list[SessionRow]:
    """Return sessions, newest first. Raises `StoreError`.

    Args:
        path: The database.
        project: Only sessions of this folder; None for all.
        begins: Only sessions whose ids begin with this text.
        title: Only sessions to which the user has given this title; None for all.
        limit: How many sessions to return; all by default.
    """
    folder = None if project is None else encode_text(project)
    id_start = encode_text(begins)
    wanted_title = None if title is None else encode_text(title)
    parameters = (folder, folder, id_start, id_start, wanted_title, wanted_title, limit)
    rows = fetch_rows(path, _SESSIONS, parameters)
    return [session_row(row) for row in rows]


def session_row(columns: Sequence[Any]) -> SessionRow:
    """Return the session of a row of `SESSION_COLUMNS`."""
    id, name, project, started, last, record_count, first, title = columns
    return SessionRow(
        decode_text(id),
        decode_text(name),
        decode_text(project),
        _valid_time(started),
        _valid_time(last),
        record_count,
        decode_text(first),
        decode_text(title),
    )


def _valid_time(value: object) -> float:
    """Return a stored time in seconds since the epoch; 0 if it cannot be displayed."""
    if isinstance(value, int | float) and 0 <= value < YEAR_10000_S:
        return float(value)
    return 0.0
