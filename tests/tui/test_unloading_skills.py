"""Loaded skills outside of their list: the header tells them, a command unloads them."""

from __future__ import annotations

from textual.content import Content

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.commands.registry import BY_ID
from mahtab_tui.tui.screens.listing import ChooseOne
from mahtab_tui.tui.widgets.header import HeaderBar
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.story import drawn, story
from tests.tui.test_skills_screen import SIZE, MakeApp, loaded, skills

__all__ = ["skills"]


async def test_header_lists_loaded_skills(make_app: MakeApp) -> None:
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        await drawn(pilot)
        header = pilot.app.query_one(HeaderBar)
        header.tokens, header.cost = 0, None
        header.fold(
            [
                made(
                    tags.SKILL, "", {"name": name, "loaded": True, "chars": 1_200, "budget": 60_000}
                )
                for name in ("tidy", "[b]debug")
            ]
        )
        assert isinstance(header.tooltip, Content)  # a text would be read as markup
        assert (
            str(header.tooltip)
            == "Loaded skills:\n  tidy  1,200\n  [b]debug  1,200\n2,400 of 60,000 characters"
        )
        for name in ("tidy", "[b]debug"):
            header.fold(
                [
                    made(
                        tags.SKILL,
                        "",
                        {"name": name, "loaded": False, "chars": 1_200, "budget": 60_000},
                    )
                ]
            )
        assert header.tooltip is None


async def test_slash_unload_unloads_or_offers_a_choice(make_app: MakeApp) -> None:
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        await drawn(pilot)
        app = pilot.app
        assert isinstance(app, MahtabApp)
        app.session.knowledge.loaded.load("tidy")
        app.session.knowledge.loaded.load("debug")
        BY_ID["unload-skill"].run(app.command_context, "tidy")
        assert loaded(pilot) == ["debug"]
        BY_ID["unload-skill"].run(app.command_context, "tidy")
        BY_ID["unload-skill"].run(app.command_context, "")
        await until(
            pilot, lambda: isinstance(app.screen, ChooseOne) and bool(app.screen.listing.rows)
        )
        await pilot.press("enter")
        await until(pilot, lambda: loaded(pilot) == [])
        BY_ID["unload-skill"].run(app.command_context, "")
        await pilot.pause()
        assert [note.message for note in app._notifications] == [
            "The skill 'tidy' is not loaded. Loaded: debug.",
            "No skill is loaded.",
        ]
