"""The editor's modes, its draft, and its history."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.store.history import History
from tests.tui.editor_app import EditorApp, app_of, editing, press_at_once, until, write


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    async with editing(
        home,
        ("x = 1", "python"),
        ("what is x?", "ask"),
        ("for a in b:\n    print(a)", "python"),
        ("y = 2", "python"),
    ) as pilot:
        yield pilot


def shown(pilot: Pilot[None], selector: str) -> str:
    return str(pilot.app.query_one(selector, Static).content)


# Modes


async def test_backtick_at_the_start_toggles_the_mode(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    assert (shown(pilot, "#glyph"), shown(pilot, "#hint").split(" · ")[0]) == ("❯", "Python")
    await write(pilot, "`")
    assert (shown(pilot, "#glyph"), shown(pilot, "#hint").split(" · ")[0]) == ("◈", "Ask")
    assert not app.area.is_syntax_aware
    await write(pilot, "`")
    assert app.actions == [("mode", "ask"), ("mode", "python")]
    assert app.editor.is_empty
    assert app.area.is_syntax_aware


async def test_a_backtick_elsewhere_is_typed(pilot: Pilot[None]) -> None:
    await write(pilot, "a`b`")
    assert app_of(pilot).editor.text == "a`b`"
    assert app_of(pilot).editor.mode == "python"


async def test_draft_and_cursor_survive_the_mode_toggle(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "f(x)")
    await pilot.press("left")
    app.editor.toggle_mode()
    await write(pilot, "y")
    assert (app.editor.mode, app.editor.text) == ("ask", "f(xy)")
    await pilot.press("home", "grave_accent")
    assert (app.editor.mode, app.editor.text) == ("python", "f(xy)")


async def test_backspace_in_empty_ask_mode_returns_to_python(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "`a")
    await pilot.press("backspace")
    assert app.actions == [("mode", "ask")]
    await pilot.press("backspace", "backspace")
    assert app.actions == [("mode", "ask"), ("mode", "python")]


async def test_enter_in_ask_mode_always_sends(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "`if x:")
    await pilot.press("ctrl+j")
    await write(pilot, "and (then\n")
    assert app.actions[-1] == ("submitted", "ask", "if x:\nand (then")


async def test_ctrl_d_quits_only_from_an_empty_editor(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "a")
    await pilot.press("ctrl+d", "home", "ctrl+d")
    assert app.actions == []
    await pilot.press("ctrl+d")
    assert app.actions == [("leave",)]


# History


async def test_up_and_down_walk_the_inputs_of_the_mode_and_return(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    texts = []
    for key in ("up", "up", "up", "up", "down", "down", "down", "down"):
        await pilot.press(key)
        texts.append(app.editor.text)
    block = "for a in b:\n    print(a)"
    assert texts == ["y = 2", block, "x = 1", "x = 1", block, "y = 2", "", ""]
    app.editor.mode = "ask"
    await pilot.press("up")
    assert app.editor.text == "what is x?"


async def test_a_recalled_block_runs_with_one_enter(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await pilot.press("up", "up", "enter")
    assert app.actions == [("submitted", "python", "for a in b:\n    print(a)")]


async def test_cursor_moves_inside_a_recalled_block_once_it_was_moved(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await pilot.press("up", "up", "left", "up")
    assert app.area.cursor_location[0] == 0
    await pilot.press("end", "enter", "z")
    assert app.editor.text == "for a in b:\n    z\n    print(a)"


async def test_edits_to_recalled_inputs_are_not_lost(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await pilot.press("up", "7", "up", "down")
    assert app.editor.text == "y = 27"
    await pilot.press("down")
    assert app.editor.text == ""


async def test_up_moves_through_the_lines_of_a_draft_first(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "for a in b:")
    await pilot.press("ctrl+j", "up")
    assert (app.editor.text, app.area.cursor_location[0]) == ("for a in b:\n    ", 0)
    await pilot.press("up")
    assert app.editor.text == "for a in b:\n    print(a)", (
        "the newest input that begins with the draft"
    )


async def test_up_moves_through_the_rows_of_a_wrapped_line_first(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.editor.text = "y" + " " * 200
    await pilot.press("left", "up")
    assert 0 < app.area.cursor_location[1] < 190


async def test_submitted_input_is_recalled_once_and_saved(pilot: Pilot[None], home: Path) -> None:
    app = app_of(pilot)
    await write(pilot, "y = 2\nz = 3\n")
    await pilot.press("up", "up")
    assert app.editor.text == "y = 2"
    await pilot.press("up")
    assert app.editor.text.startswith("for a")
    await until(pilot, lambda: "z = 3" in [entry.text for entry in app.history.entries("python")])


@pytest.mark.parametrize("key", ["enter", "clear"])
async def test_new_draft_starts_at_the_newest_input_in_both_modes(
    pilot: Pilot[None], key: str
) -> None:
    app = app_of(pilot)
    await pilot.press("up", "up")
    app.editor.mode = "ask"
    await pilot.press("up")
    if key == "enter":
        await pilot.press("enter")
    else:
        app.editor.clear()
    app.editor.mode = "python"
    await pilot.press("up")
    assert app.editor.text == "y = 2"


async def test_key_after_up_in_a_bunch_acts_on_the_recalled_input(
    pilot: Pilot[None],
) -> None:
    app = app_of(pilot)
    await press_at_once(
        pilot, "up", "backspace", "3", "enter", "up", "0", "enter", "grave_accent", "up", "enter"
    )
    assert [action for action in app.actions if action[0] == "submitted"] == [
        ("submitted", "python", "y = 3"),
        ("submitted", "python", "y = 30"),
        ("submitted", "ask", "what is x?"),
    ]


async def test_locked_history_does_not_block_keys(pilot: Pilot[None], home: Path) -> None:
    app = app_of(pilot)
    with sqlite3.connect(home / "history.db") as other:
        other.execute("begin immediate")
        await write(pilot, "w = 4\nw")
        assert app.actions == [("submitted", "python", "w = 4")]
        assert app.editor.text == "w"
        await pilot.press("up")
        assert app.editor.text == "w = 4"
    await until(pilot, lambda: "w = 4" in [entry.text for entry in app.history.entries("python")])


async def test_inserted_text_is_clean(pilot: Pilot[None]) -> None:
    app_of(pilot).editor.text = "x\x1b]0;title\x07 = 1\r\ny"
    assert app_of(pilot).editor.text == "x = 1\ny"


async def test_quitting_waits_briefly_for_the_last_input_to_be_written(home: Path) -> None:
    app = EditorApp(home)
    other = sqlite3.connect(home / "history.db", check_same_thread=False)
    other.execute("begin immediate")
    async with app.run_test() as pilot:
        await write(pilot, "last = 1\n")
        threading.Timer(0.3, other.rollback).start()
    assert [entry.text for entry in History(home / "history.db", "a project").entries()] == [
        "last = 1"
    ]
