"""Entries that stay at the top of the transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from mahtab_tui.bus.conversation import Question
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.rows.row import Row
from mahtab_tui.tui.transcript.pane import TranscriptPane
from mahtab_tui.tui.transcript.viewport import pinned_rows
from tests import tags
from tests.tui.test_transcript_keys import KeysApp, marked, offered, press
from tests.tui.test_transcript_snapshots import SESSION
from tests.tui.test_transcript_snapshots import record as past_record
from tests.tui.transcript_app import SIZE, NotedPort, cell, record
from tests.unit.test_transcript_rows import PALETTE


class PinningApp(KeysApp):
    """Tells the pane what it asks for, as the bus would."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        super().__init__(records)
        self.pinned: list[tuple[str, bool]] = []
        self.port = PinningPort(self)


class PinningPort(NotedPort):
    """Tells the pane so, as the bus would."""

    def __init__(self, app: PinningApp) -> None:
        super().__init__()
        self._app = app

    def pin(self, entry: str, pinned: bool) -> None:
        self._app.pinned.append((entry, pinned))
        self._app.pane.fold([record(tags.PIN, entry=entry, pinned=pinned)])


def cells(count: int) -> list[Record]:
    return [one for number in range(1, count + 1) for one in cell(number)]


def pin(*numbers: int) -> list[Record]:
    return [record(tags.PIN, entry=f"cell {number}", pinned=True) for number in numbers]


def lines(app: KeysApp) -> list[str]:
    return [app.pane.render_line(y).text.strip(" ▌▐") for y in range(app.pane.size.height)]


def rule(app: KeysApp) -> int:
    """The row under what is pinned."""
    return next(y for y, line in enumerate(lines(app)) if line.startswith("───"))


async def test_pinned_entry_is_always_visible_and_a_key_unpins_it() -> None:
    async with PinningApp(cells(40)).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, PinningApp)
        app.pane.focus()
        await press(pilot, "home", "enter", "p")
        assert app.pinned == [("cell 1", True)]
        await press(pilot, "end")
        assert lines(app)[2 : rule(app)] == ["cell_1", "", "output 1"]
        assert lines(app)[-1] == "output 40"
        await press(pilot, "enter", "P")
        assert marked(app) == "cell_1"
        await press(pilot, "enter", "p")
        assert app.pinned[-1] == ("cell 1", False)
        assert not any(line.startswith("───") for line in lines(app))


async def test_all_rows_can_be_scrolled_into_view_below_the_pinned_ones() -> None:
    async with PinningApp([*cells(40), *pin(3)]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, PinningApp)
        app.pane.focus()
        for name in ("cell_40", "cell_39", "cell_38"):
            assert marked(app) == name
            assert name in lines(app)
            await press(pilot, "up")
        await press(pilot, "home")
        assert lines(app)[rule(app) + 1 :][1:2] == ["cell_1"]


@pytest.mark.parametrize("height", [5, 6, 9, 20, 41])
async def test_pinned_rows_use_at_most_a_third_of_the_height(height: int) -> None:
    long = cell(100, "\n".join(f"line_{number}" for number in range(50)))
    async with PinningApp([*long, *cells(30), *pin(100, 1, 2, 3, 4)]).run_test(
        size=(60, height)
    ) as pilot:
        app = pilot.app
        assert isinstance(app, PinningApp)
        await pilot.pause()
        limit = app.pane.size.height // 3
        if limit < 2:
            assert not any(line.startswith("───") for line in lines(app))
        else:
            assert rule(app) == limit
        assert "output 30" in lines(app)


async def test_click_at_the_top_marks_the_pinned_entry() -> None:
    async with PinningApp([*cells(40), *pin(7)]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, PinningApp)
        await pilot.click(TranscriptPane, offset=(6, 2))
        await pilot.pause()
        assert marked(app) == "cell_7"


async def test_clearing_unpins_everything_without_a_notice() -> None:
    async with PinningApp([*cells(3), *pin(1)]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, PinningApp)
        app.pane.clear()
        await pilot.pause()
        assert not any("cell_1" in line for line in lines(app))
        app.pane.focus()
        await press(pilot, "enter")
        assert len(app.screen_stack) == 1


def test_pinned_question_and_cell_snapshot(snap_compare: Callable[..., bool]) -> None:
    pinned = [past_record(tags.PIN, entry=entry, pinned=True) for entry in ("question 1", "cell 1")]
    assert snap_compare(PinningApp([*SESSION, *pinned]), terminal_size=(80, 40))


async def test_withdrawn_text_is_unpinned() -> None:
    words = record(tags.ASSISTANT_CHAT_STREAM, "Words", turn=1, step=0)
    async with PinningApp([words, record(tags.PIN, entry="answer 1.0", pinned=True)]).run_test(
        size=SIZE
    ) as pilot:
        app = pilot.app
        assert isinstance(app, PinningApp)
        app.pane.focus()
        app.pane.fold([record(tags.ASSISTANT_CHAT, "```python\nx = 1\n```", turn=1, step=0)])
        await press(pilot, "enter")
        assert "entry-pinned" not in offered(app)
        assert not any(line.startswith("───") for line in lines(app))


class EndlessRows:
    """As many rows as a list can have."""

    def __len__(self) -> int:
        return 10**12

    def __getitem__(self, index: int) -> Row:
        return Row([(f"row {index}", PALETTE.text)])


def test_pinned_rows_cost_only_their_visible_part() -> None:
    entries = [Question(text="a"), Question(text="b")]
    pinned = pinned_rows([(entry, EndlessRows()) for entry in entries], 7, 40, PALETTE)
    assert [row.row.text for row in pinned[:-1]] == [
        "row 1",
        "row 2",
        "… 999,999,999,997 more rows",
    ] * 2


async def test_pinned_entries_are_visited_in_turn_and_then_from_the_first() -> None:
    pinned = [record(tags.PIN, entry=f"cell {number}", pinned=True) for number in (2, 1, 3)]
    async with PinningApp([*cell(1), *cell(2), *cell(3), *pinned]).run_test(size=SIZE) as pilot:
        app = pilot.app
        assert isinstance(app, PinningApp)
        app.pane.focus()
        await press(pilot, "up", "up")
        gone_to = []
        for _ in range(4):
            gone_to.append(marked(app))
            await press(pilot, "enter", "P")
        assert gone_to == ["cell_1", "cell_3", "cell_2", "cell_1"]
