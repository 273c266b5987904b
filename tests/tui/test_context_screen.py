"""The screen of what fills the model's window, over a real session."""

from __future__ import annotations

from collections.abc import Callable

from textual.widgets import Static

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.session.components import ContextUse, context_use
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.session_info import ContextScreen
from tests.tui.editor_app import until
from tests.tui.story import drawn, story


def text(app: MahtabApp) -> str:
    return "\n".join(
        str(part.content) for part in app.screen.query("#context-rows").results(Static)
    )


async def test_screen_shows_the_counts_and_closes(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app(*story())
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        app.push_screen(
            ContextScreen(lambda: context_use(10_000, {"program": 1_000, "outputs": 2_000}))
        )
        await until(pilot, lambda: "About 3,000 of 10,000 tokens (30%)" in text(app))
        assert "/compact, or m on it" in text(app)
        rows = app.screen.query_one("#context-rows", Static)
        await until(pilot, lambda: rows.size.height == len(text(app).splitlines()))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)


async def test_uncountable_context_gives_one_sentence(make_app: Callable[..., MahtabApp]) -> None:
    def count() -> ContextUse:
        raise KernelError("The kernel [b]died[/b].\x1b[2J")

    app = make_app(*story())
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        app.push_screen(ContextScreen(count))
        await until(pilot, lambda: text(app) == "The kernel [b]died[/b].")
