"""Finding a text in the input, and the colours of the prompt's own lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.events import Key
from textual.pilot import Pilot

from mahtab_tui.tui.find import FindRow
from tests.tui.editor_app import SIZE, EditorApp, until, write


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        app.editor.text = "price = 1\nprint(Price)\n[red] = price"
        app.area.move_cursor((0, 0))
        yield pilot


def selected(pilot: Pilot[None]) -> tuple[tuple[int, int], str]:
    assert isinstance(pilot.app, EditorApp)
    return pilot.app.area.selection.start, pilot.app.area.selected_text


async def test_text_is_found_by_a_pattern(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, EditorApp)
    app.editor.find()
    await write(pilot, r"^.r[a-z]+t")
    assert selected(pilot) == ((0, 0), "")
    app.post_message(Key("alt+r", "r"))  # as a terminal sends it: with a character
    await until(pilot, lambda: selected(pilot) == ((1, 0), "print"))


async def test_matches_are_found_and_stepped_through(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, EditorApp)
    app.editor.find()
    await write(pilot, "pric")
    assert selected(pilot) == ((0, 0), "pric")
    found = []
    for key in ("enter", "down", "down", "up"):
        await pilot.press(key)
        found.append(selected(pilot)[0])
    assert found == [(1, 6), (2, 8), (0, 0), (2, 8)]
    assert str(app.query_one("#find-count").render()) == "3 of 3"
    await pilot.press("escape")
    assert not app.query_one(FindRow).display
    await until(pilot, lambda: app.focused is app.area)
    assert selected(pilot) == ((2, 8), "pric")
    assert app.actions == []


async def test_missing_match_is_reported_and_nothing_moves(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, EditorApp)
    app.editor.find()
    await write(pilot, "[red].")
    assert str(app.query_one("#find-count").render()) == "nothing found"
    assert selected(pilot)[1] == "[red]"


async def test_selection_is_searched_for(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, EditorApp)
    await pilot.press(*["shift+right"] * 5)
    app.editor.find()
    await pilot.press("enter")
    assert selected(pilot) == ((1, 6), "Price")


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("!ls", 0, 1),
        ("x = !ls", 4, 5),
        ("  %time f(x)", 2, 7),
        ("%%time", 0, 6),
        ("df.head??", 7, 9),
        ("?df", 0, 1),
        ("größe?", 7, 8),
    ],
)
async def test_prompt_signs_are_coloured(
    pilot: Pilot[None], text: str, start: int, end: int
) -> None:
    app = pilot.app
    assert isinstance(app, EditorApp)
    app.editor.text = text
    await until(pilot, lambda: (start, end, "keyword") in app.area._highlights[0])
