"""Questions before leaving."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from mahtab_tui.bus.records import Record
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.dialog import ActionMenu
from mahtab_tui.tui.widgets.question_rows import LeaveRow
from tests import tags
from tests.records import made
from tests.tui.editor_app import until
from tests.tui.story import change, drawn

MakeApp = Callable[..., MahtabApp]
MADE = made(
    tags.NAMESPACE,
    "",
    {"cell": 1, "party": "you", "fresh": False, "changes": [change("n", "int", "42")]},
    1.0,
)
MODULE = made(
    tags.NAMESPACE,
    "",
    {
        "cell": 1,
        "party": "you",
        "fresh": False,
        "changes": [{**change("os", "module", ""), "kind": "module"}],
    },
    1.0,
)
FROM_START = made(
    tags.NAMESPACE,
    "",
    {"cell": 0, "party": "you", "fresh": True, "changes": [change("helper", "int", "1")]},
    1.0,
)
QUEUED = made(
    tags.QUEUE, "", {"items": [{"id": 1, "code": "never = 1", "mode": "python", "party": ""}]}, 1.0
)


def question(pilot: Pilot[int]) -> str:
    assert isinstance(pilot.app, MahtabApp)
    row = pilot.app.command_context.quit_flow.row
    return "" if row is None else row.render().plain


async def left(pilot: Pilot[int]) -> bool:
    await pilot.pause()
    return pilot.app._exit


@pytest.mark.parametrize(
    "records", [(), (MODULE,), (FROM_START,)], ids=["nothing", "a module", "what the start made"]
)
@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+d"])
async def test_quits_at_once_with_nothing_to_lose(
    make_app: MakeApp, records: tuple[Record, ...], key: str
) -> None:
    app = make_app(*records)
    async with app.run_test() as pilot:
        await drawn(pilot)
        await pilot.press(key)
        assert await left(pilot)


@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+d"])
@pytest.mark.parametrize(
    ("records", "lost"),
    [
        ((MADE,), "1 name of the namespace"),
        ((QUEUED,), "1 queued input"),
        ((QUEUED, MADE), "1 queued input, 1 name"),
    ],
)
async def test_possible_losses_are_named_and_the_same_key_quits(
    make_app: MakeApp,
    monkeypatch: pytest.MonkeyPatch,
    records: tuple[Record, ...],
    lost: str,
    key: str,
) -> None:
    monkeypatch.setattr("mahtab_tui.tui.app.KEY_REPEAT_S", 0)
    app = make_app(*records)
    async with app.run_test() as pilot:
        await drawn(pilot)
        await pilot.press(key)
        assert not await left(pilot)
        assert lost in question(pilot)
        await pilot.press(key)
        assert await left(pilot)


@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+d"])
async def test_key_repeat_asks_and_does_not_quit(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr("mahtab_tui.tui.app.KEY_REPEAT_S", 60)
    async with make_app(MADE).run_test() as pilot:
        await drawn(pilot)
        await pilot.press(key, key, key, key)
        assert not await left(pilot)
        assert question(pilot)


async def test_draft_and_running_work_count_as_something_to_lose(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    busy = [True, True]
    monkeypatch.setattr(type(app.session), "cell_runs", property(lambda session: busy[0]))
    monkeypatch.setattr(type(app.session), "turn_runs", property(lambda session: busy[1]))
    async with app.run_test() as pilot:
        await drawn(pilot)
        await pilot.press(*"abc", "ctrl+q")
        assert "the running cell, the unfinished answer, the text in the editor" in question(pilot)
        busy[:] = False, False
        app.editor.clear()
        await until(pilot, lambda: "Nothing would be lost now" in question(pilot))
        assert not await left(pilot)


@pytest.mark.parametrize("between", ["escape", "x", "f3", "space"])
async def test_any_other_key_stays_and_the_next_quit_asks_again(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    app = make_app(MADE)
    stopped: list[str] = []
    monkeypatch.setattr(app.session, "stop", lambda: stopped.append("stop"))
    async with app.run_test() as pilot:
        await drawn(pilot)
        await pilot.press("ctrl+q", between, "ctrl+q")
        assert not await left(pilot)
        assert question(pilot)
        assert stopped == []
        assert app.editor.text == {"x": "x", "space": " "}.get(between, "")
        await until(pilot, lambda: len(app.screen.query(LeaveRow)) == 1)


async def test_quit_over_another_screen_asks_there(make_app: MakeApp) -> None:
    app = make_app(MADE)
    async with app.run_test(size=(80, 24)) as pilot:
        await drawn(pilot)
        await pilot.press("f1", "ctrl+q")
        await pilot.pause()
        row = app.screen.query_one(LeaveRow)
        assert app.screen.get_widget_at(5, 23)[0] is row
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.query(LeaveRow))
        assert len(app.screen_stack) == 2


async def test_detachable_namespace_does_not_count_as_lost(make_app: MakeApp) -> None:
    app = make_app(MADE)
    app.keeps_namespace = True
    async with app.run_test() as pilot:
        await drawn(pilot)
        await pilot.press("ctrl+q")
        assert await left(pilot)


async def test_late_widget_message_after_shutdown_does_not_fail(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await drawn(pilot)
        widget = app.editor
    await app._on_message(ActionMenu.Typed([]).set_sender(widget))
