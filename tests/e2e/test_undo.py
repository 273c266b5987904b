"""Undo in a real terminal."""

from __future__ import annotations

from tests.e2e.conftest import Start

IDLE = r"● kernel .*idle"


def test_mutations_by_a_cell_are_undone_and_redone(start: Start) -> None:
    screen = start(columns=120, lines=35)
    screen.wait(IDLE)
    for code in ("items = [1, 2]", "items.append(3); more = 1"):
        screen.type(code)
        screen.press("enter")
    screen.wait(r"items\s+3 items\s+list")
    screen.type("`/undo")
    screen.press("enter")
    screen.wait("Undo cell 2")
    screen.wait(r"items\s+list 3 items → 2 items")
    screen.press("y")
    screen.wait("Cell 2 was undone")
    screen.wait(r"items\s+2 items\s+list")
    screen.type("/redo")
    screen.press("enter")
    screen.wait("Cell 2 was redone")
    screen.wait(r"items\s+3 items\s+list")
    assert screen.leave() == 0
