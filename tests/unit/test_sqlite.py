"""Sessions on disk: nothing that was committed is lost, whatever happens to the program, the file
or the disk."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mahtab_tui.bus import StoreError
from mahtab_tui.bus.codec import InvalidRecord
from mahtab_tui.bus.records import NotebookOpened, Record
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.session_removal import delete_records
from mahtab_tui.store.spare_database import SpareDatabase
from mahtab_tui.store.sqlite import RecordPage, SqliteStore, fork_session, load_records
from mahtab_tui.store.stored_records import decode_row, encode_row
from tests import tags
from tests.records import made
from tests.unit.sqlite_sessions import cell, run, spoil, texts

DAMAGED = [b"no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 9000]

BAD_ATTRS = ["{", "[]", "[" * 100_000, b"\xff\xfe"]

READING = """
import runpy, sys
from pathlib import Path
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.sqlite import load_records
path = Path(sys.argv[1])
print([row.id for row in list_sessions(path)], [record.text for _, record in load_records(path, "s").records])
sys.argv = ["mahtab-tui", "sessions", "--all"]
runpy.run_module("mahtab_tui", run_name="__main__")
"""


def output(number: int, text: str) -> Record:
    return made(tags.USER_REPL_OUT, text, {"cell": number}, 2.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


def test_appended_record_is_stored_at_once_and_privately(path: Path) -> None:
    store = SqliteStore(path, "s", name="study", project="/p")
    record = made(
        tags.USER_REPL_OUT, "1\n", {"cell": 1, "kinds": [["value", 2]], "party": None}, 5.5
    )
    store.append(record)
    assert [loaded for _, loaded in load_records(path, "s").records] == [record]
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()


def test_the_pictures_of_a_cell_are_found_in_order(path: Path) -> None:
    store = SqliteStore(path, "s")
    assert store.pictures(2) == []

    def display(number: int, mime: str, data: str) -> Record:
        return made(tags.DISPLAY, "text", {"cell": number, "mime": mime, "data": data}, 1.0)

    for record in (
        display(1, "image/png", "a"),
        display(2, "image/png", "b"),
        display(2, "text/html", "c"),
        display(2, "image/jpeg", "d"),
    ):
        store.append(record)
    SqliteStore(path, "other").append(display(2, "image/png", "e"))
    assert store.pictures(2) == ["b", "d"]
    store.close()


def test_records_before_the_first_input_are_written_with_it(path: Path) -> None:
    about = {"file": "/a.ipynb", "digest": "d", "first": 1, "cells": 1, "rewritable": True}
    early_records = [
        made(tags.KERNEL, "The kernel is ready.", {"state": "idle"}, 1.0),
        made(tags.NOTICE, "Hello.", {}, 2.0),
        made(tags.NOTEBOOK_FILE, "opened", about, 2.0),
        made(tags.NOTEBOOK_CELL, "x", {"position": 1, "kind": "code"}, 2.0),
        made(tags.NOTEBOOK_OUTPUT, "1\n", {"position": 1}, 2.0),
    ]
    store = SqliteStore(path, "s")
    for record in early_records:
        store.append(record)
    store.close()
    assert list_sessions(path) == []
    assert not path.exists()
    later_records = [cell(1, "first"), made(tags.NOTICE, "more", {}, 3.0)]
    for record in later_records:
        store.append(record)
    store.close()
    assert [record for _, record in load_records(path, "s").records] == [
        *early_records,
        *later_records,
    ]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(st.characters()),
    attrs=st.fixed_dictionaries(
        {
            "party": st.text(st.characters()),
            "cell": st.integers(-(2**63), 2**63 - 1),
            "duration": st.floats(0, 1e15),
        }
    ),
)
def test_any_text_round_trips(
    tmp_path_factory: pytest.TempPathFactory, text: str, attrs: dict[str, object]
) -> None:
    path = tmp_path_factory.mktemp("any") / "sessions.db"
    store = SqliteStore(path, "s")
    record = made(tags.USER_REPL_OUT, text, attrs, 1.0)
    store.append(record)
    store.close()
    assert load_records(path, "s") == RecordPage([(1, record)], 0)
    list_sessions(path)


def test_full_output_of_a_cell_is_found_among_others(path: Path) -> None:
    store = SqliteStore(path, "s")
    other_store = SqliteStore(path, "t")
    assert store.output(1) is None
    for number in range(1, 4):
        for target in (store, other_store):
            target.append(cell(number))
        tag = tags.ASSISTANT_REPL_OUT if number == 2 else tags.USER_REPL_OUT
        store.append(made(tag, f"output {number} \ud800", {"cell": number}, 1.0))
    store.append(made(tags.USER_REPL_OUT, "later", {"cell": 2, "late": True}, 2.0))
    store.close()
    outputs = [f"output {number} \ud800" for number in (1, 2, 3)]
    assert [store.output(number) for number in (1, 2, 3, 4)] == [*outputs, None]
    assert other_store.output(2) is None


def test_last_records_are_in_order_and_earlier_ones_counted(path: Path) -> None:
    store = SqliteStore(path, "s")
    other_store = SqliteStore(path, "other")
    for number in range(25):
        store.append(cell(number, str(number)))
        other_store.append(cell(number, "other"))
    page = load_records(path, "s", limit=10)
    assert [record.text for _, record in page.records] == [str(number) for number in range(15, 25)]
    assert page.records == sorted(page.records, key=lambda row: row[0])
    assert page.earlier == 15
    store.close()
    other_store.close()


def test_sessions_are_listed_newest_first_by_folder(path: Path) -> None:
    assert list_sessions(path) == []
    for session, project, moment in (("a", "/one", 10.0), ("b", "/two", 30.0), ("c", "/one", 20.0)):
        store = SqliteStore(path, session, name=f"name {session}", project=project)
        store.append(made(tags.NOTICE, "hello", {}, 1.0))
        question = f"question\n  {session} " + "long " * 100
        store.append(made(tags.USER_CHAT, question, {"turn": 1}, moment))
        store.append(made(tags.USER_REPL_IN, "not the first", {"cell": 1}, moment))
        store.close()
    rows = list_sessions(path)
    assert [row.id for row in rows] == ["b", "c", "a"]
    assert [row.id for row in list_sessions(path, "/one")] == ["c", "a"]
    row = rows[0]
    assert (row.name, row.project, row.last, row.records) == ("name b", "/two", 30.0, 3)
    assert row.first.startswith("question b long")
    assert len(row.first) <= 80
    delete_records(path, "b")
    assert [row.id for row in list_sessions(path)] == ["c", "a"]
    assert load_records(path, "b") == RecordPage([], 0)


def test_leftover_partial_output_becomes_a_cut_record(path: Path) -> None:
    store = SqliteStore(path, "s")
    store.append(cell(1))
    store.partial("k", output(1, "ha"))
    store.partial("k", output(1, "half"))
    store.partial("gone", output(2, "whole"))
    store.partial("gone", None)
    store.close()
    cut = output(1, "half").changed(cut=True)
    assert [record for _, record in load_records(path, "s").records][1:] == [cut]
    resumed = SqliteStore(path, "s")
    resumed.append(cell(2))
    resumed.partial("k", output(2, "other"))
    resumed.partial("k", None)
    resumed.close()
    assert [record for _, record in load_records(path, "s").records] == [cell(1), cut, cell(2)]


def test_killed_program_loses_no_records(path: Path) -> None:
    program = """
        import os, signal, sys, threading
        from pathlib import Path
        from tests import tags
        from mahtab_tui.bus.records import UserReplIn, UserReplOutStream, emit
        from mahtab_tui.bus.logger import setup_logging
        from mahtab_tui.store.sqlite import SqliteStore

        stored = threading.Event()

        class Store(SqliteStore):
            def partial(self, key, record):
                super().partial(key, record)
                stored.set()

        log = setup_logging(Store(Path(sys.argv[1]), "s"))
        for number in range(100):
            emit(log, UserReplIn(str(number), cell=number))
        emit(log, UserReplOutStream("half", cell=99))
        stored.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = run(program, path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    records = [record for _, record in load_records(path, "s").records]
    assert [record.text for record in records] == [*map(str, range(100)), "half"]
    assert records[-1].attrs == {"cell": 99, "kinds": [["stdout", 4]], "cut": True}


def test_store_reopens_after_closing(path: Path) -> None:
    store = SqliteStore(path, "s")
    store.append(cell(1, "one"))
    store.partial("k", output(3, "grows"))
    store.close()
    store.append(cell(2, "two"))
    assert texts(path) == ["one", "two", "grows"]
    store.partial("k", None)
    store.close()
    assert texts(path) == ["one", "two"]


def test_several_sessions_and_threads_write_at_once(path: Path) -> None:
    stores = [SqliteStore(path, name) for name in "ab"]

    def work(store: SqliteStore, thread_number: int) -> None:
        for number in range(40):
            store.append(cell(number, f"{thread_number} {number}"))

    threads = [
        threading.Thread(target=work, args=(store, thread_number))
        for store in stores
        for thread_number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
        for thread_number in range(2):
            stored_texts = [
                text for text in texts(path, store.session) if text.startswith(f"{thread_number} ")
            ]
            assert stored_texts == [f"{thread_number} {number}" for number in range(40)]


def test_fork_has_all_records_and_diverges(path: Path) -> None:
    store = SqliteStore(path, "s", name="study", project="/p")
    other_store = SqliteStore(path, "other")
    for number in range(1_203):
        store.append(cell(number, str(number)))
        if number % 100 == 0:
            other_store.append(cell(number, "other"))
    spoil(path, "update record set attrs = '{' where session = 's' and text = '7'")
    store.partial("k", output(1, "half"))
    fork_session(path, "s", "copy")
    page = load_records(path, "copy", limit=100_000)
    assert [record.text for _, record in page.records] == [
        str(number) for number in range(1_203) if number != 7
    ]
    assert page.unreadable == 1
    row = next(row for row in list_sessions(path, "/p") if row.id == "copy")
    assert (row.name, row.first) == ("study", "0")
    store.append(cell(9, "only here"))
    assert "only here" not in texts(path, "copy")
    store.close()
    other_store.close()


def test_fork_does_not_update_the_notebook_of_its_session(path: Path) -> None:
    store = SqliteStore(path, "s", name="study", project="/p")
    about: dict[str, Any] = {"file": "/p/a.ipynb", "digest": "", "first": 1, "cells": 0}
    store.append(NotebookOpened("A notebook.", **about, rewritable=True, time=1.0))
    store.append(cell(1, "1"))
    fork_session(path, "s", "copy")
    for session, rewritable in (("s", True), ("copy", False)):
        (notebook, _) = (record for _, record in load_records(path, session).records)
        assert isinstance(notebook, NotebookOpened)
        assert notebook.rewritable is rewritable
    store.close()


# Damaged files, full disks and unreadable records: what can be read is read, the rest is reported.


def test_full_disk_gives_a_notice_and_missed_records_are_written_later(path: Path) -> None:
    program = """
        import json, resource, sys
        from pathlib import Path
        from mahtab_tui.bus.display_handler import DisplayHandler
        from mahtab_tui.bus.logger import close_logging, setup_logging
        from mahtab_tui.bus.records import UserReplIn, UserReplOut, emit
        from mahtab_tui.store.sqlite import SqliteStore

        log = setup_logging(SqliteStore(Path(sys.argv[1]), "s"))
        display = DisplayHandler()
        log.addHandler(display)
        emit(log, UserReplIn("begin", cell=0))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
        for number in range(30):
            emit(log, UserReplOut(f"{number} " + "x" * 50_000, cell=number))
        notices = [record.text for record in display.pop_records() if record.tag == "notice"]
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        close_logging(log)
        print(json.dumps(notices))
    """
    done = run(program, path)
    assert done.returncode == 0, done.stderr
    (notice,) = json.loads(done.stdout)
    assert str(path) in notice
    assert "The session continues" in notice
    stored_numbers = [text.split()[0] for text in texts(path) if "x" * 50_000 in text]
    assert stored_numbers == [str(number) for number in range(30)]


def test_a_locked_file_is_an_error_and_works_afterwards(path: Path) -> None:
    store = SqliteStore(path, "s")
    store.append(cell(1, "one"))
    other_connection = sqlite3.connect(path, isolation_level=None)
    other_connection.execute("begin immediate")
    with pytest.raises(StoreError, match="locked"):
        store.append(cell(2, "two"))
    other_connection.execute("rollback")
    other_connection.close()
    store.append(cell(3, "three"))
    store.close()
    assert texts(path) == ["one", "three"]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_file_is_moved_away_and_records_go_into_a_new_one(
    path: Path, content: bytes
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    store = SqliteStore(path, "s")
    message = r"sessions\.db was damaged; it is now .*sessions\.db\.damaged-\d+, and a new one was started\."
    with pytest.raises(StoreError, match=message):
        store.append(cell(1, "new"))
    store.append(cell(1, "new"))
    store.close()
    assert texts(path) == ["new"]
    (damaged,) = path.parent.glob("sessions.db.damaged-*")
    assert damaged.read_bytes() == content
    for read in (
        lambda: list_sessions(path),
        lambda: load_records(path, "s"),
        lambda: SqliteStore(path, "s").output(1),
    ):
        path.write_bytes(content)
        with pytest.raises(StoreError, match="was damaged"):
            read()
        assert not path.exists()
    assert len(list(path.parent.glob("sessions.db.damaged-*"))) == 4


def test_file_damaged_while_open_is_moved_away_by_only_one_of_two(path: Path) -> None:
    store = SqliteStore(path, "s")
    other_store = SqliteStore(path, "t")
    for number in range(50):
        store.append(cell(number, "x" * 5000))
    other_store.append(cell(1))
    connection = sqlite3.connect(path)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    errors = []
    for opened_store in (store, other_store):
        with pytest.raises(StoreError) as raised:
            opened_store.append(cell(60, "y" * 5000))
        errors.append(str(raised.value))
        opened_store.append(cell(60, "new"))
        opened_store.close()
    assert "it is" in errors[0]
    assert texts(path) == texts(path, "t") == ["new"]
    damaged = [opened_store.name for opened_store in path.parent.glob("sessions.db.damaged-*")]
    assert len([name for name in damaged if not name.endswith("-wal")]) == 1, (
        "the new file does not count as damaged"
    )


@pytest.mark.parametrize("attrs", BAD_ATTRS)
def test_unreadable_record_is_skipped_and_counted(path: Path, attrs: object) -> None:
    store = SqliteStore(path, "s")
    for number in range(4):
        store.append(cell(number, str(number)))
        store.append(output(number, f"output {number}"))
    for data in ("abc", "def"):
        store.append(made(tags.DISPLAY, "", {"cell": 3, "mime": "image/png", "data": data}, 1.0))
    store.partial("k", output(4, "half"))
    store.partial("l", output(5, "whole"))
    store.close()
    spoil(path, "update record set attrs = ? where number in (1, 6, 9)", attrs)
    spoil(path, "update partial set attrs = ? where key = 'k'", attrs)
    page = load_records(path, "s")
    assert page.unreadable == 4
    assert [record.text for _, record in page.records] == [
        *("output 0", "1", "output 1", "2", "3", "output 3", "", "whole")
    ]
    assert store.output(3) == "output 3"
    assert store.output(2) is None
    store = SqliteStore(path, "s")
    store.append(cell(9))
    store.close()
    assert load_records(path, "s").unreadable == 4, "an unreadable partial record stays"


def test_record_without_a_text_or_a_time_is_skipped_and_counted(path: Path) -> None:
    store = SqliteStore(path, "s", name="n")
    for number in range(5):
        store.append(output(number, f"output {number}"))
    store.close()
    # The original tables accept no NULL, unless their file is damaged.
    for table in ("record", "session"):
        spoil(path, f"create table copy as select * from {table}")
        spoil(path, f"drop table {table}")
        spoil(path, f"alter table copy rename to {table}")
    for statement in (
        "update session set name = null",
        "update record set text = null where number = 1",
        "update record set time = null where number = 2",
        "update record set time = 9e999 where number = 3",
        "update record set time = 1e300 where number = 4",
    ):
        spoil(path, statement)
    page = load_records(path, "s")
    assert [record.text for _, record in page.records] == ["output 4"]
    assert page.unreadable == 4
    assert store.output(0) is None
    assert [row.name for row in list_sessions(path)] == [""]


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, None, "1"])
def test_record_with_an_impossible_time_is_damaged(time: object) -> None:
    row = encode_row(output(1, "one"))
    with pytest.raises(InvalidRecord, match="time"):
        decode_row(row._replace(time=time))


def test_impossible_path_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        SqliteStore(tmp_path / "file" / "sessions.db", "s").append(cell(1))
    with pytest.raises(StoreError):
        SqliteStore(tmp_path, "s").append(cell(1))


def test_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("pragma user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="newer version of mahtab-tui"):
        SqliteStore(path, "s").append(cell(1))


def _without_privileges() -> None:
    """Let the next program obey the modes of files, even if it is root's."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


READ_ONLY_FOLDERS = pytest.mark.skipif(
    sys.platform != "linux", reason="the program of the root user would not obey the folder's mode"
)


def _read_sessions_in_read_only_folder(path: Path) -> subprocess.CompletedProcess[str]:
    """Run `READING` while the file's folder cannot be written."""
    path.parent.chmod(0o500)
    try:
        return subprocess.run(
            [sys.executable, "-c", READING, path],
            preexec_fn=_without_privileges,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.parent.chmod(0o700)


@READ_ONLY_FOLDERS
def test_sessions_in_a_folder_that_became_read_only_can_be_read(home: Path) -> None:
    path = home / ".mahtab" / "sessions.db"
    store = SqliteStore(path, "s", name="study", project="/p")
    store.append(made(tags.USER_CHAT, "hello there", {}))
    store.close()
    done = _read_sessions_in_read_only_folder(path)
    assert done.stdout.startswith("['s'] ['hello there']\ns  ")
    assert done.returncode == 0


@READ_ONLY_FOLDERS
def test_file_of_a_newer_version_is_not_read_in_a_read_only_folder(path: Path) -> None:
    store = SqliteStore(path, "s")
    store.append(cell(1))
    store.close()
    spoil(path, "pragma user_version = 99")
    done = _read_sessions_in_read_only_folder(path)
    assert done.stdout == ""
    assert "written by a newer version of mahtab-tui" in done.stderr


def test_failed_fork_leaves_nothing(path: Path) -> None:
    store = SqliteStore(path, "s")
    store.append(cell(1))
    store.close()
    spoil(
        path, "create trigger full before insert on session begin select raise(abort, 'full'); end"
    )
    with pytest.raises(StoreError, match="full"):
        fork_session(path, "s", "copy")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select distinct session from record").fetchall() == [("s",)]


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"\xed\xa0", 3.5])
def test_non_text_values_are_shown_as_far_as_readable(path: Path, text: object) -> None:
    store = SqliteStore(path, "s", name="n", project="/p")
    store.append(cell(1, "one"))
    store.close()
    spoil(path, "update record set text = ?", text)
    for field in ("first", "name"):
        spoil(path, f"update session set {field} = ?, started = 'never', last = 1e300", text)
    values = "cast(x'ff41' as text), cast(x'ff' as text), '/p', 1, 2, cast(x'ff' as text)"
    spoil(path, f"insert into session values ({values})")
    rows = list_sessions(path)
    assert [(row.started, row.last) for row in rows] == [(0.0, 0.0), (1.0, 2.0)]
    assert rows[1].id.endswith("A")
    assert isinstance(texts(path)[0], str)
    if isinstance(text, bytes):
        spoil(path, "update session set first = cast(? as text) where id = 's'", text)
        spoil(path, "update record set text = cast(? as text), attrs = '{}'", text)
        assert "\ufffd" in list_sessions(path)[0].first
        assert "\ufffd" in texts(path)[0]


def test_user_is_told_that_memory_is_used_if_the_new_file_is_damaged_too(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(DAMAGED[0])
    problems: list[str] = []

    def damage_again(problem: str) -> None:
        problems.append(problem)
        path.write_bytes(DAMAGED[0])

    database = SpareDatabase(path, "", 1.0, "The input history", damage_again)
    assert "a new one was started" in problems[0]
    assert problems[-1].endswith("This session keeps it in memory only.")
    assert database.run(lambda connection: connection.execute("select 1").fetchone()) == (1,)
    database.close()
