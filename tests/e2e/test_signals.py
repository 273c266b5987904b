"""A signal ends the program as it should, and leaves the terminal as it was."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import termios
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.e2e.terminal import Terminal
from tests.waiting import alive, wait_for

ENDING = [
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGABRT,
    signal.SIGALRM,
    signal.SIGINT,
]
LEFT = [
    b"\x1b[?1000l",
    b"\x1b[?1003l",
    b"\x1b[?1006l",
    b"\x1b[?2004l",
    b"\x1b[?1004l",
    b"\x1b[?1049l",
    b"\x1b[?25h",
    b"\x1b[<u",
    b"\x1b[?7h",
]
"""Sequences that turn off the mouse, pastes and focus as keys, the other screen and the keyboard
protocol, and show the cursor."""


def attributes(terminal: Terminal) -> list[object]:
    return termios.tcgetattr(terminal._fd)


def read_to_end(terminal: Terminal) -> int:
    while terminal.pump():
        pass
    return terminal.wait_end()


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_signal_ends_the_screen_and_restores_the_terminal(
    start: Start, home: Path, number: signal.Signals
) -> None:
    screen = start()
    before = attributes(screen)
    screen.wait("kernel .*idle")
    screen.enter("import os; print('num' + 'ber', os.getpid())")
    kernel = int(screen.wait(r"number \d+ ").split()[1])
    screen.enter("import time; print('half' + ' said'); time.sleep(1000)")
    screen.wait("half said")
    screen.type("a draft of")
    screen.wait("a draft of")
    assert attributes(screen) != before
    at = len(screen.raw)
    os.kill(screen.pid, number)
    assert read_to_end(screen) == -number
    assert attributes(screen) == before
    assert [sequence for sequence in LEFT if sequence not in screen.raw[at:]] == []
    assert b"Traceback" not in screen.raw
    assert alive(kernel), "its cell still runs"
    with closing(sqlite3.connect(home / ".mahtab" / "sessions.db")) as file:
        assert ("half said\n",) in file.execute(
            "select text from partial union select text from record"
        ).fetchall()
    again = start("--model", "demo", "--continue")
    again.wait("half said")
    again.wait("busy")
    again.press("up")
    again.wait("❯ a draft of")


def test_program_with_a_hanging_main_thread_is_ended_anyway(project: Path) -> None:
    (project / "hangs.py").write_text(HANGS)
    with Terminal([sys.executable, "hangs.py"], cwd=project) as terminal:
        before = attributes(terminal)
        terminal.wait("is up")
        terminal.send("h")
        wait_for(lambda: (project / "hangs").exists())
        os.kill(terminal.pid, signal.SIGTERM)
        assert read_to_end(terminal) == -signal.SIGTERM
        assert attributes(terminal) == before
        assert LEFT[0] in terminal.raw


HANGS = """
import hashlib, pathlib
from textual.app import App
from textual.widgets import Static
from mahtab_tui.tui.terminal_driver import SignalHandler

class Hanging(App):
    def compose(self):
        yield Static("is up")

    def on_key(self):
        pathlib.Path("hangs").touch()
        hashlib.pbkdf2_hmac("sha512", b"a", b"b", 1_000_000_000)  # without the interpreter, and without an eye for signals

app = Hanging()
with SignalHandler(app):
    app.run()
"""


def test_terminal_changes_by_a_cell_are_reverted(start: Start) -> None:
    screen = start()
    before = attributes(screen)
    screen.wait("kernel .*idle")
    wanted = attributes(screen)
    terminal = os.readlink(f"/proc/{screen.pid}/fd/0")
    code = f"import os, termios; tty = os.open({terminal!r}, os.O_RDWR | os.O_NOCTTY); a = termios.tcgetattr(tty)"
    screen.enter(
        f"{code}; a[3] |= termios.ECHO | termios.ICANON; termios.tcsetattr(tty, termios.TCSANOW, a); print('chan' + 'ged')"
    )
    screen.wait("A cell changed terminal settings")
    assert attributes(screen) == wanted
    screen.enter("print('goes ' + 'on')")
    screen.wait("goes on")
    assert screen.leave() == 0
    assert attributes(screen) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_terminal_changes_by_a_borrowing_program_are_reverted(
    start: Start, project: Path, number: signal.Signals
) -> None:
    (project / "myedit").write_text(f"#!{sys.executable}\n" + LENT)
    (project / "myedit").chmod(0o755)
    screen = start("--model", "demo", env={"EDITOR": str(project / "myedit"), "SHELL": "/bin/sh"})
    before = attributes(screen)
    screen.wait("kernel .*idle")
    screen.enter("open_in_editor('x.py')")
    lent = int(screen.wait(r"lent to \d+;").split()[2][:-1])
    if number == signal.SIGKILL:  # it cannot put back what it has done
        os.kill(lent, number)
        screen.wait("exit code")
        assert screen.leave() == 0
        assert attributes(screen) == before
        return
    at = len(screen.raw)
    os.kill(screen.pid, number)
    assert screen.wait_end() == -number
    assert b"\x1b" not in screen.raw[at:], (
        "the screen of a program that goes on is not written over"
    )
    os.kill(lent, signal.SIGKILL)


LENT = """
import os, time, tty
tty.setraw(0)
print(f"lent to {os.getpid()};", flush=True)
time.sleep(1000)
"""


def test_signal_also_restores_the_terminal_after_a_viewer_screen(start: Start, home: Path) -> None:
    log = home / ".mahtab" / "logs" / "repl.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line of the log\n")
    screen = start("watch")
    before = attributes(screen)
    screen.wait("a line of the log")
    os.kill(screen.pid, signal.SIGTERM)
    assert read_to_end(screen) == -signal.SIGTERM
    assert attributes(screen) == before
    assert LEFT[0] in screen.raw
