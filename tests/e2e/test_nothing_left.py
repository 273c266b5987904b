"""However the program ends, none of its processes goes on, and no file stays that only it had use
for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.e2e.terminal import Terminal
from tests.fake_claude import FakeClaude, install_fake_claude
from tests.waiting import alive, wait_for
from tests.warm import piped

ENDS = ["SIGTERM", "SIGHUP", "SIGKILL", "closed terminal"]


@pytest.fixture
def temporary(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for temporary files."""
    folder = project / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def claude(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClaude]:
    """A `claude` that answers until it is interrupted; it is ended with the test."""
    fake = install_fake_claude(project / "bin", "streams")
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    yield fake
    for start in fake.starts:
        if alive(start["pid"]):
            os.kill(start["pid"], signal.SIGKILL)


def end(terminal: Terminal, how: str) -> None:
    if how == "closed terminal":
        terminal.hang_up()
    else:
        os.kill(terminal.pid, getattr(signal, how))
        while terminal.pump():
            pass
        terminal.wait_end()


@pytest.mark.parametrize("how", ENDS)
def test_screen_leaves_nothing_behind(
    start: Start, home: Path, temporary: Path, claude: FakeClaude, how: str
) -> None:
    screen = start("--model", "claude")
    screen.wait("kernel .*idle")
    screen.press("f2")
    screen.enter("hello")
    screen.wait("begun")
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
        start("--model", "demo").wait("kernel .*idle")
        wait_for(
            lambda: not any(file.name.startswith(str(screen.pid)) for file in folders[1].iterdir())
        )
        wait_for(lambda: files() == [1, 1, 2])
    else:
        assert files() == [0, 0, 0]


@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP", "closed terminal"])
def test_child_of_a_running_cell_ends_with_its_program_if_not_detached(
    start: Start, how: str
) -> None:
    screen = start("--model", "demo", "--set", "keep_kernel=0")
    screen.wait("kernel .*idle")
    screen.enter(
        "import subprocess; p = subprocess.Popen(['sleep', '1000']); print('num' + 'ber', p.pid); p.wait()"
    )
    child = int(screen.wait(r"number \d+ ").split()[1])
    end(screen, how)
    wait_for(lambda: not alive(child))


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name
)
def test_a_question_without_a_screen_leaves_nothing_behind(
    project: Path, temporary: Path, claude: FakeClaude, number: signal.Signals
) -> None:
    with piped("ask", "hello", "--model", "claude") as program:
        program.stdin.close()
        wait_for(lambda: claude.prompts)
        os.kill(program.pid, number)
        assert program.wait() == -number
    wait_for(lambda: not any(alive(process["pid"]) for process in claude.starts))
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize(
    "code",
    ["p.wait()", "signal.signal(signal.SIGINT, signal.SIG_IGN); p.wait()"],
    ids=["", "ignores interrupts"],
)
def test_child_of_a_cell_ends_with_a_question_without_a_screen(
    project: Path, replay: Callable[..., str], code: str, number: signal.Signals
) -> None:
    start = "import pathlib, signal, subprocess; p = subprocess.Popen(['sleep', '1000']); pathlib.Path('new').write_text(str(p.pid)); "
    model = replay(f"```python\n{start}pathlib.Path('new').rename('child'); {code}\n```")
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
