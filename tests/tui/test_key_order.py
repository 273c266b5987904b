"""Keys that come in a bunch, before what they are for has taken the ones before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from textual.widgets import Input, TextArea

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.textual_fixes import KeyOrder
from tests.tui.editor_app import until
from tests.tui.inspecting import lines, looking_at, reads
from tests.tui.story import drawn, story

MakeApp = Callable[..., MahtabApp]


def bunch(app: App[Any], *keys: str) -> None:
    """Send the keys of a slow line: one after the other, with nothing in between."""
    for key in keys:
        app.post_message(Key(_character_to_key(key), key) if len(key) == 1 else Key(key, None))


async def test_command_key_acts_after_earlier_letters_and_enter(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(*story())
    submitted: list[tuple[str, str]] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        monkeypatch.setattr(
            app.session, "submit", lambda mode, text: submitted.append((mode, text))
        )
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
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
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


async def test_letters_after_a_command_go_to_the_screen_it_opens(make_app: MakeApp) -> None:
    app = make_app(*story())
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
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


async def test_screen_that_closes_at_once_swallows_no_key(make_app: MakeApp) -> None:
    app = make_app(*story())
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        bunch(app, *"1", "ctrl+p", "escape")
        await until(pilot, lambda: app.editor.text == "1" and len(app.screen_stack) == 1)
        await pilot.press("2")
        assert app.editor.text == "12"


class Busy(Input):
    """It is told something new whenever it has heard something, as long as it is enabled."""

    class Again(Message):
        """Messages that it sends to itself."""

    @on(Again)
    async def _again(self) -> None:
        await asyncio.sleep(0)
        if not self.disabled:
            self.post_message(self.Again())


class Keys(App[None]):
    """Two commands, of which one takes a while."""

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


async def test_constantly_busy_widget_does_not_delay_commands() -> None:
    app = Keys()
    async with app.run_test():
        busy = app.query_one(Busy)
        for _ in range(3):
            busy.post_message(Busy.Again())
        bunch(app, "f6")
        try:
            async with asyncio.timeout(20):
                while not app.actions:
                    await asyncio.sleep(0)
        finally:
            busy.disabled = True


async def test_letters_after_a_jump_go_to_its_pane(make_app: MakeApp) -> None:
    app = make_app(*story())
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
        app.query_one("#transcript").focus()
        await pilot.pause()
        bunch(app, "ctrl+o", *"etype")
        await until(pilot, lambda: app.editor.text == "type" and len(app.screen_stack) == 1)
        assert app.focused is app.query_one("#code")


async def test_letters_after_opening_a_search_are_search_text(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(*story())
    submitted: list[str] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await drawn(pilot)
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
