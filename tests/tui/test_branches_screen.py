"""The list of branches, and the ways to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.store.branches import BranchRow
from mahtab_tui.store.sqlite import SessionRow
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.panes.transcript.entries import Cell
from mahtab_tui.tui.panes.transcript.pane import TranscriptPane
from mahtab_tui.tui.screens.action_menu import ActionMenu
from mahtab_tui.tui.screens.branches import BranchesScreen
from mahtab_tui.tui.screens.confirm import Confirm
from tests.tui.editor_app import until
from tests.tui.story import drawn, story

NOON = 1_750_000_000.0


def row(id: str, depth: int, cell: int, first: str = "orders = load()") -> BranchRow:
    return BranchRow(SessionRow(id, "test", "/data", NOON, NOON, 1234, first), depth, cell)


FAMILY = (row("1a2b3c4d", 0, 0), row("[b]2222\x1b]0;x\x07", 1, 4, "[red]x[/]\n"), row("33333333", 2, 12), row("44444444", 1, 7))


def is_open(app: MahtabApp, screen: BranchesScreen) -> bool:
    return app.screen is screen and bool(screen.query(".listing-said"))


def says(screen: BranchesScreen, sentence: str) -> bool:
    return sentence in str(screen.query_one(".listing-said", Static).content)


def shown(screen: BranchesScreen) -> list[str]:
    return [screen.line(each, 100).plain for each in screen.listing.rows]


def test_the_list_shows_where_each_branch_begins(make_app: Callable[..., MahtabApp], snap_compare: Callable[..., bool]) -> None:
    app = make_app()

    async def run(pilot: Pilot[int]) -> None:
        app.push_screen(screen := BranchesScreen("33333333", lambda: FAMILY))
        await until(pilot, lambda: len(screen.listing.rows) == 4)
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=run)


async def test_a_branch_is_chosen_filtered_and_refused(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app()
    chosen: list[str | None] = []
    async with app.run_test() as pilot:
        app.push_screen(screen := BranchesScreen("33333333", lambda: FAMILY), chosen.append)
        await until(pilot, lambda: len(screen.listing.rows) == 4)
        assert screen.listing.chosen == FAMILY[2]
        assert not any(character in line for line in shown(screen) for character in "\x1b\n")
        await pilot.press("enter")
        assert app.screen is screen
        await pilot.press(*"444", "enter")
        await until(pilot, lambda: chosen == ["44444444"])


async def test_a_store_that_fails_and_a_session_without_branches_are_told(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app()
    going = threading.Event()

    def fails() -> list[BranchRow]:
        going.wait(30)
        raise KernelError("The session file is [b]damaged.")

    async with app.run_test() as pilot:
        for family, said in ((fails, "The session file is [b]damaged."), (lambda: FAMILY[:1], "There is no branch yet.")):
            app.push_screen(screen := BranchesScreen("1a2b3c4d", family))
            await until(pilot, partial(is_open, app, screen))
            going.set()
            await until(pilot, partial(says, screen, said))
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 1)


async def test_a_branch_asks_before_it_is_switched_to(make_app: Callable[..., MahtabApp], monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(*story())
    made: list[int | None] = []

    def create(cell: int | None = None) -> str:
        made.append(cell)
        return "5a5a5a5a"

    monkeypatch.setattr(app.session.branches, "create", create)
    async with app.run_test(size=(120, 35)) as pilot:
        await drawn(pilot)
        pane = app.query_one(TranscriptPane)
        pane.focus()
        cell = pane.marker.entry = next(entry for entry in pane.viewport.transcript.entries if isinstance(entry, Cell))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ActionMenu))
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert made == [cell.number]
        app.editor.focus()
        await pilot.press(*"/branch x", "enter")
        await until(pilot, lambda: any("by its number" in each.message for each in app._notifications))
        app.editor.text = ""
        await pilot.press(*"/branch", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: app.next_session == "5a5a5a5a")
        assert made == [cell.number, None]
