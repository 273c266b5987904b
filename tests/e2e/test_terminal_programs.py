"""Programs that take the whole terminal, and give it back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.e2e.terminal import Terminal

IDLE = r"● kernel .*idle"
PROGRAM = """#!/usr/bin/env python3
import pathlib, signal, sys
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
print("\\x1b[2J\\x1b[Hlent to", pathlib.Path(sys.argv[0]).name, *sys.argv[1:], flush=True)
line = sys.stdin.readline()
with open("x.py", "a") as file:
    file.write(line)
sys.exit(3)
"""


@pytest.fixture
def path(project: Path) -> str:
    """A PATH on which `vim`, `git` and `myedit` say that they have the terminal, and write the line
    they read into x.py."""
    folder = project / "bin"
    folder.mkdir()
    for name in ("vim", "git", "myedit"):
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def is_alone(screen: Terminal) -> bool:
    """Whether nothing of the application is on the screen."""
    return not any(word in screen.text for word in ("mahtab", "TRANSCRIPT", "F1"))


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_program_borrows_the_terminal_and_returns_it(
    start: Start, project: Path, path: str, size: tuple[int, int]
) -> None:
    screen = start(
        columns=size[0], lines=size[1], env={"PATH": path, "EDITOR": "myedit", "SHELL": "/bin/sh"}
    )
    screen.wait("kernel .*idle")
    screen.enter("print('shown', 'before')")
    screen.wait("shown before")
    for number, (code, program) in enumerate(
        [
            ("open_in_editor('x.py')", "myedit x.py"),
            ("!vim x.py", "vim x.py"),
            ("!git commit -v", "git commit -v"),
        ],
        start=1,
    ):
        screen.enter(code)
        screen.wait(f"lent to {program}")
        assert is_alone(screen)
        screen.enter(f"line {number}")
        screen.wait("exit code 3")
        screen.wait("kernel .*idle")
        screen.enter(f"'went on {number}'")
        screen.wait(rf"▌ 'went on {number}'(?s:.*)▌ 'went on {number}'")
    assert (project / "x.py").read_text().split() == "line 1 line 2 line 3".split()
    assert screen.leave() == 0


def test_draft_survives_while_a_program_has_the_terminal(
    start: Start, project: Path, path: str
) -> None:
    screen = start(env={"PATH": path, "SHELL": "/bin/sh"})
    screen.wait(IDLE)
    screen.paste(
        "import os\nwhile not os.path.exists('go'): pass\n__import__('os').system('true')\n"
    )
    screen.wait("system")
    screen.press("enter")
    screen.wait("busy")
    screen.enter("!vim x.py")
    screen.wait(r"queued.*!vim")
    screen.type("half a thought")
    screen.wait("half a thought")
    (project / "go").touch()
    screen.wait("lent to vim")
    assert "half a thought" not in screen.text
    screen.resize(100, 30)
    screen.enter("x")
    screen.wait("❯ half a thought")
    screen.wait("exit code 3")
    assert (project / "x.py").read_text() == "x\n"


def test_ctrl_c_in_a_program_goes_to_the_program(start: Start, path: str) -> None:
    screen = start(env={"PATH": path, "SHELL": "/bin/sh"})
    screen.wait(IDLE)
    screen.enter("!vim")
    screen.wait("lent to vim")
    screen.press("ctrl+c")
    screen.wait("interrupted")
    assert is_alone(screen)
    screen.enter("x")
    screen.wait("exit code 3")
    screen.enter("6 * 7")
    screen.wait(r"\b42\b")


def test_input_goes_to_the_editor_and_returns(start: Start, project: Path) -> None:
    editor = project / "my editor"
    editor.write_text(
        "#!/usr/bin/env python3\nimport pathlib, sys\nfile = pathlib.Path(sys.argv[1])\nfile.write_text(file.read_text() + ' + 2\\n')\n"
    )
    editor.chmod(0o755)
    screen = start(env={"EDITOR": f"'{editor}'"})
    screen.wait(IDLE)
    screen.type("print(40")
    screen.press("ctrl+g")
    screen.wait(r"❯ print\(40 \+ 2")
    screen.enter(")")
    screen.wait(r"\b42\b")


def test_failing_editor_leaves_the_input_unchanged(start: Start) -> None:
    screen = start(env={"EDITOR": "false"})
    screen.wait(IDLE)
    screen.type("print(40")
    screen.press("ctrl+g")
    screen.wait("exit code 1")
    screen.wait(r"❯ print\(40")
