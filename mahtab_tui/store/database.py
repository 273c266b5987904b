"""The SQLite file of all sessions, the input history in another, and the locks of the open
sessions. A lock ends with the program in any case; if its file is replaced, the first program
notices before its next write."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from mahtab_tui.bus import StoreError
from mahtab_tui.settings.model import home_folder

SCHEMA_VERSION = 2
WRITE_TIMEOUT_S = 0.5
"""How long to wait for another program's write; short, because loggers wait with it."""
CREATION_TIMEOUT_MS = 5_000
"""How long to wait while another program creates the tables."""
HISTORY_TIMEOUT_S = 2.0

LOCK_ATTEMPTS = 5
LOCK_PAUSE_S = 0.05
"""A list of sessions briefly locks each."""
MAX_LOCK_FILE_BYTES = 10_000
LOCK_PREFIX = "session-"
LOCK_SUFFIX = ".lock"
MAX_SEARCHED_INPUTS = 20_000

_SESSION_TABLES = """
create table if not exists session (
    id text primary key, name text not null, project text not null, started real not null, last real not null,
    first text not null default ''
);
create table if not exists record (
    number integer primary key, session text not null, time real not null, tag text not null, attrs text not null, text text not null
);
create index if not exists record_of_session on record (session, number);
create table if not exists partial (
    session text not null, key text not null, time real not null, tag text not null, attrs text not null, text text not null,
    primary key (session, key)
);
create table if not exists digest (
    session text primary key, upto integer, size integer not null default 0, title text not null default '', model text not null default '',
    cost real not null default 0
);
"""
_INPUT_TABLES = """
create table if not exists input (
    number integer primary key, time real not null, project text not null, mode text not null, text text not null
);
create index if not exists input_of_project on input (project, number);
"""

ResultT = TypeVar("ResultT")


def encode_text(text: str) -> str | bytes:
    """Return a text as it is stored: as bytes if it has lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def decode_text(value: object) -> str:
    """Return a stored text."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # the file may be damaged
        return value.decode("utf-8", "replace")


def open_file(path: Path | None, tables: str, wait: float) -> sqlite3.Connection:
    """Open a database in autocommit mode; a new file is readable only by this user. Raises
    `sqlite3.Error` and `OSError`.

    Args:
        path: None for a database in memory.
        tables: The SQL that creates its tables; empty if that comes later.
        wait: Seconds to wait for another program's write.
    """
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.touch(mode=0o600, exist_ok=False)
    connection = sqlite3.connect(
        path or ":memory:", check_same_thread=False, timeout=wait, isolation_level=None
    )
    connection.text_factory = decode_text
    try:
        if tables:
            connection.execute("pragma journal_mode = wal")
            connection.executescript(tables)
    except BaseException:
        connection.close()
        raise
    return connection


def is_corrupt(error: BaseException | None) -> bool:
    """Return whether the file's content is damaged, rather than unusable at the moment."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(error, sqlite3.DatabaseError) and code in damage


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return what stays the same while a file is not replaced; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def move_damaged_file(path: Path, damaged: tuple[int, int] | None) -> Path | None:
    """Rename a damaged database, which no connection of this process may have open. Raises
    `OSError`.

    Args:
        damaged: The identity of the damaged file.

    Returns:
        Its new name, or None if another program has already set it aside.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # the file system has no locks
            fcntl.flock(folder, fcntl.LOCK_EX)  # of several programs, one checks and renames
        if damaged is None or file_identity(path) != damaged:
            return None
        new_path = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        path.replace(new_path)
        with contextlib.suppress(FileNotFoundError):  # the log may help to recover the old file
            log_path = path.with_name(f"{path.name}-wal")
            log_path.replace(new_path.with_name(f"{new_path.name}-wal"))
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        return new_path
    finally:
        os.close(folder)


class SpareDatabase:
    """A database that a session can do without. It never raises: a damaged file is set aside, and
    without a file, memory is used. Any thread may call it."""

    def __init__(
        self,
        path: Path | None,
        tables: str,
        wait: float,
        name: str,
        on_problem: Callable[[str], None],
    ) -> None:
        """
        Args:
            path: None for a database in memory.
            tables: The SQL that creates its tables.
            wait: Seconds to wait for another program's write.
            name: What it holds, such as "The input history".
            on_problem: Called with a sentence about `name`.
        """
        self._path = path
        self._tables = tables
        self._wait = wait
        self._name = name
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._identity: tuple[int, int] | None = None
        self._connection = self._open()

    def run(self, work: Callable[[sqlite3.Connection], ResultT]) -> ResultT | None:
        """Call a function with the connection; None if the database cannot be used."""
        with self._lock:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                if is_corrupt(error) and self._path is not None:
                    self._connection.close()
                    self._replace_corrupt()
                    self._connection = self._open()
                else:
                    self._on_problem(f"{self._name} {self._path} cannot be used: {error}.")
                return None

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        """Open the file, a new one if it is damaged, or a database in memory if neither works."""
        path = self._path
        for _ in range(2):
            try:
                self._identity = None if path is None else file_identity(path)
                connection = open_file(path, self._tables, self._wait)
            except (sqlite3.Error, OSError) as error:
                if is_corrupt(error) and self._replace_corrupt():
                    continue
                reason = error.strerror if isinstance(error, OSError) else error
                text = f"{self._name} {path} cannot be used ({reason}). This session keeps it in memory only."
                self._on_problem(text)
                break
            else:
                self._identity = None if path is None else file_identity(path)  # it may be new
                return connection
        return open_file(None, self._tables, self._wait)

    def _replace_corrupt(self) -> bool:
        """Set the damaged file aside; return whether a new one can be started."""
        assert self._path is not None
        try:
            new_path = move_damaged_file(self._path, self._identity)
        except OSError:
            return False
        if new_path is not None:
            text = f"{self._name} was damaged. It is now {new_path}, and a new one was started."
            self._on_problem(text)
        return True


class Holder(NamedTuple):
    """The program that has a session open."""

    pid: int
    since: float
    """Seconds since the epoch."""

    def sentence_part(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        return f"process {self.pid} since {since}"


class LockedElsewhere(Exception):
    """Another program has the session open."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder)
        self.holder = holder


class SessionLock:
    """A lock that allows writing a session, until it is released or lost."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self._identity = (status.st_dev, status.st_ino)

    @property
    def is_current(self) -> bool:
        """Whether the locked file is still the one at its path."""
        return file_identity(self._path) == self._identity

    @property
    def lost(self) -> bool:
        """Whether another program now holds the session's lock."""
        return file_identity(self._path) not in (None, self._identity)

    def release(self) -> None:
        """Let other programs lock the session."""
        if not self.lost:
            with contextlib.suppress(OSError):  # the next program removes a leftover file
                self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def lock_session(session: str) -> SessionLock | None:
    """Lock a session; None if the system does not support locks. Raises `LockedElsewhere`."""
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            path = _lock_path(session)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            if attempt == LOCK_ATTEMPTS:
                raise LockedElsewhere(holder) from None
            time.sleep(LOCK_PAUSE_S)
            continue
        except OSError:  # a file system without locks, on which SQLite cannot write either
            os.close(descriptor)
            return None

        lock = SessionLock(path, descriptor)
        # Another program may have removed the file between the two calls.
        if not lock.is_current:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            if attempt == LOCK_ATTEMPTS:
                raise LockedElsewhere(holder)
            continue
        holder = Holder(os.getpid(), time.time())
        with contextlib.suppress(OSError):  # a full disk; the lock works without the text
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(holder._asdict()).encode(), 0)
        return lock
    raise AssertionError("the last attempt returns or raises")


def locked_sessions() -> dict[str, Holder]:
    """Return the open sessions, and remove lock files of killed programs."""
    holders: dict[str, Holder] = {}
    for path in sorted(_lock_folder().glob(f"{LOCK_PREFIX}*{LOCK_SUFFIX}")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not SessionLock(path, descriptor).lost:
                path.unlink(missing_ok=True)
        except BlockingIOError:
            quoted_id = path.name.removeprefix(LOCK_PREFIX).removesuffix(LOCK_SUFFIX)
            holders[unquote(quoted_id)] = _read_holder(descriptor)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return holders


def _lock_folder() -> Path:
    return home_folder() / "open"


def _lock_path(session: str) -> Path:
    _lock_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return _lock_folder() / f"{LOCK_PREFIX}{quote(session, safe='')}{LOCK_SUFFIX}"


def _read_holder(descriptor: int) -> Holder:
    """Read who has a lock, as far as that program has written it."""
    try:
        holder = json.loads(os.pread(descriptor, MAX_LOCK_FILE_BYTES, 0))
        since = float(holder["since"])
        time.localtime(since)  # raises if it is not a valid time
        return Holder(int(holder["pid"]), since)
    except (OSError, ValueError, OverflowError, TypeError, KeyError, RecursionError):
        return Holder(0, time.time())


@contextlib.contextmanager
def as_sentences(path: Path, identity: tuple[int, int] | None = None) -> Iterator[None]:
    """Convert SQLite and file system errors to `StoreError`. A damaged file is set aside, so
    connections must be closed before an error leaves the block. identity: of an open file."""
    identity = identity or file_identity(path)
    try:
        yield
    except (sqlite3.Error, OverflowError) as error:
        if is_corrupt(error):
            try:
                new_path = move_damaged_file(path, identity)
            except OSError as failure:
                text = f"The session file {path} is damaged and cannot be moved aside: {failure.strerror}."
            else:
                place = "another program has moved it aside"
                if new_path is not None:
                    place = f"it is now {new_path}"
                text = f"The session file {path} was damaged; {place}, and a new one was started."
            raise StoreError(text) from error
        raise StoreError(f"The session file {path} cannot be used: {error}.") from error
    except OSError as error:
        raise StoreError(f"The session file {path} cannot be used: {error.strerror}.") from error


@contextlib.contextmanager
def suppress_all_but_corruption() -> Iterator[None]:
    """Ignore errors that the next access would raise again."""
    try:
        yield
    except StoreError as error:
        if is_corrupt(error.__cause__):
            raise


def connect(path: Path) -> sqlite3.Connection:
    """Open the sessions; for reading, if they cannot be written. Raises `sqlite3.Error`, `OSError`,
    and `StoreError` for a newer file."""
    if is_read_only(path):
        # SQLite would need to write next to the file, unless a killed program has left its log.
        uri = f"{path.absolute().as_uri()}?mode=ro"
        if not path.with_name(f"{path.name}-wal").exists():
            uri += "&immutable=1"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
        connection.text_factory = decode_text
        return connection

    connection = open_file(path, "", WRITE_TIMEOUT_S)
    try:
        (version,) = connection.execute("pragma user_version").fetchone()
        if version > SCHEMA_VERSION:
            text = f"The session file {path} was written by a newer version of mahtab-tui. Update mahtab-tui to use it."
            raise StoreError(text)
        _use_write_ahead_log(connection)
        # A killed process loses nothing; only a power cut may lose the last moments.
        connection.execute("pragma synchronous = normal")
        if version < SCHEMA_VERSION:
            # Another program may create the tables at this moment, which takes longer than a
            # record, and happens once.
            connection.execute(f"pragma busy_timeout = {CREATION_TIMEOUT_MS}")
            script = f"begin immediate; {_SESSION_TABLES} pragma user_version = {SCHEMA_VERSION}; commit;"
            connection.executescript(script)
            connection.execute(f"pragma busy_timeout = {round(WRITE_TIMEOUT_S * 1000)}")
    except BaseException:
        connection.close()
        raise
    return connection


def is_read_only(path: Path) -> bool:
    """Return whether there is a database that this user cannot write."""
    if not path.exists():
        return False
    return not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the sessions for the block, in which any error becomes a `StoreError`."""
    with as_sentences(path), contextlib.closing(connect(path)) as connection:
        yield connection


def fetch_rows(path: Path, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query; none if there is no database. Raises `StoreError`."""
    if not path.exists():
        return []
    with opened(path) as connection:
        return connection.execute(query, parameters).fetchall()


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, or nothing of it if it raises."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:  # a full disk has already ended it
            connection.execute("rollback")
        raise


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Let others read while one program writes. SQLite does not wait here for another program that
    creates the file, too."""
    deadline = time.monotonic() + WRITE_TIMEOUT_S
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


# The input history of all sessions


class HistoryEntry(NamedTuple):
    """An input of the user."""

    text: str
    mode: str
    """``python`` or ``ask``."""
    project: str
    time: float
    """Seconds since the epoch."""


class History:
    """The input history, shared by all running programs. It never raises: `problem` describes what
    went wrong."""

    def __init__(
        self, path: Path, project: str, mask: Callable[[str], str] = str, *, no_trace: bool = False
    ) -> None:
        """
        Args:
            project: The folder whose inputs come first.
            mask: Masks secrets before an input is written.
            no_trace: Keep new inputs only in memory.
        """
        self.problem = ""
        self._project = project
        self._mask = mask
        file = None if no_trace else path
        self._database = SpareDatabase(
            file, _INPUT_TABLES, HISTORY_TIMEOUT_S, "The input history", self._report
        )
        if no_trace and path.exists():
            self._database.run(lambda memory: _copy_history(path, memory))

    def add(self, text: str, mode: str) -> None:
        """Add an input, unless it repeats the last one."""
        text = self._mask(text)
        project = encode_text(self._project)
        query = "select text, mode from input where project = ? order by number desc limit 1"
        for last_text, last_mode in self._execute(query, (project,)):
            if (decode_text(last_text), last_mode) == (text, mode):
                return
        row = (time.time(), project, mode, encode_text(text))
        self._execute("insert into input (time, project, mode, text) values (?, ?, ?, ?)", row)

    def entries(self, mode: str | None = None, *, limit: int = 2_000) -> list[HistoryEntry]:
        """Return the inputs without duplicates: this project's first, then newest first."""
        query = "select text, mode, project, time from input where ? is null or mode = ? order by project = ? desc, number desc limit ?"
        parameters = (mode, mode, encode_text(self._project), limit)
        entries: dict[tuple[str, str], HistoryEntry] = {}
        for text, input_mode, project, timestamp in self._execute(query, parameters):
            entry = HistoryEntry(decode_text(text), input_mode, decode_text(project), timestamp)
            entries.setdefault((entry.text, entry.mode), entry)
        return list(entries.values())

    def search(self, query: str, limit: int = 100) -> list[HistoryEntry]:
        """Return the inputs that contain all words of a query."""
        words = query.lower().split()
        matches = (
            entry
            for entry in self.entries(limit=MAX_SEARCHED_INPUTS)
            if all(word in entry.text.lower() for word in words)
        )
        return list(itertools.islice(matches, limit))

    def close(self) -> None:
        self._database.close()

    def _report(self, problem: str) -> None:
        self.problem = problem

    def _execute(self, statement: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        def execute(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(statement, parameters).fetchall()

        return self._database.run(execute) or []


def _copy_history(path: Path, memory: sqlite3.Connection) -> None:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(uri, uri=True)) as history,
    ):
        history.backup(memory)
