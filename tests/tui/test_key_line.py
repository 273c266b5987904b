"""The line of keys at the bottom."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.pilot import Pilot
from textual.widgets import Input, Label

from mahtab_tui.bus.records import Decision
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.transcript.entries import PendingRequests
from mahtab_tui.tui.widgets import approval_row, prompt_row
from mahtab_tui.tui.widgets.key_line import KeyLine
from mahtab_tui.tui.widgets.question_rows import InputRow
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.story import WAITING, ScriptedSession, drawn, story


async def test_line_is_redrawn_only_when_its_keys_change(
    make_app: Callable[..., MahtabApp],
) -> None:
    app = make_app(*story())
    async with app.run_test() as pilot:
        await drawn(pilot)
        before = app.screen.query_one(KeyLine).keys
        app.screen.refresh_bindings()
        await pilot.pause()
        await pilot.pause()
        assert app.screen.query_one(KeyLine).keys is before
        app.set_keymap({"help": "f12"})
        await until(
            pilot, lambda: any(key.key == "f12" for key in app.screen.query_one(KeyLine).keys)
        )


class Keys(App[None]):
    """Keys of three kinds, in more columns than there are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+a", "note('a')", "Alpha", tooltip="the first"),
        Binding("f9", "note('a')", "Alpha again"),
        Binding("ctrl+b", "off", "日本語"),
        Binding("minus", "note('-')", "Slower", key_display="-"),
        Binding("ctrl+d", "note('d')", "D" * 40),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []
        self.bells = 0

    def compose(self) -> ComposeResult:
        yield KeyLine()

    def action_note(self, what: str) -> None:
        self.noted.append(what)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return None if action == "off" else True

    def bell(self) -> None:
        self.bells += 1


async def test_a_click_presses_the_key_under_the_mouse() -> None:
    app = Keys()
    async with app.run_test(size=(30, 5)) as pilot:
        line = app.query_one(KeyLine)
        await until(pilot, lambda: "Alpha" in line.render_line(0).text)
        assert line.render_line(0).text == " ^a Alpha  ^b 日本語  - Slower"
        await pilot.click(line, offset=(9, 0))
        await pilot.click(line, offset=(10, 0))
        assert (app.noted, app.bells) == (["a"], 1)
        await pilot.click(line, offset=(22, 0))
        assert app.noted == ["a", "-"]
        await pilot.hover(line, offset=(2, 0))
        await until(pilot, lambda: line.tooltip == "the first")
        line._scroll(1000)
        assert line.render_line(0).text == "D" * 29 + " "
        await pilot.click(line, offset=(0, 0))
        assert app.noted == ["a", "-", "d"]
        line._scroll(-1000)
        assert line.render_line(0).text.startswith(" ^a Alpha")


def keys(pilot: Pilot[int]) -> list[str]:
    return [key.description for key in pilot.app.screen.query_one(KeyLine).keys]


async def test_key_for_a_waiting_row_is_shown_while_something_waits(
    make_app: Callable[..., MahtabApp],
) -> None:
    ask = made(
        tags.INPUT,
        "(Pdb) ",
        {"request": "1", "cell": 1, "password": False, "state": "waiting"},
        1.0,
    )
    app = make_app(*story())
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        assert isinstance(app.session, ScriptedSession)
        assert "Answer" not in keys(pilot)
        app.editor.text = "half"  # so that the line does not take the focus
        app.session.log_record(ask, time.time())
        await drawn(pilot)
        await until(pilot, lambda: keys(pilot)[0] == "Answer")
        line = app.query_one(InputRow).query_one(Input)
        assert app.focused is not line
        await pilot.press("f7")
        assert app.focused is line
        app.editor.focus()
        await pilot.press("ctrl+o")
        await until(
            pilot, lambda: "w" in [str(label.content).strip() for label in app.screen.query(Label)]
        )
        await pilot.press("w")
        await until(pilot, lambda: len(app.screen_stack) == 1 and app.focused is line)
        app.session.log_record(ask.changed(state="answered"), time.time())
        await drawn(pilot)
        await until(pilot, lambda: "Answer" not in keys(pilot))


def test_stopped_search_no_longer_waits() -> None:
    about = {"tree": "t", "node": "1", "seq": 0}
    waiting = PendingRequests()
    fan_out = {
        **about,
        "event": "fan-out",
        "request": "1",
        "batch": "b",
        "calls": 60,
        "state": "waiting",
    }
    waiting.fold(made(tags.RLM_CALL, "", fan_out, 5.0))
    assert waiting.since == 5.0
    waiting.fold(made(tags.RLM_FINAL, "", {**about, "state": "stopped"}, 6.0))
    assert waiting.since is None


async def test_maximise_key_runs_code_being_edited(
    make_app: Callable[..., MahtabApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_row, "IGNORE_KEYS_S", 0.0)
    monkeypatch.setattr(prompt_row, "IGNORE_KEYS_S", 0.0)
    decisions: list[Decision] = []
    app = make_app(*story(), WAITING)
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        monkeypatch.setattr(
            app.session, "decide", lambda request, decision: decisions.append(decision)
        )
        await pilot.press("f7", "e", "f5")
        await until(pilot, lambda: bool(decisions))
        assert [(decision.action, decision.code) for decision in decisions] == [
            ("run", WAITING.text)
        ]
        await pilot.press("f5")
        assert (len(decisions), app.screen.maximized is not None) == (1, True)


@pytest.mark.parametrize("size", [(20, 5), (10, 3), (40, 8)])
async def test_key_answers_nothing_where_the_answers_do_not_fit(
    make_app: Callable[..., MahtabApp], monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setattr(prompt_row, "IGNORE_KEYS_S", 0.0)
    decisions: list[Decision] = []
    app = make_app(*story(), WAITING)
    async with app.run_test(size=size) as pilot:
        await drawn(pilot)
        monkeypatch.setattr(
            app.session, "decide", lambda request, decision: decisions.append(decision)
        )
        await pilot.press("f7", "y", "f7", "y", "f7", "a")
        await pilot.pause()
        assert decisions == []
        await pilot.resize_terminal(80, 24)
        await drawn(pilot)
        await pilot.press("f7", "y")
        await until(pilot, lambda: bool(decisions))
