"""The input history of all sessions, with this project's first."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.store.corruption import (
    decode_lossy,
    decode_text,
    encode_text,
    file_identity,
    is_corrupt,
    move_damaged_file,
    open_file,
)

_TABLES = """
create table if not exists input (
    number integer primary key, time real not null, project text not null, mode text not null, text text not null
);
create index if not exists input_of_project on input (project, number);
"""
_SEARCHED = 20_000
"""Maximum number of inputs that a search examines."""


class HistoryEntry(NamedTuple):
    text: str
    mode: str
    """``python`` or ``ask``."""
    project: str
    time: float
    """Seconds since the epoch."""


class History:
    """The input history, shared by all running programs. Nothing here raises: `problem` describes
    what went wrong."""

    def __init__(
        self, path: Path, project: str, mask: Callable[[str], str] = str, *, no_trace: bool = False
    ) -> None:
        """mask: masks secrets in an input before it is stored. no_trace: keep new inputs only in
        memory."""
        self.problem = ""
        self._path = path
        self._project = project
        self._mask = mask
        self._lock = threading.Lock()
        self._connection = _copied(path) if no_trace else self._opened()

    def add(self, text: str, mode: str) -> None:
        """Add an input, unless it equals the last one."""
        text = self._mask(text)
        last = self._do(
            "select text, mode from input where project = ? order by number desc limit 1",
            (encode_text(self._project),),
        )
        if [(decode_text(row[0]), row[1]) for row in last] != [(text, mode)]:
            row = (time.time(), encode_text(self._project), mode, encode_text(text))
            self._do("insert into input (time, project, mode, text) values (?, ?, ?, ?)", row)

    def entries(self, mode: str | None = None, *, limit: int = 2_000) -> list[HistoryEntry]:
        """Return the inputs without duplicates: this project's first, then newest first."""
        query = "select text, mode, project, time from input where ? is null or mode = ? order by project = ? desc, number desc limit ?"
        seen: dict[tuple[str, str], HistoryEntry] = {}
        for text, input_mode, project, when in self._do(
            query, (mode, mode, encode_text(self._project), limit)
        ):
            entry = HistoryEntry(decode_text(text), input_mode, decode_text(project), when)
            seen.setdefault((entry.text, entry.mode), entry)
        return list(seen.values())

    def search(self, query: str, limit: int = 100) -> list[HistoryEntry]:
        """Return the inputs that contain the letters of a query in order; the closest together
        first, then in the order of `entries`."""
        wanted = query.lower()
        ranked = []
        for index, entry in enumerate(self.entries(limit=_SEARCHED)):
            between = letters_between(entry.text.lower(), wanted)
            if between is not None:
                ranked.append((between, index, entry))
        return [entry for _, _, entry in sorted(ranked)[:limit]]

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _do(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                if is_corrupt(error):
                    self._connection.close()
                    self._move_damaged()
                    self._connection = self._opened()
                else:
                    self.problem = f"The input history {self._path} cannot be used: {error}."
                return []

    def _opened(self) -> sqlite3.Connection:
        """Open the file; a new one if it is damaged; memory if that also fails."""
        for attempt in ("as it is", "anew"):
            try:
                self._identity = file_identity(self._path)
                connection = _connect(self._path)
            except (sqlite3.Error, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                self.problem = f"The input history {self._path} cannot be used ({reason}). This session's inputs are kept in memory only."
                if attempt == "anew" or not (is_corrupt(error) and self._move_damaged()):
                    break
            else:
                self._identity = file_identity(self._path)  # the file may be new
                return connection
        return _connect(None)

    def _move_damaged(self) -> bool:
        """Rename a damaged file, from which something may be recovered by hand. Returns False if
        even that fails."""
        try:
            moved = move_damaged_file(self._path, self._identity)
        except OSError:
            return False
        if moved is not None:
            self.problem = (
                f"The input history was damaged. It is now {moved}, and a new one was started."
            )
        return True


def _connect(path: Path | None) -> sqlite3.Connection:
    connection = open_file(path, _TABLES, 2.0)
    connection.text_factory = decode_lossy
    return connection


def _copied(path: Path) -> sqlite3.Connection:
    """Copy a history into memory; an empty one if none can be read."""
    copy = _connect(None)
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as history,
    ):
        history.backup(copy)
        return copy
    copy.close()
    return _connect(None)


def letters_between(text: str, wanted: str) -> int | None:
    """Return the number of letters between those of `wanted` at their first occurrence in order;
    None if they do not occur."""
    if wanted in text:
        return 0
    position, first = -1, -1
    for letter in wanted:
        position = text.find(letter, position + 1)
        if position < 0:
            return None
        first = position if first < 0 else first
    return position - first + 1 - len(wanted)
