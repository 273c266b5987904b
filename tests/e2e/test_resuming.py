"""Coming back to a session: also where its file is damaged, and where it is open in another terminal."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from tests.e2e.conftest import PROGRAM, Start


def test_a_session_with_records_that_cannot_be_read_comes_back_without_them(start: Start, project: Path, home: Path) -> None:
    screen = start()
    screen.wait("kernel .*idle")
    for word in ("first", "second", "third"):
        screen.enter(f"print('the {word} ' + 'line')")
        screen.wait(f"the {word} line")
    assert screen.leave() == 0
    with closing(sqlite3.connect(home / ".mahtab" / "sessions.db", isolation_level=None)) as file:
        file.execute("update record set attrs = '{' where text like '%second%'")
        file.execute("""update record set attrs = '{"cell": "x", "kinds": 7}' where tag = 'user-repl-out' and text like '%third%'""")
        file.execute("update session set first = cast(x'ff' as text), last = 1e300")
    listed = subprocess.run([*PROGRAM, "sessions"], cwd=project, capture_output=True, text=True, timeout=60, check=False)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "records" in listed.stdout
    screen = start("--model", "demo", "--continue")
    screen.wait("3 of the session's records cannot be read and are left out")
    screen.wait(r"In 3\b")
    assert "second" not in screen.text
    screen.enter("print('and it goes ' + 'on')")
    screen.wait("and it goes on")
    assert "In 4" in screen.text


def test_a_damaged_store_is_set_aside_and_the_session_is_kept_in_a_new_one(start: Start, project: Path, home: Path) -> None:
    store = home / ".mahtab" / "sessions.db"
    store.parent.mkdir()
    store.write_bytes(b"this is no database, it only says so" * 1000)
    for command in (["--continue"], ["sessions"]):
        content = store.read_bytes()
        screen = start(*command, "--model", "demo") if command[0] == "--continue" else start(*command)
        while screen.pump():
            pass
        assert re.search(r"was\s+damaged;", screen.text)
        assert b"Traceback" not in screen.raw
        assert not store.exists()
        store.write_bytes(content)
    screen = start()
    screen.wait("kernel .*idle")
    screen.enter("print('num' + 'ber one')")
    screen.wait("damaged; it is")
    screen.wait("is being saved again")
    assert screen.leave() == 0
    assert len(list(store.parent.glob("sessions.db.damaged-*"))) == 3
    start("--model", "demo", "--continue").wait("number one")
