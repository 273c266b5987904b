"""A kernel outlives its screen, and the next screen of the session goes on with it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import warm
from tests.e2e.conftest import Start
from tests.e2e.terminal import Terminal
from tests.integration.remote import Road
from tests.waiting import alive, wait_for, waiting_kernels

IDLE = r"● kernel .*idle"


def killed(screen: Terminal) -> None:
    os.kill(screen.pid, signal.SIGKILL)
    screen.wait_end()


@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_cell_survives_a_killed_screen_and_its_output_appears_once(
    start: Start, project: Path, tmp_path: Path, host: str
) -> None:
    options = ["--model", "demo"]
    if host == "elsewhere":
        (tmp_path / "road").mkdir()
        options += ["--kernel", Road(tmp_path / "road").address.text]
    screen = start(*options)
    screen.wait(IDLE)
    screen.enter("import os, time, pathlib; kept = 40; print('num' + 'ber', os.getpid())")
    kernel = int(screen.wait(r"number \d+ ").split()[1])
    wait = "while not pathlib.Path('go').exists(): time.sleep(0.01)"
    screen.enter(
        f"exec('''print('be' + 'gun')\n{wait}\nprint('mid' + 'dle')\nos.rename('go', 'gone')\n{wait}\nprint('the ' + 'end')''')"
    )
    screen.wait("begun")
    killed(screen)
    (project / "go").touch()
    wait_for((project / "gone").exists)
    again = start("--model", "demo", "--continue")
    again.wait("middle")
    again.wait(r"Cell 2 is still running")
    again.wait("busy")
    (project / "go").touch()
    again.wait("the end")
    again.wait(IDLE)
    assert [again.text.count(word) for word in ("begun", "middle", "the end")] == [1, 1, 1]
    again.enter("print(kept + 2, os.getpid())")
    again.wait(f"42 {kernel}")
    assert again.leave() == 0
    wait_for(lambda: not alive(kernel))


def test_cell_that_ended_while_detached_shows_its_result(
    start: Start, project: Path, home: Path
) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter(
        "import pathlib, time\nprint('be' + 'gun')\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nmade = 6 * 7\nmade, 'res' + 'ult'"
    )
    screen.wait("begun")
    killed(screen)
    (project / "go").touch()
    again = start("--model", "demo", "--continue")
    again.wait(r"\(42, 'result'\)")
    again.wait(r"\+ made int")
    again.wait(IDLE)
    killed(again)
    wait_for(lambda: waiting_kernels(home))
    third = start("--model", "demo", "--continue", columns=120, lines=35)
    third.wait(r"\(42, 'result'\)")
    third.wait(IDLE)
    third.wait(r"made\s+42\s+int\s+❯ 1")
    assert third.text.count("'result')") == 1, "what is stored is not told again"


@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_output_of_a_kernel_ending_while_detached_appears_once(
    start: Start, project: Path, home: Path, tmp_path: Path, host: str
) -> None:
    options = ["--model", "demo"]
    if host == "elsewhere":
        (tmp_path / "road").mkdir()
        options += ["--kernel", Road(tmp_path / "road").address.text]
    screen = start(*options)
    screen.wait(IDLE)
    screen.enter(
        "import os, pathlib, time\nprint('be' + 'gun', os.getpid())\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nprint('the ' + 'end', flush=True); os._exit(3)"
    )
    kernel = int(screen.wait(r"begun \d+ ").split()[1])
    killed(screen)
    (project / "go").touch()
    wait_for(lambda: not alive(kernel) and not waiting_kernels(home))
    for _ in range(2):
        again = start("--model", "demo", "--continue")
        again.wait("the end")
        again.wait("The kernel ended in cell 1 while no screen was open")
        again.wait(IDLE)
        assert [again.text.count(word) for word in ("begun", "the end")] == [1, 1]
        assert again.leave() == 0
    assert list((home / ".mahtab" / "run" / "kernels").iterdir()) == []


def test_input_request_of_a_cell_waits_for_the_next_screen(start: Start) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter("name = input('your ' + 'name? ')")
    screen.wait("your name")
    killed(screen)
    again = start("--model", "demo", "--continue")
    again.wait("your name")
    again.press_until("x", "x")
    again.press("enter")
    again.wait(r"\+ name str")


@pytest.mark.parametrize("hours", [12, 0])
def test_unused_kernel_ends_with_its_screen(start: Start, home: Path, hours: int) -> None:
    screen = start("--model", "demo", "--set", f"keep_kernel={hours}")
    screen.wait(IDLE)
    (kernel,) = waiting_kernels(home) or [0]
    assert bool(kernel) == bool(hours)
    killed(screen)
    wait_for(lambda: not waiting_kernels(home) and not (kernel and alive(kernel)))


def sessions(project: Path, *arguments: str, code: int = 0) -> str:
    command = [*warm.command(), "sessions", *arguments]
    done = subprocess.run(
        command,
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_quitting_offers_to_detach_the_cell_and_lists_show_it(
    start: Start, project: Path, home: Path
) -> None:
    screen = start(columns=120, lines=35)
    screen.wait(IDLE)
    screen.enter("import time; print('be' + 'gun'); time.sleep(1000)")
    screen.wait("begun")
    screen.press("ctrl+q")
    screen.wait(
        r"Leave\? A cell is running. · \^q again leaves it running · \^s stops it and leaves · Esc stays"
    )
    screen.press("escape")
    screen.wait_gone(r"Leave\?")
    assert screen.leave() == 0
    (kernel,) = waiting_kernels(home)
    listed = sessions(project)
    session = re.search(
        r"(\w{8})  \d+ MB, CPU \d+ s  running cell 1 for \d+ s: import time; print\('be'", listed
    )
    assert session is not None, listed
    assert "has a kernel in the background" in sessions(project, "rm", "--yes", session[1], code=1)
    other = start()
    other.wait(r"is still\s+running\s+cell\s+1\s+in\s+the\s+background")
    other.wait(rf"mahtab-tui --resume\s+{session[1]}")
    assert "Stopped the kernel" in sessions(project, "stop", session[1][:4])
    wait_for(lambda: not alive(kernel))
    assert "no kernel" in sessions(project, "stop", session[1], code=1)
    assert "in the background" not in sessions(project)
    (left,) = (home / ".mahtab" / "run" / "kernels").glob(f"{session[1]}*")
    assert left.read_bytes() == b"1\nbegun\n", "the next screen shows it"
    again = start("--model", "demo", "--resume", session[1])
    again.wait(r"begun\s")
    again.wait("The kernel ended in cell 1 while no screen was open")


def test_detachable_cell_is_stopped_by_quitting_with_another_key(start: Start, home: Path) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter("import time; print('be' + 'gun'); time.sleep(1000)")
    screen.wait("begun")
    (kernel,) = waiting_kernels(home)
    screen.press("ctrl+q")
    screen.wait(r"Leave\?")
    screen.press("ctrl+s")
    assert screen.wait_end() == 0
    wait_for(lambda: not alive(kernel))


def test_kernel_with_a_screen_is_not_stopped_from_outside(
    start: Start, project: Path, home: Path
) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter("n = 1")
    screen.wait(r"\+ n int")
    (path,) = (home / ".mahtab" / "run" / "kernels").glob("*.sock")
    assert "is open in another terminal" in sessions(
        project, "stop", path.name.split(".")[0], code=1
    )
    screen.enter("n + 1")
    screen.wait(r"\b2\b")


def test_models_cell_ends_when_its_screen_is_gone(
    start: Start, project: Path, replay: Callable[..., str]
) -> None:
    code = "import pathlib, time\nprint('be' + 'gun')\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nmade = 'by the ' + 'model'\nprint(made)"
    model = replay(f"I wait.\n```python\n{code}\n```", "It has ended.")
    screen = start("--model", model, "--approval", "auto")
    screen.wait(IDLE)
    screen.press("f2")
    screen.enter("do it")
    screen.wait(r"begun\s")
    killed(screen)
    again = start("--model", model, "--continue")
    again.wait("Cell 1 is still running")
    again.wait("I wait")
    (project / "go").touch()
    again.wait(r"by the model\s")
    again.wait(IDLE)
    again.wait(r"made\s+str")
    again.enter("made.upper()")
    again.wait("'BY THE MODEL'")
    assert again.leave() == 0


def test_detached_remote_kernel_is_listed_and_an_absent_machine_reported(
    start: Start, project: Path, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "road").mkdir()
    road = Road(tmp_path / "road")
    screen = start("--model", "demo", "--kernel", road.address.text, columns=120, lines=35)
    screen.wait(IDLE)
    screen.enter("import time; print('be' + 'gun'); time.sleep(1000)")
    screen.wait("begun")
    screen.press("ctrl+q")
    screen.wait(r"Leave\? A cell is running. · \^q again leaves it running")
    screen.press("escape")
    screen.wait_gone(r"Leave\?")
    assert screen.leave() == 0
    listed = sessions(project)
    found = re.search(r"(\w{8})  on python", listed)
    assert found is not None, listed
    session = found[1]
    assert "has a kernel in the background" in sessions(project, "rm", "--yes", session, code=1)
    other = start()
    other.wait(r"still\s+has\s+a\s+kernel\s+on\s+python")
    assert other.leave() == 0
    (road.folder / "refuse").touch()
    away = start("--model", "demo", "--resume", session, columns=150)
    assert away.wait_end() == 1
    assert (
        f"Try again later, or give up that kernel: mahtab-tui sessions stop {session}" in away.text
    )
    (road.folder / "refuse").unlink()
    back = start("--model", "demo", "--resume", session)
    back.wait("Cell 1 is still running")
    back.wait("busy")
    back.press("ctrl+c")
    back.wait(IDLE)
    assert back.leave() == 0
    assert "in the background" not in sessions(project)
    wait_for(lambda: road.sockets() == [])
