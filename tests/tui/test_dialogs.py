"""Dialogs are answered once, whatever comes in one bunch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.style import Style
from textual.command import CommandList, CommandPalette
from textual.css.query import NoMatches
from textual.events import Click, MouseDown
from textual.geometry import Offset
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.worker import WorkerFailed

from mahtab_tui.store.history import HistoryEntry
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.option_list import SafeCommandPalette
from mahtab_tui.tui.palette import JumpScreen
from mahtab_tui.tui.screens.dialog import Confirm, Dialog, EditQuery, Prompt
from mahtab_tui.tui.screens.help import HelpScreen
from mahtab_tui.tui.screens.listing import ChooseOne, HistorySearch
from tests.tui.editor_app import press_at_once, until


@pytest.mark.parametrize(
    ("key", "opened"),
    [("ctrl+o", JumpScreen), ("f1", HelpScreen), ("f9", Confirm)],
)
async def test_bunched_keys_close_a_dialog_once(
    make_app: Callable[..., MahtabApp], key: str, opened: type[Dialog[object]]
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, opened))
        await press_at_once(pilot, "escape", "escape", "escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.pause()
        assert app.is_running


async def test_a_dialog_is_dismissed_once(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app()
    results: list[str | None] = []
    async with app.run_test() as pilot:
        await pilot.pause()
        dialog = Prompt("What?")
        await app.push_screen(dialog, results.append)
        dialog.dismiss("one")
        dialog.dismiss("two")
        await until(pilot, lambda: len(app.screen_stack) == 1 and bool(results))
        await pilot.pause()
        assert results == ["one"]


@pytest.mark.parametrize(
    ("keys", "opened"),
    [
        (["f1", "f9"], HelpScreen),
        (["f9", "f1", "f9", "ctrl+p"], Confirm),
        (["ctrl+r", "ctrl+r", "ctrl+p"], HistorySearch),
        (["ctrl+p", "f1", "ctrl+p"], SafeCommandPalette),
    ],
)
async def test_no_key_opens_another_screen_over_a_dialog(
    make_app: Callable[..., MahtabApp], keys: list[str], opened: type[Screen[object]]
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        await press_at_once(pilot, *keys)
        assert [type(screen) for screen in app.screen_stack[1:]] == [opened]


async def test_help_key_closes_the_help(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        await press_at_once(pilot, "f1", "f1")
        await until(pilot, lambda: len(app.screen_stack) == 1)


async def test_ctrl_c_in_a_dialog_leaves_the_input_below_it(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        app.editor.text = "kept"
        await app.push_screen(Prompt("What?", "a value"))
        await pilot.press("ctrl+c")
        assert app.editor.text == "kept"
        app.screen.query_one(Input).select_all()
        await pilot.press("ctrl+c")
        assert app.clipboard == "a value"


@pytest.mark.parametrize(
    "dialog",
    [lambda: Confirm("Really?", yes="Yes", no="No"), lambda: EditQuery("why?")],
    ids=["confirm", "query"],
)
async def test_quitting_while_a_dialog_opens_quits(
    make_app: Callable[..., MahtabApp], dialog: Callable[[], Dialog[object]]
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        app.push_screen(dialog())
        app.exit(0)
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0


async def test_two_clicks_outside_the_palette_close_it_once(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        palette = app.screen
        for _ in range(2):
            palette.post_message(Click(palette, 0, 0, 0, 0, 1, False, False, False, 0, 0))
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.pause()
        assert app.is_running


async def test_click_beyond_the_screen_leaves_the_palette_open(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        app.screen.post_message(Click(app.screen, 0, 0, 0, 0, 1, False, False, False, 5_000, 5_000))
        await pilot.pause()
        assert app.is_running
        assert isinstance(app.screen, CommandPalette)


async def test_press_on_a_vanished_widget_is_ignored(
    make_app: Callable[..., MahtabApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        gone = Static("gone")
        with monkeypatch.context() as patch:
            patch.setattr(
                Screen, "get_widget_and_offset_at", lambda screen, x, y: (gone, Offset(0, 0))
            )
            app.post_message(
                MouseDown(None, 5, 5, 0, 0, 1, False, False, False, 5, 5)
            )  # as the driver does it
            await pilot.pause()
        assert app.is_running


async def test_late_events_of_a_closing_palette_do_not_crash(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press("ctrl+p")
        await until(
            pilot,
            lambda: isinstance(app.screen, CommandPalette) and bool(app.screen.query(CommandList)),
        )
        palette = app.screen
        assert isinstance(palette, CommandPalette)
        await palette.query(CommandList).remove()
        palette._list_visible, palette._show_busy = not palette._list_visible, True
        await pilot.pause()
        assert app.is_running


async def test_page_key_in_a_palette_without_room_does_nothing(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press("ctrl+p")
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, CommandPalette)
                and app.screen.query_one(CommandList).option_count > 0
            ),
        )
        commands = app.screen.query_one(CommandList)
        commands.styles.max_height = 0
        commands.styles.height = 0
        await until(pilot, lambda: not commands.size)
        commands.set_options(["one", "two"])
        commands.highlighted = 0
        await press_at_once(pilot, "pagedown", "pageup")
        await pilot.pause()
        assert app.is_running


async def test_history_entry_chosen_during_shutdown_is_dropped(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press("ctrl+r")
        await until(pilot, lambda: isinstance(app.screen, HistorySearch))
        chosen = app.screen._result_callbacks[-1].callback
        assert chosen is not None
        app.exit(0)
    chosen(HistoryEntry("6 * 7", "python", "/", 0.0))
    assert app.return_code == 0


async def test_click_on_a_vanished_option_is_ignored(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await app.push_screen(ChooseOne("Which?", ["one", "two"], "two"))
        options = app.screen.query_one(OptionList)
        await until(pilot, lambda: options.option_count == 2)
        style = Style(meta={"option": 1})
        await pilot.press(*"one")
        await until(pilot, lambda: options.option_count == 1)
        options.post_message(Click(options, 0, 0, 0, 0, 1, False, False, False, 0, 0, style))
        await pilot.pause()
        assert app.is_running
        assert isinstance(app.screen, ChooseOne)


async def test_press_after_all_screens_closed_is_ignored(
    make_app: Callable[..., MahtabApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        with monkeypatch.context() as patch:
            patch.setitem(app._screen_stacks, app._current_mode, [])
            await app.on_event(MouseDown(None, 5, 5, 0, 0, 1, False, False, False, 5, 5))
        assert app.is_running


@pytest.mark.parametrize("wrapped", [False, True])
async def test_missing_widgets_during_shutdown_do_not_crash(
    make_app: Callable[..., MahtabApp], wrapped: bool
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        missing = NoMatches("No nodes match 'OptionList'")
        app.exit(0)
        app._handle_exception(WorkerFailed(missing) if wrapped else missing)
    assert (app.crash, app.return_code) == (None, 0)
