"""Vectors of texts, kept for all sessions, so that each text is sent to an embedding model once.

They have a file of their own beside the sessions': a session's file is locked for short writes
only, and vectors are large and can be made again.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mahtab_tui.store.corruption import file_identity, is_damage, open_file, set_aside
from mahtab_tui.store.database import transaction

_TABLE = """
create table if not exists vector (number integer primary key, model text not null, digest blob not null, data blob not null, unique (model, digest));
"""
_KEPT = 200_000
"""Vectors that are kept; the oldest go first."""
_WAIT = 5.0
"""Seconds to wait for another program's write; only background threads do."""
_AT_ONCE = 500
"""Digests that one statement looks up."""


class Vectors:
    """Vectors by model and digest of the text. Any thread may call it. Nothing here raises: without
    the file, vectors are kept in memory."""

    def __init__(self, path: Path | None, on_problem: Callable[[str], None]) -> None:
        """path: the file; None for memory only. on_problem: called with a sentence if the file
        cannot be used."""
        self._path = path
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._identity = None if path is None else file_identity(path)
        self._connection = self._opened()

    def known(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that are known."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(digests), _AT_ONCE):
            some = digests[start : start + _AT_ONCE]
            statement = f"select digest, data from vector where model = ? and digest in ({', '.join('?' * len(some))})"
            with self._lock:
                found |= (
                    self._tried(
                        lambda at, statement=statement, some=some: dict(  # type: ignore[misc]
                            at.execute(statement, (model, *some)).fetchall()
                        )
                    )
                    or {}
                )
        return found

    def keep(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors."""
        rows = [(model, digest, data) for digest, data in vectors.items()]

        def write(at: sqlite3.Connection) -> dict[bytes, bytes]:
            with transaction(at):
                at.executemany(
                    "insert or ignore into vector (model, digest, data) values (?, ?, ?)", rows
                )
                at.execute(
                    "delete from vector where number <= (select max(number) from vector) - ?",
                    (_KEPT,),
                )
            return {}

        with self._lock:
            self._tried(write)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _tried(
        self, work: Callable[[sqlite3.Connection], dict[bytes, bytes]]
    ) -> dict[bytes, bytes] | None:
        """Use the database; a damaged one is replaced."""
        try:
            return work(self._connection)
        except sqlite3.Error as error:
            if is_damage(error) and self._path is not None:
                self._connection.close()
                self._replace()
                self._connection = self._opened()
            else:
                self._on_problem(f"The vectors in {self._path} cannot be used: {error}.")
            return None

    def _opened(self) -> sqlite3.Connection:
        for _ in range(2):
            try:
                return _connect(self._path)
            except (sqlite3.Error, OSError) as error:
                if self._path is None or not is_damage(error):
                    self._on_problem(
                        f"The vectors in {self._path} cannot be used: {error}. They are kept in memory only."
                    )
                    break
                self._replace()
        return _connect(None)

    def _replace(self) -> None:
        """Rename a damaged file."""
        assert self._path is not None
        with suppress(OSError):
            set_aside(self._path, self._identity or file_identity(self._path))
        self._identity = None


def _connect(path: Path | None) -> sqlite3.Connection:
    connection = open_file(path, _TABLE, _WAIT)
    connection.execute("pragma synchronous = normal")
    return connection
