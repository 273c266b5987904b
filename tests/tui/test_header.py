"""The header: session, model, approval mode, cost, and what the kernel does."""

from __future__ import annotations

import time
from typing import Any

import pytest
from textual.pilot import Pilot

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.widgets.bars import HeaderBar
from tests import tags
from tests.records import made
from tests.tui.editor_app import Clock, until
from tests.tui.scripted_session import IDLE, MakeApp, log, showing

SESSION = records.SessionRecord(name="sales-march", model="claude:sonnet", approval="ask")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    clock.now = time.time()
    monkeypatch.setattr(time, "time", clock)
    return clock


def kernel(state: str, **attrs: Any) -> Record:
    return made(tags.KERNEL, "", {**IDLE, "state": state, **attrs})


def usage(cost: float | None) -> Record:
    about = {"model": "sonnet", "source": "agent", "cost": cost}
    return made(tags.USAGE, "", {**about, "input_tokens": 11_900, "output_tokens": 600})


def line(pilot: Pilot[int]) -> str:
    header = pilot.app.query_one(HeaderBar)
    return header.render_line(0).text.strip()


@pytest.mark.parametrize(
    ("size", "python"), [((120, 40), " 3.12 .venv"), ((80, 24), "")], ids=["wide", "narrow"]
)
async def test_every_kernel_state_is_shown(
    make_app: MakeApp, size: tuple[int, int], python: str
) -> None:
    async with showing(make_app(SESSION), size) as pilot:
        assert line(pilot).endswith("◌ kernel  starting")
        for state, glyph in (("starting", "◌"), ("idle", "●"), ("dead", "✗")):
            await log(pilot, kernel(state))
            assert line(pilot).endswith(f"{glyph} kernel{python}  {state}")


async def test_busy_kernel_shows_its_elapsed_time(make_app: MakeApp, clock: Clock) -> None:
    async with make_app(SESSION).run_test(size=(120, 40)) as pilot:
        await log(pilot, kernel("busy"))
        assert line(pilot).endswith("busy    0.0 s")
        clock.now += 12.34
        await log(pilot, kernel("busy"))
        assert line(pilot).endswith("busy   12.3 s")
        clock.now += 1
        await log(pilot, kernel("idle"))
        assert line(pilot).endswith("idle")
        await log(pilot, kernel("busy"))
        assert line(pilot).endswith("busy    0.0 s")
        # An earlier screen started the cell.
        await log(pilot, kernel("idle"), kernel("busy", since=clock.now - 75.5))
        assert line(pilot).endswith("busy   75.5 s")


async def test_last_of_many_states_is_shown_with_time_since_its_start(
    make_app: MakeApp, clock: Clock
) -> None:
    async with make_app(SESSION).run_test(size=(120, 40)) as pilot:
        header = pilot.app.query_one(HeaderBar)
        states = [("idle", 9.5), ("busy", 9.0), ("idle", 8.0), ("busy", 5.0), ("busy", 1.0)]
        header.fold([kernel(state).changed(time=clock.now - ago) for state, ago in states])
        await pilot.pause()
        assert line(pilot).endswith("busy    5.0 s")
        header.fold([kernel(state).changed(time=clock.now) for state in ("busy", "idle")])
        await pilot.pause()
        assert line(pilot).endswith("idle")
        assert header._auto_refresh_timer is None


async def test_session_model_approval_and_cost(make_app: MakeApp) -> None:
    async with showing(make_app(SESSION, usage(cost=0.031)), (120, 40)) as pilot:
        assert line(pilot).startswith(
            "◐ mahtab  sales-march  claude:sonnet  ask first  12.5k tok  $0.03"
        )
        await log(pilot, SESSION.changed(model="demo", approval="review"))
        assert line(pilot).startswith(
            "◐ mahtab  sales-march  demo  review changes  12.5k tok  $0.03"
        )
        await log(pilot, SESSION.changed(model="demo", approval="auto"), usage(cost=1.0))
        assert line(pilot).startswith("◐ mahtab  sales-march  demo  auto-run  25.0k tok  $1.03")
        await log(pilot, usage(cost=None))
        assert "$1.03+" in line(pilot)


@pytest.mark.parametrize(
    ("size", "name", "expected_text"),
    [
        ((80, 24), "shop", "openrouter:"),
        ((120, 40), "n" * 60, "nnnn"),
        ((120, 40), "shop", "shop  openrouter:"),
    ],
)
async def test_a_long_name_hides_neither_approval_nor_cost(
    make_app: MakeApp, size: tuple[int, int], name: str, expected_text: str
) -> None:
    model = "openrouter:somebody/" + "m" * 60
    session = records.SessionRecord(name=name, model=model, approval="auto")
    async with showing(make_app(session, usage(cost=12.5), kernel("busy")), size) as pilot:
        assert expected_text in line(pilot)
        assert "…  auto-run  " in line(pilot)
        assert "$12.50 " in line(pilot)


async def test_model_activity_replaces_an_idle_kernel(make_app: MakeApp, clock: Clock) -> None:
    turn: dict[str, Any] = {"turn": 1, "step": 0, "party": "claude"}
    code = {**turn, "request": "1", "block": 0, "blocks": 1}
    async with make_app(SESSION).run_test(size=(80, 24)) as pilot:
        await log(pilot, kernel("idle"), records.Agent(**turn, state="thinking"))
        clock.now += 2.5
        await until(pilot, lambda: "thinking    2 s" in line(pilot))
        assert line(pilot).endswith("kernel  thinking    2 s")
        await log(pilot, records.AssistantReading(**turn, share=0.4))
        assert line(pilot).endswith("kernel  reading 40%    2 s")
        await log(pilot, records.AssistantReading(**turn, share=1.0))
        assert line(pilot).endswith("kernel  thinking    2 s")
        words = made(tags.ASSISTANT_CHAT_STREAM, "Yes", {**turn, "kind": "chat", "block": 0})
        await log(pilot, words)
        assert line(pilot).endswith("kernel  writing    2 s")
        await log(pilot, made(tags.ASSISTANT_CHAT, "Yes", turn))
        assert line(pilot).endswith("kernel  thinking"), "idle between two steps of a turn"
        waiting = made(tags.APPROVAL, "x = 1", {**code, "state": "waiting"})
        await log(pilot, waiting)
        clock.now += 61
        await until(pilot, lambda: "61 s" in line(pilot))
        assert line(pilot).endswith("kernel  waiting for you   61 s")
        assert pilot.app.query_one(HeaderBar)._auto_refresh_timer is not None
        await log(pilot, waiting.changed(state="run"), kernel("busy"))
        assert line(pilot).endswith("busy    0.0 s")
        await log(pilot, kernel("idle"), records.Agent(**turn, state="done"))
        assert line(pilot).endswith("kernel  idle")
        assert pilot.app.query_one(HeaderBar)._auto_refresh_timer is None


@pytest.mark.parametrize(
    ("tag", "attrs"),
    [
        (tags.INPUT, {"cell": 1, "password": False}),
        (tags.APPROVAL, {"party": "codex", "guest": 0, "call": "1", "block": 0, "blocks": 1}),
        (tags.RLM_CALL, {"tree": "t", "node": "1", "seq": 0, "event": "fan-out", "calls": 60}),
    ],
    ids=["input", "agent", "search"],
)
async def test_everything_waiting_for_the_user_is_shown(
    make_app: MakeApp, tag: str, attrs: dict[str, Any]
) -> None:
    async with make_app(SESSION, kernel("busy")).run_test(size=(120, 40)) as pilot:
        await log(pilot, made(tag, "1", {**attrs, "request": "1", "state": "waiting"}))
        assert "waiting for you" in line(pilot)
        await log(pilot, made(tag, "1", {**attrs, "request": "1", "state": "run"}))
        assert "busy" in line(pilot)


def window(tokens: int) -> Record:
    return records.Window(tokens=tokens, size=200_000)


@pytest.mark.parametrize(
    ("size", "words"),
    [((120, 40), "  window 34%  12.5k tok"), ((80, 24), "  34%  $0.03")],
    ids=["wide", "narrow"],
)
async def test_the_header_shows_how_full_the_models_window_is(
    make_app: MakeApp, size: tuple[int, int], words: str
) -> None:
    async with make_app(SESSION).run_test(size=size) as pilot:
        await log(pilot, usage(cost=0.03), kernel("idle"))
        assert "%" not in line(pilot), "the share is not known yet"
        await log(pilot, window(68_000))
        assert words in line(pilot)
        assert line(pilot).endswith("idle")
        await log(pilot, window(160_000))
        assert "80%" in line(pilot)
        await log(pilot, SESSION.changed(model="openai:gpt"))
        assert "%" not in line(pilot)
