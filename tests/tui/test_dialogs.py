"""Dialogs are answered once, whatever comes in one bunch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.jumper import JumpScreen
from mahtab_tui.tui.screens.confirm import Confirm
from mahtab_tui.tui.screens.dialog import Dialog
from mahtab_tui.tui.screens.help import HelpScreen
from mahtab_tui.tui.screens.prompt import Prompt
from tests.tui.editor_app import press_at_once, until


@pytest.mark.parametrize(
    ("key", "opened"),
    [("ctrl+o", JumpScreen), ("f1", HelpScreen), ("f9", Confirm)],
)
async def test_keys_that_come_in_a_bunch_close_a_dialog_once(make_app: Callable[..., MahtabApp], key: str, opened: type[Dialog[object]]) -> None:
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
    said: list[str | None] = []
    async with app.run_test() as pilot:
        await pilot.pause()
        dialog = Prompt("What?")
        await app.push_screen(dialog, said.append)
        dialog.dismiss("one")
        dialog.dismiss("two")
        await until(pilot, lambda: len(app.screen_stack) == 1 and bool(said))
        await pilot.pause()
        assert said == ["one"]
