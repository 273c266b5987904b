"""Plans on the screen: the key, the header, and the commands."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.widgets.header import HeaderBar
from tests.tui.editor_app import until
from tests.tui.story import drawn

MakeApp = Callable[..., MahtabApp]


async def test_key_toggles_planning_and_the_header_shows_it(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await pilot.press("alt+l")
        await until(pilot, lambda: "plans only" in str(app.query_one(HeaderBar).render()))
        assert app.session.info.planning
        await pilot.press("alt+l")
        await until(pilot, lambda: "ask first" in str(app.query_one(HeaderBar).render()))
        assert not app.session.info.planning


async def test_executed_plan_ends_planning_and_is_one_question(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await pilot.press("alt+l")
        app.editor.text, app.editor.mode = "/plan run", "ask"
        app.editor.focus()
        await pilot.press("enter")
        await until(pilot, lambda: not app.session.inbox.idle)
        question = app.session.inbox.next_item("ask")
        assert question is not None
        assert question.text == "Carry out your plan now."
        assert not app.session.info.planning


async def test_wrong_word_returns_to_the_editor(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        app.editor.text, app.editor.mode = "/plan now", "ask"
        app.editor.focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.editor.text == "/plan now")
        assert not app.session.info.planning
