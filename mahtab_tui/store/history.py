"""The input history of all sessions, with this project's first."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.store.database import SpareDatabase, decode_text, encode_text

_TABLES = """
create table if not exists input (
    number integer primary key, time real not null, project text not null, mode text not null, text text not null
);
create index if not exists input_of_project on input (project, number);
"""
_SEARCHED = 20_000
"""Inputs that a search examines at most."""


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
        self._project = project
        self._mask = mask
        file = None if no_trace else path
        self._database = SpareDatabase(
            file, _TABLES, 2.0, "The input history", "inputs", self._report
        )
        if no_trace:
            self._database.run(lambda memory: _copy(path, memory))

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
        self._database.close()

    def _report(self, problem: str) -> None:
        self.problem = problem

    def _do(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._database.run(lambda at: at.execute(statement, values).fetchall()) or []


def _copy(path: Path, memory: sqlite3.Connection) -> None:
    """Copy a history, if one can be read."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(uri, uri=True)) as history,
    ):
        history.backup(memory)


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
