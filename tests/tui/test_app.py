"""The whole screen: pictures of its states, from records that are always the same."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.face import NoFace
from mahtab_tui.settings import load_settings
from mahtab_tui.store.history import History
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.drain import RATE
from mahtab_tui.tui.guard import ScreenGuard

IDLE = {"state": "idle", "python": "3.12.1", "executable": "/home/ada/sales/.venv/bin/python", "cwd": "/home/ada/sales", "pid": 1}
CODE = 'daily = df.groupby("day").revenue.sum()\nz = (daily - daily.median()) / daily.std()\noutliers = daily[z.abs() > 3]\noutliers'
OUTPUT = "day\n2026-03-14    48211.50\n2026-03-29      112.00\nName: revenue, dtype: float64\n"
SEARCH = 'print(grep(log, "2026-03-29.*(ERROR|timeout)", context=1))'


def change(name: str, type: str, summary: str, what: str = "added") -> dict[str, Any]:
    return {"name": name, "change": what, "type": type, "summary": summary, "kind": "data"}


def story() -> Iterator[Record]:
    """A question about sales, half answered: the last block of code waits."""

    def record(tag: str, text: str = "", /, **attrs: Any) -> Record:
        return Record(tag, text, attrs, 1.0)

    turn = {"turn": 1, "party": "claude"}
    yield record(tags.SESSION, name="sales-march", model="claude:sonnet", approval="ask")
    yield record(tags.KERNEL, **IDLE)
    early = [change("n", "int", "42"), change("path", "PosixPath", "data/sales.csv"), change("log", "str", "18.4 M chars")]
    yield record(tags.NAMESPACE, cell=1, party="you", fresh=False, changes=early)
    yield record(tags.USER_REPL_IN, 'df = pd.read_csv("sales.csv")\ndf.shape', cell=3, party="you")
    yield record(tags.USER_REPL_OUT, "(10000, 5)\n", cell=3, party="you", status="ok", duration=0.08, kinds=[["value", 11]])
    yield record(tags.NAMESPACE, cell=3, party="you", fresh=False, changes=[change("df", "DataFrame", "10000 × 5")])
    yield record(tags.USER_CHAT, "which days are outliers, and why?", turn=1)
    answer = f"I'll compare each day with the **median** of all days.\n\n```python\n{CODE}\n```\n"
    yield record(tags.ASSISTANT_CHAT, answer, **turn, step=0, stopped=False)
    yield record(tags.ASSISTANT_REPL_IN, CODE, cell=4, **turn, step=0, block=0)
    yield record(tags.ASSISTANT_REPL_OUT, OUTPUT, cell=4, **turn, step=0, block=0, status="ok", duration=0.21, kinds=[["value", len(OUTPUT)]])
    made = [change("daily", "Series", "float64 (31,)"), change("z", "Series", "float64 (31,)"), change("outliers", "Series", "float64 (2,)")]
    yield record(tags.NAMESPACE, cell=4, party="claude", fresh=False, changes=made)
    yield record(tags.USAGE, model="sonnet", input_tokens=11_900, output_tokens=512, cost=0.031, source="agent")
    second = f"Two days stand out. To see what happened on the 29th I'd search the log:\n\n```python\n{SEARCH}\n```\n"
    yield record(tags.ASSISTANT_CHAT, second, **turn, step=1, stopped=False)


WAITING = Record(tags.APPROVAL, SEARCH, {"request": "1", "turn": 1, "step": 1, "block": 0, "blocks": 1, "state": "waiting", "party": "claude"}, 1.0)


@pytest.fixture
def make_app(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., MahtabApp]]:
    """The application over a session that was never started: nothing in the picture depends on a clock or a machine."""
    sessions: list[Session] = []

    def make(*records: Record, theme: str = "mahtab") -> MahtabApp:
        session = Session(load_settings(model="demo", theme=theme), ProcessKernel, NoFace(), name="sales-march")
        sessions.append(session)

        def tell() -> None:
            for record in records:
                # Changed rows fade with time: the namespace is an old one. What waits must not be: an old question waits no longer.
                created = 1.0 if record.tag == tags.NAMESPACE else time.time()
                logged = {"msg": record.text, "tag": record.tag, "attrs": record.attrs, "created": created, "levelno": logging.INFO}
                session.log.handle(logging.makeLogRecord(logged))

        monkeypatch.setattr(session, "start", tell)
        app = MahtabApp(session, ScreenGuard(lambda text: None), History(home / "history.db", str(project)))
        app.animation_level = "none"
        return app

    yield make
    for session in sessions:
        session.close()


RunBefore = Callable[[Pilot[int]], Awaitable[None]]


def pressing(*keys: str) -> RunBefore:
    """Wait until the records are drawn, then press keys; cursors do not blink."""

    async def run(pilot: Pilot[int]) -> None:
        for area in pilot.app.query(TextArea):
            area.cursor_blink = False
        await pilot.pause(2 * RATE)
        await pilot.press(*keys)
        await pilot.pause(2 * RATE)
        for field in pilot.app.screen.query(Input):
            field.cursor_blink = False
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_python_mode(snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp], size: tuple[int, int]) -> None:
    assert snap_compare(make_app(*story()), terminal_size=size, run_before=pressing(*"total = 1"))


@pytest.mark.parametrize("size", [(80, 24), (160, 46)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_ask_mode_while_code_waits(snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp], size: tuple[int, int]) -> None:
    keys = ["f2", *"and plot the week around it"]
    assert snap_compare(make_app(*story(), WAITING), terminal_size=size, run_before=pressing(*keys))


def test_the_light_theme(snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp]) -> None:
    assert snap_compare(make_app(*story(), theme="mahtab-day"), terminal_size=(120, 40), run_before=pressing())


def test_before_anything_was_said(snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp]) -> None:
    first = Record(tags.SESSION, "", {"name": "sales", "model": "demo", "approval": "ask"}, 1.0)
    idle = Record(tags.KERNEL, "", IDLE, 1.0)
    assert snap_compare(make_app(first, idle), terminal_size=(120, 40), run_before=pressing())


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_help(snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp], size: tuple[int, int]) -> None:
    assert snap_compare(make_app(*story()), terminal_size=size, run_before=pressing("f1"))


async def test_the_side_panes_hide_and_come_back(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app(*story())
    async with app.run_test(size=(120, 40)) as pilot:
        assert app.query_one("#side").display
        await pilot.press("f3")
        assert not app.query_one("#side").display
        await pilot.press("f3")
        assert app.query_one("#side").display


async def test_on_a_narrow_screen_the_side_is_a_drawer(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app(*story())
    async with app.run_test(size=(80, 24)) as pilot:
        assert not app.query_one("#side").display
        await pilot.press("f3")
        assert app.query_one("#side").display
        await pilot.resize_terminal(200, 50)
        await pilot.pause()
        assert app.query_one("#side").display


async def test_the_chosen_theme_is_kept(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.press("f10")
        assert app.theme == "mahtab-day"
    app.choices.save()
    again = make_app(theme="")
    assert again.theme == "mahtab-day"


async def test_a_persons_keymap_changes_a_binding(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app()
    app.keymap_given = {"toggle-mode": "f4"}
    async with app.run_test() as pilot:
        await pilot.press("f4")
        assert app.editor.mode == "ask"
        await pilot.press("f2")
        assert app.editor.mode == "ask"


async def test_an_unknown_slash_command_is_said_and_not_sent(make_app: Callable[..., MahtabApp], monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app()
    sent: list[str] = []
    monkeypatch.setattr(app.session, "submit", lambda mode, text: sent.append(text))
    async with app.run_test() as pilot:
        await pilot.press("f2", *"/nonsense", "enter")
        await pilot.pause()
        assert not sent
        assert any("/nonsense" in notification.message for notification in app._notifications)


async def test_ctrl_c_clears_the_editor_and_undo_brings_it_back(make_app: Callable[..., MahtabApp]) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await pilot.press(*"abc", "ctrl+c")
        assert app.editor.text == ""
        await pilot.press("ctrl+z")
        assert app.editor.text == "abc"
