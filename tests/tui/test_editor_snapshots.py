"""Pictures of the editor, the rows above it and the history search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mahtab_tui.tui.screens.listing import HistorySearch
from mahtab_tui.tui.widgets.approval_row import ApprovalRow
from tests import tags
from tests.tui.editor_app import SIZE, EditorApp, remember, screen_text, until, write

CODE = """def outliers(day, limit=3):
    \"\"\"Days far from the median.\"\"\"
    z = (day - day.median()) / day.std()  # robust
    return day[abs(z) > limit] if len(z) else None
print(f"found {len(outliers(daily))} of", 31)"""
WIDE = (160, 40)

Compare = Callable[..., bool]


async def ready(pilot: Pilot[None]) -> None:
    """Textual gives the focus later than it is asked to."""
    app = pilot.app
    assert isinstance(app, EditorApp)
    await until(pilot, lambda: app.focused is app.area)


def ask_approval(app: EditorApp, blocks: int) -> None:
    app.fold(
        tags.APPROVAL,
        CODE,
        request="1",
        turn=1,
        block=0,
        blocks=blocks,
        state="waiting",
        reason="",
        party="claude",
    )


@pytest.mark.parametrize(
    ("theme", "size"),
    [("mahtab", SIZE), ("mahtab-day", WIDE)],
    ids=["mahtab-80x24", "mahtab-day-160x40"],
)
def test_python(snap_compare: Compare, home: Path, theme: str, size: tuple[int, int]) -> None:
    app = EditorApp(home, theme)

    async def before(pilot: Pilot[None]) -> None:
        await ready(pilot)
        app.editor.text = CODE

    assert snap_compare(app, terminal_size=size, run_before=before)


def test_ask(snap_compare: Compare, home: Path) -> None:
    app = EditorApp(home)

    async def before(pilot: Pilot[None]) -> None:
        await ready(pilot)
        await write(pilot, "`and plot the week around it")

    assert snap_compare(app, terminal_size=SIZE, run_before=before)


def test_approval(snap_compare: Compare, home: Path) -> None:
    app = EditorApp(home)

    async def before(pilot: Pilot[None]) -> None:
        await ready(pilot)
        ask_approval(app, 3)

    assert snap_compare(app, terminal_size=SIZE, run_before=before)


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        (
            "e",
            ' ▌ 1/3  def outliers(day, limit=3):     """Days  · Enter at the end runs what\n'
            " ▌ you wrote, F5 from anywhere · Ctrl+J new line · Esc back\n"
            " ▌ def outliers(day, limit=3):\n",
        ),
        (
            "n",
            ' ▌ 1/3  def outliers(day, limit=3):     """Days  · say why, or nothing · Enter\n'
            " ▌ skips · Esc back\n"
            " ▌ why not?\n",
        ),
    ],
)
async def test_approval_edit_and_reason(home: Path, key: str, wanted: str) -> None:
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        ask_approval(app, 3)
        await pilot.pause()
        app.clock.now += 1
        app.query_one(ApprovalRow).focus()  # so that the letter need not wait for others behind it
        await pilot.press(key)
        await pilot.pause()
        assert wanted in screen_text(pilot)


def test_rows_next_to_a_draft(snap_compare: Compare, home: Path) -> None:
    app = EditorApp(home)

    async def before(pilot: Pilot[None]) -> None:
        await ready(pilot)
        await write(pilot, "half a thou")
        ask_approval(app, 1)
        app.fold(tags.INPUT, "Your name: ", request="1", cell=2, password=False, state="waiting")
        app.fold(
            tags.QUEUE,
            items=[
                {"id": 1, "code": "x = 1\ny = 2", "mode": "python"},
                {"id": 2, "code": "and why?", "mode": "ask"},
            ],
        )

    assert snap_compare(app, terminal_size=SIZE, run_before=before)


def test_history_search(snap_compare: Compare, home: Path) -> None:
    remember(
        home,
        [
            ("print(daily)", "python"),
            ("which days are outliers, and why?", "ask"),
            (CODE, "python"),
        ],
    )
    app = EditorApp(home)

    async def before(pilot: Pilot[None]) -> None:
        await ready(pilot)
        search = HistorySearch(app.history)
        await app.push_screen(search)
        await write(pilot, "out")
        await until(pilot, lambda: search.typed == "out" and not search._searching)

    assert snap_compare(app, terminal_size=SIZE, run_before=before)
