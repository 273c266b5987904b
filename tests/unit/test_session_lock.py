"""One program writes a session: who holds it, and what is left when a program was killed."""

from __future__ import annotations

import errno
import fcntl
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mahtab_tui.bus.logger import StoreError
from mahtab_tui.store.database import LockedElsewhere, SessionLock, lock_session, locked_sessions
from mahtab_tui.store.sqlite import SqliteStore, load_records
from tests import tags
from tests.records import made

HOLD = "import sys, time\nfrom mahtab_tui.store.database import lock_session\nlock = lock_session(sys.argv[1])\nprint('held', flush=True)\ntime.sleep(1000)\n"


def claimed(session: str) -> SessionLock:
    made = lock_session(session)
    assert made is not None
    return made


def files(home: Path) -> list[str]:
    return sorted(path.name for path in (home / ".mahtab" / "open").iterdir())


def delete_lock_files(home: Path) -> None:
    for path in (home / ".mahtab" / "open").iterdir():
        path.unlink()


def test_session_has_one_lock_until_released(home: Path) -> None:
    first = claimed("abc")
    with pytest.raises(LockedElsewhere) as raised:
        lock_session("abc")
    assert raised.value.holder.is_here
    assert list(locked_sessions()) == ["abc"]
    first.release()
    assert locked_sessions() == {}
    assert files(home) == []
    claimed("abc").release()


@pytest.mark.parametrize("session", ["../../x", "a/b", "", ".", "é\N{SNOWMAN} %2F"])
def test_any_id_has_a_lock_file_in_its_folder(home: Path, session: str) -> None:
    made = claimed(session)
    assert list(locked_sessions()) == [session]
    assert len(files(home)) == 1
    made.release()


def test_an_id_that_is_too_long_for_a_file_is_not_claimed() -> None:
    assert lock_session("x" * 1000) is None


def test_killed_program_releases_its_lock_and_the_file_is_removed(home: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, "abc"], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "held\n"
        assert locked_sessions()["abc"].pid == program.pid
        with pytest.raises(LockedElsewhere, match=str(program.pid)):
            lock_session("abc")
        program.send_signal(signal.SIGKILL)
    assert files(home) == ["session-abc.lock"]
    claimed("abc").release()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, "abc"], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        program.send_signal(signal.SIGKILL)
    assert locked_sessions() == {}
    assert files(home) == []


def test_store_that_lost_its_lock_stops_writing_and_keeps_the_others_lock(
    home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sessions.db"
    first = SqliteStore(path, "abc", claim=claimed("abc"))
    first.append(made(tags.USER_REPL_IN, "one", {"cell": 1}, 1.0))
    first.append(made(tags.USER_REPL_OUT, "printed", {"cell": 1}, 1.0))
    assert first.output(1) == "printed"
    delete_lock_files(home)
    second = SqliteStore(path, "abc", claim=claimed("abc"))
    assert first.claim is not None
    assert first.claim.lost
    with pytest.raises(StoreError, match="Another program now writes"):
        first.append(made(tags.USER_REPL_IN, "lost", {"cell": 2}, 2.0))
    for partial in (made(tags.USER_REPL_OUT, "lost", {"cell": 2}, 2.0), None):
        with pytest.raises(StoreError, match="Another program now writes"):
            first.partial("k", partial)
    assert first.output(1) is None, "another program's cell may have this number"
    first.claim.release()
    second.append(made(tags.USER_REPL_IN, "two", {"cell": 2}, 3.0))
    assert [record.text for _, record in load_records(path, "abc").records] == [
        "one",
        "printed",
        "two",
    ]
    with pytest.raises(LockedElsewhere):
        lock_session("abc")
    for store in (first, second):
        store.close()


def test_missing_lock_file_revokes_no_lock(home: Path) -> None:
    first = claimed("abc")
    delete_lock_files(home)
    assert not first.lost
    second = claimed("abc")
    assert first.lost
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
    [
        b"",
        b"{",
        b"[]",
        b'{"pid": "x", "host": 1, "since": 2}',
        b'{"pid": 1, "host": "h", "since": 1e300}',
        b"\xff" * 100,
    ],
)
def test_garbled_lock_file_still_locks(home: Path, content: bytes) -> None:
    made = claimed("abc")
    (path,) = (home / ".mahtab" / "open").iterdir()
    path.write_bytes(content)
    with pytest.raises(LockedElsewhere):
        lock_session("abc")
    assert "since" in locked_sessions()["abc"].sentence_part()
    assert not made.lost


def test_lock_holder_on_another_machine_is_named(home: Path) -> None:
    made = claimed("abc")
    (path,) = (home / ".mahtab" / "open").iterdir()
    path.write_text(f'{{"pid": 7, "host": "elsewhere", "since": {time.time()}}}')
    holder = locked_sessions()["abc"]
    assert not holder.is_here
    assert holder.sentence_part().startswith("process 7 on elsewhere since ")
    made.release()
