"""Pictures of searches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.screens.node import NodeScreen
from tests.tui.editor_app import until
from tests.tui.search_app import SearchApp
from tests.tui.search_story import asking, done, running, wide

_STATES: dict[str, Callable[[], list[Record]]] = {"running": running, "asking": asking, "wide": wide, "done": done}


async def drawn(pilot: Pilot[None]) -> None:
    await pilot.pause()


@pytest.mark.parametrize("size", [(54, 30), (80, 24), (200, 50)], ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("state", _STATES)
def test_the_pane(snap_compare: Callable[..., bool], state: str, size: tuple[int, int]) -> None:
    assert snap_compare(SearchApp(_STATES[state]()), terminal_size=size, run_before=drawn)


@pytest.mark.parametrize("state", ["wide", "done"])
def test_the_light_theme(snap_compare: Callable[..., bool], state: str) -> None:
    assert snap_compare(SearchApp(_STATES[state](), theme="mahtab-day"), terminal_size=(100, 30), run_before=drawn)


def test_several_searches(snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(SearchApp([*done("a"), *done("b"), *running()]), terminal_size=(80, 30), run_before=drawn)


@pytest.mark.parametrize("size", [(80, 24), (160, 46)], ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize(("state", "keys"), [("running", ["down"] * 5), ("done", [])], ids=["running", "done"])
@pytest.mark.parametrize("theme", ["mahtab", "mahtab-day"])
def test_a_call(snap_compare: Callable[..., bool], state: str, keys: list[str], size: tuple[int, int], theme: str) -> None:
    async def open_call(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press(*keys, "enter", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, NodeScreen))
        await pilot.pause()

    assert snap_compare(SearchApp(_STATES[state](), theme=theme), terminal_size=size, run_before=open_call)


def test_the_text_of_a_call(snap_compare: Callable[..., bool]) -> None:
    async def open_text(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press("enter", "enter")
        await pilot.pause()
        await pilot.press("tab", "enter")
        await pilot.pause()

    assert snap_compare(SearchApp(done()), terminal_size=(80, 24), run_before=open_text)
