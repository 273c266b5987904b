"""Figures of the transcript: one cell more, at few and at many entries, and a long output,
whole."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from textual.app import ComposeResult

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.inspector_client import InspectorClient
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.store.sqlite import SqliteStore
from mahtab_tui.tui.app import style_sheets
from mahtab_tui.tui.screens.output import PagerScreen
from mahtab_tui.tui.transcript.pane import TranscriptPane
from tests.benchmarks.table import Row, since, timed
from tests.tui.editor_app import ThemedApp

_FEW = 100
_MANY = 100_000
_TIMES = 200
_LINES = 1_000_000


def _cell(cell: int) -> list[Record]:
    about: dict[str, Any] = {"cell": cell, "party": "you", "time": 1.0}
    end_fields: dict[str, Any] = {"status": "ok", "duration": 0.01, "kinds": (("stdout", 8),)}
    code = records.UserReplIn(f"print({cell})", **about)
    return [code, records.UserReplOut("a line.\n", **about, **end_fields)]


class _StoredOutput(PagerScreen):
    """The output of cell 1 in a store."""

    def __init__(self, store: SqliteStore) -> None:
        client = InspectorClient(ProcessKernel())
        super().__init__("Output of cell 1", "cell-1.txt", client, Path.cwd())
        self._store = store

    def read_text(self) -> str | None:
        return self._store.output(1)


class _TranscriptApp(ThemedApp):
    def compose(self) -> ComposeResult:
        yield TranscriptPane()


async def _append(entries: int) -> list[float]:
    """Milliseconds for each further cell in a transcript of so many entries."""
    app = _TranscriptApp()
    async with app.run_test(size=(120, 40)) as pilot:
        pane = app.query_one(TranscriptPane)
        pane.fold([record for cell in range(entries) for record in _cell(cell)])
        await pilot.pause()
        gc.collect()
        took = []
        for cell in range(entries, entries + _TIMES):
            took += timed(pane.fold, 1, _cell(cell))
            await asyncio.sleep(0)
        return took


async def _open(store: SqliteStore) -> float:
    """Milliseconds from asking for a long output until its first line is seen."""
    app = ThemedApp(css_path=style_sheets())
    async with app.run_test(size=(120, 40)) as pilot:
        screen = _StoredOutput(store)
        await pilot.pause()
        start = perf_counter()
        app.push_screen(screen)
        while not (
            screen.is_mounted
            and (view := screen.viewer.view) is not None
            and view.size
            and "line 0" in view.render_line(0).text
        ):
            await asyncio.sleep(0.001)
        return since(start)


def rows() -> Iterator[Row]:
    few_entries_ms, many_entries_ms = (asyncio.run(_append(entries)) for entries in (_FEW, _MANY))
    yield Row(
        f"transcript append at {_MANY:,} entries",
        many_entries_ms,
        f"<= 1.2 x at {_FEW}",
        few_entries_ms,
    )
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "sessions.db", "s")
        line = "\x1b[32mline {}\x1b[0m of a long output\n"
        text = "".join(map(line.format, range(_LINES)))
        store.append(records.UserReplIn("long()", cell=1, time=1.0))
        store.append(records.UserReplOut(text, cell=1, status="ok", time=1.0))
        took = [asyncio.run(_open(store)) for _ in range(3)]
        store.close()
    yield Row(f"pager with {_LINES:,} coloured lines", took, "<= 1,000")
