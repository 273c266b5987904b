"""A person's first hour, in a real terminal."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

from tests.e2e.conftest import Start

CODE = "I'll add them up.\n\n```python\ntotal = sum(numbers)\ntotal\n```\n"
COMPLETE = '{"is_complete": true, "reasoning": "the sum was computed", "next_action": ""}'
WORDS = "The total is sixty."
IDLE = r"● kernel .*idle"


def test_compute_ask_approve_and_use_the_variable(start: Start, replay: Callable[..., str]) -> None:
    screen = start("--model", replay(CODE, {"text": COMPLETE, "match": "is_complete"}, WORDS))
    screen.wait(IDLE)
    screen.type("numbers = [10, 20, 30]")
    screen.press("enter")
    screen.wait(r"numbers\s+list")
    screen.type("`what is the total?")
    screen.press("enter")
    screen.wait("waits for you")
    assert not re.search(r"total\s+int", screen.text), "code has run before it was approved"
    screen.wait("run all from now on")
    screen.press("tab") if "y run" not in screen.text else None
    screen.pump(0.5)
    screen.type("y")
    screen.wait(r"total\s+int\s+60")
    screen.wait(WORDS)
    screen.press("f2")
    screen.type("total + 1")
    screen.press("enter")
    screen.wait(r"\b61\b")
    screen.press("ctrl+d")
    assert screen.wait_end() == 0


def test_an_endless_loop_is_interrupted_and_the_session_goes_on(start: Start) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.type("while True: pass")
    screen.press("enter", "enter")
    screen.wait("busy")
    screen.press("escape")
    screen.wait("KeyboardInterrupt")
    screen.wait(IDLE)
    screen.type("6 * 7")
    screen.press("enter")
    screen.wait(r"\b42\b")


def test_a_killed_kernel_is_replaced_and_the_transcript_stays(start: Start) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.type("import os; kernel = os.getpid(); print('pid', kernel)")
    screen.press("enter")
    pid = int(screen.wait(r"pid \d+\s").split()[1])
    screen.wait(IDLE)
    os.kill(pid, signal.SIGKILL)
    screen.wait("SIGKILL")
    screen.wait(IDLE)
    assert f"pid {pid}" in screen.text
    screen.type("'kernel' in globals()")
    screen.press("enter")
    screen.wait("False")
