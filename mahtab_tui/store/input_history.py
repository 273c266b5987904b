"""The inputs of all sessions, in a database of their own."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.store.database import decode_text, encode_text
from mahtab_tui.store.spare_database import SpareDatabase

HISTORY_TIMEOUT_S = 2.0
MAX_SEARCHED_INPUTS = 20_000

_INPUT_TABLES = """
create table if not exists input (
    number integer primary key, time real not null, project text not null, mode text not null, text text not null
);
create index if not exists input_of_project on input (project, number);
"""


class HistoryEntry(NamedTuple):
    """An input of the user."""

    text: str
    mode: str
    """``python`` or ``ask``."""
    project: str
    time: float
    """Seconds since the epoch."""


class History:
    """The input history, shared by all running programs.

    It never raises: `problem` describes what went wrong.
    """

    def __init__(
        self, path: Path, project: str, mask: Callable[[str], str] = str, *, no_trace: bool = False
    ) -> None:
        """
        Args:
            path: The database; a new one is made if there is none.
            project: The folder whose inputs come first.
            mask: Masks secrets before an input is written.
            no_trace: Keep new inputs only in memory.
        """
        self.problem = ""
        self._project = project
        self._mask = mask
        self._database = SpareDatabase(
            None if no_trace else path,
            _INPUT_TABLES,
            HISTORY_TIMEOUT_S,
            "The input history",
            self._report,
        )
        if no_trace and path.exists():
            self._database.run(lambda memory: _copy_history(path, memory))

    def add(self, text: str, mode: str) -> None:
        """Add an input, unless it repeats the project's last one.

        Args:
            text: The input, in which secrets are masked.
            mode: ``python`` or ``ask``.
        """
        text = self._mask(text)
        project = encode_text(self._project)
        query = "select text, mode from input where project = ? order by number desc limit 1"
        for last_text, last_mode in self._execute(query, (project,)):
            if (decode_text(last_text), last_mode) == (text, mode):
                return
        row = (time.time(), project, mode, encode_text(text))
        self._execute("insert into input (time, project, mode, text) values (?, ?, ?, ?)", row)

    def entries(self, mode: str | None = None, *, limit: int = 2_000) -> list[HistoryEntry]:
        """Return the inputs without duplicates: this project's first, then newest first.

        Args:
            mode: Only inputs of this mode; None for all.
            limit: How many inputs to read at most, with duplicates.
        """
        query = "select text, mode, project, time from input where ? is null or mode = ? order by project = ? desc, number desc limit ?"
        parameters = (mode, mode, encode_text(self._project), limit)
        entries: dict[tuple[str, str], HistoryEntry] = {}
        for text, input_mode, project, timestamp in self._execute(query, parameters):
            entry = HistoryEntry(decode_text(text), input_mode, decode_text(project), timestamp)
            entries.setdefault((entry.text, entry.mode), entry)
        return list(entries.values())

    def search(self, query: str, limit: int = 100) -> list[HistoryEntry]:
        """Return the inputs that contain all words of a query, in the order of `entries`.

        Args:
            query: Words or their parts; upper case does not matter.
            limit: How many inputs to return at most.
        """
        words = query.lower().split()
        matches = (
            entry
            for entry in self.entries(limit=MAX_SEARCHED_INPUTS)
            if all(word in entry.text.lower() for word in words)
        )
        return list(itertools.islice(matches, limit))

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _report(self, problem: str) -> None:
        self.problem = problem

    def _execute(self, statement: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        def execute(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(statement, parameters).fetchall()

        return self._database.run(execute) or []


def _copy_history(path: Path, memory: sqlite3.Connection) -> None:
    """Copy the inputs of a file to memory, as far as it can be read."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(uri, uri=True)) as history,
    ):
        history.backup(memory)
