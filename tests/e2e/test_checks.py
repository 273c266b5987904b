"""``mahtab-tui check`` and ``/check`` through the whole program."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.e2e.conftest import PROGRAM, Start
from tests.warm import run_program


def write_notebook(path: Path, code: str, text: str) -> None:
    output = new_output("execute_result", data={"text/plain": text}, execution_count=1)
    cell = new_code_cell(code, execution_count=1, outputs=[output])
    nbformat.write(new_notebook(cells=[cell]), str(path))


@pytest.mark.parametrize(
    ("code", "exit_code", "lines"),
    [
        ("6 * 7", 0, ["Cell 1       same", "1 same."]),
        ("6 * 8", 1, ["Cell 1       different", "  - 42", "  + 48", "1 different."]),
        (
            "1 / 0",
            1,
            [
                "Cell 1       failed",
                "  - 42",
                "  + ZeroDivisionError: division by zero",
                "1 failed.",
            ],
        ),
    ],
)
def test_exit_code_says_whether_results_hold(
    project: Path, code: str, exit_code: int, lines: list[str]
) -> None:
    write_notebook(project / "n.ipynb", code, "42")
    done = run_program("check", "n.ipynb")
    assert (done.returncode, done.stdout.splitlines()) == (exit_code, lines)
    assert done.stderr.splitlines()[:2] == ["copying the folder", "Cell 1 (1 of 1)"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing.ipynb"], "There is no file"),
        (["1234"], "There is no session whose ID begins with '1234'"),
        ([], "There is no session to resume."),
        (["n.ipynb", "--python", "nowhere"], "There is no nowhere on the PATH"),
        (["n.ipynb", "--set", "kernel=ssh://host"], "A check needs a kernel on this machine"),
    ],
)
def test_what_cannot_run_is_one_sentence(
    project: Path, arguments: list[str], sentence: str
) -> None:
    write_notebook(project / "n.ipynb", "1", "1")
    done = run_program("check", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[-1]
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("code", "exit_code", "lines"),
    [
        ("input()", 2, ["Cell 1       not comparable: it reads input"]),
        ("object()", 0, ["Cell 1       not comparable: memory addresses differ"]),
    ],
)
def test_exit_code_says_whether_any_cell_could_run(
    project: Path, code: str, exit_code: int, lines: list[str]
) -> None:
    write_notebook(project / "n.ipynb", code, "<object object at 0x7f0123456789>")
    done = run_program("check", "n.ipynb")
    assert done.returncode == exit_code
    assert all(line in done.stdout for line in lines)
    assert ("No cell could run" in done.stdout) == (exit_code == 2)


def test_check_goes_on_if_the_shell_ignores_a_hangup(project: Path) -> None:
    write_notebook(project / "n.ipynb", "import time; time.sleep(1); 1", "1")
    with subprocess.Popen(
        ["nohup", *PROGRAM, "check", "n.ipynb"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stderr is not None
        assert any("Cell 1" in line for line in program.stderr)
        program.send_signal(signal.SIGHUP)
        program.stderr.read()
    assert program.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_check_and_leaves_nothing(project: Path, home: Path, number: int) -> None:
    code = "import subprocess; subprocess.run(['sleep', '1000'])"
    write_notebook(project / "n.ipynb", code, "1")
    with subprocess.Popen(
        [*PROGRAM, "check", "n.ipynb"], stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        assert any("Cell 1" in line for line in program.stderr)
        program.send_signal(number)
        rest = program.stderr.read()
    assert program.returncode == 130
    assert rest.strip() == "mahtab-tui: The check was stopped. Nothing of it is left."
    assert list((home / ".mahtab" / "checks").iterdir()) == []


def test_check_on_the_screen_asks_runs_and_lists(start: Start, project: Path) -> None:
    (project / "n.txt").write_text("3")
    screen = start(size=(100, 30)).idle()
    screen.enter("n = int(open('n.txt').read()); n * 14", r"\b42\b")
    screen.enter("import random; random.random()", r"0\.\d+")
    (project / "n.txt").write_text("4")
    screen.enter("/check", "Run this session's cells again")
    screen.press("y", pattern=r"different\s+42 → 56")
    screen.wait("1 not comparable")
    screen.wait("int 3 → int 4")
    screen.wait("n.txt has changed since In 1")
    screen.press("escape", gone_pattern="type to filter")
    screen.leave()


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_key_stops_a_check_on_the_screen(start: Start, home: Path, key: str) -> None:
    screen = start(size=(100, 30)).idle()
    screen.enter(
        "import os, time; time.sleep(100 if 'mahtab/checks' in os.getcwd() else 0)", "idle"
    )
    screen.idle()
    screen.enter("/check", "Run this session's cells again")
    screen.press("y", pattern=r"In 1 \(1 of 1\)")
    screen.press(key, gone_pattern="type to filter")
    assert list((home / ".mahtab" / "checks").iterdir()) == []
    screen.enter("6 * 7", r"\b42\b")
    screen.leave()
