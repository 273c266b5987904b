"""Pictures of the editor, the rows above it and the history search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mahtab_tui.tui.screens.history_search import HistorySearch
from mahtab_tui.tui.widgets.approval_row import ApprovalRow
from tests import tags
from tests.tui.editor_app import (
    SIZE,
    EditorApp,
    app_of,
    press_later,
    remember,
    screen_text,
    until,
    write,
)

CODE = """def outliers(day, limit=3):
    \"\"\"Days far from the median.\"\"\"
    z = (day - day.median()) / day.std()  # robust
    return day[abs(z) > limit] if len(z) else None
print(f"found {len(outliers(daily))} of", 31)"""
WIDE = (160, 40)

Compare = Callable[..., bool]

EDIT = """ ▌ 1/3  def outliers(day, limit=3):     \"""Days  · Enter at the end runs what
 ▌ you wrote, F5 from anywhere · Ctrl+J new line · Esc back
 ▌ def outliers(day, limit=3):
"""
SKIP = """ ▌ 1/3  def outliers(day, limit=3):     \"""Days  · say why, or nothing · Enter
 ▌ skips · Esc back
 ▌ why not?
"""


async def ready(pilot: Pilot[None]) -> None:
    """Wait for the focus, which Textual sets late."""
    await until(pilot, lambda: app_of(pilot).area.has_focus)


def ask_approval(app: EditorApp, blocks: int) -> None:
    about = {"turn": 1, "block": 0, "blocks": blocks, "party": "claude"}
    app.fold(tags.APPROVAL, CODE, request="1", state="waiting", **about)


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


@pytest.mark.parametrize(("key", "expected_text"), [("e", EDIT), ("n", SKIP)], ids=["edit", "skip"])
async def test_approval_edit_and_reason(home: Path, key: str, expected_text: str) -> None:
    app = EditorApp(home)
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        ask_approval(app, 3)
        await pilot.pause()
        app.query_one(ApprovalRow).focus()  # a letter acts at once there
        await press_later(pilot, key)
        await pilot.pause()
        assert expected_text in screen_text(pilot)


def test_rows_next_to_a_draft(snap_compare: Compare, home: Path) -> None:
    app = EditorApp(home)

    async def before(pilot: Pilot[None]) -> None:
        await ready(pilot)
        await write(pilot, "half a thou")
        ask_approval(app, 1)
        app.fold(tags.INPUT, "Your name: ", request="1", cell=2, password=False, state="waiting")
        code = {"id": 1, "code": "x = 1\ny = 2", "mode": "python"}
        app.fold(tags.QUEUE, items=[code, {"id": 2, "code": "and why?", "mode": "ask"}])

    assert snap_compare(app, terminal_size=SIZE, run_before=before)


def test_history_search(snap_compare: Compare, home: Path) -> None:
    question = ("which days are outliers, and why?", "ask")
    remember(home, [("print(daily)", "python"), question, (CODE, "python")])
    app = EditorApp(home)

    async def before(pilot: Pilot[None]) -> None:
        await ready(pilot)
        search = HistorySearch(app.history)
        await app.push_screen(search)
        await write(pilot, "out")
        await until(pilot, lambda: search.typed == "out" and not search.is_searching)

    assert snap_compare(app, terminal_size=SIZE, run_before=before)
