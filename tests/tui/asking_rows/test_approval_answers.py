"""Answers to code that waits for the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.events import AppBlur, AppFocus, Paste
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui.widgets import prompt_row
from mahtab_tui.tui.widgets.prompt_row import Chips
from mahtab_tui.tui.widgets.question_rows import InputRow
from tests import tags
from tests.tui.asking_rows.approval import CODE, about, ask, decided, row_of
from tests.tui.editor_app import EditorApp, app_of, until, write


@pytest.mark.parametrize(("key", "action"), [("y", "run"), ("a", "all"), ("escape", "stop")])
async def test_key_decides(pilot: Pilot[None], key: str, action: str) -> None:
    await ask(pilot)
    await pilot.press(key)
    assert app_of(pilot).actions == [decided(action)]
    assert not row_of(pilot).display
    await pilot.press(key)
    assert len(app_of(pilot).actions) == 1


async def test_fast_letters_go_to_the_editor_and_answer_nothing(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 60)
    await ask(pilot)
    await pilot.press("y", "space", "equals_sign", "3")
    await until(pilot, lambda: app_of(pilot).editor.text == "y =3")
    assert app_of(pilot).actions == []
    assert row_of(pilot).display


async def test_enter_after_a_letter_answers_and_escape_cancels_the_letter(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 60)
    await ask(pilot)
    await pilot.press("y", "escape")
    assert app_of(pilot).actions == []
    app_of(pilot).clock.now += 1
    await pilot.press("y", "enter")
    assert app_of(pilot).actions == [decided("run")]
    assert app_of(pilot).editor.text == ""


async def test_letter_answers_at_once_after_the_user_went_to_the_row(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 60)
    await ask(pilot)
    row_of(pilot).focus()
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]


async def test_request_without_code_cannot_be_edited_or_always_allowed(pilot: Pilot[None]) -> None:
    def offered() -> str:
        return str(pilot.app.query_one("ApprovalRow Chips", Chips).render())

    await ask(pilot)
    assert "e edit" in offered()
    assert row_of(pilot).styles.border_left[1].hex.lower() == app_of(pilot).theme_variables["model"]
    await pilot.press("y")
    app = app_of(pilot)
    app.fold(
        tags.APPROVAL,
        "# start over",
        request="2",
        turn=1,
        block=0,
        blocks=1,
        state="waiting",
        party="codex",
        guest=1,
        is_code=False,
    )
    await pilot.pause()
    assert row_of(pilot).styles.border_left[1].hex.lower() == app.theme_variables["guest-2"]
    app.clock.now += 1
    assert offered().split() == "y run n skip esc stop".split()
    await pilot.press("e")
    app_of(pilot).clock.now += 1
    await pilot.press("a")
    assert app.actions == [decided("run")]


async def test_row_is_hidden_while_nothing_waits(pilot: Pilot[None]) -> None:
    assert not row_of(pilot).display
    row_of(pilot).focus()
    assert app_of(pilot).area.has_focus


async def test_keys_act_only_while_the_row_has_the_focus(pilot: Pilot[None]) -> None:
    await ask(pilot)
    app_of(pilot).editor.focus()
    await pilot.pause()
    await write(pilot, "yna")
    assert app_of(pilot).actions == []
    assert app_of(pilot).editor.text == "yna"


async def test_the_row_does_not_take_the_focus_from_a_draft(pilot: Pilot[None]) -> None:
    await write(pilot, "half ")
    await ask(pilot)
    await write(pilot, "yes")
    assert app_of(pilot).editor.text == "half yes"
    assert app_of(pilot).actions == []


async def test_the_row_does_not_take_the_focus_from_another_pane(pilot: Pilot[None]) -> None:
    pilot.app.query_one("#transcript").focus()
    await pilot.pause()
    await ask(pilot)
    assert pilot.app.query_one("#transcript").has_focus


async def test_row_shows_how_to_reach_it(pilot: Pilot[None]) -> None:
    await write(pilot, "half")
    await ask(pilot)
    assert about(pilot) == "f7 or a click answers"
    await pilot.press("f7")
    assert about(pilot) == ""


async def test_keys_typed_while_the_row_appears_go_to_the_editor(pilot: Pilot[None]) -> None:
    await ask(pilot, accept_keys=False)
    await pilot.press("a", "y")
    await write(pilot, " = 1")
    assert app_of(pilot).editor.text == "ay = 1"
    assert app_of(pilot).area.has_focus
    assert app_of(pilot).actions == []
    assert row_of(pilot).display


async def test_other_keys_go_to_the_editor(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "print(1)\n")
    assert app_of(pilot).actions == [("submitted", "python", "print(1)")]


async def test_a_paste_goes_to_the_editor(pilot: Pilot[None]) -> None:
    await ask(pilot)
    pilot.app.query_one("ApprovalRow Chips", Chips).post_message(Paste("yes"))
    await pilot.pause()
    assert app_of(pilot).editor.text == "yes"


async def test_keys_are_ignored_right_after_focusing_the_row(pilot: Pilot[None]) -> None:
    await write(pilot, "half")
    await ask(pilot)
    row_of(pilot).focus()
    await pilot.pause()
    await pilot.press("y")
    assert app_of(pilot).actions == []
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]
    assert app_of(pilot).editor.text == "half"
    assert app_of(pilot).area.has_focus


@pytest.mark.parametrize(
    ("size", "chip"), [((80, 24), "a run all from now on"), ((50, 24), "a all")]
)
async def test_the_answers_can_be_clicked(home: Path, size: tuple[int, int], chip: str) -> None:
    app = EditorApp(home)
    async with app.run_test(size=size) as pilot:
        await ask(pilot)
        chips = app.query_one("ApprovalRow Chips", Chips)
        index = chips.render().plain.index(chip)
        await pilot.click(chips, offset=(index, 0))
        assert app.actions == [decided("all")]


async def test_click_meant_for_previous_content_decides_nothing(
    pilot: Pilot[None],
) -> None:
    await ask(pilot, accept_keys=False)
    await pilot.click("ApprovalRow Chips", offset=(3, 0))
    assert app_of(pilot).actions == []


async def test_row_shows_the_block_number(pilot: Pilot[None]) -> None:
    await ask(pilot, "df = load()\ndf", block=1, blocks=3)
    assert about(pilot) == "2/3  df = load() df"


async def test_row_warns_about_hidden_characters(pilot: Pilot[None]) -> None:
    await ask(pilot, "x = 'a\u200bb\xa0'\n\x0c\n")
    assert about(pilot) == "contains hidden characters: ␌ ⟨U+00A0⟩ ⟨U+200B⟩"


async def test_row_explains_why_it_asks_despite_reviews_and_how_to_reach_it(
    pilot: Pilot[None],
) -> None:
    await write(pilot, "half")
    about_code = {
        "request": "1",
        "turn": 1,
        "block": 0,
        "blocks": 1,
        "state": "waiting",
        "reason": "",
        "party": "claude",
    }
    app_of(pilot).fold(
        tags.APPROVAL,
        CODE,
        **about_code,
        why="undo cannot take back what \x1b[2J[b]subprocess.run[/b] does",
    )
    await pilot.pause()
    assert (
        about(pilot)
        == "asks before it runs: undo cannot take back what [b]subprocess.run[/b] does · f7 or a click answers"
    )
    label = pilot.app.query_one("#about", Static)
    await until(pilot, lambda: label.size.height == 2)
    rows = "".join(label.render_line(y).text for y in range(2))
    assert "f7 or a click answers" in rows


async def test_withdrawn_request_closes_the_row_and_returns_the_focus(
    pilot: Pilot[None],
) -> None:
    await ask(pilot)
    assert pilot.app.query_one("ApprovalRow Chips", Chips).has_focus
    app_of(pilot).fold(tags.APPROVAL, CODE, request="1", state="stopped")
    await pilot.pause()
    assert not row_of(pilot).display
    assert app_of(pilot).area.has_focus


async def test_a_second_request_waits_for_the_first(pilot: Pilot[None]) -> None:
    await ask(pilot, request="1")
    await ask(pilot, request="2")
    await pilot.press("y")
    await pilot.pause()
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run"), decided("run", request="2")]


async def test_end_of_another_request_changes_nothing(pilot: Pilot[None]) -> None:
    await ask(pilot)
    app_of(pilot).fold(tags.APPROVAL, "", request="0", state="run")
    app_of(pilot).fold(tags.APPROVAL, CODE, request="1", state="waiting", block=0, blocks=1)
    assert row_of(pilot).display
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]


async def test_row_does_not_steal_focus_from_an_input_line(pilot: Pilot[None]) -> None:
    app_of(pilot).fold(tags.INPUT, "name? ", request="1", cell=1, password=False, state="waiting")
    await ask(pilot)
    assert pilot.app.query_one(InputRow).has_focus_within


async def test_code_arriving_while_unfocused_gets_the_focus_on_return(
    pilot: Pilot[None],
) -> None:
    pilot.app.post_message(AppBlur())
    await pilot.pause()
    await ask(pilot)
    pilot.app.post_message(AppFocus())
    await pilot.pause()
    await write(pilot, "x = 1")
    assert app_of(pilot).editor.text == "x = 1"
    await pilot.press("f7")
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]
    assert app_of(pilot).area.has_focus


async def test_draft_gets_the_focus_when_the_window_does(pilot: Pilot[None]) -> None:
    await write(pilot, "half")
    pilot.app.post_message(AppBlur())
    await pilot.pause()
    await ask(pilot)
    pilot.app.post_message(AppFocus())
    await pilot.pause()
    await write(pilot, "y")
    assert app_of(pilot).editor.text == "halfy"
    assert app_of(pilot).actions == []


async def test_code_passing_functions_to_a_search_gives_a_warning(pilot: Pilot[None]) -> None:
    await ask(pilot, "rlm('Which invoices are due?', mails, tools=[pay])")
    assert "the search may call [pay] without asking again" in about(pilot)
    await pilot.press("y")
    await ask(pilot, "rlm('Which invoices are due?', mails)", request="2")
    assert "may call" not in about(pilot)
