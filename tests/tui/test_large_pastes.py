"""Large pasted texts, which stand in the editor as one word each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from tests.tui.editor_app import app_of, editing, write


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    async with editing(home, ("an old input", "ask"), ("old = 1", "python")) as pilot:
        yield pilot


LARGE = "".join(f"x{i} = {i}\n" for i in range(311)) + "x = 311"


async def test_large_paste_is_shown_as_one_word_and_submitted_whole(
    pilot: Pilot[None],
) -> None:
    app = app_of(pilot)
    app.area.post_message(Paste(LARGE))
    await pilot.pause()
    assert app.area.text == "[Pasted 312 lines]"
    assert app.editor.text == LARGE
    await pilot.press("enter")
    assert app.actions == [("submitted", "python", LARGE)]


async def test_folded_text_is_expanded_and_refolded_by_undo(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.area.post_message(Paste(LARGE))
    await pilot.pause()
    await pilot.press("alt+e")
    assert app.area.text == LARGE
    await pilot.press("ctrl+z")
    assert app.area.text == "[Pasted 312 lines]"


async def test_backspace_deletes_a_folded_text_at_once(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await write(pilot, "a ")
    app.area.post_message(Paste(LARGE))
    app.area.post_message(Paste(LARGE.replace("x", "y")))
    await pilot.pause()
    assert app.area.text == "a [Pasted 312 lines][Pasted 312 lines, 2]"
    await pilot.press("backspace", "backspace")
    assert app.area.text == "a "


@pytest.mark.parametrize("to_it", [(), ("space",)])
async def test_deleting_a_word_deletes_a_folded_text_at_once(
    pilot: Pilot[None], to_it: tuple[str, ...]
) -> None:
    app = app_of(pilot)
    await write(pilot, "a b ")
    app.area.post_message(Paste(LARGE))
    await pilot.pause()
    await pilot.press(*to_it, "ctrl+w")
    assert app.area.text == "a b "
    await pilot.press("ctrl+w")
    assert app.area.text == "a "


@pytest.mark.parametrize("key", ["delete", "alt+delete"])
async def test_deleting_to_the_right_deletes_a_folded_text_at_once(
    pilot: Pilot[None], key: str
) -> None:
    app = app_of(pilot)
    app.area.post_message(Paste(LARGE))
    await pilot.pause()
    await write(pilot, "cd")
    await pilot.press("home", key)
    assert app.area.text == "cd"
    await pilot.press("delete")
    assert app.area.text == "d"


async def test_folded_open_block_is_not_complete(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.area.post_message(Paste(LARGE + "\nif x:"))
    await pilot.pause()
    await pilot.press("enter")
    assert app.actions == []


async def test_fold_word_is_removed_when_its_text_is_forgotten(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.area.post_message(Paste(LARGE))
    await pilot.pause()
    await pilot.press("up")
    app.editor.toggle_mode()
    await pilot.press("enter")
    app.editor.toggle_mode()
    await pilot.press("down")
    assert app.editor.is_empty


async def test_text_stays_folded_in_a_question_with_more_mentions(
    pilot: Pilot[None],
) -> None:
    app = app_of(pilot)
    app.editor.mode = "ask"
    app.area.post_message(Paste(LARGE))
    await pilot.pause()
    app.editor.mention("@cell:3")
    assert app.area.text == "[Pasted 312 lines] @cell:3 "
    assert app.editor.text == f"{LARGE} @cell:3 "


async def test_paste_containing_a_fold_word_stays_unchanged(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    pasted = "# [Pasted 312 lines]\n" * 60
    app.area.post_message(Paste(pasted))
    app.area.post_message(Paste(LARGE))
    await pilot.pause()
    assert app.editor.text == pasted + LARGE
