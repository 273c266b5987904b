"""Waiting code is edited, or refused with a reason."""

from __future__ import annotations

from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from mahtab_tui.tui.editor.code_area import CodeArea
from tests.tui.asking_rows.approval import CODE, ask, decided, row_of
from tests.tui.editor_app import app_of, write


async def test_skip_asks_for_a_reason(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "nit is too slow\n")
    assert app_of(pilot).actions == [decided("skip", reason="it is too slow")]


async def test_pasted_reason_is_inserted_whole_and_clean(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await pilot.press("n")
    pilot.app.query_one("#reason", Input).post_message(Paste("too\x1b[2J slow\r\nand wrong\n"))
    await pilot.press("enter")
    assert app_of(pilot).actions == [decided("skip", reason="too slow and wrong")]


async def test_escape_returns_from_the_reason(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "nno")
    await pilot.press("escape")
    assert app_of(pilot).actions == []
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]


async def test_a_key_right_after_going_back_is_ignored(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await pilot.press("n", "escape", "y")
    assert app_of(pilot).actions == []
    assert app_of(pilot).editor.is_empty


async def test_the_code_can_be_edited_before_it_runs(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "e + 1")
    app_of(pilot).clock.now += 1
    await pilot.press("enter")
    assert app_of(pilot).actions == [decided("run", code="x = 1\nx + 1")]


async def test_enter_at_the_end_of_edited_code_runs_it_and_elsewhere_adds_a_line(
    pilot: Pilot[None],
) -> None:
    await ask(pilot, "for a in b:\n    a")
    await pilot.press("e")
    app_of(pilot).clock.now += 1
    await pilot.press("up", "end", "enter")
    assert app_of(pilot).actions == []
    await write(pilot, "c")
    await pilot.press("down", "end", "enter")
    assert app_of(pilot).actions == [decided("run", code="for a in b:\n    c\n    a")]


async def test_edited_code_runs_from_anywhere_with_a_key_chord(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await pilot.press("e")
    app_of(pilot).clock.now += 1
    await pilot.press("up", "home", "ctrl+enter")
    assert app_of(pilot).actions == [decided("run", code=CODE)]


async def test_repeated_key_runs_no_other_waiting_code(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await ask(pilot, "other", "2")
    await pilot.press("e")
    app_of(pilot).clock.now += 1
    row_of(pilot).run_edited()
    row_of(pilot).run_edited()
    await pilot.pause()
    assert app_of(pilot).actions == [decided("run", code=CODE)]
    assert not row_of(pilot).run_edited(), "what waits now is not being edited"


async def test_bouncing_enter_after_edit_runs_nothing(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await pilot.press("e", "enter", "enter")
    assert app_of(pilot).actions == []
    app_of(pilot).clock.now += 1
    await pilot.press("enter")
    assert app_of(pilot).actions == [decided("run", code=CODE)]


async def test_a_backtick_at_the_start_of_edited_code_is_typed(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await pilot.press("e", "ctrl+home", "up", "home", "grave_accent")
    assert pilot.app.query_one("#edited", CodeArea).text == "`" + CODE


async def test_edits_survive_looking_at_the_answers(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "e2")
    await pilot.press("escape")
    app_of(pilot).clock.now += 1
    await pilot.press("e")
    app_of(pilot).clock.now += 1
    await pilot.press("enter")
    assert app_of(pilot).actions == [decided("run", code="x = 1\nx2")]


async def test_emptied_code_is_not_run(pilot: Pilot[None]) -> None:
    await ask(pilot, "x")
    await pilot.press("e")
    app_of(pilot).clock.now += 1
    await pilot.press("backspace", "enter")
    assert app_of(pilot).actions == []
