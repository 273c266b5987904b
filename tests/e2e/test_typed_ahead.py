"""Keys that are typed before there is anything to see are not lost, and mean what they mean
later."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import PROGRAM, Start
from tests.e2e.terminal import Terminal

STARTED = b"\x1b[?1004h"
"""Sequence that is written once keys come to the program unchanged."""


@pytest.mark.parametrize("drawn", ["nothing", "the terminal is taken over"])
def test_lines_typed_before_the_first_screen_run(cold_start: Start, drawn: str) -> None:
    screen = cold_start()
    while drawn != "nothing" and STARTED not in screen.raw:
        assert screen.pump()
    screen.send("6 * 7\rif True:\rprint('in' + 'side')\r\r`which variables are there?\r")
    screen.wait(r"▌ 42 ")
    screen.wait("▌ inside ")
    screen.wait("▌ You  which variables are there")


def test_lines_typed_ahead_run_in_a_small_terminal_too(project: Path) -> None:
    with Terminal([*PROGRAM, "--model", "demo"], columns=20, lines=5, cwd=project) as screen:
        screen.send("open('made', 'w').close()\rexit()\r")
        assert screen.wait_end() == 0
    assert (project / "made").exists()


def test_suspended_and_resumed_program_gets_each_key_once(cold_start: Start) -> None:
    screen = cold_start()
    screen.wait("Python")
    os.kill(screen.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, screen.pid, os.WSTOPPED)
    os.kill(screen.pid, signal.SIGCONT)
    screen.enter("'abcdefghijklmnopqrstuvwxyz'.upper()")
    screen.wait("▌ 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'")
    assert screen.raw.count(STARTED) == 1
