"""The variables of a session come back in a real terminal."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests import warm
from tests.e2e.conftest import Start
from tests.waiting import wait_for

IDLE = r"● kernel .*idle"


def is_saved(home: Path, what: str) -> bool:
    """Whether the index of the session's variables mentions something."""
    return any(
        what in index.read_text()
        for index in (home / ".mahtab" / "namespaces").glob("*/index.json")
    )


def test_variables_survive_a_killed_screen(start: Start, home: Path) -> None:
    screen = start("--model", "demo", "--set", "keep_kernel=0", columns=120, lines=35)
    screen.wait(IDLE)
    for code in (
        "import socket; items = [1, 2]; sock = socket.socket()",
        "add = lambda x: items.append(x)",
    ):
        screen.enter(code)
    wait_for(lambda: is_saved(home, '"add"'))
    os.kill(screen.pid, signal.SIGKILL)
    again = start("--model", "demo", "--continue", columns=120, lines=35)
    again.wait(r"3 variables restored, 1 not: sock \(a connection cannot be saved\)")
    again.wait(r"items\s+2 items\s+restored")
    again.wait(r"sock\s+a conn.*not kept")
    again.enter("add(40); items")
    again.wait(r"\[1, 2, 40\]")
    assert again.leave() == 0


def test_quitting_at_once_saves_changes_of_the_last_cell(start: Start) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter("word = 'ready'; print('made ' + 'it')")
    screen.wait("made it")
    assert screen.leave() == 0
    again = start("--model", "demo", "--continue")
    again.wait("1 variable restored")
    again.enter("print('al' + word)")
    again.wait("already")


def test_disabled_saving_writes_nothing(start: Start, home: Path) -> None:
    screen = start("--model", "demo", "--set", "keep_namespace=false")
    screen.wait(IDLE)
    screen.enter("word = 'ready'; print('made ' + 'it')")
    screen.wait("made it")
    assert screen.leave() == 0
    assert not (home / ".mahtab" / "namespaces").exists()
    start("--model", "demo", "--continue").wait("variables were not")


def test_saved_variables_survive_a_killed_kernel(start: Start, home: Path) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter("import os; word = 'ready'; print('pid', os.getpid())")
    pid = int(screen.wait(r"pid \d+\s").split()[1])
    wait_for(lambda: is_saved(home, '"word"'))
    os.kill(pid, signal.SIGKILL)
    screen.wait(r"Started a new kernel\.")
    screen.wait("2 variables restored")
    screen.enter("print('al' + word)")
    screen.wait("already")


def test_session_is_deleted_after_confirmation(start: Start, home: Path, project: Path) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter("word = 'ready'; print('made ' + 'it')")
    screen.wait("made it")
    assert screen.leave() == 0
    (folder,) = (home / ".mahtab" / "namespaces").glob("session-*")
    session = folder.name.partition("-")[2]

    def removed(answer: str) -> subprocess.CompletedProcess[str]:
        command = [*warm.command(), "sessions", "rm", session[:4]]
        return subprocess.run(
            command,
            cwd=project,
            input=answer,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert removed("n\n").returncode == 1
    assert folder.exists()
    done = removed("y\n")
    assert (done.returncode, f"Deleted session {session}." in done.stdout) == (0, True)
    assert not folder.exists()
