"""Where keys go, also many at once."""

from __future__ import annotations

import asyncio
import string
import time
from collections.abc import AsyncIterator, Callable
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.document._document import EditResult
from textual.document._edit import Edit
from textual.events import Event, Key, Paste
from textual.keys import _character_to_key
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.textual_fixes import KeyOrder
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.random_input import run
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.inspecting import lines, looking_at, reads
from tests.tui.search_story import done
from tests.tui.story import MakeApp, ScriptedSession, drawn, showing, story

SIZE = (110, 24)
PRINTABLE = [
    character for character in string.printable if character.isprintable() and character != " "
]
ONCE_KEYS = "rRxsemyd1/`"
"""Letters that panes could take."""
QUEUE = made(
    tags.QUEUE, "", {"items": [{"id": 1, "code": "never = 1", "mode": "python", "party": ""}]}, 1.0
)
ACTS = ("submit", "replace", "stop")
KERNEL_ACTS = ("reset", "kill", "activate", "move")


class Acts(list[str]):
    def __init__(self, app: MahtabApp, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ACTS:
            monkeypatch.setattr(app.session, name, self._noting(name))
        monkeypatch.setattr(app.session.inbox, "cancel", self._noting("cancel"))
        monkeypatch.setattr(app.session.approvals, "answer", self._noting("decide"))
        monkeypatch.setattr(app.session.entries, "hide", self._noting("hide"))
        for name in KERNEL_ACTS:
            monkeypatch.setattr(app.session.kernel_control, name, self._noting(name))
        monkeypatch.setattr(app.session.searches, "stop", self._noting("search stop"))

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


@pytest.fixture
async def pilot(app: MahtabApp) -> AsyncIterator[Pilot[int]]:
    async with showing(app, SIZE) as pilot:
        yield pilot


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
            assert app.focused is code(app), character
            assert app.editor.text == ("" if character == "`" else character), character
            app.editor.clear()
        assert len(app.screen_stack) == 1
        assert acts == []


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


async def test_pasted_text_goes_to_the_editor_from_a_pane(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
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


async def test_search_call_is_stopped_only_from_its_menu(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
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
        await pilot.press("s")
        assert acts == []
        await pilot.press("enter")
        await until(pilot, lambda: acts == ["search stop"])
        await pilot.press("enter", "o")
        await until(pilot, lambda: type(app.screen).__name__ == "NodeScreen")
        await pilot.press(*string.ascii_uppercase)
        assert acts == ["search stop"]


async def test_ctrl_f_filters_the_namespace_visibly(app: MahtabApp, pilot: Pilot[int]) -> None:
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


def bunch(app: App[Any], *keys: str) -> None:
    for key in keys:
        app.post_message(Key(_character_to_key(key), key) if len(key) == 1 else Key(key, None))


async def test_command_key_acts_after_earlier_letters_and_enter(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    submitted: list[tuple[str, str]] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text: submitted.append((mode, text)))
    bunch(app, *"12", "enter", "f2", *"who", "enter", "f2", *"34", "enter")
    await until(pilot, lambda: len(submitted) == 3)
    assert submitted == [("python", "12"), ("ask", "who"), ("python", "34")]


async def test_bunched_letters_are_one_edit_and_keys_between_act_in_order(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(*story())
    edits: list[str] = []
    edit = TextArea.edit

    def counted(area: TextArea, change: Edit) -> EditResult:
        edits.append(change.text)
        return edit(area, change)

    monkeypatch.setattr(TextArea, "edit", counted)
    submitted: list[tuple[str, str]] = []
    words = "x = '" + "sugar und Größe 糖 " * 1_000 + "'"
    async with showing(app, (120, 40)) as pilot:
        monkeypatch.setattr(
            app.session, "submit", lambda mode, text: submitted.append((mode, text))
        )
        bunch(
            app,
            *words,
            "enter",
            *"y = 1 # ",
            *"and much more",
            "left",
            "backspace",
            *"abcdefghijklmnopqrstuvwxyz",
            "end",
            "enter",
        )
        await until(pilot, lambda: len(submitted) == 2)
    assert submitted == [
        ("python", words),
        ("python", "y = 1 # and much moabcdefghijklmnopqrstuvwxyze"),
    ]
    assert len(edits) < 200


async def test_letters_after_a_command_go_to_the_screen_it_opens(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    bunch(app, *"12", "f2", "ctrl+p", *"the")
    app.post_message(Paste("me"))
    bunch(app, *"s")
    await until(
        pilot,
        lambda: (
            len(app.screen_stack) == 2
            and isinstance(app.focused, Input)
            and app.focused.value == "themes"
        ),
    )
    await pilot.press("escape")
    await until(pilot, lambda: len(app.screen_stack) == 1)
    assert (app.editor.text, app.editor.mode) == ("12", "ask")


class Busy(Input):
    class Again(Message):
        """To itself."""

    @on(Again)
    async def _again(self) -> None:
        await asyncio.sleep(0)
        if not self.disabled:
            self.post_message(self.Again())


class Keys(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "slow", priority=True),
        Binding("f6", "fast", priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.keys = KeyOrder(self, super().on_event, lambda event: False)
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.actions: list[str] = []

    def compose(self) -> ComposeResult:
        yield Busy()

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key | Paste) and not event.is_forwarded and self.screen_stack:
            await self.keys.enqueue(event)
        else:
            await super().on_event(event)

    async def action_slow(self) -> None:
        self.begun.set()
        await self.may_end.wait()
        self.actions.append("slow")

    def action_fast(self) -> None:
        self.actions.append("fast")


async def test_no_key_overtakes_a_slow_one() -> None:
    app = Keys()
    async with app.run_test() as pilot:
        bunch(app, "a", "f5")
        await asyncio.wait_for(app.begun.wait(), 30)
        bunch(app, "f6", "b")
        for _ in range(20):
            await asyncio.sleep(0)
        overtaken = list(app.actions)
        app.may_end.set()
        assert not overtaken
        await until(
            pilot, lambda: app.actions == ["slow", "fast"] and app.query_one(Input).value == "ab"
        )


async def test_letters_after_a_jump_go_to_its_pane(app: MahtabApp, pilot: Pilot[int]) -> None:
    app.query_one("#transcript").focus()
    await pilot.pause()
    bunch(app, "ctrl+o", *"etype")
    await until(pilot, lambda: app.editor.text == "type" and len(app.screen_stack) == 1)
    assert app.focused is app.query_one("#code")


async def test_letters_after_opening_a_search_are_search_text(
    app: MahtabApp, monkeypatch: pytest.MonkeyPatch, pilot: Pilot[int]
) -> None:
    submitted: list[str] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text: submitted.append(text))
    app.query_one("#transcript").focus()
    await pilot.press("up")
    bunch(app, "ctrl+f", *"rRun")
    await until(pilot, lambda: isinstance(app.focused, Input) and app.focused.value == "rRun")
    assert (submitted, app.editor.text) == ([], "")


async def test_letters_after_opening_a_filter_go_into_it(make_app: MakeApp) -> None:
    async with looking_at(make_app(), "rows = [{'n': n} for n in range(30)]", "rows") as pilot:
        await reads(pilot, "row 1 of 30")
        bunch(pilot.app, *"/= 2", "enter", "x", *"/> 27", "enter")
        await reads(pilot, "match 1 of 2 (of 30 rows)")
        assert any("28" in line for line in lines(pilot))


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
async def test_random_input_raises_no_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    await run(seed, 60)


async def test_screen_that_closes_at_once_swallows_no_key(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    bunch(app, *"1", "ctrl+p", "escape")
    await until(pilot, lambda: app.editor.text == "1" and len(app.screen_stack) == 1)
    await pilot.press("2")
    assert app.editor.text == "12"
