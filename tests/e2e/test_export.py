"""Exporting a session, from the screen and from the command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.conftest import Start
from tests.warm import command

IDLE = r"● kernel .*idle"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command(), "export", *arguments], capture_output=True, text=True)


def test_session_is_exported_to_a_file(start: Start, project: Path) -> None:
    screen = start("--model", "demo")
    screen.wait(IDLE)
    screen.enter("numbers = [3, 1, 2]; print('are ' + 'there')")
    screen.wait("are there")
    screen.enter("`/export it.md")
    screen.wait("Exported 1 cell to it.md")
    screen.enter("/export it.md")
    screen.wait("already exists. Replace it?")
    screen.press("escape")
    screen.wait_gone("Replace it")
    screen.enter("/export numbers.py")
    screen.wait("Exported 1 cell to numbers.py")
    screen.enter("/export ~nobody-of-this-name/it.md")
    screen.wait("cannot be written: No such file or directory.")
    screen.enter("/export it.txt")
    screen.wait("The file's extension sets its format")
    assert screen.leave() == 0
    assert "are there" in (project / "it.md").read_text()
    assert "numbers = [3, 1, 2]" in (project / "numbers.py").read_text()

    assert run("-o", "it.html").stdout == "Exported 1 cell to it.html.\n"
    assert "<!DOCTYPE html>" in (project / "it.html").read_text()
    again = run("-o", "it.html")
    assert (again.returncode, again.stderr) == (
        1,
        "mahtab-tui: it.html already exists. --force replaces it.\n",
    )
    assert run("-o", "it.html", "--force").returncode == 0
    for arguments, code, sentence in (
        ((), 2, "Name the output with -o; its extension sets the format."),
        (("-o", "x.txt"), 2, "Name the output with -o; its extension sets the format."),
        (("zzzz", "-o", "x.md"), 1, "There is no session whose ID begins with 'zzzz'"),
        (("-o", "nowhere/x.md"), 1, "nowhere/x.md cannot be written: No such file or directory."),
    ):
        failed = run(*arguments)
        assert failed.returncode == code
        assert sentence in failed.stderr
        assert failed.stderr.count("\n") == 1
