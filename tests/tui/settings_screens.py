"""Helpers for tests of the settings screen."""

from __future__ import annotations

from textual.pilot import Pilot

from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.screens.settings import EditSetting, SettingsScreen
from tests.tui.editor_app import static_text, until, wait_for_screen, write
from tests.tui.scripted_session import drawn

SIZE = (100, 30)


def screen(pilot: Pilot[int]) -> SettingsScreen:
    assert isinstance(pilot.app.screen, SettingsScreen)
    return pilot.app.screen


def value(pilot: Pilot[int], key: str) -> tuple[str, str]:
    (row,) = [row for row in screen(pilot)._entries if row.key == key]
    return row.value, row.origin.text


async def opened(pilot: Pilot[int]) -> None:
    await drawn(pilot)
    await pilot.press("f12")
    settings_screen = await wait_for_screen(pilot, SettingsScreen)
    await until(pilot, lambda: bool(settings_screen.rows))
    await pilot.pause()


async def chosen(pilot: Pilot[int], key: str) -> None:
    pilot.app.screen.query_one(LineInput).value = ""
    await write(pilot, key)
    await until(
        pilot, lambda: bool(screen(pilot).rows) and screen(pilot).rows[0].key.startswith(key)
    )
    await pilot.press("enter")


async def wait_for_message(pilot: Pilot[int], words: str) -> None:
    await wait_for_screen(pilot, SettingsScreen)
    await until(pilot, lambda: words in static_text(pilot, ".listing-said"))


async def wait_for_problem(pilot: Pilot[int], words: str) -> None:
    await until(pilot, lambda: words in static_text(pilot, ".setting-wrong"))


async def entered(pilot: Pilot[int], key: str, new: str) -> None:
    await chosen(pilot, key)
    await wait_for_screen(pilot, EditSetting)
    line = pilot.app.screen.query_one(LineInput)
    line.value = ""
    await write(pilot, new)
    await pilot.press("enter")
