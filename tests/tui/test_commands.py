"""The one registry of what a person can do, and what is made from it: keys, help, palette, slash
commands."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.commands.on_screens import PANE_COMMANDS, PANE_KEYS
from mahtab_tui.tui.commands.registry import COMMANDS
from mahtab_tui.tui.screens.dialog import Confirm
from mahtab_tui.tui.screens.help import HelpScreen, help_rows
from tests.tui.editor_app import until
from tests.tui.story import drawn, story

MakeApp = Callable[..., MahtabApp]


async def help_text(pilot: Pilot[int]) -> str:
    await pilot.press("f1")
    await until(
        pilot,
        lambda: (
            isinstance(pilot.app.screen, HelpScreen) and bool(pilot.app.screen.query("#help-rows"))
        ),
    )
    return str(pilot.app.screen.query_one("#help-rows", Static).content)


async def test_f1_in_the_session_list_shows_its_keys(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        app.action_command("sessions")
        await until(pilot, lambda: bool(app.screen.query(".listing")))
        assert (await help_text(pilot)).startswith("Sessions\n")


def palette_rows(pilot: Pilot[int]) -> list[str]:
    if not isinstance(pilot.app.screen, CommandPalette):
        return []
    return [str(option.prompt) for option in pilot.app.screen.query_one(OptionList).options]


def test_no_two_commands_have_the_same_id_or_slash_name() -> None:
    names = [*(command.id for command in COMMANDS), *(command.id for command in PANE_COMMANDS)]
    assert len(set(names)) == len(names)
    slashes = [command.slash for command in COMMANDS if command.slash]
    assert len(set(slashes)) == len(slashes)


def test_no_alt_letter_key_is_mistaken_for_another() -> None:
    keys = [
        *(command.keys for command in COMMANDS),
        *(command.keys for command in PANE_COMMANDS),
        *(row.keys for row in PANE_KEYS),
    ]
    letters = re.findall(r"\balt\+(\w)\b", " ".join(keys))
    assert letters
    # What most terminals send for Alt+F, Textual knows as Ctrl+Right.
    assert not {f"\x1b{letter}" for letter in letters} & ANSI_SEQUENCES_KEYS.keys()


async def test_help_lists_every_command_with_its_key_and_every_key_of_a_pane(
    make_app: MakeApp,
) -> None:
    app = make_app()
    app.settings.keymap = {"toggle-mode": "f12"}
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        shown = await help_text(pilot)
        lines, words = shown.splitlines(), " ".join(shown.split())
        for command in COMMANDS:
            assert f"{command.title}: {command.help}" in words  # it may go on in the next line
            (row,) = [line for line in lines if f" {command.title}: {command.help[:10]}" in line]
            key = "f12" if command.id == "toggle-mode" else command.keys.replace(",", ", ")
            assert row.split()[0].startswith(
                key.split(",")[0] or ("/" if command.slash else "palette")
            )
            assert not command.slash or f"/{command.slash}" in row
        for pane_row in PANE_KEYS:
            assert pane_row.help in words
            assert any(pane_row.keys in line and pane_row.help[:10] in line for line in lines)


async def test_typing_in_the_help_filters_its_rows(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await help_text(pilot)
        await pilot.press(*"interpreter")
        rows = " ".join(str(app.screen.query_one("#help-rows", Static).content).split())
        assert "Interpreter: Choose the kernel's Python" in rows
        assert "Search history" not in rows
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, HelpScreen))
        assert app.editor.is_empty


async def test_the_palette_lists_every_command_with_its_key(make_app: MakeApp) -> None:
    app = make_app()
    app.settings.keymap = {"toggle-mode": "f12"}
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: len(palette_rows(pilot)) >= len(COMMANDS))
        rows = palette_rows(pilot)
        for command in COMMANDS:
            key = "f12" if command.id == "toggle-mode" else command.keys
            assert any(
                row.startswith(f"{command.title}  {key}" if key else command.title)
                and command.help in row
                for row in rows
            ), command.id


@pytest.mark.parametrize("theme", ["mahtab-day", "nord"])
async def test_theme_chosen_by_name_is_saved_for_the_next_start(
    make_app: MakeApp, theme: str
) -> None:
    app = make_app(theme="")
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await pilot.press("f2", *f"/theme {theme}", "enter")
        await until(pilot, lambda: app.theme == theme)
    app.ui_state.save()
    again = make_app(theme="")
    async with again.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        assert again.theme == theme
        assert again.current_theme.dark == (theme == "nord")


@pytest.mark.parametrize("theme", ["nord", "textual-light", "dracula", "ansi-dark", "ansi-light"])
async def test_every_theme_of_textual_draws_the_screen(make_app: MakeApp, theme: str) -> None:
    app = make_app(*story(), theme=theme)
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        assert app.theme == theme
        await pilot.press("f1", "escape", "f2")


async def test_users_key_overrides_another_commands(
    make_app: MakeApp,
) -> None:
    app = make_app()
    app.settings.keymap = {"reset": "ctrl+r", "history-search": "f12"}
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: type(app.screen).__name__ == "Confirm")
        await pilot.press("escape", "f12")
        await until(pilot, lambda: type(app.screen).__name__ == "HistorySearch")


def test_keys_are_named_as_on_the_keyboard() -> None:
    shown = [
        keys
        for _, keys, _ in help_rows(
            COMMANDS, {"help": "slash,f1", "quit": "full_stop,ctrl+q,space"}
        )
    ]
    assert "/, f1  /help TOPIC" in shown
    assert "., ctrl+q, space  /quit" in shown


async def test_palette_looks_like_our_dialogs(make_app: MakeApp) -> None:
    app = make_app(*story())
    async with app.run_test(size=(120, 35)) as pilot:
        await drawn(pilot)
        await pilot.press("f1")
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, HelpScreen)
                and bool(app.screen.query(".dialog").first().region)
            ),
        )
        dialog = app.screen.query(".dialog").first()
        ground, width = dialog.background_colors[1], dialog.region.width
        await pilot.press("escape", "ctrl+p")
        await until(pilot, lambda: bool(palette_rows(pilot)))
        rows = app.screen.query_one(OptionList)
        assert rows.background_colors[1] == ground
        await until(pilot, lambda: app.screen.query_one("#--input").region.width == width)


async def test_unresponsive_cell_gets_a_hint_that_stopping_again_kills(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.tui.app.REACTION_S", 0.01)
    app = make_app(*story())
    runs = True
    monkeypatch.setattr(type(app.session), "cell_runs", property(lambda session: runs))
    monkeypatch.setattr(app.session, "stop", lambda: "cell")
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await pilot.press("escape")
        await until(
            pilot,
            lambda: any(
                "to kill the kernel" in notification.message for notification in app._notifications
            ),
        )
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        app.clear_notifications()
        monkeypatch.setattr(app.command_context.interrupter, "_last_stop", 0.0)
        runs = False
        app.command_context.interrupter.stop()
        await pilot.pause(0.1)
        assert not app._notifications, "a cell that has stopped is not to be killed"
