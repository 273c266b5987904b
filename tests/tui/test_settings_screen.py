"""The settings screen."""

from __future__ import annotations

import os
import threading
import tomllib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mahtab_tui.settings.model import Settings
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.screens.choice import ChooseOne
from mahtab_tui.tui.screens.settings import EditSetting, SettingsScreen
from tests.tui.editor_app import (
    screen_text,
    static_text,
    until,
    wait_for_close,
    wait_for_screen,
    write,
)
from tests.tui.scripted_session import MakeApp, notices, sales_records, showing, wait_for_notice
from tests.tui.settings_screens import (
    SIZE,
    chosen,
    entered,
    opened,
    screen,
    value,
    wait_for_message,
    wait_for_problem,
)

SAVED = "Saved. It takes effect at once."


def in_file(path: Path, key: str) -> object:
    return tomllib.loads(path.read_text())[key]


@pytest.fixture
async def pilot(app: MahtabApp) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        yield pilot


def test_settings_screen_snapshot(
    snap_compare: Callable[..., bool],
    make_app: MakeApp,
    user_config: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MAHTAB_RLM_SMALL", "7")

    async def run(pilot: Pilot[int]) -> None:
        await opened(pilot)
        await write(pilot, "rlm")  # new settings of other names do not change the picture
        await until(pilot, lambda: len(screen(pilot).rows) < len(screen(pilot)._entries))
        await pilot.press("down", "down", "down")
        await pilot.pause()

    assert snap_compare(make_app(*sales_records()), terminal_size=(200, 50), run_before=run)


async def test_wrong_value_stays_with_the_reason_below_it(make_app: MakeApp) -> None:
    async with make_app(*sales_records()).run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await entered(pilot, "max_turns", "many")
        await wait_for_problem(pilot, "valid integer")
        rows = [line.strip(" ▌▁▔│") for line in screen_text(pilot).splitlines()]
    start = rows.index("many")
    assert rows[start + 1] == "max_turns: input should be a valid integer, unable to parse"
    assert "Enter saves · empty unsets it · Esc cancels" in rows


async def test_every_setting_is_listed_with_its_source(
    make_app: MakeApp, user_config: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAHTAB_RLM_SMALL", "7")
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        assert {row.key.partition(".")[0] for row in screen(pilot).rows} == set(
            Settings.model_fields
        )
        for key, *row_values in (
            ("max_turns", "9", str(user_config)),
            ("keymap.help", "f11", str(user_config)),
            ("api_keys.openai", "••••••••", str(user_config)),
            ("rlm_small", "7", "MAHTAB_RLM_SMALL"),
            ("model", "demo", "command line"),
            ("approval", "ask", "default"),
        ):
            assert value(pilot, key) == tuple(row_values)
        await pilot.press("escape")
        await wait_for_close(pilot, SettingsScreen)
        await pilot.press("f8", "f12")
        await until(pilot, lambda: isinstance(app.screen, SettingsScreen) and bool(app.screen.rows))
        assert value(pilot, "approval") == ("review", "this session")


def shows_only(pilot: Pilot[int], keys: list[str]) -> bool:
    return [row.key for row in screen(pilot).rows] == keys


async def test_typing_filters_by_key_value_and_description(
    user_config: Path, app: MahtabApp, pilot: Pilot[int]
) -> None:
    for query, keys in (
        ("search concurrency", ["rlm_concurrency"]),
        ("f11", ["keymap.help"]),
        ("[/x]", []),
    ):
        app.screen.query_one(LineInput).value = ""
        await write(pilot, query)
        await until(pilot, partial(shows_only, pilot, keys))
    assert static_text(pilot, ".listing-about") == "No setting matches."
    first_key = screen(pilot).find_rows("MAX")[0].key
    assert first_key == "max_turns", "keys that begin with the search do not come first"


async def test_boolean_is_toggled_and_written(
    user_config: Path, app: MahtabApp, pilot: Pilot[int]
) -> None:
    await chosen(pilot, "reload")
    await wait_for_message(pilot, SAVED)
    assert (app.session.settings.reload, value(pilot, "reload")) == (
        True,
        ("true", str(user_config)),
    )
    await pilot.press("enter")
    await until(
        pilot,
        lambda: in_file(user_config, "reload") is False and not screen(pilot)._saving.locked(),
    )
    assert app.session.settings.reload is False
    assert user_config.read_text().startswith("# Mine\nmax_turns = 9\n")


async def test_choice_opens_a_list(user_config: Path, app: MahtabApp, pilot: Pilot[int]) -> None:
    await chosen(pilot, "approval")
    await until(pilot, lambda: isinstance(app.screen, ChooseOne) and len(app.screen.rows) == 3)
    await pilot.press("down", "enter")
    await wait_for_message(pilot, SAVED)
    assert app.session.info.approval == in_file(user_config, "approval") == "review"
    await chosen(pilot, "theme")
    await until(
        pilot, lambda: isinstance(app.screen, ChooseOne) and "mahtab-day" in app.screen.rows
    )
    await pilot.press("down", "enter")
    await wait_for_message(pilot, SAVED)
    assert app.theme == in_file(user_config, "theme") == "mahtab-day"
    assert value(pilot, "theme")[1].startswith(str(user_config))


async def test_number_and_text_are_validated_before_saving(
    user_config: Path, app: MahtabApp, pilot: Pilot[int]
) -> None:
    await entered(pilot, "max_turns", "0")
    await wait_for_problem(pilot, "greater than or equal to 1")
    assert app.session.settings.max_turns == 9
    await pilot.press("backspace", "3")
    assert static_text(pilot, ".setting-wrong") == ""
    await pilot.press("enter")
    await wait_for_message(pilot, SAVED)
    assert app.session.settings.max_turns == in_file(user_config, "max_turns") == 3
    await entered(pilot, "code_dir", "[/x]missing")
    await wait_for_problem(pilot, "[/x]missing is not a folder")
    await pilot.press("escape")
    await wait_for_screen(pilot, SettingsScreen)
    await entered(pilot, "python", "python3")
    await wait_for_message(pilot, "Saved. It takes effect at the next start.")


async def test_key_is_added_to_the_keymap_and_applies_at_once(
    user_config: Path, app: MahtabApp, pilot: Pilot[int]
) -> None:
    app.screen.query_one(LineInput).value = ""
    await write(pilot, "keymap")
    await until(pilot, lambda: shows_only(pilot, ["keymap.help", "keymap"]))
    await pilot.press("down", "enter")
    await wait_for_screen(pilot, EditSetting)
    await write(pilot, "jmp=f4")
    await pilot.press("enter")
    await wait_for_problem(pilot, "Did you mean jump?")
    app.screen.query_one(LineInput).value = "quit=ctrl+f12"
    await pilot.press("enter")
    await wait_for_message(pilot, SAVED)
    expected = {"help": "f11", "quit": "ctrl+f12"}
    assert in_file(user_config, "keymap") == app.settings.keymap == expected


async def test_secret_is_typed_invisibly_and_written(
    user_config: Path, app: MahtabApp, pilot: Pilot[int]
) -> None:
    await chosen(pilot, "api_keys.openai")
    await wait_for_screen(pilot, EditSetting)
    line = app.screen.query_one(LineInput)
    assert (line.value, line.password) == ("", True)
    await write(pilot, "sk-new")
    await pilot.press("enter")
    await wait_for_message(pilot, "Saved.")
    assert in_file(user_config, "api_keys") == {"openai": "sk-new"}


@pytest.mark.thorough
async def test_empty_value_removes_a_setting_from_the_file(
    user_config: Path, app: MahtabApp, pilot: Pilot[int]
) -> None:
    await entered(pilot, "max_turns", "")
    await wait_for_message(pilot, "Removed max_turns from the file. It takes effect at once.")
    assert (app.session.settings.max_turns, value(pilot, "max_turns")) == (40, ("40", "default"))
    await entered(pilot, "max_turns", "")
    await wait_for_message(pilot, "does not set max_turns")


@pytest.mark.thorough
async def test_overriding_source_is_named(
    make_app: MakeApp, user_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAHTAB_RLM_SMALL", "7")
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        assert static_text(pilot, ".listing-count") == "written to ~/.mahtab/config.toml"
        await entered(pilot, "rlm_small", "6")
        await wait_for_message(pilot, "overrides it from the next start")
        assert app.session.settings.rlm_small == 6


async def test_unwritable_file_is_reported_and_the_session_still_changes(
    user_config: Path, monkeypatch: pytest.MonkeyPatch, app: MahtabApp, pilot: Pilot[int]
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    old_text = user_config.read_text()
    await chosen(pilot, "reload")
    await wait_for_message(pilot, "Changed for this session only; it was not saved.")
    assert app.session.settings.reload
    assert value(pilot, "reload") == ("true", "this session")
    assert "No space left on device" in static_text(pilot, ".listing-said")
    assert user_config.read_text() == old_text


@pytest.mark.thorough
async def test_broken_file_is_reported_and_not_touched(
    make_app: MakeApp, user_config: Path
) -> None:
    app = make_app()
    user_config.write_text("a = [\n")
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await wait_for_message(pilot, "not valid TOML")
        await chosen(pilot, "reload")
        await wait_for_message(pilot, "Changed for this session only; it was not saved.")
    assert user_config.read_text() == "a = [\n"


@pytest.mark.thorough
async def test_change_finished_after_closing_the_screen_is_reported(
    user_config: Path, may_write: threading.Event, app: MahtabApp, pilot: Pilot[int]
) -> None:
    await chosen(pilot, "reload")
    await until(pilot, lambda: app.session.settings.reload)
    await pilot.press("escape")
    await wait_for_close(pilot, SettingsScreen)
    may_write.set()
    await wait_for_notice(pilot, SAVED)
    (notice,) = app._notifications
    assert (notice.message, notice.severity) == (SAVED, "information")
    assert in_file(user_config, "reload") is True


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["settings", "skills"])
async def test_screen_survives_deletion_of_its_start_folder(
    app: MahtabApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    async with showing(app, SIZE) as pilot:
        folder = tmp_path / "gone"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        await app.run_action(f"command('{command}')")
        await pilot.pause()
        words = "The folder in which the program was started no longer exists."
        assert notices(pilot) == [words]


@pytest.mark.thorough
async def test_changes_are_serialised(
    user_config: Path, may_write: threading.Event, app: MahtabApp, pilot: Pilot[int]
) -> None:
    await chosen(pilot, "reload")
    await until(pilot, lambda: app.session.settings.reload)
    await pilot.press("enter")
    await pilot.pause(0.1)
    assert app.session.settings.reload
    may_write.set()
    await until(pilot, lambda: not app.session.settings.reload)
    await until(pilot, lambda: in_file(user_config, "reload") is False)
