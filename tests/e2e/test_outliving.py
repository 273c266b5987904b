"""A kernel outlives its screen, and the next screen of the session goes on with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.waiting import alive, wait_for, waiting_kernels

IDLE = r"● kernel .*idle"


def killed(screen: object) -> None:
    os.kill(screen.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    screen.wait_end()  # type: ignore[attr-defined]


def test_a_cell_goes_on_when_the_screen_is_killed_and_its_output_is_there_once(start: Start, project: Path) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter("import os, time, pathlib; kept = 40; print('num' + 'ber', os.getpid())")
    kernel = int(screen.wait(r"number \d+ ").split()[1])
    wait = "while not pathlib.Path('go').exists(): time.sleep(0.01)"
    screen.enter(f"exec('''print('be' + 'gun')\n{wait}\nprint('mid' + 'dle')\nos.rename('go', 'gone')\n{wait}\nprint('the ' + 'end')''')")
    screen.wait("begun")
    killed(screen)
    (project / "go").touch()
    wait_for((project / "gone").exists)
    again = start("--model", "demo", "--continue")
    again.wait("middle")
    again.wait(r"Cell 2 still runs")
    again.wait("busy")
    (project / "go").touch()
    again.wait("the end")
    again.wait(IDLE)
    assert [again.text.count(word) for word in ("begun", "middle", "the end")] == [1, 1, 1]
    again.enter("print(kept + 2, os.getpid())")
    again.wait(f"42 {kernel}")
    assert again.leave() == 0
    wait_for(lambda: not alive(kernel))


def test_a_cell_that_has_ended_meanwhile_is_there_with_its_result(start: Start, project: Path, home: Path) -> None:
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
    third = start("--model", "demo", "--continue")
    third.wait(r"\(42, 'result'\)")
    third.wait(IDLE)
    assert third.text.count("'result')") == 1, "what is stored is not told again"


def test_a_question_of_a_cell_waits_for_the_next_screen(start: Start) -> None:
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
def test_a_kernel_in_which_nothing_has_run_ends_with_its_screen(start: Start, home: Path, hours: int) -> None:
    screen = start("--model", "demo", "--set", f"keep_kernel={hours}")
    screen.wait(IDLE)
    (kernel,) = waiting_kernels(home) or [0]
    assert bool(kernel) == bool(hours)
    killed(screen)
    wait_for(lambda: not waiting_kernels(home) and not (kernel and alive(kernel)))
