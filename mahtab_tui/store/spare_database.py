"""A database that a session can do without."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mahtab_tui.store.database import file_identity, is_corrupt, move_damaged_file, open_file

OPEN_ATTEMPTS = 2
"""How often a file is opened: the second time, a new one after a damaged one."""

ResultT = TypeVar("ResultT")


class SpareDatabase:
    """A database that a session can do without.

    It never raises: a damaged file is set aside, and without a file, memory is used. Any thread may
    call it.
    """

    def __init__(
        self,
        path: Path | None,
        tables: str,
        timeout_s: float,
        name: str,
        on_problem: Callable[[str], None],
    ) -> None:
        """
        Args:
            path: None for a database in memory.
            tables: The SQL that creates its tables, if they do not exist.
            timeout_s: Seconds to wait for another program's write.
            name: What it holds, such as "The input history".
            on_problem: Called with a sentence about `name`.
        """
        self._path = path
        self._tables = tables
        self._timeout_s = timeout_s
        self._name = name
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._identity: tuple[int, int] | None = None
        """The identity of the open file, or of the one that could not be opened."""
        self._connection = self._open()

    def run(self, work: Callable[[sqlite3.Connection], ResultT]) -> ResultT | None:
        """Call a function with the connection, which no other thread uses meanwhile.

        Returns:
            The function's result, or None if the database cannot be used.
        """
        with self._lock:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                if self._path is not None and is_corrupt(error):
                    self._connection.close()
                    self._set_aside(self._path)
                    self._connection = self._open()
                else:
                    reason = str(error).rstrip(".")
                    self._on_problem(f"{self._label} cannot be used: {reason}.")
                return None

    def close(self) -> None:
        """Close the connection; later calls of `run` report that the database cannot be used."""
        with self._lock:
            self._connection.close()

    @property
    def _label(self) -> str:
        """What the database holds, and its file if it has one."""
        if self._path is None:
            return self._name
        return f"{self._name} {self._path}"

    def _open(self) -> sqlite3.Connection:
        """Open the file, a new one if it is damaged, or a database in memory if neither works."""
        path = self._path
        if path is None:
            return self._connect(None)

        for attempt in range(1, OPEN_ATTEMPTS + 1):
            self._identity = file_identity(path)
            try:
                connection = self._connect(path)
            except (sqlite3.Error, OSError) as error:
                is_last = attempt == OPEN_ATTEMPTS
                if is_corrupt(error) and not is_last and self._set_aside(path):
                    continue
                reason = error.strerror if isinstance(error, OSError) else error
                self._on_problem(
                    f"{self._label} cannot be used ({reason}). This session keeps it in memory only."
                )
                break
            # Opening may have made the file.
            self._identity = file_identity(path)
            return connection
        return self._connect(None)

    def _connect(self, path: Path | None) -> sqlite3.Connection:
        """Open a file, or memory, and create the tables. Raises `sqlite3.Error` and `OSError`."""
        connection = open_file(path, self._timeout_s)
        try:
            connection.execute("pragma journal_mode = wal")
            connection.executescript(self._tables)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self, path: Path) -> bool:
        """Set the damaged file aside, unless another program has done so.

        Returns:
            Whether a new one can be started.
        """
        try:
            new_path = move_damaged_file(path, self._identity)
        except OSError:
            return False
        if new_path is not None:
            self._on_problem(
                f"{self._name} was damaged. It is now {new_path}, and a new one was started."
            )
        return True
