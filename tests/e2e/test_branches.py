"""Branches in a real terminal: made, switched to, and left again."""

from __future__ import annotations

from tests.e2e.conftest import Start


def test_a_branch_goes_on_from_an_earlier_cell_and_the_session_is_still_there(start: Start) -> None:
    screen = start(columns=120, lines=40)
    screen.wait(r"● kernel .*idle")
    screen.enter("items = [1]; print('made', items)")
    screen.wait(r"made \[1\]")
    screen.enter("items.append(2); print('now', items)")
    screen.wait(r"now \[1, 2\]")
    screen.enter("/branch 2")
    screen.wait("Switch to session")
    screen.press("y")
    screen.wait("1 variable restored")
    assert "now [1, 2]" not in screen.text
    screen.enter("items.append('branch'); print('here', items)")
    screen.wait(r"here \[1, 'branch'\]")
    screen.enter("/branches")
    screen.wait(r"└ \w+ +before cell 2")
    screen.press("up")
    screen.press("enter")
    screen.wait("Switch to session")
    screen.press("y")
    screen.wait(r"Branch \w+ begins before cell 2")
    screen.wait("1 variable restored")
    screen.enter("print('there', items)")
    screen.wait(r"there \[1, 2\]")
    assert screen.leave() == 0
