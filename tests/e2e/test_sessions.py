"""Saved sessions in a real terminal: searched, read and resumed."""

from __future__ import annotations

import subprocess

from tests.e2e.conftest import Start
from tests.warm import command

IDLE = r"● kernel .*idle"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command(), "sessions", *arguments], capture_output=True, text=True)


def test_session_is_found_by_its_code_and_resumed(start: Start) -> None:
    screen = start(columns=120, lines=40)
    screen.wait(IDLE)
    screen.enter("harvest = 'ap' + 'ples'; print('many', harvest)")
    screen.wait("many apples")
    assert screen.leave() == 0
    assert "harvest = 'ap' + 'ples'" in run().stdout
    found = run("search", "many", "app")
    assert (found.returncode, "many apples" in found.stdout) == (0, True)
    nothing = run("search", "pears")
    assert (nothing.returncode, nothing.stderr.count("\n")) == (1, 1)
    assert "needs a word" in run("search", "*").stderr
    name = found.stdout[:8]
    assert (
        run("rename", name, "The harvest").stdout
        == f"The session {name} is now called: The harvest\n"
    )

    screen = start(columns=120, lines=40)
    screen.wait(IDLE)
    screen.enter("/rename Too early")
    screen.wait("Nothing of this session is saved yet")
    screen.enter("other = 1; print('here', other)")
    screen.wait("here 1")
    screen.enter("/rename Another one")
    screen.wait("This session is now called: Another one")
    screen.enter("/sessions")
    screen.wait("2 in this folder")
    screen.wait("● .*Another one")
    screen.send("many appl")
    screen.wait("1 found in this folder")
    screen.wait("The harvest")
    screen.press("enter")
    screen.wait(f"Switch to session {name}")
    screen.press("y")
    screen.wait("1 variable restored")
    screen.enter("print('there', harvest)")
    screen.wait("there apples")
    screen.enter("/sessions")
    screen.wait("● .*The harvest")
    screen.press("escape")
    screen.wait_gone("in this folder")
    assert screen.leave() == 0
