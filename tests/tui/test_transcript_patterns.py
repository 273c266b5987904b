"""The transcript searched by regular expressions."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui import find
from mahtab_tui.tui.find import TOO_SLOW, FindRow
from tests.tui.editor_app import until
from tests.tui.test_transcript_keys import KeysApp, marked
from tests.tui.transcript_app import SIZE, cell


def count_text(pilot: Pilot[None]) -> str:
    return str(pilot.app.query_one("#find-count", Static).content)


def title(pilot: Pilot[None]) -> str:
    return str(pilot.app.query_one("#find-title", Static).content)


async def opened(pilot: Pilot[None]) -> KeysApp:
    app = pilot.app
    assert isinstance(app, KeysApp)
    app.pane.focus()
    await pilot.pause()
    app.query_one(FindRow).open()
    await pilot.pause()
    return app


async def test_key_toggles_between_pattern_and_plain_words() -> None:
    records = [
        *cell(1, "first = 1", "a.c\n"),
        *cell(2, "second = 2", "abc\n"),
        *cell(3, "third = 3", "xyz\n"),
    ]
    async with KeysApp(records).run_test(size=SIZE) as pilot:
        app = await opened(pilot)
        await pilot.press(*"a.c")
        assert count_text(pilot) == "1 of 1"
        assert marked(app) == "first = 1"
        await pilot.press("alt+r")
        assert (title(pilot), count_text(pilot)) == ("Regex", "1 of 2")
        await pilot.press("down")
        assert marked(app) == "second = 2"
        await pilot.press("alt+r")
        assert (title(pilot), count_text(pilot)) == ("Find", "1 of 1")
        await pilot.press("alt+r", *["backspace"] * 3, *r"^\w+ = \d$")
        await until(pilot, lambda: count_text(pilot) == "1 of 3")
        await pilot.press("down")
        assert marked(app) == "second = 2"


async def test_invalid_or_slow_pattern_is_reported_and_keys_still_work() -> None:
    async with KeysApp([*cell(1, "x = 1", "a" * 50 + "b\n")]).run_test(size=SIZE) as pilot:
        app = await opened(pilot)
        await pilot.press("alt+r", "(")
        await until(pilot, lambda: count_text(pilot).startswith("Invalid regular expression: "))
        await pilot.press(*"a|aa)+$")
        await until(pilot, lambda: count_text(pilot) == TOO_SLOW)
        await pilot.press("escape", "up")
        assert app.focused is app.pane
        app.query_one(FindRow).open()
        await pilot.press(*"x = .")
        await until(pilot, lambda: count_text(pilot) == "1 of 1")


async def test_row_ending_differently_from_its_text_does_not_block_the_screen() -> None:
    # The text has its b; the rows that it is wrapped to, but the last, have none, and all ways are
    # tried for it.
    async with KeysApp([*cell(1, "x = 1", "a" * 300 + "b\n"), *cell(2, "y = 2", "ab\n")]).run_test(
        size=SIZE
    ) as pilot:
        app = await opened(pilot)
        await pilot.press("alt+r", *"(a|aa)+b")
        await until(pilot, lambda: count_text(pilot) == "2 of 2")
        await pilot.press("up")
        assert count_text(pilot) == "1 of 2"
        assert marked(app) == "x = 1"
        assert all(
            app.pane.render_line(y).cell_length == app.pane.scrollable_content_region.width
            for y in range(app.pane.size.height)
        )


async def test_pattern_is_searched_when_keys_pause_or_act_on_a_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(find, "PAUSE", 1_000.0)
    async with KeysApp([*cell(1, "x = 1"), *cell(2, "x = 2")]).run_test(size=SIZE) as pilot:
        app = await opened(pilot)
        await pilot.press("alt+r", *"x = .")
        assert count_text(pilot) == ""
        await pilot.press("enter")
        assert (count_text(pilot), marked(app)) == ("2 of 2", "x = 2")
        await pilot.press("enter")
        assert (count_text(pilot), marked(app)) == ("1 of 2", "x = 1")
        await pilot.press("backspace", "2", "escape")
        assert marked(app) == "x = 2"
