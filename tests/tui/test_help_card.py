"""The card with signature and docstring of the call under the cursor."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Explanation
from mahtab_tui.tui.editor.help_card import HelpCard
from mahtab_tui.worker.completion.cursor import explain_at
from tests.tui.editor_app import SIZE, EditorApp, until, write


def mean(
    values: list[float], /, weights: list[float] | None = None, *, robust: bool = False
) -> float:
    """The mean of [bold]values[/bold].

    Weighted, if there are weights.
    """
    return 0.0


def explain(code: str, cursor: int) -> Explanation | None:
    if "dead" in code:
        raise KernelError("The kernel has ended.")
    found = explain_at({"mean": mean}, code, cursor)
    return (
        None
        if found is None
        else Explanation(**{**found._asdict(), "where": "/home/ada/stats.py:12"})
    )


@pytest.fixture
async def pilot(home: Path) -> AsyncIterator[Pilot[None]]:
    app = EditorApp(home, explain=explain)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        yield pilot


async def explained(pilot: Pilot[None], code: str) -> str:
    """Return the card's text for a text with the cursor at its end."""
    app = pilot.app
    assert isinstance(app, EditorApp)
    await write(pilot, code)
    await pilot.pause()
    app.editor.explain()
    card = app.query_one(HelpCard)
    await until(pilot, lambda: card.display)
    return str(card.content)


@pytest.mark.parametrize("code", ["x = mean(1, ", "mean", "mean([(1, 2), ", "mean(x)"])
async def test_call_is_explained(pilot: Pilot[None], code: str) -> None:
    text = await explained(pilot, code)
    assert "mean(\n    values: list[float],\n    /," in text
    assert "The mean of [bold]values[/bold]." in text


async def test_unknown_code_gives_one_sentence(pilot: Pilot[None]) -> None:
    assert await explained(pilot, "nobody(") == "No help for the code at the cursor."


async def test_unresponsive_kernel_is_reported(pilot: Pilot[None]) -> None:
    assert await explained(pilot, "dead(") == "The kernel has ended."


@pytest.mark.parametrize("key", ["escape", "a", "left", "backspace"])
async def test_card_closes(pilot: Pilot[None], key: str) -> None:
    await explained(pilot, "mean(")
    await pilot.press(key)
    await until(pilot, lambda: not pilot.app.query_one(HelpCard).display)
    app = pilot.app
    assert isinstance(app, EditorApp)
    assert app.actions == []


def test_card_appears_above_the_call(snap_compare: Callable[..., bool], home: Path) -> None:
    app = EditorApp(home, explain=explain)

    async def before(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.focused is app.area)
        await explained(pilot, "m = mean(")

    assert snap_compare(app, terminal_size=SIZE, run_before=before)


async def test_reply_after_the_cursor_moved_opens_nothing(home: Path) -> None:
    free, replied = threading.Event(), threading.Event()

    def explain_late(code: str, cursor: int) -> None:
        assert free.wait(60)
        replied.set()

    app = EditorApp(home, explain=explain_late)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.focused is app.area)
        await write(pilot, "mean(")
        app.editor.explain()
        await write(pilot, "x")
        free.set()
        await until(pilot, replied.is_set)
        await pilot.pause(0.1)
        assert not app.query_one(HelpCard).display
