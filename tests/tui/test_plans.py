"""Plans on the screen: the key, the header, and the commands."""

from __future__ import annotations

from collections.abc import Callable

from mahtab_tui.bus.records import Plan, emit
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.widgets.header import HeaderBar
from tests.tui.editor_app import until
from tests.tui.story import drawn

MakeApp = Callable[..., MahtabApp]


async def test_a_key_lets_the_model_only_plan_and_the_header_says_so(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await pilot.press("alt+l")
        await until(pilot, lambda: "plans only" in str(app.query_one(HeaderBar).render()))
        assert app.session.profile.planning
        await pilot.press("alt+l")
        await until(pilot, lambda: "ask first" in str(app.query_one(HeaderBar).render()))
        assert not app.session.profile.planning


async def test_the_steps_are_changed_as_text_in_the_editor(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        emit(app.session.log, Plan(steps=("load it", "plot it"), state="proposed"))
        app.session.plans.replace("- [ ] load it\n- [ ] plot it")
        app.editor.text, app.editor.mode = "/plan edit", "ask"
        app.editor.focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.editor.text == "/plan edit\n- [ ] load it\n- [ ] plot it")
        app.editor.text = "/plan edit\n- [ ] only plot it"
        await pilot.press("enter")
        await until(pilot, lambda: app.session.plans.as_text() == "- [ ] only plot it")


async def test_a_wrong_word_comes_back_into_the_editor(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        app.editor.text, app.editor.mode = "/plan now", "ask"
        app.editor.focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.editor.text == "/plan now")
        assert not app.session.profile.planning
