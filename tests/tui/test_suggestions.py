"""The grey suggestion behind the cursor."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.tui.editor_app import SIZE, EditorApp, app_of, until, write


class Model:
    """Goes on with ``rint(x)`` after a p; can be made to wait."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.asked: list[tuple[str, bool]] = []
        self.unwanted = 0

    def suggest(self, text: str, python: bool, wanted: Callable[[], bool]) -> str:
        self.asked.append((text, python))
        assert self.free.wait(30)
        self.unwanted += not wanted()
        return "rint(x)" if text.endswith("p") else " and so on"


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def pilot(home: Path, model: Model) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home, suggest=model.suggest)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        yield pilot
        model.free.set()


async def suggested(pilot: Pilot[None], text: str) -> None:
    await until(pilot, lambda: app_of(pilot).area.suggestion == text)


@pytest.mark.parametrize("key", ["right", "tab"])
async def test_suggestion_appears_after_a_pause_and_a_key_accepts_it(
    pilot: Pilot[None], key: str
) -> None:
    await write(pilot, "p")
    await suggested(pilot, "rint(x)")
    assert app_of(pilot).editor.text == "p"
    await pilot.press(key)
    assert app_of(pilot).editor.text == "print(x)"
    assert not app_of(pilot).area.suggestion


async def test_suggestion_appears_at_once_on_a_key(pilot: Pilot[None], model: Model) -> None:
    await write(pilot, "p")
    assert app_of(pilot).editor.suggest()
    await suggested(pilot, "rint(x)")


async def test_matching_input_keeps_the_suggestion_and_other_input_removes_it(
    pilot: Pilot[None],
) -> None:
    await write(pilot, "p")
    app_of(pilot).editor.suggest()
    await suggested(pilot, "rint(x)")
    await write(pilot, "ri")
    assert app_of(pilot).area.suggestion == "nt(x)"
    await write(pilot, "z")
    assert app_of(pilot).area.suggestion == ""
    assert app_of(pilot).editor.text == "priz"


async def test_late_suggestion_is_not_shown(pilot: Pilot[None], model: Model) -> None:
    model.free.clear()
    await write(pilot, "p")
    app_of(pilot).editor.suggest()
    await until(pilot, lambda: bool(model.asked))
    await write(pilot, "q")
    model.free.set()
    await suggested(pilot, " and so on")
    assert model.unwanted == 1


@pytest.mark.parametrize("key", ["left", "home", "escape", "backspace"])
async def test_other_keys_do_not_accept_it(pilot: Pilot[None], key: str) -> None:
    await write(pilot, "xp")
    app_of(pilot).editor.suggest()
    await suggested(pilot, "rint(x)")
    await pilot.press(key)
    assert "rint" not in app_of(pilot).editor.text


async def test_enter_submits_only_the_typed_text(pilot: Pilot[None]) -> None:
    await write(pilot, "p")
    app_of(pilot).editor.suggest()
    await suggested(pilot, "rint(x)")
    await pilot.press("enter")
    assert app_of(pilot).actions == [("submitted", "python", "p")]


async def test_questions_get_suggestions_too(pilot: Pilot[None], model: Model) -> None:
    await write(pilot, "`why")
    app_of(pilot).editor.suggest()
    await suggested(pilot, " and so on")
    assert ("why", False) in model.asked


async def test_no_suggestions_without_a_model(home: Path) -> None:
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await write(pilot, "p")
        assert not app.editor.suggest()
        assert app.area.suggester is None


def test_suggestion_snapshot(snap_compare: Callable[..., bool], home: Path, model: Model) -> None:
    app = EditorApp(home, suggest=model.suggest)

    async def before(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.focused is app.area)
        await write(pilot, "p")
        app.editor.suggest()
        await suggested(pilot, "rint(x)")

    assert snap_compare(app, terminal_size=SIZE, run_before=before)
