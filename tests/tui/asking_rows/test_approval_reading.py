"""Code that cannot be seen above the row is read in it before it is approved."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from mahtab_tui.tui.widgets.approval_row import WaitingCode
from tests.tui.asking_rows.approval import about, ask, decided
from tests.tui.editor_app import app_of, until

LONG = "\n".join(f"line_{number} = {number}" for number in range(1, 61))


def drawn_code(pilot: Pilot[None]) -> list[str]:
    """The lines of the code that the row draws."""
    code = pilot.app.query_one(WaitingCode)
    return (
        [code.render_line(y).text.rstrip() for y in range(code.size.height)] if code.display else []
    )


async def ask_out_of_sight(pilot: Pilot[None], code: str = LONG) -> None:
    """Code waits that cannot be seen above the row."""
    app_of(pilot).in_sight = False
    await ask(pilot, code)
    await until(pilot, lambda: bool(drawn_code(pilot)))
    await pilot.pause()


async def test_code_visible_above_is_not_shown_twice(pilot: Pilot[None]) -> None:
    await ask(pilot, LONG)
    assert drawn_code(pilot) == []
    await pilot.press("pagedown", "y")
    assert app_of(pilot).actions == [decided("run")]


async def test_code_not_visible_above_is_shown_and_scrolled(pilot: Pilot[None]) -> None:
    await ask_out_of_sight(pilot)
    lines = LONG.split("\n")
    for keys, first in (
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
        assert drawn_code(pilot) == lines[first - 1 : first + 11]
        assert about(pilot).startswith(f"lines {first}–{first + 11} of 60")
    assert app_of(pilot).actions == []


@pytest.mark.parametrize(("key", "action"), [("y", "run"), ("a", "all")])
async def test_code_is_approved_once_its_end_was_visible(
    pilot: Pilot[None], key: str, action: str
) -> None:
    await ask_out_of_sight(pilot)
    await pilot.press(key)
    assert app_of(pilot).actions == []
    assert "again" in about(pilot)
    app_of(pilot).clock.now += 1
    await pilot.press("end", "home")
    await pilot.pause()
    assert "again" not in about(pilot)
    await pilot.press(key)
    assert app_of(pilot).actions == [decided(action)]


async def test_pressing_the_same_key_twice_approves_unread_code(pilot: Pilot[None]) -> None:
    await ask_out_of_sight(pilot)
    await pilot.press("y", "y")
    assert (app_of(pilot).actions, app_of(pilot).editor.text) == ([], ""), (
        "too soon, and it is no letter for the editor either"
    )
    app_of(pilot).clock.now += 1
    await pilot.press("pagedown", "y")
    assert app_of(pilot).actions == [], "not in a row"
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]


async def test_key_repeat_approves_nothing_unread(pilot: Pilot[None]) -> None:
    await ask_out_of_sight(pilot)
    for _ in range(25):
        await pilot.press("y")
        app_of(pilot).clock.now += 0.1
    assert app_of(pilot).actions == []
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]


async def test_other_answers_need_no_reading(pilot: Pilot[None]) -> None:
    await ask_out_of_sight(pilot)
    await pilot.press("escape")
    assert app_of(pilot).actions == [decided("stop")]


async def test_next_code_must_be_read_too(pilot: Pilot[None]) -> None:
    await ask_out_of_sight(pilot)
    await ask(pilot, LONG, request="2")
    await pilot.press("end")
    await pilot.pause()
    await pilot.press("y")
    await pilot.pause()
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]
    assert drawn_code(pilot)[0] == "line_1 = 1"


async def test_all_of_very_long_code_and_long_lines_is_drawn(pilot: Pilot[None]) -> None:
    code = "\n".join(
        [
            "x = '" + "word " * 60 + "'; tail = 1",
            *(f"y{number} = '\u200b'" for number in range(900)),
        ]
    )
    await ask_out_of_sight(pilot, code)
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


async def test_start_of_very_long_code_is_shown_uncoloured_and_uneditable(
    pilot: Pilot[None],
) -> None:
    await ask_out_of_sight(
        pilot, "\n".join(f"line_{number} = {number}" for number in range(1, 250_001))
    )
    assert "of 250,000, too long: only the first 300,000 characters are shown" in about(pilot)
    await pilot.press("end")
    await pilot.pause()
    assert drawn_code(pilot)[-1] < "line_20000"
    await pilot.press("e")
    await pilot.pause()
    assert "too long to be edited here: at most 2,000 lines" in about(pilot)
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [], "its end was not seen"
    app_of(pilot).clock.now += 1
    await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]


@pytest.mark.parametrize(
    "code",
    ["x = '" + "y" * 20_000_000, "e\u0301" * 5_000_000, "\n" * 5_000_000, "\t" * 5_000_000],
    ids=["line", "marks", "lines", "tabs"],
)
@pytest.mark.timeout(60)
async def test_megabytes_of_code_are_shown_and_answered(pilot: Pilot[None], code: str) -> None:
    await ask_out_of_sight(pilot, code + "1")
    for _ in range(2):
        app_of(pilot).clock.now += 1
        await pilot.press("y")
    assert app_of(pilot).actions == [decided("run")]
