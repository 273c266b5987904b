"""Reads the settings of open SQLite connections, which are not in Python's objects.

An undo compares them before and after a cell (`side_state`), and names a connection whose settings
have changed.

Only statements that end at once are executed. On the thread that waits for them, none of them waits
for a lock. Reading the settings of a file in WAL mode, to which nobody is connected yet, creates
its files `-wal` and `-shm`, as any reading does; SQLite removes them when the connection is
closed.
"""

from __future__ import annotations

import _thread
import gc
import os
import sys
from contextlib import suppress
from typing import Any, NamedTuple

from ..values.objects import (
    address_of,
    forget_dummy_thread,
    get_if_loaded,
    is_subclass,
    loaded_module,
)

_OWN_SETTINGS = (
    *("foreign_keys", "recursive_triggers", "busy_timeout", "query_only", "read_uncommitted"),
    *("automatic_index", "cell_size_check", "checkpoint_fullfsync", "fullfsync", "count_changes"),
    *("defer_foreign_keys", "empty_result_callbacks", "full_column_names", "short_column_names"),
    *("ignore_check_constraints", "legacy_alter_table", "reverse_unordered_selects", "temp_store"),
    *("trusted_schema", "writable_schema", "analysis_limit", "soft_heap_limit", "threads"),
    *("hard_heap_limit", "wal_autocheckpoint"),
)
"""Pragmas whose values are numbers of a connection. SQLite reads no file for them."""
_FILE_SETTINGS = (
    *("schema_version", "user_version", "application_id", "cache_size", "synchronous"),
    *("secure_delete", "auto_vacuum", "page_size", "max_page_count", "journal_size_limit"),
    *("mmap_size", "cache_spill"),
)
"""Pragmas whose values are numbers of each attached database. SQLite may read its file for them."""
_FILE_MODES = ("journal_mode", "locking_mode")
"""Pragmas whose values are words of each attached database."""
_LIMITS = range(12)
"""The numbers by which `Connection.getlimit` knows the limits of a connection."""
_PLAIN_TEXT_FACTORIES = (str, bytes, bytearray)
"""What makes values of texts without calling code of the user's."""
_EXCLUSIVE = "exclusive"
"""The locking mode in which a connection keeps its files locked."""
_DATABASE_NAMES = "select cast(name as blob) from pragma_database_list"
"""Names as bytes, because a name may be no UTF-8."""
_UNREAD_REASON = "unread"
"""The name under which settings say why those of the files are missing."""
_BUSY_PRAGMA = "PRAGMA busy_timeout"
"""The pragma for how long statements wait for a lock."""
_BUSY_TIMEOUT_S = 0.05
"""How long to wait for a connection that another thread may use at the moment."""
_FIRST_VERSION_WITH_REFERENTS = (3, 11)
"""Since then, Python tells which functions of the user's a connection calls."""
_KERNEL_PID = os.getpid()
"""The process that imported this module; in a fork, it is not that of `os.getpid`."""
_reading = _thread.allocate_lock()
"""Held while a thread reads a connection; also by one that nobody waits for any more."""


class UnknownState(NamedTuple):
    """The state of a connection that cannot be read."""

    reason: str
    """Why not, as a clause."""


_BUSY = UnknownState("it could not be read in time")


def is_connection(cls: type) -> bool:
    """Return whether objects of a class are SQLite connections, or cursors of one."""
    classes = [get_if_loaded("sqlite3", name) for name in ("Connection", "Cursor")]
    return any(is_subclass(cls, base) for base in classes)


def read_connection(value: Any) -> object:
    """Return settings by their names, `UnknownState`, or None if this thread cannot use the
    connection: it is closed, or only another thread may.

    Args:
        value: A connection or a cursor.
    """
    # In a fork, its file may be closed.
    if os.getpid() != _KERNEL_PID:
        return None
    sqlite3: Any = loaded_module("sqlite3")
    connection = value
    if is_subclass(type(value), sqlite3.Cursor):
        connection = sqlite3.Cursor.connection.__get__(value)
    if connection is None:  # the cursor was never initialized
        return None
    if _calls_user_code(sqlite3, connection):
        return UnknownState("it calls functions for its statements")

    # If several threads may use the connection, one of them may hold its lock for long, so a new
    # thread tries first.
    state = _read_on_thread(sqlite3, connection)
    if isinstance(state, sqlite3.ProgrammingError):
        # Only one thread may use it. Perhaps it is this one, which then has the connection for itself.
        return _read_on_this_thread(sqlite3, connection)
    if isinstance(state, BaseException):
        return UnknownState(str(state))
    return state


def _read_on_this_thread(sqlite3: Any, connection: Any) -> object:
    """Return what `read_connection` returns."""
    try:
        return _read_settings(sqlite3, connection, may_wait=False)
    except sqlite3.ProgrammingError:
        return None
    except sqlite3.Error as error:
        return UnknownState(str(error))


def _read_on_thread(sqlite3: Any, connection: Any) -> object:
    """Return the settings, the error with which reading them failed, or `UnknownState`."""
    if not _reading.acquire(timeout=_BUSY_TIMEOUT_S):
        return _BUSY
    results: list[object] = []
    # Held by the new thread until it ends. A lock is enough, and `threading` need not be loaded.
    running = _thread.allocate_lock()
    running.acquire()

    def run() -> None:
        try:
            results.append(_read_settings(sqlite3, connection, may_wait=True))
        except BaseException as error:  # the outermost frame
            results.append(error)
        finally:
            forget_dummy_thread()
            _reading.release()
            running.release()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # the system has no threads left
        _reading.release()
        return UnknownState("no thread can be started")
    running.acquire(timeout=_BUSY_TIMEOUT_S)
    return results[0] if results else _BUSY


def unknown_reason(state: object) -> str:
    """Return why not everything of a connection was read, as a clause; empty if it was.

    Args:
        state: What `read_connection` has returned.
    """
    if isinstance(state, UnknownState):
        return state.reason
    if isinstance(state, dict):
        return str(state.get(_UNREAD_REASON, ""))
    return ""


def has_same_settings(old_state: object, new_state: object) -> bool:
    """Compare what `read_connection` has returned at two times; True if that is unknown."""
    if not isinstance(old_state, dict) or not isinstance(new_state, dict):
        return True
    names = (old_state.keys() & new_state.keys()) - {_UNREAD_REASON}
    return all(old_state[name] == new_state[name] for name in names)


def _calls_user_code(sqlite3: Any, connection: Any) -> bool:
    """Return whether statements of a connection may call a function of the user's, such as that of
    `set_trace_callback`."""
    if sys.version_info < _FIRST_VERSION_WITH_REFERENTS:
        return True
    # Through the class, because a subclass may have properties of these names.
    row_factory = sqlite3.Connection.row_factory.__get__(connection)
    text_factory = sqlite3.Connection.text_factory.__get__(connection)
    plain_objects = (sqlite3.Row, row_factory, text_factory, type(connection))
    plain_ids = set(map(address_of, plain_objects))
    return any(
        callable(referent)
        and address_of(referent) not in plain_ids
        and type(referent).__name__ != "_lru_cache_wrapper"
        for referent in gc.get_referents(connection)
    )


def _read_settings(sqlite3: Any, connection: Any, *, may_wait: bool) -> dict[str, Any]:
    """Return the settings of a connection and of its databases by their names.

    Args:
        sqlite3: The module.
        connection: The connection.
        may_wait: Whether statements may wait for a lock.

    Raises:
        sqlite3.Error: A setting cannot be read.
    """
    cursor = sqlite3.Connection.cursor(connection)
    cursor.row_factory = None
    settings = {name: _read_value(cursor, f"PRAGMA {name}") for name in _OWN_SETTINGS}
    if hasattr(sqlite3.Connection, "getlimit"):  # since Python 3.11
        for number in _LIMITS:
            settings[f"limit {number}"] = sqlite3.Connection.getlimit(connection, number)
    if reason := _find_obstacle(sqlite3, connection, cursor):
        settings[_UNREAD_REASON] = reason
        return settings

    databases = [row[0] for row in cursor.execute(_DATABASE_NAMES).fetchall()]
    settings["databases"] = databases
    # The timeout is changed for a moment, and only by the thread of cells: while another thread reads,
    # the next cell may run, and would notice.
    if not may_wait:
        _read_value(cursor, f"{_BUSY_PRAGMA} = 0")
    try:
        for database in databases:
            settings.update(_read_database_settings(cursor, _quote_database(database)))
    finally:
        if not may_wait:
            with suppress(sqlite3.Error):
                _read_value(cursor, f"{_BUSY_PRAGMA} = {settings['busy_timeout']}")
    return settings


def _read_value(cursor: Any, statement: str) -> Any:
    """Return the first value that a statement returns; None if it returns nothing."""
    row = cursor.execute(statement).fetchone()
    return None if row is None else row[0]


def _find_obstacle(sqlite3: Any, connection: Any, cursor: Any) -> str:
    """Return why nothing of a connection's files may be read, as a clause; empty if it may."""
    # In a transaction, reading anything of a file would lock it, even the list of databases.
    if sqlite3.Connection.in_transaction.__get__(connection):
        return "its transaction is open"
    text_factory = sqlite3.Connection.text_factory.__get__(connection)
    if not any(text_factory is plain for plain in _PLAIN_TEXT_FACTORIES):
        return "it calls a function for its texts"
    # A connection that locks its files until it is closed does so once it reads anything of them.
    if _locks_files(cursor):
        return "it keeps its files locked"
    return ""


def _read_database_settings(cursor: Any, name: str) -> dict[str, Any]:
    """Return the settings of a database.

    Args:
        cursor: A cursor of a connection that has the database.
        name: The name of the database, in quotes.
    """
    settings: dict[str, Any] = {}
    for setting in _FILE_SETTINGS:
        settings[f"{name}.{setting}"] = _read_value(cursor, f"PRAGMA {name}.{setting}")
    for setting in _FILE_MODES:
        settings[f"{name}.{setting}"] = _to_text(_read_value(cursor, f"PRAGMA {name}.{setting}"))
    return settings


def _locks_files(cursor: Any) -> bool:
    """Return whether a connection is in exclusive locking mode, for later databases or for a file that
    it has. Reads no file."""

    def read_mode(prefix: str) -> str:
        return _to_text(_read_value(cursor, f"PRAGMA {prefix}locking_mode"))

    if read_mode("") == _EXCLUSIVE:
        return True
    # Databases in memory are always in this mode.
    return any(
        read_mode(f"{_quote_database(name)}.") == _EXCLUSIVE
        for _, name, file in cursor.execute("PRAGMA database_list").fetchall()
        if file
    )


def _quote_database(name: str | bytes | bytearray) -> str:
    """Return the name of a database as statements contain it."""
    return '"' + _to_text(name).replace('"', '""') + '"'


def _to_text(text: str | bytes | bytearray) -> str:
    """Return a text as SQLite has it.

    Args:
        text: As the connection's `text_factory` returns it.
    """
    return text if isinstance(text, str) else text.decode("utf-8", "replace")
