"""Code that waits for the user: answered, edited, read, and made a rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.events import AppBlur, AppFocus, Paste
from textual.events import Timer as TimerEvent
from textual.pilot import Pilot
from textual.widgets import Input, Static

from mahtab_tui.tui.widgets import prompt_row
from mahtab_tui.tui.widgets.approval_row import ApprovalRow
from mahtab_tui.tui.widgets.chips import Chips
from mahtab_tui.tui.widgets.input_row import InputRow
from mahtab_tui.tui.widgets.waiting_code import WaitingCode
from tests import tags
from tests.tui.editor_app import (
    EditorApp,
    actions,
    app_of,
    press_later,
    static_text,
    text_of,
    until,
    wait_a_second,
    write,
)

CODE = "x = 1\nx"

LONG = "\n".join(f"line_{number} = {number}" for number in range(1, 61))

RULES = ("allow: read_only", 'allow: open("x", "w")')


def row_of(pilot: Pilot[None]) -> ApprovalRow:
    return pilot.app.query_one(ApprovalRow)


def chips_of(pilot: Pilot[None]) -> Chips:
    return pilot.app.query_one("ApprovalRow Chips", Chips)


def about(pilot: Pilot[None]) -> str:
    return static_text(pilot, "#about")


async def ask(
    pilot: Pilot[None],
    code: str = CODE,
    request: str = "1",
    *,
    accept_keys: bool = True,
    **fields: Any,
) -> None:
    """Let code wait for approval; by default until the row accepts keys."""
    attrs = {"turn": 1, "block": 0, "blocks": 1, "party": "claude"} | fields
    app_of(pilot).fold(tags.APPROVAL, code, request=request, state="waiting", **attrs)
    await pilot.pause()
    if accept_keys:
        wait_a_second(pilot)


def decided(
    action: str,
    code: str | None = None,
    reason: str = "",
    request: str = "1",
    rules: tuple[str, ...] = (),
) -> tuple[object, ...]:
    return ("decided", request, action, code, reason, rules)


async def approve(pilot: Pilot[None]) -> None:
    """Press y a second later, as the first answer."""
    await press_later(pilot, "y")
    assert actions(pilot) == [decided("run")]


@pytest.mark.parametrize(("key", "action"), [("y", "run"), ("a", "all"), ("escape", "stop")])
async def test_key_decides(pilot: Pilot[None], key: str, action: str) -> None:
    await ask(pilot)
    await pilot.press(key)
    assert actions(pilot) == [decided(action)]
    assert not row_of(pilot).display
    await pilot.press(key)
    assert len(actions(pilot)) == 1


async def test_fast_letters_go_to_the_editor_and_answer_nothing(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 60)
    await ask(pilot)
    await pilot.press("y", "space", "equals_sign", "3")
    await until(pilot, lambda: text_of(pilot) == "y =3")
    assert actions(pilot) == []
    assert row_of(pilot).display


async def test_enter_after_a_letter_answers_and_escape_cancels_the_letter(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 60)
    await ask(pilot)
    await pilot.press("y", "escape")
    assert actions(pilot) == []
    await press_later(pilot, "y", "enter")
    assert actions(pilot) == [decided("run")]
    assert text_of(pilot) == ""


async def test_letter_for_a_withdrawn_question_does_not_answer_the_next_one(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 60)
    await ask(pilot)
    await ask(pilot, "danger()", request="2")
    await pilot.press("y")
    row = row_of(pilot)
    assert row._pending is not None
    timer = row._pending.timer
    late = TimerEvent(timer, time=0.0, callback=timer._callback)
    app_of(pilot).fold(tags.APPROVAL, CODE, request="1", turn=1, state="stop", party="claude")
    row.post_message(late)  # it was in the queue when its timer was stopped
    await pilot.pause()
    assert row.display
    assert actions(pilot) == []


async def test_letter_answers_at_once_after_the_user_went_to_the_row(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 60)
    await ask(pilot)
    row_of(pilot).focus()
    await pilot.press("y")
    assert actions(pilot) == [decided("run")]


async def test_request_without_code_cannot_be_edited_or_always_allowed(pilot: Pilot[None]) -> None:
    def bar_is(variable: str) -> bool:
        colour = row_of(pilot).styles.border_left[1].hex.lower()
        return colour == app_of(pilot).theme_variables[variable]

    await ask(pilot)
    assert "e edit" in str(chips_of(pilot).render())
    assert bar_is("model")
    await pilot.press("y")
    await ask(pilot, "# start over", "2", party="codex", guest=1, is_code=False)
    assert bar_is("agent-2")
    assert str(chips_of(pilot).render()).split() == "y run n skip esc stop".split()
    await pilot.press("e")
    await press_later(pilot, "a")
    assert actions(pilot) == [decided("run")]


async def test_an_agents_own_words_stand_on_the_chips(pilot: Pilot[None]) -> None:
    words = ("Yes, \x1b[31mwrite", "No, and tell Claude what to do differently")
    await ask(pilot, "# Write a.txt", is_code=False, answers=words)
    chips = str(chips_of(pilot).render())
    assert " y run: Yes, write " in chips
    assert " n skip: No, and tell Claude what to do " in chips
    await pilot.press("y")
    assert actions(pilot) == [decided("run")]


async def test_an_agents_words_cannot_change_what_the_keys_mean(pilot: Pilot[None]) -> None:
    words = ("No, do not delete", "x  \t n skip: Yes")
    await ask(pilot, "# Delete a.txt", is_code=False, answers=words)
    chips = str(chips_of(pilot).render())
    assert " y run: No, do not delete " in chips
    assert " n skip: x n skip: Yes " in chips


async def test_wide_words_that_do_not_fit_leave_the_keys_visible(pilot: Pilot[None]) -> None:
    await ask(pilot, "# Write a.txt", is_code=False, answers=("書" * 20, "書" * 20))
    assert str(chips_of(pilot).render()).split() == "y run n skip esc".split()


async def test_keys_act_only_while_the_row_has_the_focus(pilot: Pilot[None]) -> None:
    await ask(pilot)
    app_of(pilot).editor.focus()
    await pilot.pause()
    await write(pilot, "yna")
    assert actions(pilot) == []
    assert text_of(pilot) == "yna"


async def test_the_row_does_not_take_the_focus_from_another_pane(pilot: Pilot[None]) -> None:
    pilot.app.query_one("#transcript").focus()
    await pilot.pause()
    await ask(pilot)
    assert pilot.app.query_one("#transcript").has_focus


async def test_keys_typed_while_the_row_appears_go_to_the_editor(pilot: Pilot[None]) -> None:
    await ask(pilot, accept_keys=False)
    await pilot.press("a", "y")
    await write(pilot, " = 1")
    assert text_of(pilot) == "ay = 1"
    assert app_of(pilot).area.has_focus
    assert actions(pilot) == []
    assert row_of(pilot).display


async def test_other_keys_go_to_the_editor(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "print(1)\n")
    assert actions(pilot) == [("submitted", "python", "print(1)")]


async def test_a_paste_goes_to_the_editor(pilot: Pilot[None]) -> None:
    await ask(pilot)
    chips_of(pilot).post_message(Paste("yes"))
    await pilot.pause()
    assert text_of(pilot) == "yes"


async def test_row_says_how_to_reach_it_and_ignores_keys_right_after(pilot: Pilot[None]) -> None:
    await write(pilot, "half")
    await ask(pilot)
    assert about(pilot) == "f7 or a click answers"
    await pilot.press("f7")
    assert about(pilot) == ""
    await pilot.press("y")
    assert actions(pilot) == []
    await approve(pilot)
    assert text_of(pilot) == "half"
    assert app_of(pilot).area.has_focus


@pytest.mark.parametrize(
    ("size", "chip"), [((80, 24), "a run all from now on"), ((50, 24), "a all")]
)
async def test_the_answers_can_be_clicked(home: Path, size: tuple[int, int], chip: str) -> None:
    app = EditorApp(home)
    async with app.run_test(size=size) as pilot:
        await ask(pilot)
        chips = chips_of(pilot)
        await pilot.click(chips, offset=(chips.render().plain.index(chip), 0))
        assert app.actions == [decided("all")]


async def test_click_meant_for_previous_content_decides_nothing(pilot: Pilot[None]) -> None:
    await ask(pilot, accept_keys=False)
    await pilot.click("ApprovalRow Chips", offset=(3, 0))
    assert actions(pilot) == []


@pytest.mark.thorough
async def test_row_shows_the_block_number_and_hidden_characters(pilot: Pilot[None]) -> None:
    await ask(pilot, "df = load()\ndf", block=1, blocks=3)
    assert about(pilot) == "2/3  df = load() df"
    await pilot.press("y")
    await ask(pilot, "x = 'a\u200bb\xa0'\n\x0c\n", "2")
    assert about(pilot) == "contains hidden characters: ␌ ⟨U+00A0⟩ ⟨U+200B⟩"


async def test_row_explains_why_it_asks_despite_reviews_and_how_to_reach_it(
    pilot: Pilot[None],
) -> None:
    await write(pilot, "half")
    effect = "[b]subprocess.run[/b] does"
    await ask(pilot, why=f"undo cannot take back what \x1b[2J{effect}")
    reason = f"asks before it runs: undo cannot take back what {effect}"
    assert about(pilot) == f"{reason} · f7 or a click answers"
    label = pilot.app.query_one("#about", Static)
    await until(pilot, lambda: label.size.height == 2)
    assert "f7 or a click answers" in "".join(label.render_line(y).text for y in range(2))


async def test_withdrawn_request_closes_the_row_and_returns_the_focus(pilot: Pilot[None]) -> None:
    await ask(pilot)
    assert chips_of(pilot).has_focus
    app_of(pilot).fold(tags.APPROVAL, CODE, request="1", state="stopped")
    await pilot.pause()
    assert not row_of(pilot).display
    assert app_of(pilot).area.has_focus


async def test_a_second_request_waits_for_the_first(pilot: Pilot[None]) -> None:
    await ask(pilot, request="1")
    await ask(pilot, request="2")
    await pilot.press("y")
    await pilot.pause()
    await press_later(pilot, "y")
    assert actions(pilot) == [decided("run"), decided("run", request="2")]


async def test_row_does_not_steal_focus_from_an_input_line(pilot: Pilot[None]) -> None:
    app_of(pilot).fold(tags.INPUT, "name? ", request="1", cell=1, password=False, state="waiting")
    await ask(pilot)
    assert pilot.app.query_one(InputRow).has_focus_within


@pytest.mark.sample(1)
@pytest.mark.parametrize(("draft", "typed"), [("", "x = 1"), ("half", "y")])
async def test_letters_go_to_the_draft_if_code_arrives_while_the_window_is_unfocused(
    pilot: Pilot[None], draft: str, typed: str
) -> None:
    await write(pilot, draft)
    pilot.app.post_message(AppBlur())
    await pilot.pause()
    await ask(pilot)
    pilot.app.post_message(AppFocus())
    await pilot.pause()
    await write(pilot, typed)
    assert (text_of(pilot), actions(pilot)) == (draft + typed, [])
    await pilot.press("f7")
    await approve(pilot)
    assert app_of(pilot).area.has_focus


async def test_code_passing_functions_to_a_search_gives_a_warning(pilot: Pilot[None]) -> None:
    deep_sum = "+".join(["[pay]"] * 1_200)
    names_by_code = {
        "rlm('Which?', mails, tools=[pay])": "[pay]",
        "%time rlm('Which?', mails, tools=[pay])": "[pay]",
        "rlm('Which?', mails, **options)": "options",
        f"rlm('Which?', mails, tools={deep_sum})": "all of its tools=",
    }
    for code, names in names_by_code.items():
        await ask(pilot, code, request=code)
        assert f"the search may call {names} without asking again" in about(pilot)
        await pilot.press("y")
    await ask(pilot, "rlm('Which invoices are due?', mails)", request="2")
    assert "may call" not in about(pilot)


# Waiting code is edited, or refused with a reason.


async def test_skip_asks_for_a_reason(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "nit is too slow\n")
    assert actions(pilot) == [decided("skip", reason="it is too slow")]


async def test_pasted_reason_is_inserted_whole_and_clean(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await pilot.press("n")
    pilot.app.query_one("#reason", Input).post_message(Paste("too\x1b[2J slow\r\nand wrong\n"))
    await pilot.press("enter")
    assert actions(pilot) == [decided("skip", reason="too slow and wrong")]


async def test_escape_returns_from_the_reason(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "nno")
    await pilot.press("escape")
    assert actions(pilot) == []
    await approve(pilot)


async def test_a_key_right_after_going_back_is_ignored(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await pilot.press("n", "escape", "y")
    assert actions(pilot) == []
    assert app_of(pilot).editor.is_empty


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("code", "keys", "ran"),
    [
        (CODE, "space plus 1 enter", "x = 1\nx +1"),
        ("for a in b:\n    a", "up end enter c down end enter", "for a in b:\n    c\n    a"),
        (CODE, "up home ctrl+enter", CODE),
        ("x", "backspace enter", None),
    ],
    ids=["enter at the end", "enter elsewhere adds a line", "chord anywhere", "nothing left"],
)
async def test_code_is_edited_before_it_runs(
    pilot: Pilot[None], code: str, keys: str, ran: str | None
) -> None:
    await ask(pilot, code)
    await pilot.press("e")
    await press_later(pilot, *keys.split())
    assert actions(pilot) == ([] if ran is None else [decided("run", code=ran)])


async def test_repeated_key_runs_no_other_waiting_code(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await ask(pilot, "other", "2")
    await pilot.press("e")
    wait_a_second(pilot)
    row_of(pilot).run_edited()
    row_of(pilot).run_edited()
    await pilot.pause()
    assert actions(pilot) == [decided("run", code=CODE)]
    assert not row_of(pilot).run_edited(), "what waits now is not being edited"


async def test_bouncing_enter_after_edit_runs_nothing(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await pilot.press("e", "enter", "enter")
    assert actions(pilot) == []
    await press_later(pilot, "enter")
    assert actions(pilot) == [decided("run", code=CODE)]


# Code that the transcript does not show is read in the row before it is approved.


def drawn_code(pilot: Pilot[None]) -> list[str]:
    code = pilot.app.query_one(WaitingCode)
    return (
        [code.render_line(y).text.rstrip() for y in range(code.size.height)] if code.display else []
    )


async def ask_out_of_sight(pilot: Pilot[None], code: str = LONG) -> None:
    app_of(pilot).in_sight = False
    await ask(pilot, code)
    await until(pilot, lambda: bool(drawn_code(pilot)))
    await pilot.pause()


async def test_code_visible_above_is_not_shown_twice(pilot: Pilot[None]) -> None:
    await ask(pilot, LONG)
    assert drawn_code(pilot) == []
    await pilot.press("pagedown", "y")
    assert actions(pilot) == [decided("run")]


async def test_code_not_visible_above_is_shown_and_scrolled(pilot: Pilot[None]) -> None:
    await ask_out_of_sight(pilot)
    lines = LONG.split("\n")
    for keys, top_line in (
        ((), 1),
        (("pagedown",), 13),
        (("down", "down"), 15),
        (("up",), 14),
        (("pageup",), 2),
        (("end",), 49),
        (("home",), 1),
    ):
        await pilot.press(*keys)
        await pilot.pause()
        assert drawn_code(pilot) == lines[top_line - 1 : top_line + 11]
        assert about(pilot).startswith(f"lines {top_line}–{top_line + 11} of 60")
    assert actions(pilot) == []


@pytest.mark.parametrize(("key", "action"), [("y", "run"), ("a", "all")])
async def test_code_is_approved_once_its_end_was_visible(
    pilot: Pilot[None], key: str, action: str
) -> None:
    await ask_out_of_sight(pilot)
    await pilot.press(key)
    assert actions(pilot) == []
    assert "again" in about(pilot)
    await press_later(pilot, "end", "home")
    await pilot.pause()
    assert "again" not in about(pilot)
    await pilot.press(key)
    assert actions(pilot) == [decided(action)]


async def test_pressing_the_same_key_twice_approves_unread_code(pilot: Pilot[None]) -> None:
    await ask_out_of_sight(pilot)
    await pilot.press("y", "y")
    assert (actions(pilot), text_of(pilot)) == ([], ""), (
        "too soon, and it is no letter for the editor either"
    )
    await press_later(pilot, "pagedown", "y")
    assert actions(pilot) == [], "not in a row"
    await approve(pilot)


async def test_key_repeat_approves_nothing_unread(pilot: Pilot[None]) -> None:
    await ask_out_of_sight(pilot)
    for _ in range(25):
        await pilot.press("y")
        app_of(pilot).clock.now += 0.1
    assert actions(pilot) == []
    await approve(pilot)


async def test_next_code_must_be_read_too(pilot: Pilot[None]) -> None:
    await ask_out_of_sight(pilot)
    await ask(pilot, LONG, request="2")
    await pilot.press("end")
    await pilot.pause()
    await pilot.press("y")
    await pilot.pause()
    await approve(pilot)
    assert drawn_code(pilot)[0] == "line_1 = 1"


@pytest.mark.thorough
async def test_all_of_very_long_code_and_long_lines_is_drawn(pilot: Pilot[None]) -> None:
    lines = [f"y{number} = '\u200b'" for number in range(900)]
    await ask_out_of_sight(pilot, "\n".join([f"x = '{'word ' * 60}'; tail = 1", *lines]))
    view = pilot.app.query_one(WaitingCode)
    rows: list[str] = []
    while not view.end_seen or not rows:
        rows += drawn_code(pilot)
        await pilot.press("pagedown")
        await pilot.pause()
    rows += drawn_code(pilot)
    text = " ".join(rows)
    assert "; tail = 1" in text
    assert all(f"y{number} = '⟨U+200B⟩'" in text for number in range(900))
    assert about(pilot).startswith("lines 890–901 of 901")


async def test_start_of_very_long_code_is_shown_and_uneditable(pilot: Pilot[None]) -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(1, 250_001))
    await ask_out_of_sight(pilot, code)
    assert "of 250,000, too long: only the first 100,000 characters are shown" in about(pilot)
    await pilot.press("end")
    await pilot.pause()
    assert drawn_code(pilot)[-1].startswith("line_6")
    await pilot.press("e")
    await pilot.pause()
    assert "too long to be edited here: at most 2,000 lines" in about(pilot)
    await press_later(pilot, "y")
    assert actions(pilot) == [], "its end was not seen"
    await approve(pilot)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "code",
    ["x = '" + "y" * 20_000_000, "e\u0301" * 5_000_000, "\n" * 5_000_000, "\t" * 5_000_000],
    ids=["line", "marks", "lines", "tabs"],
)
@pytest.mark.timeout(60)
async def test_megabytes_of_code_are_shown_and_answered(pilot: Pilot[None], code: str) -> None:
    await ask_out_of_sight(pilot, code + "1")
    for _ in range(2):
        wait_a_second(pilot)
        await pilot.press("y")
    assert actions(pilot) == [decided("run")]


# A rule that lets code like the waiting one run without asking.


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
    lines = str(rules.render()).splitlines()
    assert lines[0::2] == [f"  {rule}" for rule in RULES]
    assert "can read but not change anything" in lines[1]
    assert "exactly this call with these arguments" in lines[3]
    assert "Enter writes to ~/.mahtab/config.toml, and runs the code" in about(pilot)
    assert actions(pilot) == []
    await press_later(pilot, "enter")
    assert actions(pilot) == [decided("run", rules=RULES)]


async def test_other_keys_do_not_write_the_rules_and_escape_goes_back(pilot: Pilot[None]) -> None:
    await show_rules(pilot)
    await pilot.press("enter")  # too early, so it was meant for something else
    await press_later(pilot, "y", "r", "space", "w")
    assert actions(pilot) == []
    await pilot.press("escape")
    assert not row_of(pilot).query_one("#rules").display
    await approve(pilot)


async def test_end_of_another_request_changes_nothing(pilot: Pilot[None]) -> None:
    await ask(pilot)
    app_of(pilot).fold(tags.APPROVAL, "", request="0", state="run")
    app_of(pilot).fold(tags.APPROVAL, CODE, request="1", state="waiting", block=0, blocks=1)
    assert row_of(pilot).display
    await pilot.press("y")
    assert actions(pilot) == [decided("run")]


async def test_edits_survive_looking_at_the_answers(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "e2")
    await pilot.press("escape")
    await press_later(pilot, "e")
    await press_later(pilot, "enter")
    assert actions(pilot) == [decided("run", code="x = 1\nx2")]
