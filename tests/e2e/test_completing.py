"""Completion, help and habits in the real program."""

from __future__ import annotations

from tests.e2e.conftest import Start

IDLE = r"● kernel .*idle"


def test_completion_help_and_magics_work(start: Start) -> None:
    screen = start()
    screen.wait(IDLE)
    screen.enter("prices = {'first one': 1}")
    screen.wait(r"prices +dict")
    screen.type("prices['")
    screen.wait("first one +key")
    screen.press("tab")
    screen.type("]")
    screen.wait(r"❯ prices\['first one'\]")
    screen.press("enter")
    screen.wait(r"▌ 1\b")
    screen.type("len(")
    screen.send("\x1bh")
    screen.wait("Return the number of items")
    screen.type("Out)")
    screen.press("enter")
    screen.enter("%magic")
    screen.wait("There is no %magic")
