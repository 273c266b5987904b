"""The transcript's figures: what one more entry costs."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator

from textual.app import App, ComposeResult

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.panes.transcript import TranscriptPane
from mahtab_tui.tui.theme import MAHTAB, role_variables
from tests.benchmarks.table import Row, median

_FEW, _MANY, _TIMES = 100, 100_000, 200


def cell_records(cell: int) -> list[Record]:
    """A cell that printed a line."""
    about = {"cell": cell, "party": "you"}
    ended = {**about, "status": "ok", "duration": 0.01, "kinds": [["stdout", 8]]}
    return [Record(tags.USER_REPL_IN, f"print({cell})", about, 1.0), Record(tags.USER_REPL_OUT, "a line.\n", ended, 1.0)]


class TranscriptApp(App[None]):
    """The pane alone."""

    def compose(self) -> ComposeResult:
        yield TranscriptPane()

    def on_mount(self) -> None:
        self.register_theme(MAHTAB)
        self.theme = MAHTAB.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return role_variables(self.current_theme)


async def _append_cost(entries: int) -> float:
    """Milliseconds for one more cell in a transcript of so many entries."""
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


def rows() -> Iterator[Row]:
    """One cell more, at few and at many entries."""
    few = asyncio.run(_append_cost(_FEW))
    yield Row(f"transcript append at {_MANY:,} entries", asyncio.run(_append_cost(_MANY)), "ms", f"<= 1.2 x at {_FEW}", few)
