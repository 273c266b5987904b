"""From the bus to a store, the lock of a session, and files of an earlier version."""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus import StoreError, records, store_handler
from mahtab_tui.bus.display_handler import DisplayHandler
from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.logger import close_logging, setup_logging
from mahtab_tui.bus.records import KINDS, Record, encode
from mahtab_tui.search.tree import SearchTree
from mahtab_tui.search.trees import Trees
from mahtab_tui.session.past_conversation import load_messages
from mahtab_tui.store.memory_store import MemoryStore
from mahtab_tui.store.session_index import find_sessions
from mahtab_tui.store.session_list import list_sessions
from mahtab_tui.store.session_lock import (
    LockedElsewhere,
    SessionLock,
    lock_session,
    locked_sessions,
)
from mahtab_tui.store.session_words import catch_up
from mahtab_tui.store.sqlite import SqliteStore, load_records
from mahtab_tui.tui.namespace.variables import VariableRows
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.records import emit, made, read_log
from tests.unit.sqlite_sessions import HOLD, cell, texts

SESSION = "0a1b2c3d"


class FailingStore(MemoryStore):
    """A store that fails on demand, and on which tests can wait."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = False
        self.never = False
        self.attempts = 0
        self.written = threading.Condition()

    def append(self, *added: Record) -> None:
        with self.written:
            self.attempts += 1
            self.written.notify_all()
            if self.failing:
                raise StoreError("The disk is full.")
            for record in added:
                if record.text == "never" or (self.never and record.tag == tags.NOTICE):
                    raise ValueError(record.text)
            super().append(*added)

    def partial(self, key: str, record: Record | None) -> None:
        with self.written:
            super().partial(key, record)
            self.written.notify_all()

    def wait(self, condition: Callable[[], object]) -> None:
        with self.written:
            assert self.written.wait_for(condition, timeout=60)

    def has(self, text: str) -> bool:
        return any(record.text == text for record in self.records)

    def wait_partial(self, text: str) -> Record:
        """Wait until this is the only partial text."""
        self.wait(lambda: [record.text for record in self.partials.values()] == [text])
        (record,) = self.partials.values()
        return record


Bus = tuple[logging.Logger, FailingStore, DisplayHandler]


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    monkeypatch.setattr(store_handler, "WRITE_INTERVAL_S", 0.01)
    store = FailingStore()
    display = DisplayHandler()
    log = setup_logging(store)
    log.addHandler(display)
    yield log, store, display
    close_logging(log)


def notices(log: logging.Logger, display: DisplayHandler) -> list[str]:
    emit(log, tags.QUEUE, items=[])  # wait for a record that another thread is logging
    return [record.text for record in display.pop_records() if record.tag == tags.NOTICE]


def test_running_output_is_stored_even_if_nothing_more_is_logged(bus: Bus) -> None:
    log, store, _ = bus
    emit(log, tags.USER_REPL_OUT_STREAM, "one ", cell=7, kind="stdout")
    emit(log, tags.USER_REPL_OUT_STREAM, "two", cell=7, kind="traceback")
    record = store.wait_partial("one two")
    assert (record.tag, record.attrs) == (
        tags.USER_REPL_OUT,
        {"cell": 7, "kinds": [["stdout", 4], ["traceback", 3]]},
    )
    emit(log, tags.USER_REPL_OUT, "late", cell=7, late=True)
    assert store.partials
    emit(log, tags.USER_REPL_OUT, "one two", cell=7)
    assert store.partials == {}
    assert [record.text for record in store.records] == ["late", "one two"]


def test_results_may_be_written_later_but_before_the_next_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_handler, "WRITE_DELAY_S", 3_600.0)
    store = FailingStore()
    log = setup_logging(store, writes_later=True)

    def stored() -> list[str]:
        return [record.text for record in store.records]

    emit(log, tags.USER_REPL_IN, "x = 1", cell=1)
    emit(log, tags.USER_REPL_OUT, "", cell=1)
    emit(log, tags.NOTICE, "said", level="info")
    assert stored() == ["x = 1"]
    emit(log, tags.USER_REPL_IN, "y = 2", cell=2)
    assert stored() == ["x = 1", "", "said", "y = 2"]
    assert store.attempts == 2, "records that waited are written at once"
    emit(log, tags.USER_REPL_OUT, "2", cell=2)
    close_logging(log)
    assert stored()[-1] == "2"


def test_results_written_later_do_not_wait_for_another_cell() -> None:
    store = FailingStore()
    log = setup_logging(store, writes_later=True)
    emit(log, tags.USER_REPL_OUT, "1", cell=1)
    store.wait(lambda: [record.text for record in store.records] == ["1"])
    close_logging(log)


def test_running_answer_is_stored_with_its_fences_until_it_restarts(bus: Bus) -> None:
    log, store, _ = bus
    about: dict[str, Any] = {"turn": 1, "step": 0, "party": "claude"}
    for kind, block, text in (
        *(("chat", 0, "So:"), ("code", 0, "x = 1\n")),
        *(("chat", 1, "and\n"), ("code", 1, "y")),
    ):
        emit(log, tags.ASSISTANT_CHAT_STREAM, text, **about, kind=kind, block=block)
    record = store.wait_partial("So:\n```python\nx = 1\n```\nand\n```python\ny")
    assert (record.tag, record.attrs) == (tags.ASSISTANT_CHAT, {**about, "stopped": False})
    emit(log, tags.ASSISTANT_CHAT_STREAM, **about, fresh=True)
    emit(log, tags.ASSISTANT_CHAT_STREAM, "Once more", **about, kind="chat", block=0)
    store.wait_partial("Once more")


def test_failing_store_gives_one_notice_and_loses_nothing(bus: Bus) -> None:
    log, store, display = bus
    emit(log, tags.USER_REPL_IN, "before", cell=1)
    store.failing = True
    for number in range(50):
        emit(log, tags.USER_REPL_IN, f"{number}", cell=number)
    previous_attempts = store.attempts
    store.wait(lambda: store.attempts > previous_attempts + 2)  # it tries again by itself
    assert notices(log, display) == [
        "The disk is full. The session continues; new records stay in memory until they can be saved."
    ]
    store.failing = False
    store.wait(lambda: any("works again" in record.text for record in store.records))
    assert notices(log, display) == ["Saving the session works again."]
    assert [record.text for record in store.records if record.tag == tags.USER_REPL_IN] == [
        "before",
        *map(str, range(50)),
    ]


def test_backlog_is_bounded_and_lost_records_are_reported(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_handler, "MAX_QUEUED_CHARS", 1_000)
    log, store, display = bus
    store.failing = True
    for number in range(30):
        emit(log, tags.USER_REPL_OUT, f"{number:03}" + "x" * 97, cell=number)
    emit(log, tags.USER_REPL_OUT, "y" * 5_000, cell=99)
    emit(log, tags.USER_REPL_OUT, "last", cell=100)
    store.failing = False
    store.wait(lambda: any("missing" in record.text for record in store.records))
    stored_texts = [record.text for record in store.records if record.tag == tags.USER_REPL_OUT]
    assert stored_texts == ["last"]
    assert any("32 records did not fit" in text for text in notices(log, display))


def test_records_that_were_written_leave_space_for_the_next_backlog(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_handler, "MAX_QUEUED_CHARS", 1_000)
    log, store, display = bus
    for first_number in (0, 8):
        store.failing = True
        for number in range(first_number, first_number + 8):
            emit(log, tags.USER_REPL_OUT, f"{number:03}" + "x" * 97, cell=number)
        store.failing = False
        last_text = f"{first_number + 7:03}" + "x" * 97
        store.wait(functools.partial(store.has, last_text))
    outputs = [record for record in store.records if record.tag == tags.USER_REPL_OUT]
    assert [record.attrs["cell"] for record in outputs] == list(range(16))
    assert not any("did not fit" in text for text in notices(log, display))


def test_backlog_is_written_on_close() -> None:
    store = FailingStore()
    log = setup_logging(store)
    store.failing = True
    emit(log, tags.USER_REPL_IN, "x", cell=1)
    store.failing = False
    close_logging(log)
    assert [record.text for record in store.records if record.tag == tags.USER_REPL_IN] == ["x"]


def test_unstorable_record_is_reported_and_the_others_are_stored(bus: Bus) -> None:
    log, store, display = bus
    store.never = True
    for text in ("before", "never", "after", "never"):
        emit(log, tags.USER_REPL_IN, text, cell=1)
    [notice] = notices(log, display)
    assert "A record could not be saved (ValueError)" in notice
    assert [record.text for record in store.records] == ["before", "after"]


# One program writes a session: locks, and their files after a program was killed.


def claimed(session: str) -> SessionLock:
    lock = lock_session(session)
    assert lock is not None
    return lock


def files(home: Path) -> list[str]:
    return sorted(path.name for path in (home / ".mahtab" / "open").iterdir())


def delete_lock_files(home: Path) -> None:
    for path in (home / ".mahtab" / "open").iterdir():
        path.unlink()


@pytest.mark.parametrize("killed", [False, True])
def test_sessions_of_a_read_only_home_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    code = f"""if True:
        import os, pathlib
        from mahtab_tui.bus import records
        from mahtab_tui.store.sqlite import SqliteStore
        store = SqliteStore(pathlib.Path({str(tmp_path / "s.db")!r}), "one", project="/p")
        store.append(records.UserChat("why?", turn=1))
        if not {killed}: store.close()
        os._exit(0)"""
    subprocess.run([sys.executable, "-c", code], check=True)
    path = tmp_path / "s.db"
    assert path.with_name("s.db-wal").exists() == killed
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    [row] = list_sessions(path)
    assert row.first == "why?"
    assert [record.text for _, record in load_records(path, "one").records] == ["why?"]
    with pytest.raises(StoreError, match="readonly"):
        SqliteStore(path, "one").append(records.UserChat("more", turn=2))


def test_session_has_one_lock_until_released(home: Path) -> None:
    first_lock = claimed("abc")
    with pytest.raises(LockedElsewhere) as raised:
        lock_session("abc")
    assert raised.value.holder.pid == os.getpid()
    assert list(locked_sessions()) == ["abc"]
    first_lock.release()
    assert locked_sessions() == {}
    assert files(home) == []
    claimed("abc").release()


@pytest.mark.parametrize("session", ["../../x", "a/b", "", ".", "é\N{SNOWMAN} %2F"])
def test_any_id_has_a_lock_file_in_its_folder(home: Path, session: str) -> None:
    lock = claimed(session)
    assert list(locked_sessions()) == [session]
    assert len(files(home)) == 1
    lock.release()


def test_killed_program_releases_its_lock_and_the_file_is_removed(home: Path) -> None:
    for claim_again in (True, False):
        command = [sys.executable, "-c", HOLD, "abc"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "locked\n"
            assert locked_sessions()["abc"].pid == program.pid
            with pytest.raises(LockedElsewhere, match=str(program.pid)):
                lock_session("abc")
            program.kill()
        assert files(home) == ["session-abc.lock"]
        if claim_again:
            claimed("abc").release()
        assert locked_sessions() == {}
        assert files(home) == []


def test_store_that_lost_its_lock_stops_writing_and_keeps_the_others_lock(
    home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sessions.db"
    first_store = SqliteStore(path, "abc", claim=claimed("abc"))
    first_store.append(cell(1, "one"))
    first_store.append(made(tags.USER_REPL_OUT, "printed", {"cell": 1}, 1.0))
    assert first_store.output(1) == "printed"
    delete_lock_files(home)
    second = SqliteStore(path, "abc", claim=claimed("abc"))
    assert first_store.claim is not None
    assert first_store.claim.lost
    with pytest.raises(StoreError, match="Another program now writes"):
        first_store.append(cell(2, "lost"))
    for partial in (made(tags.USER_REPL_OUT, "lost", {"cell": 2}, 2.0), None):
        with pytest.raises(StoreError, match="Another program now writes"):
            first_store.partial("k", partial)
    assert first_store.output(1) is None, "another program's cell may have this number"
    first_store.claim.release()
    second.append(cell(2, "two"))
    assert texts(path, "abc") == ["one", "printed", "two"]
    with pytest.raises(LockedElsewhere):
        lock_session("abc")
    for store in (first_store, second):
        store.close()


def test_missing_lock_file_revokes_no_lock(home: Path) -> None:
    first_lock = claimed("abc")
    delete_lock_files(home)
    assert not first_lock.lost
    second = claimed("abc")
    assert first_lock.lost
    assert not second.lost


def test_no_session_is_claimed_when_locking_is_unavailable(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert lock_session("abc") is None
    assert locked_sessions() == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"pid": "x", "since": 2}', b'{"pid": 1, "since": 1e300}', b"\xff" * 100],
)
def test_garbled_lock_file_still_locks(home: Path, content: bytes) -> None:
    lock = claimed("abc")
    (home / ".mahtab" / "open" / "session-abc.lock").write_bytes(content)
    with pytest.raises(LockedElsewhere):
        lock_session("abc")
    assert "since" in locked_sessions()["abc"].sentence_part()
    assert not lock.lost


# Session files and logs that 0.1.0 wrote (`tests/data/0.1.0`) are read whole: they have a record of
# every stored tag.

WRITTEN = Path(__file__).parent.parent / "data" / "0.1.0"


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    return Path(shutil.copy(WRITTEN / "sessions.db", tmp_path))


@pytest.fixture
def past(sessions: Path) -> list[Record]:
    page = load_records(sessions, SESSION, limit=5_000)
    assert page.unreadable == 0
    return [record for _, record in page.records]


def test_every_old_record_is_read_without_loss(sessions: Path, past: list[Record]) -> None:
    with sqlite3.connect(sessions) as connection:
        stored_rows = connection.execute("select tag, attrs, text from record order by number")
        removed = ("touch", "memo")
        rows = [row for row in stored_rows if json.loads(row[1]).get("event") not in removed]
    rows = [row for row in rows if row[0] != "pin"]  # removed since
    assert {tag for tag, _, _ in rows} <= {
        tag for (tag, _), record_class in KINDS.items() if record_class.in_store
    }
    read = past[: len(rows)]
    assert [(record.tag, record.text) for record in read] == [(tag, text) for tag, _, text in rows]
    for record, (_, attrs, _) in zip(read, rows, strict=True):
        expected: dict[str, Any] = {
            name: value
            for name, value in json.loads(attrs).items()
            if value is not None and name not in ("limits", "late")
        }
        assert expected.items() <= json.loads(json.dumps(encode(record))).items()


def test_cell_running_when_killed_is_marked_as_cut(past: list[Record]) -> None:
    last_record = past[-1]
    assert isinstance(last_record, records.UserReplOut)
    assert (last_record.cut, last_record.text, last_record.kinds) == (
        True,
        "begun\n",
        (("stdout", 6),),
    )


def test_old_session_is_shown_as_it_was(past: list[Record]) -> None:
    transcript = Transcript(since=past[-1].time + 1)
    rows = VariableRows()
    searches = Trees()
    for pane in (transcript, rows, searches):
        pane.fold(past)
    cells = {entry.number: entry for entry in transcript.entries if isinstance(entry, Cell)}
    assert [cells[number].status for number in (1, 2, 12)] == ["ok", "error", "cut off"]
    assert [function for _, _, function, _ in cells[2].frames] == ["<module>", "f"]
    assert [(cell.author, cell.agent_index, cell.edited) for cell in (cells[7], cells[8])] == [
        ("replay", None, True),
        ("codex", 0, False),
    ]
    assert (cells[1].removed, cells[4].removed) == ("hidden", "")
    assert {"data", "total", "answer"} <= {row.name for row in rows.visible}
    assert [len(tree.nodes) for tree in searches] == [1, 5]


def test_old_session_can_be_continued(past: list[Record]) -> None:
    messages = load_messages(past)
    assert [(message.role, message.text) for message in messages[:3:2]] == [
        ("user", "Count the data"),
        ("assistant", "It is **6**."),
    ]
    assert (
        "@a.png"
        in next(message for message in messages if message.text.startswith("what is")).context
    )
    assert [
        (record.mime, record.width, record.height)
        for record in past
        if isinstance(record, records.UserAttachment) and record.data is not None
    ] == [("image/png", 9, 9)]


def test_old_session_can_be_appended_to(sessions: Path) -> None:
    store = SqliteStore(sessions, SESSION)
    store.append(records.UserReplIn("1", cell=13, party="you"))
    assert store.output(1) == "a line\n[1, 2, 3]\n"
    assert store.output(12) == "begun\n"
    store.close()
    [row] = list_sessions(sessions)
    assert (row.id, row.first) == (SESSION, "data = [1, 2, 3] print('a line') data")
    assert load_records(sessions, SESSION).records[-1][1].text == "1"


def test_old_session_is_found_once_indexed(sessions: Path) -> None:
    assert catch_up(sessions, 60.0) == 0
    [hit] = find_sessions(sessions, "count data").hits
    assert hit.session.id == SESSION


def test_the_log_of_a_search_is_read() -> None:
    tree = SearchTree("")
    for record in read_log(WRITTEN / "search.jsonl"):
        tree.fold(record)
    assert tree.root is not None
    assert (tree.root.state, tree.root.answer, len(tree.nodes)) == (
        "done",
        "five and five and five and five",
        5,
    )
    assert tree.usage.calls == 2
