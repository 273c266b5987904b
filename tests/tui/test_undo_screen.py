"""The screen that shows what an undo would do, and the ways to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from textual.app import App
from textual.screen import Screen
from textual.widgets import Button, Static

from mahtab_tui.bus.conversation import Cell, Question
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import Change, NotRestored, Restoration, Variable
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.screens.session_info import OUTSIDE, UndoScreen
from mahtab_tui.tui.theme import MAHTAB, role_variables
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests.tui.editor_app import until
from tests.tui.story import drawn, story


def variable(name: str, type: str, summary: str) -> Variable:
    return Variable(name, type, summary, "data")


CHANGES = (
    Change(
        "df",
        "changed",
        variable("df", "DataFrame", "100 × 4"),
        variable("df", "DataFrame", "98 × 5"),
    ),
    Change("total", "added", variable("total", "int", "5"), None),
    Change("[red]x[/]\n", "deleted", None, variable("[red]x[/]\n", "str", "'\x1b]0;y\x07'")),
)
LEFT = (NotRestored("numbers", "The generator has moved on."),)


class ThemedApp(App[None]):
    """An application in the program's own theme."""

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(MAHTAB)
        self.theme = MAHTAB.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)


def changes_text(app: App[Any]) -> str:
    return "\n".join(
        str(found.content) for found in app.screen.query("#undo-changes").results(Static)
    )


def can_undo(screen: Screen[Any]) -> bool:
    return any(not found.disabled for found in screen.query("#yes").results(Button))


@pytest.mark.parametrize("size", [(80, 24), (120, 35)])
async def test_screen_shows_the_changes_and_what_cannot_be_undone(
    size: tuple[int, int],
) -> None:
    undone: list[Restoration] = []
    restoration = Restoration(CHANGES, LEFT, exact=False)

    def undo() -> Restoration:
        undone.append(restoration)
        return restoration

    app = ThemedApp()
    async with app.run_test(size=size) as pilot:
        app.push_screen(screen := UndoScreen((3, 4), lambda: restoration, undo))
        await until(pilot, lambda: can_undo(screen))
        assert (
            str(screen.query_one("#question", Static).content)
            == "Undo 2 cells, from cell 3 to cell 4?"
        )
        rows = changes_text(app).split("\n")
        assert rows[:3] == ["~ df  DataFrame 98 × 5 → 100 × 4", "+ total  int 5", rows[2]]
        assert rows[2].startswith("− [red]x[/]")
        assert "\x1b" not in rows[2]
        assert "  numbers: The generator has moved on." in rows
        assert rows[-1] == OUTSIDE
        assert not undone
        await pilot.press("y")
        await until(pilot, lambda: app.screen is not screen)
    assert undone == [restoration]


@pytest.mark.parametrize("key", ["escape", "n", "enter"])
async def test_cancelling_does_nothing(key: str) -> None:
    app = ThemedApp()
    async with app.run_test() as pilot:
        app.push_screen(
            screen := UndoScreen(
                (3,), lambda: Restoration((), (), exact=True), lambda: pytest.fail("undone")
            )
        )
        await until(pilot, lambda: "No variable changes." in changes_text(app))
        await pilot.press(key)
        await until(pilot, lambda: app.screen is not screen)


async def test_nothing_is_undone_before_the_preview_and_a_failure_is_reported() -> None:
    shown, undone = threading.Event(), threading.Event()

    def preview() -> Restoration:
        shown.wait(60)
        return Restoration(CHANGES, (), exact=True)

    def undo() -> Restoration:
        undone.set()
        raise KernelError("A cell is [b]running.")

    app = ThemedApp()
    async with app.run_test() as pilot:
        app.push_screen(screen := UndoScreen((3,), preview, undo))
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("y")
        shown.set()
        await until(pilot, lambda: can_undo(screen))
        assert not undone.is_set()
        await pilot.press("y")
        await until(pilot, lambda: changes_text(app) == "A cell is [b]running.")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is not screen)


async def test_ctrl_z_on_an_entry_asks_about_its_cell(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app(*story())
    async with app.run_test(size=(120, 35)) as pilot:
        await drawn(pilot)
        pane = app.query_one(TranscriptPane)
        pane.focus()
        pane.marker.entry = next(
            entry for entry in pane.viewport.transcript.entries if isinstance(entry, Cell)
        )
        await pilot.press("ctrl+z")
        await until(
            pilot,
            lambda: any(
                each.message.startswith("There is nothing to undo") for each in app._notifications
            ),
        )
        app.session.cells.last = 9
        await pilot.press("ctrl+z")
        await until(pilot, lambda: "kernel" in changes_text(app))
        assert not can_undo(app.screen)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, UndoScreen))


async def test_a_question_offers_to_undo_its_whole_answer(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app(*story())
    async with app.run_test(size=(120, 35)) as pilot:
        await drawn(pilot)
        app.session.cells.last = 4
        pane = app.query_one(TranscriptPane)
        pane.focus()
        question = next(
            entry for entry in pane.viewport.transcript.entries if isinstance(entry, Question)
        )
        for entry in (question, pane.viewport.transcript.entries[-1]):
            pane.marker.entry = entry
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, ActionMenu))
            assert isinstance(app.screen, ActionMenu)
            assert ("entry-undo" in {command.id for command in app.screen.commands}) is (
                entry is question
            )
            await pilot.press("escape")
            await until(pilot, lambda: not isinstance(app.screen, ActionMenu))
        pane.marker.entry = question
        await pilot.press("ctrl+z")
        await until(pilot, lambda: isinstance(app.screen, UndoScreen))
        assert str(app.screen.query_one("#question", Static).content) == "Undo cell 4?"


async def test_wrong_undo_argument_in_ask_mode_is_explained(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await pilot.press("f2", *"/undo x", "enter")
        await until(pilot, lambda: app.editor.text == "/undo x")
        assert [each.message for each in app._notifications] == [
            "Name a cell by its number, as in /undo 12"
        ]
