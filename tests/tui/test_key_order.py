"""Keys that come in a bunch, before what they are for has taken the ones before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.events import Key, Paste
from textual.widgets import Input

from mahtab_tui.tui.app import MahtabApp
from tests.tui.editor_app import until
from tests.tui.story import drawn, story

MakeApp = Callable[..., MahtabApp]


def bunch(app: MahtabApp, *keys: str) -> None:
    """What a slow line brings: one key after the other, and nothing happens in between."""
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else None))


async def test_a_commands_key_acts_after_the_letters_and_the_enter_before_it(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(*story())
    submitted: list[tuple[str, str]] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        monkeypatch.setattr(app.session, "submit", lambda mode, text: submitted.append((mode, text)))
        bunch(app, *"12", "enter", "f2", *"who", "enter", "f2", *"34", "enter")
        await until(pilot, lambda: len(submitted) == 3)
        assert submitted == [("python", "12"), ("ask", "who"), ("python", "34")]


async def test_letters_after_it_go_to_the_screen_that_it_opens(make_app: MakeApp) -> None:
    app = make_app(*story())
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        bunch(app, *"12", "f2", "ctrl+p", *"the")
        app.post_message(Paste("me"))
        bunch(app, *"s")
        await until(pilot, lambda: len(app.screen_stack) == 2 and app.screen.query_one(Input).value == "themes")
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert (app.editor.text, app.editor.mode) == ("12", "ask")


async def test_a_screen_that_closes_at_once_takes_no_key_with_it(make_app: MakeApp) -> None:
    app = make_app(*story())
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        bunch(app, *"1", "ctrl+p", "escape")
        await until(pilot, lambda: app.editor.text == "1" and len(app.screen_stack) == 1)
        await pilot.press("2")
        assert app.editor.text == "12"
