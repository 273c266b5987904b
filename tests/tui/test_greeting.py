"""The greeting above what stands in the transcript before the first cell."""

from __future__ import annotations

import pytest

from mahtab_tui.bus.records import Record
from tests import tags
from tests.tui.transcript_app import GREETING, PaneApp, cell, record, shown

ANSWER = record(tags.ASSISTANT_CHAT, "Hello.", turn=1, step=0, party="claude", stopped=False)


def greeted(app: PaneApp) -> list[int]:
    """Return the lines of the pane that have a sentence of the greeting."""
    return [
        y
        for y, row in enumerate(shown(app.pane))
        if any(sentence in row for _, sentence in GREETING)
    ]


@pytest.mark.parametrize(
    ("first", "stays"),
    [
        (cell(2), False),
        ([record(tags.USER_CHAT, "which days?", turn=1)], False),
        ([ANSWER], False),
        ([record(tags.NOTICE, "A notice.", level="info")], True),
    ],
    ids=["cell", "question", "answer", "notice"],
)
async def test_greeting_stays_above_files_and_notices_until_the_first_input(
    first: list[Record], stays: bool
) -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 30)) as pilot:
        app.pane.viewport.loads = 1
        assert greeted(app) == [2, 3, 4]
        app.pane.fold([record(tags.NOTICE, "Private servers wait.", level="info"), *cell(1)])
        await pilot.pause()
        assert greeted(app) == [2, 3, 4]
        assert "Private servers wait." in shown(app.pane)[6]
        app.pane.fold(first)
        await pilot.pause()
        assert bool(greeted(app)) is stays
        app.pane.clear()
        await pilot.pause()
        assert greeted(app) == [2, 3, 4]


async def test_greeting_in_a_low_terminal_is_cut_above_the_loaded_files() -> None:
    app = PaneApp()
    async with app.run_test(size=(40, 9)) as pilot:
        app.pane.viewport.loads = 9
        for number in range(1, 10):
            app.pane.fold(cell(number))
        await pilot.pause()
        assert greeted(app) == [1]
        assert "output 9" in "".join(shown(app.pane))
