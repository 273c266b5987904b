"""Pictures of an opened notebook."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.app import MahtabApp
from tests import tags
from tests.records import made
from tests.tui.story import IDLE
from tests.tui.test_app import pressing
from tests.tui.test_notebook_cells import notebook

TRACEBACK = (
    "\x1b[31mTraceback (most recent call last)\x1b[0m\nZeroDivisionError: division by zero\n"
)


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
        made(
            tags.USER_REPL_OUT,
            "new\n",
            {"cell": 1, "party": "you", "place": 2, "status": "ok", "duration": 0.5},
            1.0,
        ),
    ]


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_notebook_snapshot(
    snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp], size: tuple[int, int]
) -> None:
    assert snap_compare(make_app(*opened()), terminal_size=size, run_before=pressing())


def test_notebook_with_an_executed_cell_snapshot(
    snap_compare: Callable[..., bool], make_app: Callable[..., MahtabApp]
) -> None:
    assert snap_compare(
        make_app(*opened(), *ran(), theme="mahtab-day"),
        terminal_size=(120, 50),
        run_before=pressing(),
    )
