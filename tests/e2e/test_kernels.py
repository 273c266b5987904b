"""Kernels in a real terminal: a reset, a kill, another interpreter or folder; remote and
Jupyter's."""

from __future__ import annotations

import shlex
import venv
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.e2e.terminal import Terminal
from tests.integration.jupyter import running_kernel
from tests.integration.remote import RemoteMachine
from tests.manual import FOLDER

STUBBORN = """import time
while True:
    try:
        print('lo' + 'oping')
        while True: time.sleep(0.05)
    except KeyboardInterrupt:
        print('not ' + 'me')
"""

COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in (FOLDER / "kernels.md").read_text("utf-8").splitlines()
    if line.startswith("mahtab-tui --kernel") and ("jupyter" in line or "existing" in line)
]
HERE = "jupyter:python3"
EXISTING = "existing:kernel-1234.json"


def choose(screen: Terminal, words: str, title: str) -> None:
    """Choose a command in the palette."""
    screen.press("ctrl+p", pattern="Enter runs it")
    screen.type(words, rf"{words}\s+(?s:.*){title}")
    screen.press("enter")


def test_reset_asks_first_and_preserves_transcript_and_draft(start: Start) -> None:
    screen = start(size=(80, 24)).idle()
    screen.enter("x = 'a value'", "x str 'a value'")
    screen.type("'x' in globals()")
    screen.press("f9", pattern="Start over with an empty namespace")
    screen.type("n", r"x str 'a value'(?!(?s:.*)Start over)")
    screen.press("enter", pattern="▌ True")
    screen.type("'x' in globals()")
    screen.press("f9", pattern="Start over with an empty namespace")
    screen.type("y", "Started a fresh kernel; its namespace is empty")
    screen.wait("x = 'a value'")
    screen.press("enter", pattern="▌ False")


def test_stopping_twice_offers_to_kill_an_unresponsive_kernel(start: Start) -> None:
    for key in ("escape", "ctrl+c"):
        screen = start(size=(80, 24)).idle()
        screen.paste(STUBBORN, "'me'")
        screen.press("enter", pattern="looping")
        screen.press(key, pattern="not me")
        screen.press_until(key, r"Kill the kernel\?", interval_s=1.5)
        screen.type("y", "The kernel was killed")
        screen.idle()
        assert "not me" in screen.text
        screen.enter("6 * 7", "▌ 42")


@pytest.mark.thorough
def test_interpreter_can_be_changed_from_the_screen(start: Start, project: Path) -> None:
    venv.create(project / "other", symlinks=True, with_pip=False)
    screen = start(size=(80, 24)).idle()
    screen.enter("x = 1", "x int 1")
    choose(screen, "interp", "Interpreter")
    screen.wait("Interpreter or virtual environment")
    screen.press("ctrl+u")
    screen.enter("other", "1 variable restored")
    assert "Switched to" in screen.text
    assert "is empty" not in screen.text
    screen.enter("import sys; sys.prefix.endswith('other'), x", r"▌ \(True, 1\)")
    choose(screen, "interp", "Interpreter")
    screen.wait(r"Interpreter or virtual environment(?s:.*)other/bin/python")
    screen.press("ctrl+u")
    screen.enter("nowhere", "The interpreter was not changed")
    screen.enter("'still', sys.prefix.endswith('other')", r"▌ \('still', True\)")


@pytest.mark.thorough
def test_working_directory_can_be_changed_from_the_screen(start: Start, project: Path) -> None:
    folder = project / "a folder"
    folder.mkdir()
    (folder / "mine.py").write_text("word = 'found'\n")
    screen = start(size=(200, 50)).idle()
    choose(screen, "working", "Working directory")
    screen.wait(r"Working directory(?s:.*)Enter accepts")
    screen.press("ctrl+u")
    screen.enter("a folder", "The working directory is now .*a folder")
    screen.enter("import mine; mine.word", "▌ 'found'")
    screen.enter("`/cd nowhere", "The working directory was not changed")
    screen.press("f2")
    screen.enter("__import__('os').getcwd().endswith('a folder')", "▌ True")


# Remote kernels.


@pytest.fixture
def machine(tmp_path: Path) -> RemoteMachine:
    folder = tmp_path / "road"
    folder.mkdir()
    return RemoteMachine(folder)


def test_cell_continues_while_disconnected(start: Start, machine: RemoteMachine) -> None:
    screen = start("--kernel", machine.address.text, size=(140, 35)).idle()
    screen.wait(r"kernel .* on python")
    machine.refuse()
    screen.enter(
        "import time\nfor i in range(40): print('line', i, flush=True); time.sleep(0.05)\n"
    )
    screen.press("enter", pattern="line 3")
    machine.break_wire()
    screen.wait(r"disconnected, trying again \(\d+ s\)")
    machine.accept()
    screen.wait("line 39")
    screen.idle()
    screen.enter("6 * 7", r"\b42\b")
    screen.leave()


@pytest.mark.thorough
def test_slash_kernel_moves_the_kernel_back_and_forth(start: Start, machine: RemoteMachine) -> None:
    screen = start(size=(140, 35)).idle()
    screen.enter("here = 1")
    screen.type("`")
    screen.enter(f"/kernel {machine.address.text}", r"kernel .* on python.*idle")
    screen.enter("/kernel nowhere", "nowhere is not a kernel address")
    screen.enter("/kernel here", "Switched to this machine")
    screen.leave()


# Commands of the manual's page about Jupyter; only the name of the file differs.


@pytest.mark.thorough
def test_each_command_runs_cells_in_its_kernel(start: Start, tmp_path: Path) -> None:
    assert [words[-1] for words in COMMANDS] == [HERE, EXISTING]
    with running_kernel(tmp_path) as (file, client, _):
        client.execute_interactive("theirs = 'of another program'", timeout=60)
        for option, name in COMMANDS:
            address = name if name == HERE else f"existing:{file}"
            screen = start(option, address, "--model", "demo").idle()
            screen.enter(
                "'theirs' in globals(), 'ipykernel' in __import__('sys').modules",
                rf"\({name == EXISTING}, True\)",
            )
            screen.leave()
