"""The base class of lists that are searched on a thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from textual.content import Content

from mahtab_tui.tui.screens.listing import SearchScreen
from tests.tui.editor_app import until, write
from tests.tui.screens_app import ScreensApp


class FruitScreen(SearchScreen[str | None, str, Sequence[str]]):
    heading_text = "Fruit"
    hint = "Enter chooses"

    def __init__(self) -> None:
        super().__init__()
        self.names = ["apple", "apricot", "avocado"]
        self.may_search = threading.Event()
        self.may_search.set()

    def on_mount(self) -> None:
        self.find(pause=0)

    def search(self, query: str) -> Sequence[str]:
        self.may_search.wait(60)
        return [name for name in self.names if query in name]

    def show_results(self, results: Sequence[str], cursor: int | None) -> None:
        self.hits = results
        self.fill(cursor)

    def line(self, row: str, width: int) -> Content:
        return Content(row)


async def test_a_cursor_that_did_not_move_since_typing_stays_on_its_line() -> None:
    app = ScreensApp()
    async with app.run_test() as pilot:
        screen = FruitScreen()
        await app.push_screen(screen)
        await until(pilot, lambda: list(screen.rows) == screen.names)
        await pilot.press("down")
        await write(pilot, "ap")
        await until(pilot, lambda: list(screen.rows) == ["apple", "apricot"])
        screen.names.insert(0, "ananap")
        screen.find(None, pause=0)
        await until(pilot, lambda: len(screen.rows) == 3)
        assert screen.chosen == "ananap"


async def test_a_cursor_that_moved_before_the_results_came_stays_on_its_line() -> None:
    app = ScreensApp()
    async with app.run_test() as pilot:
        screen = FruitScreen()
        await app.push_screen(screen)
        await until(pilot, lambda: list(screen.rows) == screen.names)
        screen.may_search.clear()
        await write(pilot, "ap")
        await pilot.press("down")
        screen.may_search.set()
        await until(pilot, lambda: list(screen.rows) == ["apple", "apricot"])
        assert screen.chosen == "apple"
        screen.names.insert(0, "ananap")
        screen.find(None, pause=0)
        await until(pilot, lambda: len(screen.rows) == 3)
        assert screen.chosen == "ananap"


async def test_a_cursor_that_has_moved_follows_its_row() -> None:
    app = ScreensApp()
    async with app.run_test() as pilot:
        screen = FruitScreen()
        await app.push_screen(screen)
        await until(pilot, lambda: list(screen.rows) == screen.names)
        await pilot.press("down")
        screen.names.insert(0, "ananas")
        screen.find(None, pause=0)
        await until(pilot, lambda: len(screen.rows) == 4)
        assert screen.chosen == "apricot"
