"""Rows for the lines that code reads, and for queued inputs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from mahtab_tui.tui.widgets.input_row import InputRow
from mahtab_tui.tui.widgets.queue_row import QueueRow
from tests import tags
from tests.tui.editor_app import (
    SIZE,
    EditorApp,
    actions,
    app_of,
    press_at_once,
    static_text,
    text_of,
    until,
    write,
)


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        yield pilot


def input_row_of(pilot: Pilot[None]) -> InputRow:
    return pilot.app.query_one(InputRow)


def drawn_line(pilot: Pilot[None]) -> str:
    return line_of(pilot).render_line(0).text


def line_of(pilot: Pilot[None]) -> Input:
    return pilot.app.query_one("#input-line", Input)


def prompt(pilot: Pilot[None]) -> str:
    return static_text(pilot, "#input-prompt")


async def ask(
    pilot: Pilot[None], text: str = "name? ", request: str = "1", *, password: bool = False
) -> None:
    app_of(pilot).fold(
        tags.INPUT, text, request=request, cell=1, password=password, state="waiting"
    )
    await pilot.pause()


async def end(pilot: Pilot[None], request: str = "1", state: str = "answered") -> None:
    app_of(pilot).fold(tags.INPUT, "", request=request, cell=1, password=False, state=state)
    await pilot.pause()


async def test_line_is_requested_and_answered(pilot: Pilot[None]) -> None:
    assert not input_row_of(pilot).display
    await ask(pilot)
    assert prompt(pilot) == "name?"
    await write(pilot, "Ada\n")
    await end(pilot)
    assert actions(pilot) == [("answered", "1", "Ada")]
    await until(pilot, lambda: app_of(pilot).area.has_focus)
    assert not input_row_of(pilot).display
    assert app_of(pilot).editor.is_empty


async def test_ctrl_d_on_an_empty_line_ends_the_input(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await pilot.press("a", "home", "ctrl+d")
    assert actions(pilot) == []
    await pilot.press("ctrl+d")
    assert actions(pilot) == [("answered", "1", None)]


async def test_password_is_not_drawn_and_other_text_is(pilot: Pilot[None]) -> None:
    await ask(pilot, password=True)
    await write(pilot, "secret")
    assert "secret" not in drawn_line(pilot)
    assert "••••••" in drawn_line(pilot)
    await pilot.press("enter")
    assert actions(pilot) == [("answered", "1", "secret")]
    await ask(pilot, request="2")
    await write(pilot, "open")
    assert "open" in drawn_line(pilot)


async def test_a_draft_has_the_focus_until_it_is_submitted(pilot: Pilot[None]) -> None:
    await write(pilot, "half")
    await ask(pilot)
    assert line_of(pilot).placeholder.startswith("empty the editor")
    await write(pilot, " done\n")
    assert actions(pilot) == [("submitted", "python", "half done")]
    await until(pilot, lambda: line_of(pilot).has_focus)
    await write(pilot, "Ada\n")
    assert actions(pilot)[-1] == ("answered", "1", "Ada")


@pytest.mark.parametrize("password", [False, True])
async def test_text_of_a_cancelled_request_goes_to_the_editor_but_no_password(
    pilot: Pilot[None], password: bool
) -> None:
    await ask(pilot, password=password)
    await write(pilot, "x = 1")
    await end(pilot, state="cancelled")
    assert not input_row_of(pilot).display
    assert app_of(pilot).area.has_focus
    assert text_of(pilot) == ("" if password else "x = 1")
    assert line_of(pilot).value == ""


@pytest.fixture
def lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.tui.widgets.input_row.CLOSE_DELAY_S", 1e6)


@pytest.mark.usefixtures("lingering")
async def test_text_typed_between_two_requests_is_for_the_second(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "n\nn")
    await end(pilot)
    await ask(pilot, "(Pdb) ", "2")
    await write(pilot, "ext\n")
    assert actions(pilot) == [("answered", "1", "n"), ("answered", "2", "next")]


@pytest.mark.usefixtures("lingering")
async def test_line_entered_before_the_request_is_the_answer(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await press_at_once(pilot, *"oX", "backspace", "k", "enter", *"two", "enter", *"thr")
    assert actions(pilot) == [("answered", "1", "ok")]
    await ask(pilot, request="2")
    assert actions(pilot) == [("answered", "1", "ok"), ("answered", "2", "two")]
    await ask(pilot, request="3")
    await write(pilot, "ee\n")
    assert actions(pilot)[-1] == ("answered", "3", "three")


@pytest.mark.usefixtures("lingering")
async def test_text_typed_once_the_kernel_is_idle_goes_to_the_editor(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await write(pilot, "ok\n")
    app_of(pilot).fold(tags.KERNEL, state="idle")
    assert not input_row_of(pilot).display
    await write(pilot, "1\n")
    assert actions(pilot) == [("answered", "1", "ok"), ("submitted", "python", "1")]


async def test_unrequested_lines_go_to_the_editor_and_do_not_run(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await press_at_once(pilot, *"ok", "enter", *"two", "enter", *"thr")
    await until(pilot, lambda: not input_row_of(pilot).display)
    await until(pilot, lambda: text_of(pilot) == "two\nthr")
    assert actions(pilot) == [("answered", "1", "ok")]


@pytest.mark.usefixtures("lingering")
async def test_enter_that_no_code_asked_for_is_not_text(pilot: Pilot[None]) -> None:
    await ask(pilot)
    await press_at_once(pilot, *"ok", "enter", "enter")
    app_of(pilot).fold(tags.KERNEL, state="idle")
    await pilot.pause()
    assert text_of(pilot) == ""


async def test_two_requests_are_answered_one_after_another(pilot: Pilot[None]) -> None:
    await ask(pilot, "first? ", "1")
    await ask(pilot, "second? ", "2")
    assert prompt(pilot) == "first?"
    await write(pilot, "a\n")
    assert prompt(pilot) == "second?"
    await write(pilot, "\n")
    assert actions(pilot) == [("answered", "1", "a"), ("answered", "2", "")]


@pytest.mark.parametrize(
    ("text", "expected_prompt"),
    [
        ("one\ntwo: ", "two:"),
        ("sure?\n", "sure?"),
        ("\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07? ", "red ?"),
        ("[/x] [@click=app.quit]list[int]", "[/x] [@click=app.quit]list[int]"),
        ("", "input"),
        ("a" * 100 + " why? ", "…" + "a" * 55 + " why?"),
    ],
)
async def test_the_last_line_of_a_prompt_is_shown_clean(
    pilot: Pilot[None], text: str, expected_prompt: str
) -> None:
    await ask(pilot, text)
    assert prompt(pilot) == expected_prompt


async def test_pasted_answer_is_inserted_whole_and_clean(pilot: Pilot[None]) -> None:
    await ask(pilot)
    line_of(pilot).post_message(Paste("one\x1b[2J\r\ntwo\n"))
    await pilot.press("enter")
    assert actions(pilot) == [("answered", "1", "one two")]


async def test_up_brings_earlier_answers_but_no_password(pilot: Pilot[None]) -> None:
    for request, answer in (("1", "first"), ("2", "second")):
        await ask(pilot, request=request)
        await pilot.press(*answer, "enter")
    await ask(pilot, request="3", password=True)
    await pilot.press(*"secret", "enter")
    await ask(pilot, request="4")
    await pilot.press("up", "up", "up")
    assert line_of(pilot).value == "first"
    await pilot.press("down", "enter")
    assert actions(pilot)[-1] == ("answered", "4", "second")
    await ask(pilot, request="5", password=True)
    await pilot.press("up")
    assert line_of(pilot).value == ""


@pytest.mark.usefixtures("lingering")
async def test_up_brings_no_password_that_was_entered_before_the_request(
    pilot: Pilot[None],
) -> None:
    await ask(pilot)
    await press_at_once(pilot, *"ok", "enter", *"secret", "enter")
    await ask(pilot, request="2", password=True)
    assert actions(pilot)[-1] == ("answered", "2", "secret")
    await ask(pilot, request="3")
    await pilot.press("up")
    assert line_of(pilot).value == "ok"


@pytest.mark.usefixtures("lingering")
async def test_line_that_was_typed_hidden_is_not_shown_later(pilot: Pilot[None]) -> None:
    await ask(pilot, password=True)
    await press_at_once(pilot, *"one", "enter", *"two", "enter", *"three", "enter")
    await ask(pilot, request="2")
    await ask(pilot, request="3")
    assert actions(pilot)[1:] == [("answered", "2", "two"), ("answered", "3", "three")]
    await ask(pilot, request="4")
    await pilot.press("up")
    assert line_of(pilot).value == ""


@pytest.mark.usefixtures("lingering")
async def test_hidden_lines_do_not_go_to_the_editor(pilot: Pilot[None]) -> None:
    await ask(pilot, password=True)
    await press_at_once(pilot, *"one", "enter", *"two", "enter", *"three", "enter")
    await ask(pilot, request="2")
    app_of(pilot).fold(tags.KERNEL, state="idle")
    await pilot.pause()
    assert text_of(pilot) == ""


async def test_half_typed_password_is_not_shown_at_the_next_request(pilot: Pilot[None]) -> None:
    await ask(pilot, password=True)
    await ask(pilot, "name? ", "2")
    await write(pilot, "sec")
    await end(pilot, state="cancelled")
    assert prompt(pilot) == "name?"
    assert line_of(pilot).value == ""


def queue_row_of(pilot: Pilot[None]) -> QueueRow:
    return pilot.app.query_one(QueueRow)


def lines(pilot: Pilot[None]) -> list[str]:
    return queue_row_of(pilot).render().plain.split("\n")


async def queue(pilot: Pilot[None], *codes: str, mode: str = "python") -> None:
    items = [{"id": number, "code": code, "mode": mode} for number, code in enumerate(codes, 1)]
    app_of(pilot).fold(tags.QUEUE, items=items)
    await pilot.pause()


async def test_row_shows_the_number_and_text_of_waiting_inputs(pilot: Pilot[None]) -> None:
    assert not queue_row_of(pilot).display
    await queue(pilot, "x = 1\ny = 2", "z")
    assert queue_row_of(pilot).display
    assert lines(pilot) == ["queued 2  ❯ x = 1 … ✕ ", "          ❯ z ✕ "]
    await queue(pilot)
    assert not queue_row_of(pilot).display


async def test_cells_that_were_not_run_are_explained(pilot: Pilot[None]) -> None:
    items = [{"id": id, "code": "x", "mode": "python", "held": id < 3} for id in (1, 2, 3)]
    app_of(pilot).fold(tags.QUEUE, items=items)
    await pilot.pause()
    assert lines(pilot)[0] == "2 queued cells were not run · Enter in the empty editor runs them"
    assert len(lines(pilot)) == queue_row_of(pilot).size.height == 4
    await pilot.click(queue_row_of(pilot), offset=(len(" queued 3  ❯ x ✕") - 1, 1))
    assert actions(pilot) == [("cancelled", 1)]


async def test_external_text_is_neither_markup_nor_control_codes(pilot: Pilot[None]) -> None:
    await queue(pilot, "[/x] \x1b]0;t\x07[red]a", mode="ask")
    assert lines(pilot) == ["queued 1  ◈ [/x] ␛]0;t␇[red]a · after this answer ✕ "]


async def test_keys_select_and_withdraw(pilot: Pilot[None]) -> None:
    await queue(pilot, *"abcdef")
    queue_row_of(pilot).focus()
    await pilot.press("up", *["down"] * 7, "up", "backspace")
    assert actions(pilot) == [("cancelled", 5)]
    assert [line.split("❯")[1].strip(" ✕") for line in lines(pilot)] == ["b", "c", "d", "e"]
    assert queue_row_of(pilot).size.height == 4
