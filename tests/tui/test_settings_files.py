"""Files that the settings screen writes, and its sentence if it cannot."""

from __future__ import annotations

import os
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.tui.screens.settings import SettingsScreen
from tests.tui.editor_app import until, write
from tests.tui.settings_screens import (
    SIZE,
    MakeApp,
    chosen,
    entered,
    opened,
    screen,
    text,
    value,
    wait_for_message,
)
from tests.tui.story import drawn


async def test_setting_is_removed_from_the_file(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await write(pilot, "max_turns")
        await until(pilot, lambda: len(screen(pilot).listing.rows) == 2)
        await pilot.press("ctrl+r")
        await wait_for_message(pilot, "Removed max_turns from the file. It takes effect at once.")
        assert (app.session.settings.max_turns, value(pilot, "max_turns")) == (5, ("5", "default"))
        await pilot.press("ctrl+r")
        await wait_for_message(pilot, "does not set max_turns")


async def test_project_file_is_written_if_chosen(
    make_app: MakeApp, mine: Path, project: Path
) -> None:
    before = mine.read_text()
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        assert text(pilot, ".listing-count") == "written to ~/.mahtab/config.toml"
        await pilot.press("tab")
        assert text(pilot, ".listing-count") == "written to ./.mahtab/config.toml"
        await entered(pilot, "rlm_small", "5")
        await wait_for_message(pilot, "Saved. It takes effect at once.")
        assert (project / ".mahtab" / "config.toml").read_text() == "rlm_small = 5\n"
        await pilot.press("tab")
        await entered(pilot, "rlm_small", "6")
        await wait_for_message(pilot, "overrides it from the next start")
        assert app.session.settings.rlm_small == 6
        assert mine.read_text() != before


async def test_unwritable_file_is_reported_and_the_session_still_changes(
    make_app: MakeApp, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    before = mine.read_text()
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await chosen(pilot, "reload")
        await wait_for_message(pilot, "Changed for this session only; it was not saved.")
        assert (app.session.settings.reload, value(pilot, "reload")) == (
            True,
            ("true", "this session"),
        )
        await chosen(pilot, "share")
        await wait_for_message(pilot, "No space left on device")
        assert app.session.settings.share is True
    assert mine.read_text() == before


async def test_broken_file_is_reported_and_not_touched(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    mine.write_text("a = [\n")
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await wait_for_message(pilot, "not valid TOML")
        await chosen(pilot, "reload")
        await wait_for_message(pilot, "Changed for this session only; it was not saved.")
    assert mine.read_text() == "a = [\n"


async def test_other_broken_file_is_reported_after_the_successful_change(
    make_app: MakeApp, mine: Path, project: Path
) -> None:
    app = make_app()
    other = project / ".mahtab" / "config.toml"
    other.parent.mkdir()
    other.write_text("a = [\n")
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await chosen(pilot, "reload")
        await wait_for_message(
            pilot, f"Saved. It takes effect at once. But {other}: not valid TOML"
        )
        assert tomllib.loads(mine.read_text())["reload"] is True
        await pilot.press("ctrl+r")
        await wait_for_message(
            pilot,
            f"reload from the file, but this session keeps its value. {other}: not valid TOML",
        )
        assert "reload" not in mine.read_text()
        assert app.session.settings.reload is True


async def test_change_finished_after_closing_the_screen_is_reported(
    make_app: MakeApp, mine: Path, may_write: threading.Event
) -> None:
    notifications: list[Any] = []
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        screen(pilot)._notify = lambda *words: notifications.append(words)
        await chosen(pilot, "reload")
        await until(pilot, lambda: app.session.settings.reload)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SettingsScreen))
        may_write.set()
        await until(pilot, lambda: bool(notifications))
    assert notifications == [("Saved. It takes effect at once.", "information")]
    assert tomllib.loads(mine.read_text())["reload"] is True


@pytest.mark.parametrize("command", ["settings", "skills"])
async def test_screen_survives_deletion_of_its_start_folder(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await drawn(pilot)
        folder = tmp_path / "gone"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        notifications: list[str] = []
        monkeypatch.setattr(app, "notify_user", lambda text, *level: notifications.append(text))
        await app.run_action(f"command('{command}')")
        await pilot.pause()
        assert notifications == ["The folder in which the program was started no longer exists."]
