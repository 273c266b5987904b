"""The transcript's figures: what one more entry costs."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from textual.app import App, ComposeResult

from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.store.sqlite import SqliteStore
from mahtab_tui.tui.app import style_sheets
from mahtab_tui.tui.screens.output import PagerScreen
from mahtab_tui.tui.theme import MAHTAB, role_variables
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests import tags
from tests.benchmarks.table import Row, median
from tests.records import made
from tests.tui.transcript_app import NotedPort

_FEW, _MANY, _TIMES = 100, 100_000, 200
_LINES = 1_000_000


def cell_records(cell: int) -> list[Record]:
    """A cell that printed a line."""
    about = {"cell": cell, "party": "you"}
    ended = {**about, "status": "ok", "duration": 0.01, "kinds": [["stdout", 8]]}
    return [
        made(tags.USER_REPL_IN, f"print({cell})", about, 1.0),
        made(tags.USER_REPL_OUT, "a line.\n", ended, 1.0),
    ]


class PagerApp(App[None]):
    """Something under the pager."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(MAHTAB)


class TranscriptApp(App[None]):
    """The pane alone."""

    def compose(self) -> ComposeResult:
        yield TranscriptPane(NotedPort())

    def on_mount(self) -> None:
        self.register_theme(MAHTAB)
        self.theme = MAHTAB.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)


async def _append_cost(entries: int) -> float:
    app = TranscriptApp()
    async with app.run_test(size=(120, 40)) as pilot:
        pane = app.query_one(TranscriptPane)
        pane.fold([record for cell in range(entries) for record in cell_records(cell)])
        await pilot.pause()
        gc.collect()
        took = []
        for cell in range(entries, entries + _TIMES):
            start = time.perf_counter()
            pane.fold(cell_records(cell))
            took.append((time.perf_counter() - start) * 1000)
            await asyncio.sleep(0)
        return median(took)


async def _open_time(store: SqliteStore) -> float:
    app = PagerApp(css_path=list(style_sheets()))
    async with app.run_test(size=(120, 40)) as pilot:
        kernel = ProcessKernel()
        screen = PagerScreen(
            "Output of cell 1",
            "cell-1.txt",
            lambda: store.output(1),
            InspectorClient(kernel),
            Path.cwd(),
        )
        await pilot.pause()
        start = time.perf_counter()
        app.push_screen(screen)
        while not (
            screen.is_mounted
            and screen.viewer.view is not None
            and screen.viewer.view.size
            and "line 0" in screen.viewer.view.render_line(0).text
        ):
            await asyncio.sleep(0.001)
        return (time.perf_counter() - start) * 1000


def _pager() -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "sessions.db", "s")
        text = "".join(
            f"\x1b[32mline {number}\x1b[0m of a long output\n" for number in range(_LINES)
        )
        store.append(made(tags.USER_REPL_IN, "long()", {"cell": 1}, 1.0))
        store.append(made(tags.USER_REPL_OUT, text, {"cell": 1, "status": "ok"}, 1.0))
        took = median([asyncio.run(_open_time(store)) for _ in range(3)])
        store.close()
        return took


def rows() -> Iterator[Row]:
    """One cell more, at few and at many entries; a long output, whole."""
    few = asyncio.run(_append_cost(_FEW))
    yield Row(
        f"transcript append at {_MANY:,} entries",
        asyncio.run(_append_cost(_MANY)),
        "ms",
        f"<= 1.2 x at {_FEW}",
        few,
    )
    yield Row(f"pager with {_LINES:,} coloured lines", _pager(), "ms", "<= 1,000")
