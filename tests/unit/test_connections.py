"""What an undo reads of SQLite connections, and what this leaves alone."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mahtab_tui.worker.undo.connections import has_same_settings, read_connection, unknown_reason


def _main_is_exclusive(connection: sqlite3.Connection) -> None:
    connection.execute("pragma main.locking_mode = exclusive")


def _all_are_exclusive(connection: sqlite3.Connection) -> None:
    connection.execute("pragma locking_mode = exclusive")


def _texts_are_bytes(connection: sqlite3.Connection) -> None:
    _main_is_exclusive(connection)
    connection.text_factory = bytes


@pytest.fixture(autouse=True)
def kernel_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a test may be a fork of the one that has imported the module, and slow."""
    monkeypatch.setattr("mahtab_tui.worker.undo.connections._KERNEL_PID", os.getpid())
    monkeypatch.setattr("mahtab_tui.worker.undo.connections._BUSY_TIMEOUT_S", 30.0)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "data.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (a)")
    connection.close()
    return path


@pytest.mark.parametrize("prepare", [_main_is_exclusive, _all_are_exclusive, _texts_are_bytes])
@pytest.mark.parametrize("is_shared", [False, True])
def test_reading_a_connection_in_exclusive_mode_does_not_lock_its_file(
    database: Path, prepare: Callable[[sqlite3.Connection], None], *, is_shared: bool
) -> None:
    connection = sqlite3.connect(database, check_same_thread=not is_shared)
    prepare(connection)
    state = read_connection(connection)
    other = sqlite3.connect(database, timeout=0)
    other.execute("insert into t values (1)")
    other.commit()
    assert unknown_reason(state) == "it keeps its files locked"
    connection.execute("pragma query_only = 1")
    assert not has_same_settings(state, read_connection(connection))
    other.close()
    connection.close()


@pytest.mark.parametrize("text_factory", [str, bytes, bytearray])
def test_databases_in_memory_and_files_are_read_whole(database: Path, text_factory: type) -> None:
    for path in (":memory:", database):
        connection = sqlite3.connect(path)
        connection.execute("attach ':memory:' as other")
        state = read_connection(connection)
        assert unknown_reason(state) == ""
        connection.text_factory = text_factory
        assert has_same_settings(state, read_connection(connection))
        connection.execute("pragma other.user_version = 5")
        assert not has_same_settings(state, read_connection(connection))
        connection.close()


def test_the_timeout_of_a_connection_is_its_own_while_another_thread_reads_it(
    database: Path,
) -> None:
    connection = sqlite3.connect(database, check_same_thread=False, timeout=7)
    names = [f"d{number}" for number in range(8)]
    for name in names:
        connection.execute(f"attach ':memory:' as {name}")
    timeouts = set()
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            timeouts.add(connection.execute("pragma busy_timeout").fetchone()[0])

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(20):
        read_connection(connection)
    is_over.set()
    watcher.join()
    assert timeouts == {7_000}
    connection.close()


class WithProperties(sqlite3.Connection):
    """Its properties are code of the user's."""

    @property
    def row_factory(self) -> NoReturn:  # type: ignore[override]
        raise AssertionError

    text_factory: Any = row_factory


def test_properties_of_a_subclass_are_not_called() -> None:
    connection = sqlite3.connect(":memory:", factory=WithProperties)
    assert unknown_reason(read_connection(connection)) == ""
    connection.close()


def test_a_function_for_texts_is_not_called() -> None:
    calls: list[bytes] = []
    connection = sqlite3.connect(":memory:")
    connection.text_factory = calls.append
    assert unknown_reason(read_connection(connection)) == "it calls a function for its texts"
    assert calls == []
    connection.close()


def test_an_object_that_was_never_initialized_has_no_settings() -> None:
    assert read_connection(sqlite3.Cursor.__new__(sqlite3.Cursor)) is None
    assert read_connection(sqlite3.Connection.__new__(sqlite3.Connection)) is None
