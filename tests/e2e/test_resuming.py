"""Coming back to a session: also where its file is damaged, and where it is open in another
terminal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import venv
from contextlib import closing
from pathlib import Path

import pytest

from tests import warm
from tests.e2e.conftest import Start
from tests.e2e.terminal import Terminal


def test_session_with_unreadable_records_is_resumed_without_them(
    start: Start, project: Path, home: Path
) -> None:
    screen = start()
    screen.wait("kernel .*idle")
    for word in ("first", "second", "third"):
        screen.enter(f"print('the {word} ' + 'line')")
        screen.wait(f"the {word} line")
    assert screen.leave() == 0
    with closing(sqlite3.connect(home / ".mahtab" / "sessions.db", isolation_level=None)) as file:
        file.execute("update record set attrs = '{' where text like '%second%'")
        file.execute(
            """update record set attrs = '{"cell": "x", "kinds": 7}' where tag = 'user-repl-out' and text like '%third%'"""
        )
        file.execute("update session set first = cast(x'ff' as text), last = 1e300")
    listed = subprocess.run(
        [*warm.command(), "sessions"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "records" in listed.stdout
    screen = start("--model", "demo", "--continue")
    screen.wait("3 of the session's records cannot be read and are left out")
    screen.wait(r"In 3\b")
    assert "second" not in screen.text
    screen.enter("print('and it goes ' + 'on')")
    screen.wait("and it goes on")
    assert "In 4" in screen.text


def test_damaged_store_is_moved_away_and_the_session_saved_in_a_new_one(
    start: Start, project: Path, home: Path
) -> None:
    store = home / ".mahtab" / "sessions.db"
    store.parent.mkdir()
    store.write_bytes(b"this is no database, it only says so" * 1000)
    for command in (["--continue"], ["sessions"]):
        content = store.read_bytes()
        screen = (
            start(*command, "--model", "demo") if command[0] == "--continue" else start(*command)
        )
        while screen.pump():
            pass
        assert re.search(r"was\s+damaged;", screen.text)
        assert b"Traceback" not in screen.raw
        assert not store.exists()
        store.write_bytes(content)
    screen = start()
    screen.wait("kernel .*idle")
    screen.enter("print('num' + 'ber one')")
    screen.wait(
        r"(?s)damaged;.*a new one was started"
    )  # where its lines break depends on how long the folder's name is
    screen.wait("number one")
    assert screen.leave() == 0
    assert len(list(store.parent.glob("sessions.db.damaged-*"))) == 3
    start("--model", "demo", "--continue").wait("number one")


def test_session_resumes_on_its_interpreter_or_reports_it_missing(
    start: Start, project: Path
) -> None:
    for name in (".venv", "other"):
        venv.create(project / name, symlinks=True, with_pip=False)
    screen = start("--model", "demo", "--python", "other")
    screen.wait("kernel .*idle")
    screen.enter("import sys; 'on ' + sys.prefix[-5:]")
    screen.wait("on other")
    assert screen.leave() == 0
    screen = start("--model", "demo", "--continue", columns=200)
    screen.wait("kernel .*idle")
    screen.enter("'again ' + __import__('sys').prefix[-5:]")
    screen.wait("again other")
    assert screen.leave() == 0
    shutil.rmtree(project / "other")
    screen = start("--model", "demo", "--continue", columns=200)
    screen.wait(r"other/bin/python,(?s:.*)is gone(?s:.*)others:(?s:.{,300})\.venv")
    screen.enter("'still ' + 'works'")
    screen.wait("still works")


IDLE = "kernel .*idle"


def opened(start: Start, *arguments: str) -> Terminal:
    """A terminal in which a cell has run in a session."""
    screen = start("--model", "demo", *arguments)
    screen.wait(IDLE)
    screen.enter("print('in the ' + 'first'); kept = 1")
    screen.wait("in the first")
    return screen


def cells(home: Path) -> dict[str, list[str]]:
    """Code that ran in each session, by its id."""
    with closing(sqlite3.connect(home / ".mahtab" / "sessions.db")) as file:
        rows = file.execute(
            "select session, json_extract(attrs, '$.cell') || ' ' || text from record where tag = 'user-repl-in' order by number"
        ).fetchall()
    return {session: [text for each, text in rows if each == session] for session, _ in rows}


def test_session_open_in_another_terminal_is_forked(start: Start, home: Path) -> None:
    first = opened(start)
    (session,) = cells(home)
    second = start("--model", "demo", "--resume", session[:4])
    second.wait(rf"\({session}\) is open in another terminal:\s+process {first.pid} since")
    second.wait("Choose w or f")
    second.enter("x")
    second.wait("Choose(?s:.*)Choose")
    second.enter("f")
    second.wait("in the first")
    second.wait("This is now the session")
    second.enter("print('in the ' + 'fork')")
    second.wait("in the fork")
    first.enter("print('in the ' + 'first again')")
    first.wait("in the first again")
    assert first.leave() == second.leave() == 0
    stored_cells = cells(home)
    (copy,) = stored_cells.keys() - {session}
    assert stored_cells[session] == [
        "1 print('in the ' + 'first'); kept = 1",
        "2 print('in the ' + 'first again')",
    ]
    assert stored_cells[copy] == [
        "1 print('in the ' + 'first'); kept = 1",
        "2 print('in the ' + 'fork')",
    ]


def test_session_open_in_another_terminal_is_watched_or_declined(
    start: Start, home: Path, project: Path
) -> None:
    first = opened(start)
    listed = subprocess.run(
        [*warm.command(), "sessions"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stdout
    assert f"(open: process {first.pid} since" in listed
    second = start("--model", "demo", "--continue")
    second.wait("Choose w or f")
    second.press("enter")
    second.wait("was not changed")
    assert second.wait_end() == 1
    third = start("--model", "demo", "--continue")
    third.wait("Choose w or f")
    third.enter("w")
    third.wait("watches")
    third.wait("in the first")
    first.enter("print('and it ' + 'follows')")
    third.wait("and it follows")
    assert third.leave() == 0


def test_session_of_a_no_share_program_is_not_watched(start: Start) -> None:
    opened(start, "--no-share")
    second = start("--model", "demo", "--continue")
    second.wait("Choose f and")
    assert "watch" not in second.text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_session_of_a_killed_program_can_be_opened(
    start: Start, home: Path, number: signal.Signals
) -> None:
    first = opened(start)
    os.kill(first.pid, number)
    assert first.wait_end() == -number
    start("--model", "demo", "--continue").wait("in the first")


def test_nothing_is_asked_without_a_terminal(start: Start, project: Path) -> None:
    opened(start)
    done = subprocess.run(
        [*warm.command(), "--continue"],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_resumed_session_is_watched_from_another_terminal_during_a_cell(
    start: Start, project: Path
) -> None:
    first = opened(start)
    first.enter(
        "import pathlib, time; print('be' + 'gun')\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nprint('the ' + 'end')\n"
    )
    first.wait("begun")
    os.kill(first.pid, signal.SIGKILL)
    first.wait_end()
    second = start("--model", "demo", "--continue")
    second.wait("is still running")
    watcher = start("--model", "demo", "--continue")
    watcher.wait("Choose w or f")
    watcher.enter("w")
    watcher.wait(r"watches \w+ \(\d+\)")
    watcher.wait("in the first")
    watcher.wait("begun")
    watcher.wait(r"kept\s+int\s+1")
    (project / "go").touch()
    watcher.wait("the end")
    second.wait("the end")
    watcher.type("q")
    assert watcher.wait_end() == 0
    assert second.leave() == 0
