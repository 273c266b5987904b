"""The terminal is closed: the program ends, what was said is there, and the kernel waits for the
next screen if it has work or variables."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM, Start
from tests.e2e.terminal import Terminal
from tests.waiting import alive, wait_for


@pytest.mark.parametrize(
    "started",
    [PROGRAM, ["sh", "-c", f"trap '' HUP; exec {PROGRAM[0]} \"$@\"", "sh"]],
    ids=["", "nohup"],
)
def test_closed_terminal_ends_the_program_and_detaches_its_kernel(
    started: list[str], start: Start, project: Path
) -> None:
    with Terminal([*started, "--model", "demo"], cwd=project) as terminal:
        terminal.wait(r"● kernel .*idle")
        terminal.enter("import os; print('num' + 'ber', os.getpid()); kept = 'words'")
        kernel = int(terminal.wait(r"number \d+ ").split()[1])
        terminal.wait(r"\+ kept str")
        assert terminal.hang_up() == -signal.SIGHUP
    assert alive(kernel)
    again = start("--model", "demo", "--continue")
    again.wait("kept = 'words'")
    again.wait("Reattached to the running kernel")
    again.enter("print('still', os.getpid(), kept)")
    again.wait(f"still {kernel} words")
    assert again.leave() == 0
    wait_for(lambda: not alive(kernel))
