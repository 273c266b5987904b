"""Vi's keys in the editor."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.document._document import Selection
from textual.pilot import Pilot

from tests.tui.editor_app import EditorApp, HelpWith, app_of, screen_text, until, write
from tests.tui.scripted_session import MakeApp, showing
from tests.tui.test_completion import Kernel

TEXT = "total = sum(prices)\nprint(total)"


@pytest.fixture
def app(home: Path) -> EditorApp:
    return EditorApp(home)


async def edit(pilot: Pilot[None], text: str = TEXT) -> None:
    """Put a text into the editor with Vi's keys, and go to its start in normal mode."""
    app = app_of(pilot)
    await until(pilot, lambda: app.area.has_focus)
    app.editor.keys = "vim"
    app.editor.text = text
    app.area.move_cursor((0, 0))
    await pilot.press("escape")


def entered(app: EditorApp) -> list[str]:
    return [action[-1] for action in app.actions if action[0] == "submitted"]


async def test_text_is_typed_at_once_and_escape_begins_commands(app: EditorApp) -> None:
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.area.has_focus)
        app.editor.keys = "vim"
        await write(pilot, "dd")
        assert app.area.text == "dd"
        await pilot.press("escape", *"xi", *"ii")
        assert app.area.text == "iid"


async def test_joined_keys_are_commands_until_one_begins_insert_mode(app: EditorApp) -> None:
    async with app.run_test() as pilot:
        await edit(pilot)
        await write(pilot, "dwcwx_ ")
        assert app.area.text == "x_  sum(prices)\nprint(total)"


async def test_the_mode_is_shown_in_words(app: EditorApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await edit(pilot)
        hints = []
        for keys in ("", "2d", "escape", "v", "escape", "/", "escape", "i"):
            await pilot.press(*([keys] if keys == "escape" else keys))
            await pilot.pause()
            hint = screen_text(pilot).rstrip().splitlines()[-1].split("Python")[0]
            hints.append(hint.strip())
        assert hints == "normal|normal 2d|normal|visual|normal|search /|normal|insert".split("|")
        app.editor.keys = "standard"
        await pilot.pause()
        assert "insert" not in screen_text(pilot)


async def test_undo_and_redo_are_those_of_the_editor(app: EditorApp) -> None:
    async with app.run_test() as pilot:
        await edit(pilot)
        await pilot.press(*"dddd")
        assert app.area.text == ""
        await pilot.press(*"2u")
        assert app.area.text == TEXT
        await pilot.press("ctrl+r")
        assert app.area.text == "print(total)"


async def test_visual_mode_selects_what_its_command_acts_on(app: EditorApp) -> None:
    async with app.run_test() as pilot:
        await edit(pilot)
        await pilot.press(*"vll")
        # The character at the cursor is drawn as the cursor.
        assert app.area.selected_text == "to"
        await pilot.press("d")
        assert app.area.text.startswith("al =")
        await pilot.press(*"Vj")
        assert app.area.selected_text == app.area.text
        await pilot.press("d")
        assert app.area.text == ""


async def test_a_selection_of_the_mouse_is_one_of_visual_mode(app: EditorApp) -> None:
    async with app.run_test() as pilot:
        await edit(pilot)
        app.area.selection = Selection((0, 0), (0, 5))
        await pilot.press("d")
        assert app.area.text.startswith(" = sum")


@pytest.mark.parametrize("mode", ["insert", "normal"])
async def test_enter_submits_and_the_next_input_is_typed(app: EditorApp, mode: str) -> None:
    async with app.run_test() as pilot:
        await edit(pilot, "x = 1")
        if mode == "insert":
            await pilot.press("A")
        await pilot.press("enter", *"dd")
        await pilot.pause()
        assert entered(app) == ["x = 1"]
        assert app.area.text == "dd"


async def test_a_count_does_not_repeat_what_is_typed_in_the_next_input(app: EditorApp) -> None:
    async with app.run_test() as pilot:
        await edit(pilot, "")
        await pilot.press(*"3ix", "escape", "enter", *"#hello", "escape")
        await pilot.pause()
        assert entered(app) == ["xxx"]
        assert app.area.text == "#hello"


async def test_a_repetition_before_any_change_does_nothing(app: EditorApp) -> None:
    async with app.run_test() as pilot:
        await edit(pilot)
        await pilot.press(*"5.", *"3.", "r", "escape", "x")
        assert app.area.text == TEXT[1:]


async def test_enter_submits_in_normal_mode_only_if_that_is_set(app: EditorApp) -> None:
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.area.has_focus)
        app.editor.keys = "vim-multiline"
        await write(pilot, "x = 1")
        await pilot.press("enter")
        assert app.area.text == "x = 1\n"
        assert "Escape, then Enter, runs" in screen_text(pilot)
        await pilot.press("escape", "enter")
        await pilot.pause()
        assert entered(app) == ["x = 1"]


async def test_backtick_at_the_start_changes_the_mode_but_not_within_a_command(
    app: EditorApp,
) -> None:
    async with app.run_test() as pilot:
        await edit(pilot, "a `b` c")
        await pilot.press("`", "d", "f", "`")
        assert app.area.text == "b` c"
        app.editor.keys = "standard"
        app.area.move_cursor((0, 0))
        await pilot.press("`")
        await pilot.pause()
        changes = [action for action in app.actions if action[0] == "mode"]
        assert changes == [("mode", "ask"), ("mode", "python")]


async def test_escape_stops_what_runs_only_in_an_empty_editor(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    async with showing(app) as pilot:
        stops: list[bool] = []
        monkeypatch.setattr(app.command_context.interrupter, "stop", lambda: stops.append(True))
        app.editor.keys = "vim"
        await write(pilot, "text")
        await pilot.press("escape", "escape", "escape")
        assert stops == []
        await pilot.press("d", "d", "escape")
        await pilot.pause()
        assert stops == [True]


async def test_lines_above_and_below_the_text_are_other_inputs(app: EditorApp) -> None:
    async with app.run_test() as pilot:
        await edit(pilot, "first")
        await pilot.press("enter", *"second", "enter", "escape")
        await pilot.press("k")
        assert app.area.text == "second"
        await pilot.press("k")
        assert app.area.text == "first"
        await pilot.press("j")
        assert app.area.text == "second"


async def test_escape_closes_the_completions_and_leaves_insert_mode(home: Path) -> None:
    app = EditorApp(home, input_help=HelpWith(Kernel().complete))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.area.has_focus)
        app.editor.keys = "vim"
        await write(pilot, "total = sum(pri")
        await until(pilot, lambda: app.editor._completions.is_open)
        await pilot.press("escape", "x")
        assert not app.editor._completions.is_open
        assert app.area.text == "total = sum(pr"


async def test_the_setting_holds_from_the_start_and_changes_at_once(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAHTAB_KEYS", "vim")
    app = make_app()
    async with showing(app) as pilot:
        await write(pilot, "x = 1")
        await pilot.press("escape", "X")
        assert app.editor.text == "x =1"
        assert app.settings.change("keys", "standard")
        await write(pilot, "X")
        assert "X" in app.editor.text
