"""What the person has entered, over all sessions: of this project and of all."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from pathlib import Path
from typing import NamedTuple

_SCHEMA = """
create table if not exists input (number integer primary key, time real not null, project text not null, mode text not null, text text not null);
create index if not exists input_of_project on input (project, number);
"""
_KEPT = 20_000


class HistoryEntry(NamedTuple):
    """One input."""

    text: str
    mode: str
    """``python`` or ``ask``."""
    project: str
    time: float
    """Seconds since the epoch."""


class History:
    """The input history, shared by every running program. A file that cannot be used is put aside, and said in `problem`."""

    def __init__(self, path: Path, project: str) -> None:
        self._project = project
        self._lock = threading.Lock()
        self.problem = ""
        try:
            self._connection = _connect(path)
        except (sqlite3.Error, OSError) as error:
            self.problem = f"The input history {path} cannot be used ({error}); it is kept in memory this time."
            with contextlib.suppress(OSError):
                path.replace(path.with_suffix(".broken"))
            self._connection = _connect(None)

    def add(self, text: str, mode: str) -> None:
        """Remember an input, unless it is the same as the last one."""
        text = text.encode("utf-8", "replace").decode("utf-8")
        with self._lock, contextlib.suppress(sqlite3.Error):
            query = "select text, mode from input where project = ? order by number desc limit 1"
            if self._connection.execute(query, (self._project,)).fetchone() != (text, mode):
                row = (time.time(), self._project, mode, text)
                self._connection.execute("insert into input (time, project, mode, text) values (?, ?, ?, ?)", row)

    def entries(self, mode: str | None = None, *, project_only: bool = False, limit: int = 2_000) -> list[HistoryEntry]:
        """The newest inputs first, this project's before all others'; each text once."""
        query = (
            "select text, mode, project, time from input where (? is null or mode = ?) and (project = ? or not ?)"
            " order by project = ? desc, number desc limit ?"
        )
        with self._lock:
            try:
                rows = self._connection.execute(query, (mode, mode, self._project, project_only, self._project, limit)).fetchall()
            except sqlite3.Error:
                return []
        seen: dict[tuple[str, str], HistoryEntry] = {}
        for row in rows:
            seen.setdefault((row[0], row[1]), HistoryEntry(*row))
        return list(seen.values())

    def search(self, query: str, limit: int = 100) -> list[HistoryEntry]:
        """The inputs that contain the letters of a query in order; the closest together first, then the newest."""
        wanted = query.lower()
        ranked = []
        for place, entry in enumerate(self.entries(limit=_KEPT)):
            span = _span(entry.text.lower(), wanted)
            if span is not None:
                ranked.append((span, place, entry))
        return [entry for _, _, entry in sorted(ranked, key=lambda found: found[:2])[:limit]]

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def _connect(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            path.touch(mode=0o600)
    connection = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=2, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.executescript(_SCHEMA)
    return connection


def _span(text: str, wanted: str) -> int | None:
    """How many characters the letters of `wanted` are spread over beyond their own number; None where they do not occur in order."""
    if wanted in text:
        return 0
    place, first = -1, -1
    for letter in wanted:
        place = text.find(letter, place + 1)
        if place < 0:
            return None
        first = place if first < 0 else first
    return place - first + 1 - len(wanted) + 1
