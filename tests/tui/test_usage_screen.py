"""The panel of what the session has used."""

from __future__ import annotations

from collections.abc import Callable

from textual.widgets import Static

from mahtab_tui.bus.records import Usage
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.session_info import UsageScreen
from tests.tui.editor_app import until


async def test_screen_updates_live_and_escape_closes_it(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.pause()
        app.session.spending.count(
            Usage(model="m", input_tokens=1_234, output_tokens=5, cost=0.25, turn=1)
        )
        await app.run_action("command('usage')")
        await until(
            pilot,
            lambda: isinstance(app.screen, UsageScreen) and bool(app.screen.query("#usage-rows")),
        )

        def shown() -> str:
            return str(app.screen.query_one("#usage-rows", Static).content)

        await until(pilot, lambda: "question 1" in shown())
        assert "1,234" in shown()
        app.session.spending.count(
            Usage(model="m", input_tokens=1, output_tokens=5, cost=0.25, tree="[bold]a")
        )
        await until(pilot, lambda: "search [bold]a" in shown())
        assert "$0.5000" in shown()
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)


async def test_each_row_is_one_line_even_on_a_small_screen(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.session.spending.count(
            Usage(
                model="m",
                cost=123.4567,
                turn=1,
                input_tokens=12_345_678,
                cache_read_tokens=12_345_678,
                output_tokens=1_234_567,
            )
        )
        app.session.spending.count(Usage(model="m", cost=None, turn=1))
        await app.run_action("command('usage')")
        await until(
            pilot,
            lambda: isinstance(app.screen, UsageScreen) and bool(app.screen.query("#usage-rows")),
        )
        rows = app.screen.query_one("#usage-rows", Static)
        await until(pilot, lambda: rows.size.height > 1)
        assert rows.size.height == len(str(rows.content).splitlines())
