"""The widget that each key reaches, also when many arrive at once."""

from __future__ import annotations

import asyncio
import string
import time
from collections.abc import AsyncIterator
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
from textual.screen import Screen
from textual.widgets import Input, TextArea

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.inspector.screen import InspectorScreen
from mahtab_tui.tui.key_order import KeyOrder
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.screens.output import PagerScreen
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests.random_input import run
from tests.tui.editor_app import press_at_once, until, wait_for_screen
from tests.tui.inspecting import lines, looking_at, reads
from tests.tui.scripted_session import (
    QUEUED,
    WAITING,
    MakeApp,
    ScriptedSession,
    drawn,
    press_up_to,
    sales_records,
    showing,
)
from tests.tui.search_records import done, running

SIZE = (110, 24)
PANES = ["TranscriptPane", "NamespacePane", "SearchTreePane", "QueueRow"]
PRINTABLE = string.digits + string.ascii_letters + string.punctuation
ONCE_KEYS = "rRxsemyd1/`"
"""Letters that panes could take."""


@pytest.fixture
def acts(app: MahtabApp, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace methods that have effects; return the names of those that were called."""
    called: list[str] = []
    session = app.session
    for owner, names in (
        (session, ("submit", "stop")),
        (session.rewinding, ("rewind",)),
        (session.inbox, ("cancel",)),
        (session.approvals, ("answer",)),
        (session.entries, ("hide",)),
        (session.kernel_control, ("reset", "kill", "activate", "move")),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, lambda *args, name=name: called.append(name))
    monkeypatch.setattr(session.searches, "stop", lambda *args: called.append("search stop"))
    return called


@pytest.fixture
def submitted(app: MahtabApp, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    inputs: list[tuple[str, str]] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text, **_: inputs.append((mode, text)))
    return inputs


@pytest.fixture
def records() -> tuple[Record, ...]:
    return (*sales_records(), *done(), QUEUED)


@pytest.fixture
def app(make_app: MakeApp, records: tuple[Record, ...]) -> MahtabApp:
    return make_app(*records)


def code(app: MahtabApp) -> TextArea:
    return app.query_one("#code", TextArea)


@pytest.fixture
async def pilot(app: MahtabApp) -> AsyncIterator[Pilot[int]]:
    async with showing(app, SIZE) as pilot:
        yield pilot


@pytest.mark.sample(1)
@pytest.mark.parametrize("pane", PANES)
async def test_letters_no_text_field_accepts_go_to_the_editor(
    app: MahtabApp, acts: list[str], pilot: Pilot[int], pane: str
) -> None:
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


@pytest.mark.sample(2)
@pytest.mark.parametrize("pane", [*PANES, "HeaderBar", "#glyph", "Splitter"])
@pytest.mark.usefixtures("acts")
async def test_mouse_never_takes_typing_from_the_editor(
    app: MahtabApp, pilot: Pilot[int], pane: str
) -> None:
    height = app.query(pane).first().size.height
    rows = {0, 1, 2, height // 2, height - 1} & set(range(height))
    for y, times in product(sorted(rows), (1, 2)):
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


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "expected"), [(["r"], []), (["r", "enter"], ["submit"]), (["s"], [])]
)
async def test_running_commands_in_an_entry_menu_wait_for_enter(
    app: MahtabApp, acts: list[str], pilot: Pilot[int], keys: list[str], expected: list[str]
) -> None:
    app.query_one(TranscriptPane).focus()
    await pilot.press("up", "up", "enter")
    await wait_for_screen(pilot, ActionMenu)
    await pilot.press(*keys)
    await pilot.pause()
    assert acts == expected


@pytest.mark.sample(1)
@pytest.mark.parametrize("text", ["rows = 3", "q", "rr = 3", "= 3"])
async def test_text_typed_into_a_menu_goes_to_the_editor_whole(
    app: MahtabApp, acts: list[str], pilot: Pilot[int], text: str
) -> None:
    await press_up_to(pilot, "question 1")
    await pilot.press("enter", *text)
    await until(pilot, lambda: app.editor.text == text)
    assert app.focused is code(app)
    assert acts == []


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("pane", "keys", "screen"),
    [
        ("NamespacePane", ["enter"], InspectorScreen),
        ("TranscriptPane", ["enter", "o"], PagerScreen),
    ],
)
async def test_letter_right_after_the_key_that_opens_a_screen_is_not_typed(
    app: MahtabApp, pilot: Pilot[int], pane: str, keys: list[str], screen: type[Screen[None]]
) -> None:
    if pane == "TranscriptPane":
        await press_up_to(pilot, "cell 3")
    app.query_one(pane).focus()
    await until(pilot, lambda: app.query_one(pane).has_focus)
    await press_at_once(pilot, *keys, "r")
    await wait_for_screen(pilot, screen)
    assert app.editor.is_empty


@pytest.mark.parametrize("records", [tuple(running())], ids=["running"])
async def test_search_call_is_stopped_only_from_its_menu(
    app: MahtabApp, acts: list[str], pilot: Pilot[int]
) -> None:
    pane = app.query_one("#recursion")
    await until(pilot, lambda: bool(pane.region) and bool(pane.focus().has_focus))
    # It is drawn a little later than it is shown.
    await until(pilot, lambda: pane.virtual_size.height > 1)
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
    app: MahtabApp, acts: list[str], pilot: Pilot[int]
) -> None:
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
    app: MahtabApp, pilot: Pilot[int], submitted: list[tuple[str, str]]
) -> None:
    bunch(app, *"12", "enter", "f2", *"who", "enter", "f2", *"34", "enter")
    await until(pilot, lambda: len(submitted) == 3)
    assert submitted == [("python", "12"), ("ask", "who"), ("python", "34")]


async def test_bunched_letters_are_one_edit_and_keys_between_act_in_order(
    app: MahtabApp,
    pilot: Pilot[int],
    submitted: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edits: list[str] = []
    edit = TextArea.edit

    def counted(area: TextArea, change: Edit) -> EditResult:
        edits.append(change.text)
        return edit(area, change)

    monkeypatch.setattr(TextArea, "edit", counted)
    words = "x = '" + "sugar und Größe 糖 " * 1_000 + "'"
    bunch(app, *words, "enter", *"y = 1 # and much more", "left", "backspace")
    bunch(app, *string.ascii_lowercase, "end", "enter")
    await until(pilot, lambda: len(submitted) == 2)
    second = f"y = 1 # and much mo{string.ascii_lowercase}e"
    assert submitted == [("python", words), ("python", second)]
    assert len(edits) < 200


async def test_letters_after_a_command_go_to_the_screen_it_opens(
    app: MahtabApp, pilot: Pilot[int]
) -> None:
    bunch(app, *"12", "f2", "ctrl+p", *"the")
    app.post_message(Paste("me"))
    bunch(app, *"s")
    await until(pilot, lambda: isinstance(app.focused, Input) and app.focused.value == "themes")
    assert len(app.screen_stack) == 2
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


class KeyOrderApp(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "slow", priority=True),
        Binding("f6", "fast", priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.keys = KeyOrder(self, super().on_event, lambda event: False, lambda: None)
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
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
    app = KeyOrderApp()
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
    app: MahtabApp, pilot: Pilot[int], submitted: list[tuple[str, str]]
) -> None:
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
    "seed",
    [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.thorough)],
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
