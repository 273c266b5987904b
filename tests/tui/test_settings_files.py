"""Files that the settings screen writes, and its sentence if it cannot."""

from __future__ import annotations

import os
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.tui.screens.settings.screen import SettingsScreen
from tests.tui.editor_app import until, write
from tests.tui.settings_screens import (
    SIZE,
    MakeApp,
    chosen,
    entered,
    opened,
    said,
    screen,
    text,
    value,
)
from tests.tui.story import drawn


async def test_a_setting_is_taken_out_of_the_file_again(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await write(pilot, "max_turns")
        await until(pilot, lambda: len(screen(pilot).listing.rows) == 2)
        await pilot.press("ctrl+r")
        await said(pilot, "Removed max_turns from the file. It takes effect at once.")
        assert (app.session.settings.max_turns, value(pilot, "max_turns")) == (5, ("5", "default"))
        await pilot.press("ctrl+r")
        await said(pilot, "does not set max_turns")


async def test_the_projects_file_is_written_where_it_was_chosen(
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
        await said(pilot, "Saved. It takes effect at once.")
        assert (project / ".mahtab" / "config.toml").read_text() == "rlm_small = 5\n"
        await pilot.press("tab")
        await entered(pilot, "rlm_small", "6")
        await said(pilot, "overrides it from the next start")
        assert app.session.settings.rlm_small == 6
        assert mine.read_text() != before


async def test_a_file_that_cannot_be_written_is_said_and_the_session_follows_where_it_can(
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
        await said(pilot, "Changed for this session only; it was not saved.")
        assert (app.session.settings.reload, value(pilot, "reload")) == (
            True,
            ("true", "this session"),
        )
        await chosen(pilot, "share")
        await said(pilot, "No space left on device")
        assert app.session.settings.share is True
    assert mine.read_text() == before


async def test_a_file_that_became_wrong_is_said_and_not_touched(
    make_app: MakeApp, mine: Path
) -> None:
    app = make_app()
    mine.write_text("a = [\n")
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await said(pilot, "not valid TOML")
        await chosen(pilot, "reload")
        await said(pilot, "Changed for this session only; it was not saved.")
    assert mine.read_text() == "a = [\n"


async def test_another_file_that_became_wrong_is_said_after_what_was_done(
    make_app: MakeApp, mine: Path, project: Path
) -> None:
    app = make_app()
    other = project / ".mahtab" / "config.toml"
    other.parent.mkdir()
    other.write_text("a = [\n")
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await chosen(pilot, "reload")
        await said(pilot, f"Saved. It takes effect at once. But {other}: not valid TOML")
        assert tomllib.loads(mine.read_text())["reload"] is True
        await pilot.press("ctrl+r")
        await said(
            pilot,
            f"reload from the file, but this session keeps its value. {other}: not valid TOML",
        )
        assert "reload" not in mine.read_text()
        assert app.session.settings.reload is True


async def test_a_change_that_ends_when_the_screen_was_left_is_told(
    make_app: MakeApp, mine: Path, may_write: threading.Event
) -> None:
    told: list[Any] = []
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        screen(pilot)._notify = lambda *words: told.append(words)
        await chosen(pilot, "reload")
        await until(pilot, lambda: app.session.settings.reload)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SettingsScreen))
        may_write.set()
        await until(pilot, lambda: bool(told))
    assert told == [("Saved. It takes effect at once.", "information")]
    assert tomllib.loads(mine.read_text())["reload"] is True


@pytest.mark.parametrize("command", ["settings", "skills"])
async def test_without_the_folder_that_it_was_started_in_the_screen_goes_on(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await drawn(pilot)
        folder = tmp_path / "gone"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        told: list[str] = []
        monkeypatch.setattr(app, "tell", lambda text, *level: told.append(text))
        await app.run_action(f"command('{command}')")
        await pilot.pause()
        assert told == ["The folder in which the program was started no longer exists."]
