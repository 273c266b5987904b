"""The question before a large fan-out, and changes that wait to be kept or undone."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from textual.containers import VerticalScroll
from textual.events import Key, Paste
from textual.pilot import Pilot
from textual.widgets import Input, Static

from mahtab_tui.bus.change_lines import MAX_LISTED_CHANGES
from mahtab_tui.bus.entries import Cell
from mahtab_tui.bus.records import Record, SearchFanOut
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.widgets import prompt_row
from mahtab_tui.tui.widgets.chips import Chips
from mahtab_tui.tui.widgets.fan_out_row import FanOutRow
from mahtab_tui.tui.widgets.review_row import ReviewRow
from tests import tags
from tests.records import made
from tests.tui.editor_app import (
    SIZE,
    actions,
    app_of,
    press_at_once,
    screen_text,
    static_text,
    until,
    wait_a_second,
    write,
)
from tests.tui.scripted_session import MakeApp, change, drawn, sales_records, showing
from tests.tui.search_app import RecordingControl

CHANGES = [
    change("df", "DataFrame", "98 × 5", "changed") | {"was_type": "DataFrame", "was": "100 × 4"},
    change("total", "int", "5"),
    change("[red]x[/]\n", "str", "'\x1b]0;y\x07'", "deleted"),
]
LEFT = [{"name": "numbers", "reason": "the generator has moved on"}]


def fan_out(state: str, request: str = "q1", node: str = "1.7", **about: Any) -> SearchFanOut:
    about = {"batch": 2, "calls": 340, "tokens": 1_200_000, "usd": 1.1} | about
    return SearchFanOut(tree="t1", node=node, request=request, state=state, **about)


@pytest.fixture
def app(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> MahtabApp:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 0.001)
    app = make_app()
    monkeypatch.setattr(app.session.searches, "answer", RecordingControl().answer)
    return app


def calls(app: MahtabApp) -> list[tuple[object, ...]]:
    control = getattr(app.session.searches.answer, "__self__", None)
    assert isinstance(control, RecordingControl)
    return control.calls


async def ask_fan_out(pilot: Pilot[int], *records: Record, accept_keys: bool = True) -> FanOutRow:
    """Let a search ask; by default until the row accepts keys."""
    await drawn(pilot)
    row = pilot.app.query_one(FanOutRow)
    row.fold(records or [fan_out("waiting")])
    await pilot.pause()
    if accept_keys:
        accept_keys_at_once(row)
    return row


def accept_keys_at_once(row: FanOutRow) -> None:
    chips = row.query_one(Chips)
    chips._accept_clicks_from = chips._accept_keys_from = 0.0


def question(row: FanOutRow) -> str:
    return str(row.query_one("#fan-out-about", Static).content)


def ended(node: str, state: str) -> Record:
    return made(tags.RLM_FINAL, "", {"tree": "t1", "node": node, "state": state})


@pytest.mark.sample(1)
@pytest.mark.parametrize(("key", "run"), [("y", True), ("n", False)])
async def test_a_key_answers(app: MahtabApp, key: str, run: bool) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask_fan_out(pilot)
        assert "340 calls at once, about 1.2 M tokens, about $1.10" in question(row)
        await pilot.press(key)
        await pilot.pause()
        assert calls(app) == [("answer", "q1", run)]
        assert not row.display
        assert app.editor.has_focus_within


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "closing_record",
    [fan_out("run"), fan_out("refused"), ended("1.7", "stopped")],
    ids=["run", "refused", "stopped"],
)
async def test_row_closes_when_the_question_does(app: MahtabApp, closing_record: Record) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask_fan_out(pilot)
        row.fold([ended("1.2", "done")])
        assert row.display
        row.fold([closing_record])
        assert not row.display
        assert calls(app) == []


async def test_questions_are_asked_one_after_another(app: MahtabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask_fan_out(
            pilot, fan_out("waiting"), fan_out("waiting", "q2", "1.8", calls=50)
        )
        row.fold([fan_out("run", "q2", "1.8")])
        assert row.display
        row.fold([fan_out("waiting", "q3", "1.9", calls=77), fan_out("run")])
        assert "77 calls" in question(row)


async def test_row_shows_what_the_calls_may_cost(app: MahtabApp) -> None:
    async with showing(app) as pilot:
        await ask_fan_out(pilot)
        await pilot.pause()
        assert (
            "▌ A search wants to make 340 calls at once, about 1.2 M tokens, about $1.10\n"
            "▌  y run them    n don't\n"
        ) in screen_text(pilot).replace(" ▌", "▌")


async def test_answer_to_a_closed_question_does_not_answer_the_next_one(app: MahtabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask_fan_out(pilot, fan_out("waiting"), fan_out("waiting", "q2", calls=50))
        row.query_one(Chips).post_message(Chips.Chosen("q1", "run", None))
        row.fold([fan_out("refused")])
        await pilot.pause()
        assert calls(app) == []
        assert "50 calls" in question(row)


async def test_second_of_two_bunched_keys_does_not_answer_the_next_question(app: MahtabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask_fan_out(pilot, fan_out("waiting"), fan_out("waiting", "q2"))
        await press_at_once(pilot, "y", "y")
        # Two letters that arrive together may both be text.
        assert calls(app) in ([("answer", "q1", True)], [])
        assert row.display


async def test_late_key_does_not_answer_a_question_asked_after_it(app: MahtabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask_fan_out(pilot, fan_out("waiting"), fan_out("waiting", "q2"))
        late_key = Key("y", "y")
        second = Key("y", "y")
        app.post_message(late_key)
        await until(pilot, lambda: bool(calls(app)))
        await pilot.pause()
        accept_keys_at_once(row)  # a busy machine is that slow
        app.post_message(second)
        await pilot.pause()
        assert calls(app) == [("answer", "q1", True)]
        assert row.display


# Changes that the user keeps or undoes.


def text(pilot: Pilot[Any], area: str) -> str:
    return static_text(pilot, f"#review-{area}")


def review(changes: list[dict[str, Any]], not_restored: list[dict[str, str]]) -> dict[str, Any]:
    about = {"request": "1", "cells": [4], "state": "waiting", "party": "claude"}
    return {**about, "changes": changes, "not_restored": not_restored}


async def ask_review(
    pilot: Pilot[None], request: str = "1", *, accept_keys: bool = True, **fields: Any
) -> None:
    """Let changes wait; by default until the row accepts keys."""
    app_of(pilot).fold(tags.REVIEW, **review(CHANGES, LEFT) | {"request": request} | fields)
    await pilot.pause()
    if accept_keys:
        wait_a_second(pilot)


def decided(action: str, reason: str = "", request: str = "1") -> tuple[object, ...]:
    return ("reviewed", request, action, reason)


async def test_row_shows_changes_and_what_cannot_be_undone(pilot: Pilot[None]) -> None:
    await ask_review(pilot)
    assert text(pilot, "about") == "Keep or undo what cell 4 of claude changed?"
    rows = text(pilot, "changes").split("\n")
    assert rows[:2] == ["~ df  DataFrame 100 × 4 → 98 × 5", "+ total  int 5"]
    assert rows[2].startswith("− [red]x[/]")
    assert "\x1b" not in rows[2]
    assert rows[3:] == ["", "Cannot be undone:", "  numbers: the generator has moved on"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("key", "action"), [("y", "keep"), ("a", "all"), ("escape", "stop")])
async def test_a_key_decides(pilot: Pilot[None], key: str, action: str) -> None:
    await ask_review(pilot)
    await pilot.press(key)
    await until(pilot, lambda: bool(actions(pilot)))
    assert not pilot.app.query_one(ReviewRow).display
    await pilot.press(key)
    assert actions(pilot) == [decided(action)]


async def test_undo_asks_why_and_waits_for_enter(pilot: Pilot[None]) -> None:
    await ask_review(pilot)
    await pilot.press("f7", "n")
    assert actions(pilot) == []
    await write(pilot, "not so")
    pilot.app.query_one("#review-reason", Input).post_message(Paste(" \x1b[2Jor\nso"))
    await pilot.press("enter", "enter")
    assert actions(pilot) == [decided("undo", "not so or so")]


async def test_key_repeat_answers_only_one_question(pilot: Pilot[None]) -> None:
    await ask_review(pilot)
    await ask_review(pilot, "2", accept_keys=False)
    await pilot.press("f7")
    wait_a_second(pilot)
    for _ in range(25):
        await pilot.press("y")
        app_of(pilot).clock.now += 0.1
    assert actions(pilot) == [decided("keep")]


@pytest.mark.thorough
async def test_many_changes_are_counted_and_scroll(pilot: Pilot[None]) -> None:
    changes = [change(f"x{number}", "int", "1") for number in range(20_000)]
    await ask_review(pilot, changes=changes, not_restored=[])
    rows = text(pilot, "changes").split("\n")
    assert rows[MAX_LISTED_CHANGES - 1 :] == [
        f"+ x{MAX_LISTED_CHANGES - 1}  int 1",
        f"and {20_000 - MAX_LISTED_CHANGES:,} more",
    ]
    scroll = pilot.app.query_one("#review-scroll", VerticalScroll)
    assert scroll.size.height == SIZE[1] // 3
    assert pilot.app.query_one(ReviewRow).size.height == scroll.size.height + 2, (
        "a line above and one below"
    )
    await pilot.press("end")
    assert scroll.scroll_y == scroll.max_scroll_y
    assert actions(pilot) == []


async def test_screen_passes_the_answer_on_and_the_cell_is_marked_as_waiting(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 0.001)
    records = itertools.takewhile(lambda record: record.tag != tags.USAGE, sales_records())
    app = make_app(*records, made(tags.REVIEW, "", review(CHANGES, LEFT), 1.0))
    async with showing(app, (120, 35)) as pilot:
        session = app.session
        row = app.query_one(ReviewRow)
        assert app.panes.prompt_row is row
        entries = app.panes.transcript.viewport.transcript.entries
        cells = [entry for entry in entries if isinstance(entry, Cell) and entry.number == 4]
        assert [cell.approval for cell in cells] == ["waiting"]
        await pilot.press("f7")
        row.query_one(Chips)._accept_keys_from = 0.0
        await pilot.press("y")
        await until(pilot, lambda: not (session.approvals.waiting or row.display))
        assert session.approvals.wait("1").action == "keep"
        assert app.editor.query("#code").first().has_focus
