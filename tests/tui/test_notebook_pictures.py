"""Pictures of an opened notebook, and of the question when another program has changed it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from mahtab_tui.bus import records, tags
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.confirm import MineOrTheirs
from tests.records import made
from tests.tui.story import IDLE, drawn
from tests.tui.test_app import pressing
from tests.tui.test_notebook_cells import notebook

TRACEBACK = "\x1b[31mTraceback (most recent call last)\x1b[0m\nZeroDivisionError: division by zero\n"


def opened() -> list[Record]:
    return [
        made(tags.SESSION, "", {"name": "sales", "model": "demo", "approval": "ask"}, 1.0),
        made(tags.KERNEL, "", IDLE, 1.0),
        *notebook(),
        records.NotebookCell("1 / 0", place=5, kind="code"),
        records.NotebookOutput(TRACEBACK, place=5, kind="traceback"),
    ]


def ran() -> list[Record]:
    return [
        made(tags.USER_REPL_IN, "x = 2", {"cell": 1, "party": "you", "place": 2}, 1.0),
        made(tags.USER_REPL_OUT, "new\n", {"cell": 1, "party": "you", "place": 2, "status": "ok", "duration": 0.5}, 1.0),
    ]


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_notebook(snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp], size: tuple[int, int]) -> None:
    assert snap_compare(make_app(*opened()), terminal_size=size, run_before=pressing())


def test_a_notebook_of_which_a_cell_has_run(snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp]) -> None:
    assert snap_compare(make_app(*opened(), *ran(), theme="mahtab-day"), terminal_size=(120, 50), run_before=pressing())


def test_the_question_which_to_keep(snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp]) -> None:
    from mahtab_tui.tui.notebook_saving import CHANGED

    async def ask(pilot: Pilot[int]) -> None:
        await drawn(pilot)
        pilot.app.push_screen(MineOrTheirs(CHANGED.format("sales.ipynb"), yes="Keep mine", no="Read theirs"))
        await drawn(pilot)

    assert snap_compare(make_app(*opened()), terminal_size=(80, 24), run_before=ask)


@pytest.mark.parametrize(("key", "answer"), [("escape", None), ("n", False), ("y", True)])
async def test_escape_is_neither(make_app: Callable[..., MahtabApp], key: str, answer: bool | None) -> None:
    app, answers = make_app(), list[bool | None]()
    async with app.run_test() as pilot:
        await pilot.pause()
        app.push_screen(MineOrTheirs("Which?", yes="Keep mine", no="Read theirs"), answers.append)
        await pilot.pause()
        await pilot.press(key)
        await pilot.pause()
    assert answers == [answer]
