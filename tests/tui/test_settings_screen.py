"""All settings on a screen: what is shown, what changes at once, what is written."""

from __future__ import annotations

import os
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.settings import Settings
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.listing import ChooseOne
from mahtab_tui.tui.screens.models import ModelPicker
from mahtab_tui.tui.screens.settings.edit import EditSetting
from mahtab_tui.tui.screens.settings.screen import SettingsScreen
from mahtab_tui.tui.widgets.line import Line
from tests.tui.editor_app import until, write
from tests.tui.story import drawn, story

MakeApp = Callable[..., MahtabApp]
SIZE = (100, 30)


@pytest.fixture
def mine(home: Path) -> Path:
    path = home / ".mahtab" / "config.toml"
    path.parent.mkdir()
    path.write_text('# Mine\nmax_turns = 9\nsub_model = "demo"\n\n[keymap]\nhelp = "f11"\n[api_keys]\nopenai = "sk-secret"\n')
    return path


@pytest.fixture
def may_write(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """No file is written before this is set."""
    told = threading.Event()
    fsync = os.fsync

    def slow(handle: int) -> None:
        told.wait(60)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", slow)
    return told


def screen(pilot: Pilot[int]) -> SettingsScreen:
    found = pilot.app.screen
    assert isinstance(found, SettingsScreen)
    return found


def text(pilot: Pilot[int], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).content)


def value(pilot: Pilot[int], key: str) -> tuple[str, str]:
    """What the list says a setting is, and where that comes from."""
    (row,) = [row for row in screen(pilot)._entries if row.key == key]
    return row.value, row.place.text


async def opened(pilot: Pilot[int]) -> None:
    await drawn(pilot)
    await pilot.press("f12")
    await until(pilot, lambda: isinstance(pilot.app.screen, SettingsScreen) and bool(pilot.app.screen._rows))
    await pilot.pause()


async def chosen(pilot: Pilot[int], key: str) -> None:
    """Filter down to a setting, and press Enter on it."""
    pilot.app.screen.query_one(Line).value = ""
    await write(pilot, key)
    await until(pilot, lambda: bool(screen(pilot)._rows) and screen(pilot)._rows[0].key.startswith(key))
    await pilot.press("enter")


async def said(pilot: Pilot[int], words: str) -> None:
    await until(pilot, lambda: isinstance(pilot.app.screen, SettingsScreen) and words in text(pilot, ".listing-said"))


async def entered(pilot: Pilot[int], key: str, new: str) -> None:
    """Enter a value for a setting that is a text or a number."""
    await chosen(pilot, key)
    await until(pilot, lambda: isinstance(pilot.app.screen, EditSetting))
    line = pilot.app.screen.query_one(Line)
    line.value = ""
    await write(pilot, new)
    await pilot.press("enter")


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_how_it_looks(
    snap_compare: Callable[..., bool], make_app: MakeApp, mine: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setenv("MAHTAB_RLM_SMALL", "7")

    async def run(pilot: Pilot[int]) -> None:
        await opened(pilot)
        await write(pilot, "rlm")  # a picture that does not change with every setting that is new
        await until(pilot, lambda: len(screen(pilot)._rows) < len(screen(pilot)._entries))
        await pilot.press("down", "down", "down")
        await pilot.pause()

    assert snap_compare(make_app(*story()), terminal_size=size, run_before=run)


@pytest.mark.parametrize("theme", ["mahtab", "mahtab-day"])
def test_how_a_wrong_value_looks(snap_compare: Callable[..., bool], make_app: MakeApp, theme: str) -> None:
    async def run(pilot: Pilot[int]) -> None:
        await opened(pilot)
        await entered(pilot, "max_turns", "many")
        await until(pilot, lambda: "valid integer" in text(pilot, ".setting-wrong"))

    assert snap_compare(make_app(*story(), theme=theme), terminal_size=(80, 24), run_before=run)


def test_how_nothing_found_looks(snap_compare: Callable[..., bool], make_app: MakeApp) -> None:
    async def run(pilot: Pilot[int]) -> None:
        await opened(pilot)
        await write(pilot, "zzz")
        await until(pilot, lambda: not screen(pilot)._rows)

    assert snap_compare(make_app(*story()), terminal_size=(80, 24), run_before=run)


async def test_every_setting_is_listed_with_where_it_comes_from(
    make_app: MakeApp, mine: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAHTAB_RLM_SMALL", "7")
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        assert {row.key.partition(".")[0] for row in screen(pilot)._rows} == set(Settings.model_fields)
        assert value(pilot, "max_turns") == ("9", f"{mine}, line 2")
        assert value(pilot, "keymap.help") == ("f11", f"{mine}, line 6")
        assert value(pilot, "api_keys.openai")[0] == "••••••••"
        assert value(pilot, "rlm_small") == ("7", "MAHTAB_RLM_SMALL")
        assert value(pilot, "model") == ("demo", "command line")
        assert value(pilot, "approval") == ("ask", "default")
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SettingsScreen))
        await pilot.press("f8", "f12")
        await until(pilot, lambda: isinstance(app.screen, SettingsScreen) and bool(app.screen._rows))
        assert value(pilot, "approval") == ("auto", "this session")


async def test_typing_filters_by_key_value_and_description(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        for wanted, found in (("search concurrency", ["rlm_concurrency"]), ("f11", ["keymap.help"]), ("[/x]", [])):
            app.screen.query_one(Line).value = ""
            await write(pilot, wanted)
            await until(pilot, lambda found=found: [row.key for row in screen(pilot)._rows] == found)  # type: ignore[misc]
        assert text(pilot, ".listing-about") == "No setting has this in it."
        assert screen(pilot).rows("MAX")[0].key == "max_turns", "what begins so is first, though others are before it"


async def test_a_boolean_is_toggled_and_written(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await chosen(pilot, "reload")
        await said(pilot, "Written. It holds at once.")
        assert (app.session.settings.reload, value(pilot, "reload")) == (True, ("true", f"{mine}, line 4"))
        await pilot.press("enter")
        await until(pilot, lambda: tomllib.loads(mine.read_text())["reload"] is False and not screen(pilot)._one_at_a_time.locked())
        assert app.session.settings.reload is False
        assert mine.read_text().startswith("# Mine\nmax_turns = 9\n")


async def test_changes_wait_for_each_other(make_app: MakeApp, mine: Path, may_write: threading.Event) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await chosen(pilot, "reload")
        await until(pilot, lambda: app.session.settings.reload)
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert app.session.settings.reload
        may_write.set()
        await until(pilot, lambda: not app.session.settings.reload and "reload = false" in mine.read_text())


async def test_a_choice_is_a_list(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await chosen(pilot, "approval")
        await until(pilot, lambda: isinstance(app.screen, ChooseOne) and len(app.screen._rows) == 2)
        await pilot.press("down", "enter")
        await said(pilot, "Written. It holds at once.")
        assert (app.session.approval, tomllib.loads(mine.read_text())["approval"]) == ("auto", "auto")
        await chosen(pilot, "theme")
        await until(pilot, lambda: isinstance(app.screen, ChooseOne) and "mahtab-day" in app.screen._rows)
        await pilot.press("down", "enter")
        await said(pilot, "Written. It holds at once.")
        assert (app.theme, tomllib.loads(mine.read_text())["theme"]) == ("mahtab-day", "mahtab-day")
        assert value(pilot, "theme")[1].startswith(f"{mine}, line "), "no longer the command line's"


async def test_a_number_and_a_text_are_checked_before_they_are_taken(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await entered(pilot, "max_turns", "0")
        await until(pilot, lambda: "greater than or equal to 1" in text(pilot, ".setting-wrong"))
        assert app.session.settings.max_turns == 9
        await pilot.press("backspace", "3")
        assert text(pilot, ".setting-wrong") == ""
        await pilot.press("enter")
        await said(pilot, "Written. It holds at once.")
        assert (app.session.settings.max_turns, tomllib.loads(mine.read_text())["max_turns"]) == (3, 3)
        await entered(pilot, "code_dir", "[/x]missing")
        await until(pilot, lambda: "[/x]missing is not a folder" in text(pilot, ".setting-wrong"))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, SettingsScreen))
        await entered(pilot, "python", "python3")
        await said(pilot, "Written. It holds from the next start.")


async def test_a_model_is_picked(make_app: MakeApp, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await chosen(pilot, "reflection_model")
        await until(pilot, lambda: isinstance(app.screen, ModelPicker) and bool(app.screen._rows))
        await write(pilot, "demo")
        await until(pilot, lambda: isinstance(app.screen, ModelPicker) and app.screen._rows[0].spec == "demo")
        await pilot.press("enter")
        await said(pilot, "Written. It holds at once.")
        assert tomllib.loads(mine.read_text())["reflection_model"] == "demo"
        assert app.session.settings.reflection_model == "demo"


async def test_a_key_is_added_to_the_keymap_and_holds_at_once(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        app.screen.query_one(Line).value = ""
        await write(pilot, "keymap")
        await until(pilot, lambda: [row.key for row in screen(pilot)._rows] == ["keymap.help", "keymap"])
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, EditSetting))
        await write(pilot, "jmp=f4")
        await pilot.press("enter")
        await until(pilot, lambda: "Did you mean jump?" in text(pilot, ".setting-wrong"))
        app.screen.query_one(Line).value = "quit=ctrl+f12"
        await pilot.press("enter")
        await said(pilot, "Written. It holds at once.")
        assert tomllib.loads(mine.read_text())["keymap"] == {"help": "f11", "quit": "ctrl+f12"}
        assert app.keymap_given == {"help": "f11", "quit": "ctrl+f12"}


async def test_a_secret_is_typed_unseen_and_written(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await chosen(pilot, "api_keys.openai")
        await until(pilot, lambda: isinstance(app.screen, EditSetting))
        line = app.screen.query_one(Line)
        assert (line.value, line.password) == ("", True)
        await write(pilot, "sk-new")
        await pilot.press("enter")
        await said(pilot, "Written.")
        assert tomllib.loads(mine.read_text())["api_keys"] == {"openai": "sk-new"}


async def test_a_setting_is_taken_out_of_the_file_again(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await write(pilot, "max_turns")
        await until(pilot, lambda: len(screen(pilot)._rows) == 2)
        await pilot.press("ctrl+r")
        await said(pilot, "max_turns is no longer in the file. It holds at once.")
        assert (app.session.settings.max_turns, value(pilot, "max_turns")) == (5, ("5", "default"))
        await pilot.press("ctrl+r")
        await said(pilot, "does not set max_turns")


async def test_the_projects_file_is_written_where_it_was_chosen(make_app: MakeApp, mine: Path, project: Path) -> None:
    before = mine.read_text()
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        assert text(pilot, ".listing-count") == "written to ~/.mahtab/config.toml"
        await pilot.press("tab")
        assert text(pilot, ".listing-count") == "written to ./.mahtab/config.toml"
        await entered(pilot, "rlm_small", "5")
        await said(pilot, "Written. It holds at once.")
        assert (project / ".mahtab" / "config.toml").read_text() == "rlm_small = 5\n"
        await pilot.press("tab")
        await entered(pilot, "rlm_small", "6")
        await said(pilot, "wins over it from the next start")
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
        await said(pilot, "This session follows, but it is not kept.")
        assert (app.session.settings.reload, value(pilot, "reload")) == (True, ("true", "this session"))
        await chosen(pilot, "share")
        await said(pilot, "No space left on device")
        assert app.session.settings.share is True
    assert mine.read_text() == before


async def test_a_file_that_became_wrong_is_said_and_not_touched(make_app: MakeApp, mine: Path) -> None:
    app = make_app()
    mine.write_text("a = [\n")
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await said(pilot, "this is not TOML")
        await chosen(pilot, "reload")
        await said(pilot, "This session follows, but it is not kept.")
    assert mine.read_text() == "a = [\n"


async def test_another_file_that_became_wrong_is_said_after_what_was_done(make_app: MakeApp, mine: Path, project: Path) -> None:
    app = make_app()
    other = project / ".mahtab" / "config.toml"
    other.parent.mkdir()
    other.write_text("a = [\n")
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        await chosen(pilot, "reload")
        await said(pilot, f"Written. It holds at once. But {other}: this is not TOML")
        assert tomllib.loads(mine.read_text())["reload"] is True
        await pilot.press("ctrl+r")
        await said(pilot, f"reload is no longer in the file, but this session goes on as before. {other}: this is not TOML")
        assert "reload" not in mine.read_text()
        assert app.session.settings.reload is True


async def test_a_change_that_ends_when_the_screen_was_left_is_told(make_app: MakeApp, mine: Path, may_write: threading.Event) -> None:
    told: list[Any] = []
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await opened(pilot)
        screen(pilot)._tell = lambda *words: told.append(words)
        await chosen(pilot, "reload")
        await until(pilot, lambda: app.session.settings.reload)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SettingsScreen))
        may_write.set()
        await until(pilot, lambda: bool(told))
    assert told == [("Written. It holds at once.", "information")]
    assert tomllib.loads(mine.read_text())["reload"] is True


@pytest.mark.parametrize("action", ["settings", "skills"])
async def test_without_the_folder_that_it_was_started_in_the_screen_goes_on(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
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
        await app.run_action(action)
        await pilot.pause()
        assert told == ["The folder that the program was started in is no longer there."]
