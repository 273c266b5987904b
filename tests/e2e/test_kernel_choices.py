"""The kernel from the screen: start over, kill it, give it another interpreter, another working
directory."""

from __future__ import annotations

import venv
from pathlib import Path

from tests.e2e.conftest import Start
from tests.e2e.terminal import Terminal

STUBBORN = """import time
while True:
    try:
        while True: time.sleep(0.05)
    except KeyboardInterrupt:
        print('not ' + 'me')
"""


def choose(screen: Terminal, words: str, title: str) -> None:
    """Choose a command in the palette."""
    screen.press("ctrl+p")
    screen.wait("Search for commands")
    screen.type(words)
    screen.wait(rf"{words}\s+(?s:.*){title}")
    screen.press("enter")


def test_reset_asks_first_and_preserves_transcript_and_draft(start: Start) -> None:
    screen = start(columns=80, lines=24)
    screen.wait("kernel +idle")
    screen.enter("x = 'a value'")
    screen.wait("x str 'a value'")
    screen.type("'x' in globals()")
    screen.press("f9")
    screen.wait("Start over with an empty namespace")
    screen.type("n")
    screen.wait(r"x str 'a value'(?!(?s:.*)Start over)")
    screen.press("enter")
    screen.wait("▌ True")
    screen.type("'x' in globals()")
    screen.press("f9")
    screen.wait("Start over with an empty namespace")
    screen.type("y")
    screen.wait("Started a fresh kernel; its namespace is empty")
    screen.wait("x = 'a value'")
    screen.press("enter")
    screen.wait("▌ False")


def test_running_cell_can_be_reset(start: Start) -> None:
    screen = start()
    screen.wait("kernel .*idle")
    screen.enter("while True: pass")
    screen.press("enter")
    screen.wait("busy")
    screen.press("f9")
    screen.wait("Start over")
    screen.type("y")
    screen.wait("Started a fresh kernel; its namespace is empty")
    screen.wait("✗ killed")
    screen.wait("kernel .*idle")
    screen.enter("6 * 7")
    screen.wait("▌ 42")


def test_stopping_twice_offers_to_kill_an_unresponsive_kernel(start: Start) -> None:
    for key in ("escape", "ctrl+c"):
        screen = start(columns=80, lines=24)
        screen.wait("kernel +idle")
        screen.paste(STUBBORN)
        screen.wait("'me'")
        screen.press("enter")
        screen.wait("busy")
        screen.press(key)
        screen.wait("not me")
        screen.press_until(key, r"Kill the kernel\?", every=1.5)
        screen.type("y")
        screen.wait("The kernel was killed")
        screen.wait("kernel +idle")
        assert "not me" in screen.text
        screen.enter("6 * 7")
        screen.wait("▌ 42")


def test_interpreter_can_be_changed_from_the_screen(start: Start, project: Path) -> None:
    venv.create(project / "other", symlinks=True, with_pip=False)
    screen = start(columns=80, lines=24)
    screen.wait("kernel +idle")
    screen.enter("x = 1")
    screen.wait("x int 1")
    choose(screen, "interp", "Interpreter")
    screen.wait("Interpreter or virtual environment")
    screen.press("ctrl+u")
    screen.enter("other")
    screen.wait("1 variable restored")
    assert "Switched to" in screen.text
    assert "is empty" not in screen.text
    screen.enter("import sys; sys.prefix.endswith('other'), x")
    screen.wait(r"▌ \(True, 1\)")
    choose(screen, "interp", "Interpreter")
    screen.wait(r"Interpreter or virtual environment(?s:.*)other/bin/python")
    screen.press("ctrl+u")
    screen.enter("nowhere")
    screen.wait("The interpreter was not changed")
    screen.enter("'still', sys.prefix.endswith('other')")
    screen.wait(r"▌ \('still', True\)")


def test_working_directory_can_be_changed_from_the_screen(start: Start, project: Path) -> None:
    folder = project / "a folder"
    folder.mkdir()
    (folder / "mine.py").write_text("word = 'found'\n")
    screen = start(columns=200, lines=50)
    screen.wait("kernel .*idle")
    choose(screen, "working", "Working directory")
    screen.wait(r"Working directory(?s:.*)Enter accepts")
    screen.press("ctrl+u")
    screen.enter("a folder")
    screen.wait("The working directory is now .*a folder")
    screen.enter("import mine; mine.word")
    screen.wait("▌ 'found'")
    screen.enter("`/cd nowhere")
    screen.wait("The working directory was not changed")
    screen.press("f2")
    screen.enter("__import__('os').getcwd().endswith('a folder')")
    screen.wait("▌ True")
