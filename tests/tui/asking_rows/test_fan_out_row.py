"""The question before a large fan-out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.bus.records import Record, SearchFanOut
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.widgets import prompt_row
from mahtab_tui.tui.widgets.prompt_row import Chips
from mahtab_tui.tui.widgets.question_rows import FanOutRow, estimate
from tests import tags
from tests.records import made
from tests.tui.editor_app import press_at_once, until
from tests.tui.search_app import RecordingControl
from tests.tui.story import drawn


def fan_out(state: str, request: str = "q1", node: str = "1.7", **about: Any) -> SearchFanOut:
    asked = SearchFanOut(
        tree="t1",
        node=node,
        request=request,
        batch=2,
        calls=340,
        tokens=1_200_000,
        usd=1.1,
        state=state,
    )
    return asked.changed(**about)


@pytest.fixture
def app(make_app: Callable[..., MahtabApp], monkeypatch: pytest.MonkeyPatch) -> MahtabApp:
    monkeypatch.setattr(prompt_row, "TYPING_GAP_S", 0.001)
    app = make_app()
    monkeypatch.setattr(app.session.searches, "answer", RecordingControl().answer)
    return app


def calls(app: MahtabApp) -> list[tuple[object, ...]]:
    control = getattr(app.session.searches.answer, "__self__", None)
    assert isinstance(control, RecordingControl)
    return control.calls


async def ask(pilot: Pilot[int], *records: Record, accept_keys: bool = True) -> FanOutRow:
    """A search asks; unless told otherwise until the row hears."""
    await drawn(pilot)
    row = pilot.app.query_one(FanOutRow)
    row.fold(records or [fan_out("waiting")])
    await pilot.pause()
    if accept_keys:
        chips = row.query_one(Chips)
        chips._clicks_from = chips._keys_from = 0.0
    return row


def test_question_counts_the_earlier_calls() -> None:
    assert (
        estimate(fan_out("waiting", made=50))
        == "340 calls more after 50, about 1.2 M tokens, about $1.10"
    )
    assert (
        estimate(fan_out("waiting", made=50, calls=1, tokens=700))
        == "1 call more after 50, about 700 tokens, about $1.10"
    )


@pytest.mark.parametrize(("key", "run"), [("y", True), ("n", False)])
async def test_a_key_answers(app: MahtabApp, key: str, run: bool) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask(pilot)
        assert "340 calls at once, about 1.2 M tokens, about $1.10" in str(
            row.query_one("#fan-out-about", Static).content
        )
        await pilot.press(key)
        await pilot.pause()
        assert calls(app) == [("answer", "q1", run)]
        assert not row.display
        assert app.editor.has_focus_within


async def test_a_click_answers(app: MahtabApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await ask(pilot)
        await pilot.click("FanOutRow Chips", offset=(16, 0))
        await pilot.pause()
        assert calls(app) == [("answer", "q1", False)]


async def test_early_keys_go_to_the_editor(app: MahtabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask(pilot, accept_keys=False)
        row.query_one(Chips)._keys_from = float("inf")
        await pilot.press("y")
        await pilot.pause()
        assert calls(app) == []
        assert app.editor.text == "y"


async def test_row_leaves_the_focus_to_a_draft_and_f7_goes_there(app: MahtabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(*"x = 1")
        row = await ask(pilot)
        await pilot.press("y")
        assert app.editor.text == "x = 1y"
        assert (
            "f7 or a click answers" in str(row.query_one("#fan-out-about", Static).content).lower()
        )
        await pilot.press("f7")
        row.query_one(Chips)._keys_from = 0.0
        await pilot.press("y")
        await pilot.pause()
        assert calls(app) == [("answer", "q1", True)]


@pytest.mark.parametrize(
    "gone",
    [
        fan_out("run"),
        fan_out("refused"),
        made(tags.RLM_FINAL, "stopped", {"tree": "t1", "node": "1.7", "state": "stopped"}),
    ],
    ids=["run", "refused", "stopped"],
)
async def test_row_closes_when_the_question_does(app: MahtabApp, gone: Record) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask(pilot)
        row.fold([made(tags.RLM_FINAL, "", {"tree": "t1", "node": "1.2", "state": "done"})])
        assert row.display
        row.fold([gone])
        assert not row.display
        assert calls(app) == []


async def test_questions_are_asked_one_after_another(app: MahtabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask(pilot, fan_out("waiting"), fan_out("waiting", "q2", "1.8", calls=50))
        row.fold([fan_out("run", "q2", "1.8")])
        assert row.display
        row.fold([fan_out("waiting", "q3", "1.9", calls=77), fan_out("run")])
        assert "77 calls" in str(row.query_one("#fan-out-about", Static).content)


def test_unknown_price_is_shown() -> None:
    assert (
        estimate(fan_out("waiting", usd=None, tokens=900))
        == "340 calls at once, about 900 tokens, at an unknown price"
    )


def test_fan_out_row_snapshot(app: MahtabApp, snap_compare: Callable[..., bool]) -> None:
    async def asked(pilot: Pilot[int]) -> None:
        await drawn(pilot)
        await ask(pilot)
        await pilot.pause()

    assert snap_compare(app, terminal_size=(80, 24), run_before=asked)


async def test_second_of_two_bunched_keys_does_not_answer_the_next_question(
    app: MahtabApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask(pilot, fan_out("waiting"), fan_out("waiting", "q2"))
        await press_at_once(pilot, "y", "y")
        assert calls(app) in (
            [("answer", "q1", True)],
            [],
        )  # of two letters that come at once, both are text
        assert row.display


async def test_late_key_does_not_answer_a_question_asked_after_it(
    app: MahtabApp,
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask(pilot, fan_out("waiting"), fan_out("waiting", "q2"))
        first, second = Key("y", "y"), Key("y", "y")
        app.post_message(first)
        await until(pilot, lambda: bool(calls(app)))
        await pilot.pause()
        chips = row.query_one(Chips)
        chips._clicks_from = chips._keys_from = 0.0  # so long does a busy machine take
        app.post_message(second)
        await pilot.pause()
        assert calls(app) == [("answer", "q1", True)]
        assert row.display


async def test_answer_to_a_withdrawn_question_is_dropped(app: MahtabApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        row = await ask(pilot)
        row.query_one(Chips).post_message(Chips.Chosen("run", None))
        row.fold([fan_out("answered")])
        await pilot.pause()
        assert calls(app) == []
