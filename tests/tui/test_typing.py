"""Target of letters: a person who types means the editor, whatever was clicked before."""

from __future__ import annotations

import string
import time
from collections.abc import Callable
from itertools import product

import pytest
from textual.events import Key, Paste
from textual.pilot import Pilot
from textual.widgets import TextArea

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.search_story import done
from tests.tui.story import ScriptedSession, drawn, story

MakeApp = Callable[..., MahtabApp]
SIZE = (110, 24)
PRINTABLE = [
    character for character in string.printable if character.isprintable() and character != " "
]
ONCE_KEYS = "rRxsemyd1/`"
"""Letters that panes are likely to take for a key."""
QUEUE = made(
    tags.QUEUE, "", {"items": [{"id": 1, "code": "never = 1", "mode": "python", "party": ""}]}, 1.0
)
ACTS = ("submit", "replace", "cancel", "decide", "hide", "pin", "stop")
KERNEL_ACTS = ("reset", "kill", "activate", "move")


class Acts(list[str]):
    """Actions on the session and on searches."""

    def __init__(self, app: MahtabApp, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ACTS:
            monkeypatch.setattr(app.session, name, self._noting(name))
        for name in KERNEL_ACTS:
            monkeypatch.setattr(app.session.kernel_control, name, self._noting(name))
        for name in ("retry", "stop"):
            monkeypatch.setattr(app.session.searches, name, self._noting(f"search {name}"))

    def _noting(self, name: str) -> Callable[..., None]:
        return lambda *args: self.append(name)


@pytest.fixture
def app(make_app: MakeApp) -> MahtabApp:
    return make_app(*story(), *done(), QUEUE)


def code(app: MahtabApp) -> TextArea:
    return app.query_one("#code", TextArea)


async def ready(pilot: Pilot[int]) -> MahtabApp:
    await drawn(pilot)
    assert isinstance(pilot.app, MahtabApp)
    return pilot.app


@pytest.mark.parametrize("pane", ["TranscriptPane", "NamespacePane", "SearchTreePane", "QueueRow"])
async def test_letters_no_text_field_accepts_go_to_the_editor(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pane: str
) -> None:
    acts = Acts(app, monkeypatch)
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        app.query_one(pane).focus()
        await pilot.pause()
        assert all(app._is_for_editor(Key(character, character)) for character in PRINTABLE)
        for character in ONCE_KEYS:
            app.query_one(pane).focus()
            await pilot.press(character)
            # A backtick at the very start changes the mode, as it does in the editor.
            assert app.focused is code(app), character
            assert app.editor.text == ("" if character == "`" else character), character
            app.editor.clear()
        assert len(app.screen_stack) == 1
        assert acts == []


async def test_click_on_a_cell_leaves_typing_in_the_editor(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[tuple[str, str]] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text: acts.append((mode, text)))
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.click(TranscriptPane, offset=(10, 2))
        await pilot.press(*"rows = 3", "enter")
        await pilot.pause()
        assert acts == [("python", "rows = 3")]


@pytest.mark.parametrize(
    "pane",
    [
        "TranscriptPane",
        "NamespacePane",
        "SearchTreePane",
        "QueueRow",
        "HeaderBar",
        "#glyph",
        "Splitter",
    ],
)
async def test_mouse_never_takes_typing_from_the_editor(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pane: str
) -> None:
    Acts(app, monkeypatch)
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        height = app.query(pane).first().size.height
        for y, times in product(
            sorted({0, 1, 2, height // 2, height - 1} & set(range(height))), (1, 2)
        ):
            await pilot.click(pane, offset=(6, y), times=times)
            await pilot.pause()
            while len(app.screen_stack) > 1:
                await pilot.press("escape")
                await pilot.pause()
            assert app.focused is code(app)


async def test_pasted_text_goes_to_the_editor_from_a_pane(app: MahtabApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        app.query_one(TranscriptPane).focus()
        await pilot.pause()
        app.post_message(Paste("rows = 3"))
        await until(pilot, lambda: app.editor.text == "rows = 3")
        assert app.focused is code(app)


@pytest.mark.parametrize(
    ("keys", "acts"),
    [
        (["r"], []),
        (["r", "enter"], ["submit"]),
        (["s"], []),
    ],
)
async def test_running_commands_in_an_entry_menu_wait_for_enter(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, keys: list[str], acts: list[str]
) -> None:
    done = Acts(app, monkeypatch)
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        app.query_one(TranscriptPane).focus()
        await pilot.press("up", "up", "enter")
        assert isinstance(app.screen, ActionMenu)
        await pilot.press(*keys)
        await pilot.pause()
        assert done == acts


@pytest.mark.parametrize("text", ["rows = 3", "q", "rr = 3", "= 3"])
async def test_text_typed_into_a_menu_goes_to_the_editor_whole(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    acts = Acts(app, monkeypatch)
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        # The question: its menu knows r, but no a, q or blank.
        pane = app.query_one(TranscriptPane)
        pane.focus()
        await pilot.pause()
        while "which days" not in getattr(pane.marker.marked, "text", ""):
            await pilot.press("up")
        await pilot.press("enter")
        await pilot.press(*text)
        await until(pilot, lambda: app.editor.text == text)
        assert app.focused is code(app)
        assert acts == []


@pytest.mark.parametrize(
    ("letter", "act", "letters"),
    [
        ("r", "search retry", string.ascii_lowercase.replace("t", "").replace("q", "")),
        ("s", "search stop", string.ascii_uppercase),
    ],
)
async def test_search_call_is_rerun_and_stopped_only_from_its_menu(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, letter: str, act: str, letters: str
) -> None:
    from tests.tui.search_story import running

    app = make_app(*running())
    acts = Acts(app, monkeypatch)
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        pane = app.query_one("#recursion")
        await until(pilot, lambda: bool(pane.region) and bool(pane.focus().has_focus))
        await until(
            pilot, lambda: pane.virtual_size.height > 1
        )  # drawn a little later than the pane is shown
        await pilot.press("home", "enter")
        await until(pilot, lambda: isinstance(app.screen, ActionMenu))
        await pilot.press(letter)
        assert acts == []
        await pilot.press("enter")
        await until(pilot, lambda: acts == [act])
        # Where the call is open, its letters do nothing either.
        await pilot.press("enter", "o")
        await until(pilot, lambda: type(app.screen).__name__ == "NodeScreen")
        await pilot.press(*letters)
        assert acts == [act]


async def test_editor_is_bright_only_while_it_receives_the_keys(app: MahtabApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)

        def bar() -> object:
            return app.editor.styles.border_top

        bright = bar()
        app.query_one("#namespace").focus()
        await pilot.pause()
        assert bar() != bright
        await pilot.press("a")
        await pilot.pause()
        assert bar() == bright


async def test_ctrl_f_filters_the_namespace_visibly(app: MahtabApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        namespace = app.query_one("#namespace")
        namespace.focus()
        await pilot.press("ctrl+f", *"pa")
        assert app.editor.is_empty
        assert "/ pa▏" in namespace.render_line(0).text
        await pilot.press("escape", "x")
        assert app.editor.text == "x"
        assert "/" not in namespace.render_line(0).text


async def test_approval_arriving_while_typing_is_not_answered_by_it(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.tui.story import WAITING

    acts = Acts(app, monkeypatch)
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.press("m")
        assert isinstance(app.session, ScriptedSession)
        app.session.log_record(WAITING, time.time())
        await drawn(pilot)
        await pilot.press(*"y = 'any'")
        assert app.editor.text == "my = 'any'"
        assert acts == []
