"""Pictures of searches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.search.call_screen import NodeScreen
from tests.tui.editor_app import until
from tests.tui.search_app import SearchApp
from tests.tui.search_story import asking, done, running, wide

_STATES: dict[str, Callable[[], list[Record]]] = {
    "running": running,
    "asking": asking,
    "wide": wide,
    "done": done,
}


async def drawn(pilot: Pilot[None]) -> None:
    await pilot.pause()


@pytest.mark.parametrize(
    ("state", "size"),
    [("running", (54, 30)), ("asking", (80, 24)), ("wide", (200, 50)), ("done", (80, 24))],
    ids=["running-54x30", "asking-80x24", "wide-200x50", "done-80x24"],
)
def test_the_pane(snap_compare: Callable[..., bool], state: str, size: tuple[int, int]) -> None:
    assert snap_compare(SearchApp(_STATES[state]()), terminal_size=size, run_before=drawn)


def test_the_light_theme(snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(
        SearchApp(done(), theme="mahtab-day"), terminal_size=(100, 30), run_before=drawn
    )


def test_several_searches(snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(
        SearchApp([*done("a"), *done("b"), *running()]), terminal_size=(80, 30), run_before=drawn
    )


@pytest.mark.parametrize(
    ("theme", "state", "keys", "size"),
    [("mahtab", "running", ["down"] * 5, (80, 24)), ("mahtab-day", "done", [], (160, 46))],
    ids=["mahtab-running-80x24", "mahtab-day-done-160x46"],
)
def test_a_call(
    snap_compare: Callable[..., bool],
    state: str,
    keys: list[str],
    size: tuple[int, int],
    theme: str,
) -> None:
    async def open_call(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press(*keys, "enter", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, NodeScreen))
        await pilot.pause()

    assert snap_compare(
        SearchApp(_STATES[state](), theme=theme), terminal_size=size, run_before=open_call
    )


def test_the_text_of_a_call(snap_compare: Callable[..., bool]) -> None:
    async def open_text(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press("enter", "enter")
        await pilot.pause()
        await pilot.press("tab", "enter")
        await pilot.pause()

    assert snap_compare(SearchApp(done()), terminal_size=(80, 24), run_before=open_text)
