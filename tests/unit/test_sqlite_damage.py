"""Damaged files, full disks and records that cannot be read: what can be read is, and the rest is
told."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from mahtab_tui.bus.logger import StoreError
from mahtab_tui.store.sqlite import SqliteStore, list_sessions, load_records
from tests import tags
from tests.records import made
from tests.unit.sqlite_sessions import cell, run, spoil, texts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


def test_full_disk_gives_a_notice_and_missed_records_are_written_later(path: Path) -> None:
    program = """
        import json, resource, sys
        from pathlib import Path
        from mahtab_tui.bus import logger
        from tests import tags
        from mahtab_tui.bus.logger import DisplayHandler
        from mahtab_tui.bus.records import UserReplIn, UserReplOut, emit
        from mahtab_tui.bus.logger import close_logging, setup_logging
        from mahtab_tui.store.sqlite import SqliteStore

        log, _ = setup_logging(SqliteStore(Path(sys.argv[1]), "s"))
        display = DisplayHandler()
        log.addHandler(display)
        emit(log, UserReplIn("begin", cell=0))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
        for number in range(30):
            emit(log, UserReplOut(f"{number} " + "x" * 50_000, cell=number))
        notices = [record.text for record in display.pop_records() if record.tag == tags.NOTICE]
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        close_logging(log)
        print(json.dumps(notices))
    """
    done = run(program, path)
    assert done.returncode == 0, done.stderr
    (notice,) = json.loads(done.stdout)
    assert str(path) in notice
    assert "The session continues" in notice
    stored = [text.split()[0] for text in texts(path) if "x" * 50_000 in text]
    assert stored == [str(number) for number in range(30)]


def test_database_that_cannot_grow_keeps_its_records(path: Path) -> None:
    store = SqliteStore(path, "s")
    store.append(cell(1))
    assert store._connection is not None
    store._connection.execute("pragma max_page_count = 20")
    with pytest.raises(StoreError, match="full"):
        store.append(cell(2, "x" * 1_000_000))
    store.append(cell(3))
    store.close()
    assert texts(path) == ["x", "x"]


def test_a_locked_file_is_an_error_and_works_afterwards(path: Path) -> None:
    store = SqliteStore(path, "s")
    store.append(cell(1, "one"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StoreError, match="locked"):
        store.append(cell(2, "two"))
    other.execute("rollback")
    other.close()
    store.append(cell(3, "three"))
    store.close()
    assert texts(path) == ["one", "three"]


DAMAGED = [b"no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 9000]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_file_is_moved_away_and_records_go_into_a_new_one(
    path: Path, content: bytes
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    store = SqliteStore(path, "s")
    with pytest.raises(
        StoreError,
        match=r"sessions\.db was damaged; it is now .*sessions\.db\.damaged-\d+, and a new one was started\.",
    ):
        store.append(cell(1, "kept"))
    store.append(cell(1, "kept"))
    store.close()
    assert texts(path) == ["kept"]
    (damaged,) = path.parent.glob("sessions.db.damaged-*")
    assert damaged.read_bytes() == content


@pytest.mark.parametrize("content", DAMAGED)
def test_readers_move_a_damaged_file_away(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    for read in (
        lambda: list_sessions(path),
        lambda: load_records(path, "s"),
        lambda: SqliteStore(path, "s").output(1),
    ):
        path.write_bytes(content)
        with pytest.raises(StoreError, match="was damaged"):
            read()
        assert not path.exists()
    assert len(list(path.parent.glob("sessions.db.damaged-*"))) == 3


def test_file_damaged_while_open_is_moved_away_by_only_one_of_two(path: Path) -> None:
    store, other = SqliteStore(path, "s"), SqliteStore(path, "t")
    for number in range(50):
        store.append(cell(number, "x" * 5000))
    other.append(cell(1))
    connection = sqlite3.connect(path)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    errors = []
    for each in (store, other):
        with pytest.raises(StoreError) as raised:
            each.append(cell(60, "y" * 5000))
        errors.append(str(raised.value))
        each.append(cell(60, "new"))
        each.close()
    assert "it is" in errors[0]
    assert texts(path) == texts(path, "t") == ["new"]
    assert (
        len(
            [
                each
                for each in path.parent.glob("sessions.db.damaged-*")
                if not each.name.endswith("-wal")
            ]
        )
        == 1
    ), "the new file is not taken for the damaged one"


BAD_ATTRS = ["{", "", "[]", "null", "3", "[" * 100_000, b"\xff\xfe"]


@pytest.mark.parametrize("attrs", BAD_ATTRS)
def test_unreadable_record_is_skipped_and_counted(path: Path, attrs: object) -> None:
    store = SqliteStore(path, "s")
    for number in range(4):
        store.append(cell(number, str(number)))
        store.append(made(tags.USER_REPL_OUT, f"output {number}", {"cell": number}, 1.0))
    store.append(made(tags.DISPLAY, "", {"cell": 3, "mime": "image/png", "data": "abc"}, 1.0))
    store.append(made(tags.DISPLAY, "", {"cell": 3, "mime": "image/png", "data": "def"}, 1.0))
    store.partial("k", made(tags.USER_REPL_OUT, "half", {"cell": 4}, 2.0))
    store.partial("l", made(tags.USER_REPL_OUT, "whole", {"cell": 5}, 2.0))
    store.close()
    spoil(path, "update record set attrs = ? where number in (1, 6, 9)", attrs)
    spoil(path, "update partial set attrs = ? where key = 'k'", attrs)
    page = load_records(path, "s")
    assert page.unreadable == 4
    assert [record.text for _, record in page.records] == [
        "output 0",
        "1",
        "output 1",
        "2",
        "3",
        "output 3",
        "",
        "whole",
    ]
    assert store.output(3) == "output 3"
    assert store.output(2) is None
    assert store.pictures(3) == ["def"]
    store = SqliteStore(path, "s")
    store.append(cell(9))
    store.close()
    assert load_records(path, "s").unreadable == 4, (
        "what was half said and cannot be read is kept as it is"
    )


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"\xed\xa0", 3.5])
def test_non_text_values_are_shown_as_far_as_readable(path: Path, text: object) -> None:
    store = SqliteStore(path, "s", name="n", project="/p")
    store.append(cell(1, "one"))
    store.close()
    spoil(path, "update record set text = ?", text)
    spoil(
        path, "update session set first = ?, name = ?, started = 'never', last = 1e300", text, text
    )
    spoil(
        path,
        "insert into session values (cast(x'ff41' as text), cast(x'ff' as text), '/p', 1, 2, cast(x'ff' as text))",
    )
    rows = list_sessions(path)
    assert [(row.started, row.last) for row in rows] == [(0.0, 0.0), (1.0, 2.0)]
    assert rows[1].id.endswith("A")
    (record,) = load_records(path, "s").records
    assert isinstance(record[1].text, str)
    if isinstance(text, bytes):
        spoil(path, "update session set first = cast(? as text) where id = 's'", text)
        spoil(path, "update record set text = cast(? as text), attrs = '{}'", text)
        assert "\N{REPLACEMENT CHARACTER}" in list_sessions(path)[0].first
        assert "\N{REPLACEMENT CHARACTER}" in load_records(path, "s").records[0][1].text


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
