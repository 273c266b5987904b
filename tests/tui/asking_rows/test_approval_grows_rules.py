"""From waiting code to a rule that lets code like it run without asking."""

from __future__ import annotations

from textual.pilot import Pilot

from tests.tui.asking_rows.approval import CODE, about, ask, decided, row_of
from tests.tui.editor_app import app_of

RULES = ("allow: read_only", 'allow: open("x", "w")')


async def show_rules(pilot: Pilot[None]) -> None:
    app_of(pilot).rules = RULES
    await ask(pilot)
    row_of(pilot).focus()
    await pilot.press("r")
    await pilot.pause()


async def test_rules_are_shown_before_they_are_written(pilot: Pilot[None]) -> None:
    await show_rules(pilot)
    rules = row_of(pilot).query_one("#rules")
    assert rules.display
    shown = str(rules.render()).splitlines()
    assert shown[0::2] == [f"  {rule}" for rule in RULES]
    assert "can read but not change anything" in shown[1]
    assert "exactly this call with these arguments" in shown[3]
    assert "Enter writes to ~/.mahtab/config.toml, and runs the code" in about(pilot)
    assert app_of(pilot).actions == []
    app_of(pilot).clock.now += 1
    await pilot.press("enter")
    assert app_of(pilot).actions == [decided("run", rules=RULES)]


async def test_other_keys_do_not_write_the_rules_and_escape_goes_back(pilot: Pilot[None]) -> None:
    await show_rules(pilot)
    await pilot.press("enter")  # too early: it was pressed for something else
    app_of(pilot).clock.now += 1
    await pilot.press("y", "r", "space", "w")
    assert app_of(pilot).actions == []
    await pilot.press("escape")
    assert not row_of(pilot).query_one("#rules").display
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]


async def test_code_without_a_possible_rule_explains_it(pilot: Pilot[None]) -> None:
    await ask(pilot, CODE)
    row_of(pilot).focus()
    await pilot.press("r")
    assert "no rule can let this code run without asking" in about(pilot)
    assert app_of(pilot).actions == []
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]
