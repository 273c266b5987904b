"""The instructions on the screen: what is told, what is held back, and trusting it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.widgets import Static

from mahtab_tui.knowledge.instructions import find_instructions
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.dialog import Confirm
from mahtab_tui.tui.screens.session_info import InstructionsScreen
from tests.tui.editor_app import until
from tests.tui.story import drawn, story


@pytest.fixture
def app(make_app: Callable[..., MahtabApp]) -> MahtabApp:
    return make_app(*story())


def text(app: MahtabApp) -> str:
    return "\n".join(
        str(part.content) for part in app.screen.query("#instructions-text").results(Static)
    )


@pytest.mark.parametrize("size", [(80, 24), (120, 35)])
async def test_project_file_is_shown_and_sent_only_after_trust(
    app: MahtabApp, home: Path, project: Path, size: tuple[int, int]
) -> None:
    (home / ".mahtab").mkdir(exist_ok=True)
    (home / ".mahtab" / "AGENTS.md").write_text("Be brief.")
    (project / "AGENTS.md").write_text("[b]Use[/b] polars.\x1b[2J See @more.md.")
    (project / "more.md").write_text("More.")
    async with app.run_test(size=size) as pilot:
        await drawn(pilot)
        await app.run_action("command('instructions')")
        await until(pilot, lambda: bool(text(app)))
        shown = (
            "~/.mahtab/AGENTS.md · sent to the model\nBe brief.\n\nAGENTS.md · held back: not trusted\n[b]Use[/b] polars.␛[2J See @more.md.\n\n"
            "more.md · held back: not trusted\nMore.\n"
        )
        assert text(app) == shown
        for key, trusted in (("n", False), ("y", True)):
            await pilot.press("t")
            await until(pilot, lambda: isinstance(app.screen, Confirm))
            await pilot.press(key)
            await until(pilot, lambda: bool(text(app)))
            assert (not find_instructions(project).untrusted) is trusted
        assert text(app) == shown.replace("held back: not trusted", "sent to the model")
        await pilot.press("t")
        await pilot.pause()
        assert isinstance(app.screen, InstructionsScreen), "nothing is left to trust"


async def test_missing_instructions_explain_where_to_put_them(
    app: MahtabApp, project: Path
) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await app.run_action("command('instructions')")
        await until(pilot, lambda: bool(text(app)))
        assert text(app).startswith("There are no instructions. Yours go into ~/.mahtab/AGENTS.md")
