"""From waiting code to a rule that lets code like it run without asking."""

from __future__ import annotations

from textual.pilot import Pilot

from tests.tui.asking_rows.approval import CODE, about, ask, decided, row_of
from tests.tui.editor_app import app_of

RULES = ("allow: read_only", 'allow: open("x", "w", *)')


async def show_rules(pilot: Pilot[None]) -> None:
    app_of(pilot).rules = RULES
    await ask(pilot)
    row_of(pilot).focus()
    await pilot.press("r")
    await pilot.pause()


async def test_the_rules_are_shown_before_they_are_written(pilot: Pilot[None]) -> None:
    await show_rules(pilot)
    rules = row_of(pilot).query_one("#rules")
    assert rules.display
    assert str(rules.render()) == '  allow: read_only\n  allow: open("x", "w", *)'
    assert "Enter writes to your configuration, and runs the code" in about(pilot)
    assert app_of(pilot).said == []
    app_of(pilot).clock.now += 1
    await pilot.press("enter")
    assert app_of(pilot).said == [decided("run", rules=RULES)]


async def test_no_other_key_writes_them_and_escape_goes_back(pilot: Pilot[None]) -> None:
    await show_rules(pilot)
    await pilot.press("enter")  # too early: it was pressed for something else
    app_of(pilot).clock.now += 1
    await pilot.press("y", "r", "space", "w")
    assert app_of(pilot).said == []
    await pilot.press("escape")
    assert not row_of(pilot).query_one("#rules").display
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).said == [decided("run")]


async def test_code_without_a_rule_says_so(pilot: Pilot[None]) -> None:
    await ask(pilot, CODE)
    row_of(pilot).focus()
    await pilot.press("r")
    assert "no rule can let this code run without asking" in about(pilot)
    assert app_of(pilot).said == []
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).said == [decided("run")]


async def test_an_effect_offers_other_answers(pilot: Pilot[None]) -> None:
    app_of(pilot).fold("approval", "open('x', 'w')", request="1", state="waiting", is_code=False, effect="files", why="cell 2 of demo changes a file")
    await pilot.pause()
    app_of(pilot).clock.now += 1
    assert "cell 2 of demo changes a file" in about(pilot)
    assert "asks before it runs" not in about(pilot)
    row_of(pilot).focus()
    await pilot.press("a")
    assert app_of(pilot).said == [decided("all")]
