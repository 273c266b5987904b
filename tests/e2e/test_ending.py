"""The end: by a signal, a closed terminal, or an error; no process and no file is left."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import sys
import termios
from collections.abc import Iterator
from contextlib import closing
from operator import attrgetter
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM, Replay, Start
from tests.e2e.terminal import Terminal
from tests.fake_claude import FakeClaude, InstallClaude
from tests.waiting import alive, wait_for
from tests.warm import piped

# Signals.

NAME = attrgetter("name")
ENDING = [getattr(signal, f"SIG{name}") for name in "TERM HUP QUIT USR1 USR2 ABRT ALRM INT".split()]
LEFT = [
    f"\x1b[{code}".encode()
    for code in "?1000l ?1003l ?1006l ?2004l ?1004l ?1049l ?25h <u ?7h".split()
]
"""Sequences that turn off the mouse, pastes and focus as keys, the other screen and the keyboard
protocol, and show the cursor."""

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
        hashlib.pbkdf2_hmac("sha512", b"a", b"b", 1_000_000_000)  # runs no Python, so no signal handler

app = Hanging()
with SignalHandler(app):
    app.run()
"""

LENT = """
import os, time, tty
tty.setraw(0)
print(f"lent to {os.getpid()};", flush=True)
time.sleep(1000)
"""

_BREAK = """
import sys
from mahtab_tui.cli.main import main
from mahtab_tui.tui.screens.help import HelpScreen
from mahtab_tui.tui.key_parser import KeyParser

def broken(*arguments):
    raise LookupError("no such \\x1b]52;c;QUJD\\x07 thing, nor sk-secret-key")

{where} = broken
sys.argv = ["mahtab-tui", "--model", "demo", *sys.argv[1:]]
main()
"""
TARGETS = ("HelpScreen.__init__", "KeyParser.feed")

ENDS = ["SIGTERM", "SIGHUP", "SIGKILL", "closed terminal"]


def attributes(terminal: Terminal) -> list[object]:
    return termios.tcgetattr(terminal._fd)


def read_to_end(terminal: Terminal) -> int:
    while terminal.pump():
        pass
    return terminal.wait_end()


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", ENDING, ids=NAME)
def test_signal_ends_the_screen_and_restores_the_terminal(
    start: Start, home: Path, number: signal.Signals
) -> None:
    screen = start()
    attributes_before = attributes(screen)
    screen.idle()
    screen.enter("import os; print('num' + 'ber', os.getpid())")
    kernel = int(screen.wait(r"number \d+ ").split()[1])
    screen.enter("import time; print('half' + ' said'); time.sleep(1000)", "half said")
    screen.type("a draft of", "a draft of")
    assert attributes(screen) != attributes_before
    at = len(screen.raw)
    os.kill(screen.pid, number)
    assert read_to_end(screen) == -number
    assert attributes(screen) == attributes_before
    assert [sequence for sequence in LEFT if sequence not in screen.raw[at:]] == []
    assert b"Traceback" not in screen.raw
    assert alive(kernel), "its cell still runs"
    with closing(sqlite3.connect(home / ".mahtab" / "sessions.db")) as file:
        assert ("half said\n",) in file.execute(
            "select text from partial union select text from record"
        ).fetchall()
    again = start("--continue")
    again.wait("half said")
    again.wait("busy")
    again.press("up", pattern="❯ a draft of")


def test_program_with_a_hanging_main_thread_is_ended_anyway(project: Path) -> None:
    (project / "hangs.py").write_text(HANGS)
    with Terminal([sys.executable, "hangs.py"], cwd=project) as terminal:
        attributes_before = attributes(terminal)
        terminal.wait("is up")
        terminal.send("h")
        wait_for(lambda: (project / "hangs").exists())
        os.kill(terminal.pid, signal.SIGTERM)
        assert read_to_end(terminal) == -signal.SIGTERM
        assert attributes(terminal) == attributes_before
        assert LEFT[0] in terminal.raw


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=NAME)
def test_terminal_changes_by_a_borrowing_program_are_reverted(
    start: Start, project: Path, number: signal.Signals
) -> None:
    (project / "myedit").write_text(f"#!{sys.executable}\n" + LENT)
    (project / "myedit").chmod(0o755)
    screen = start(env={"EDITOR": str(project / "myedit"), "SHELL": "/bin/sh"})
    attributes_before = attributes(screen)
    screen.idle()
    screen.enter("open_in_editor('x.py')")
    lent = int(screen.wait(r"lent to \d+;").split()[2][:-1])
    if number == signal.SIGKILL:  # it cannot restore the terminal
        os.kill(lent, number)
        screen.wait("exit code")
        screen.leave()
        assert attributes(screen) == attributes_before
        return
    at = len(screen.raw)
    assert screen.kill(number) == -number
    assert b"\x1b" not in screen.raw[at:], "the other program still has the screen"
    os.kill(lent, signal.SIGKILL)


# A closed terminal: the program ends, the conversation is saved, and a kernel with a running cell
# or variables waits for the next screen.


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "started",
    [PROGRAM, ["sh", "-c", f"trap '' HUP; exec {PROGRAM[0]} \"$@\"", "sh"]],
    ids=["", "nohup"],
)
def test_closed_terminal_ends_the_program_and_detaches_its_kernel(
    started: list[str], start: Start, project: Path
) -> None:
    with Terminal([*started, "--model", "demo"], cwd=project) as terminal:
        terminal.idle()
        terminal.enter("import os; print('num' + 'ber', os.getpid()); kept = 'words'")
        kernel = int(terminal.wait(r"number \d+ ").split()[1])
        terminal.wait(r"\+ kept str")
        assert terminal.hang_up() == -signal.SIGHUP
    assert alive(kernel)
    again = start("--continue")
    again.wait("kept = 'words'")
    again.wait("Reattached to the running kernel")
    again.enter("print('still', os.getpid(), kept)", f"still {kernel} words")
    again.leave()
    wait_for(lambda: not alive(kernel))


# A crash of the screen: an exit code, a saved traceback, and how to continue.


@pytest.fixture
def broken(project: Path, home: Path) -> Path:
    (home / ".mahtab").mkdir()
    (home / ".mahtab" / "config.toml").write_text('[api_keys]\nopenai = "sk-secret-key"\n')
    return project


@pytest.mark.sample(1)
@pytest.mark.parametrize("where", TARGETS)
def test_crash_gives_an_exit_code_a_file_and_a_way_to_continue(
    broken: Path, home: Path, where: str
) -> None:
    script = broken / "broken.py"
    script.write_text(_BREAK.format(where=where))
    with Terminal([sys.executable, str(script)], cwd=broken) as screen:
        screen.wait("Python")
        if where == TARGETS[0]:
            screen.enter("kept = 42", r"kept\s+int")
        screen.press("f1")
        assert screen.wait_end() == 1
        assert "The screen crashed: LookupError: no such" in screen.text
        assert "--continue" in screen.text
        normal_screen_output = bytes(screen.raw).rpartition(b"\x1b[?1049l")[2]
        assert b"QUJD" not in normal_screen_output
        assert b"sk-secret-key" not in normal_screen_output
    (report,) = (home / ".mahtab" / "logs").glob("crash-*.txt")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    text = report.read_text()
    assert "LookupError" in text
    assert "broken.py" in text
    assert "\x1b" not in text
    assert "sk-secret-key" not in text
    if where == TARGETS[0]:
        with Terminal([*PROGRAM, "--model", "demo", "--continue"], cwd=broken) as screen:
            screen.wait("kept = 42")


@pytest.mark.thorough
def test_crash_of_a_no_trace_session_is_reported_and_not_saved(broken: Path, home: Path) -> None:
    script = broken / "broken.py"
    script.write_text(_BREAK.format(where=TARGETS[0]))
    with Terminal([sys.executable, str(script), "--no-store"], cwd=broken) as screen:
        screen.wait("Python")
        screen.press("f1")
        assert screen.wait_end() == 1
        after_screen = bytes(screen.raw).rpartition(b"\x1b[?1049l")[2].decode()
    assert "The screen crashed: LookupError: no such" in after_screen
    assert "Its traceback, which is not saved:" in after_screen
    assert "broken.py" in after_screen
    assert "--continue" not in after_screen
    assert "sk-secret-key" not in after_screen
    assert not list((home / ".mahtab").rglob("crash-*"))


# However the program ends, none of its processes and none of its temporary files is left.


@pytest.fixture
def temporary(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty folder for temporary files."""
    folder = project / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def claude(project: Path, install_claude: InstallClaude) -> Iterator[FakeClaude]:
    """Install a `claude` that answers until it is interrupted; the test's end kills it."""
    fake = install_claude("streams")
    yield fake
    for start in fake.starts:
        if alive(start["pid"]):
            os.kill(start["pid"], signal.SIGKILL)


def end(terminal: Terminal, how: str) -> None:
    if how == "closed terminal":
        terminal.hang_up()
    else:
        os.kill(terminal.pid, getattr(signal, how))
        read_to_end(terminal)


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ENDS)
def test_screen_leaves_nothing_behind(
    start: Start, home: Path, temporary: Path, claude: FakeClaude, how: str
) -> None:
    screen = start("--model", "claude").idle()
    screen.press("f2")
    screen.enter("hello", "begun")
    end(screen, how)
    wait_for(lambda: not any(alive(process["pid"]) for process in claude.starts))
    assert list(temporary.iterdir()) == []
    folders = [home / ".mahtab" / name for name in ("open", "run", "run/kernels")]

    def files() -> list[int]:
        return [
            sum(file.is_file() or file.is_socket() for file in folder.iterdir())
            for folder in folders
        ]

    wait_for(lambda: files()[2] == 0)  # a kernel in which nothing has run does not wait
    if how == "SIGKILL":  # what is left then is removed by the next start
        assert files() == [1, 1, 0]
        start().idle()
        wait_for(
            lambda: not any(file.name.startswith(str(screen.pid)) for file in folders[1].iterdir())
        )
        wait_for(lambda: files() == [1, 1, 2])
    else:
        assert files() == [0, 0, 0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP", "closed terminal"])
def test_child_of_a_running_cell_ends_with_its_program_if_not_detached(
    start: Start, how: str
) -> None:
    screen = start("--set", "keep_kernel=0").idle()
    screen.enter(
        "import subprocess; p = subprocess.Popen(['sleep', '1000']); print('num' + 'ber', p.pid); p.wait()"
    )
    child = int(screen.wait(r"number \d+ ").split()[1])
    end(screen, how)
    wait_for(lambda: not alive(child))


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=NAME)
def test_a_question_without_a_screen_leaves_nothing_behind(
    temporary: Path, claude: FakeClaude, number: signal.Signals
) -> None:
    with piped("ask", "hello", "--model", "claude") as program:
        program.stdin.close()
        wait_for(lambda: claude.prompts)
        os.kill(program.pid, number)
        assert program.wait() == -number
    wait_for(lambda: not any(alive(process["pid"]) for process in claude.starts))
    assert list(temporary.iterdir()) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=NAME)
@pytest.mark.parametrize(
    "code",
    ["p.wait()", "signal.signal(signal.SIGINT, signal.SIG_IGN); p.wait()"],
    ids=["", "ignores interrupts"],
)
def test_child_of_a_cell_ends_with_a_question_without_a_screen(
    project: Path, replay: Replay, code: str, number: signal.Signals
) -> None:
    start = "import pathlib, signal, subprocess; p = subprocess.Popen(['sleep', '1000']); pathlib.Path('new').write_text(str(p.pid))"
    model = replay(f"```python\n{start}; pathlib.Path('new').rename('child'); {code}\n```")
    with piped("ask", "go", "--model", model, "--approval", "auto") as program:
        program.stdin.close()
        wait_for((project / "child").exists)
        child = int((project / "child").read_text())
        try:
            os.kill(program.pid, number)
            assert program.wait() == -number
            wait_for(lambda: not alive(child), 20)
        finally:
            if alive(child):
                os.kill(child, signal.SIGKILL)
