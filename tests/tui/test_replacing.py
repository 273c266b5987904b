"""Replacing an earlier question or cell: the editor, the transcript and the session together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.bus.masking import MASK
from mahtab_tui.session.inbox import Mode
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.session_port import SessionPort
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests.tui.editor_app import until
from tests.tui.story import drawn, story

SIZE = (120, 46)
MakeApp = Callable[..., MahtabApp]


async def to_question(pilot: Pilot[int]) -> MahtabApp:
    """Go to the question, which stands over the model's code and words."""
    app = pilot.app
    assert isinstance(app, MahtabApp)
    await drawn(pilot)
    pane = app.query_one(TranscriptPane)
    pane.focus()
    for _ in range(6):
        if pane.marker.marked is not None and pane.marker.marked.key == "question 1":
            return app
        await pilot.press("up")
    raise AssertionError("the question is not there")


def hint(app: MahtabApp) -> str:
    return str(app.editor.query_one("#hint", Static).content)


async def test_escape_cancels_a_replacement_and_restores_the_draft(make_app: MakeApp) -> None:
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        app = await to_question(pilot)
        before = hint(app)
        app.editor.text = "a draft"
        await pilot.press("enter", "R", "enter")
        await pilot.pause()
        assert (app.editor.mode, app.editor.text) == ("ask", "which days are outliers, and why?")
        assert "Enter replaces" in hint(app)
        assert str(app.editor.query_one("#glyph", Static).content) == "↻"
        await pilot.press("escape")
        assert (app.editor.mode, app.editor.text, hint(app)) == ("python", "a draft", before)


async def test_replacing_submits_the_question_and_greys_its_old_answers(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        app = await to_question(pilot)
        entered: list[tuple[Mode, str]] = []
        monkeypatch.setattr(app.session, "submit", lambda mode, text: entered.append((mode, text)))
        app.editor.text = "a draft"
        await pilot.press("enter", "R", "enter", "end", "!", "enter")
        await drawn(pilot)
        assert entered == [("ask", "which days are outliers, and why?!")]
        assert (app.editor.mode, app.editor.text) == ("python", "a draft")
        assert "Enter replaces" not in hint(app)
        pane = app.query_one(TranscriptPane)
        lines = [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]
        assert "the namespace stays as it is" in " ".join(" ".join(lines).split())
        greyed = [line for line in lines if line.endswith("replaced")]
        assert "which days" in greyed[0]
        assert not any("read_csv" in line for line in greyed)


async def test_text_typed_after_submitting_continues_the_draft(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        app = await to_question(pilot)
        monkeypatch.setattr(app.session, "submit", lambda mode, text: 1)
        app.editor.text = "a = 1"
        await pilot.press("enter", "R", "enter")
        await pilot.pause()
        for key in ("enter", "2", "3"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: len(app.editor.text) == len("a = 123"))
        await pilot.pause()
        assert (app.editor.mode, app.editor.text) == ("python", "a = 123")


async def test_text_stays_in_the_editor_while_work_is_running(make_app: MakeApp) -> None:
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        app = await to_question(pilot)
        with app.session.turns.turn():
            await pilot.press("enter", "R", "enter", "enter")
            await drawn(pilot)
        assert app.editor.text == "which days are outliers, and why?"
        assert "Enter replaces" in hint(app)


async def test_model_entries_cannot_be_replaced(make_app: MakeApp) -> None:
    async with make_app(*story()).run_test(size=SIZE) as pilot:
        app = await to_question(pilot)
        for _ in range(2):
            await pilot.press("down", "enter")
            assert isinstance(app.screen, ActionMenu)
            assert all(command.id != "entry-replace" for command in app.screen.commands)
            await pilot.press("escape")
        assert app.editor.is_empty


async def test_cell_with_a_forgotten_secret_is_not_rerun_without_it(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, entered, notifications = make_app(*story()), list[str](), list[str]()
    async with app.run_test(size=SIZE) as pilot:
        await drawn(pilot)
        monkeypatch.setattr(app.session, "submit", lambda mode, text: entered.append(text))
        monkeypatch.setattr(app, "notify", lambda text, **more: notifications.append(text))
        port = SessionPort(app, app.session)
        port.enter("python", f"x = '{MASK}'")
        await until(pilot, lambda: app.editor.text == f"x = '{MASK}'")
        assert "secret" in "".join(notifications)
        port.enter("python", "x = 1")
        await until(pilot, lambda: entered == ["x = 1"])
