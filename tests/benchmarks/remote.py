"""A kernel elsewhere, over a wire that needs 50 ms each way."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.process import RemoteLauncher, attach_remote, noted_kernels
from tests.benchmarks.screen import OURS, key_echo
from tests.benchmarks.table import Row, median, p99
from tests.e2e.terminal import Terminal
from tests.integration.kernels import Cells, RecordingHost
from tests.integration.remote import Road

DELAY = 50.0
"""Milliseconds each way."""


def rows() -> Iterator[Row]:
    """From the command to the first result, where nothing of ours is yet and where it is; then
    cells."""
    with tempfile.TemporaryDirectory() as folder:
        road = Road(Path(folder))
        road.delay(DELAY)
        try:
            _, first = _first_result(road)
            yield Row("first result over 50 ms, nothing there", first, "ms", "<= 2,000 ms")
            cells, second = _first_result(road)
            yield Row("first result over 50 ms, again", second, "ms", "<= 1,000 ms")
            yield Row(
                "1+1 over 50 ms each way",
                median([_timed_cell(cells) for _ in range(20)]),
                "ms",
                "1 round trip",
                2 * DELAY,
                "the wire",
            )
            yield _key_echo(road)
            yield Row(
                "attached again over 50 ms, 10,000 variables listed",
                _attached_again(road),
                "ms",
                "",
            )
        finally:
            road.close()


def _key_echo(road: Road) -> Row:
    with tempfile.TemporaryDirectory() as home:
        far, here = (_echo(home, *where) for where in (["--kernel", road.typed], []))
    note = f"p99 {p99(far):.0f} ms; with a kernel here: p99 {p99(here):.0f} ms"
    return Row(
        "key echo over 50 ms while a cell prints",
        median(far),
        "ms",
        "median <= 1.5 x, p99 <= 50 ms",
        median(here),
        note,
    )


def _echo(home: str, *where: str) -> list[float]:
    with Terminal([*OURS, "demo", *where], env={"HOME": home}) as terminal:
        terminal.wait("idle")
        terminal.enter("import time\nwhile True: print('a line of output'); time.sleep(0.02)")
        terminal.press("enter")
        terminal.wait("busy")
        terminal.drawn = False
        took = key_echo(terminal)
        terminal.drawn = True
        terminal.press("escape")
        terminal.wait("idle")
        terminal.leave()  # a kernel with a running cell would go on without us
    return took


def _attached_again(road: Road) -> float:
    home = road.folder / "home-here"
    home.mkdir()
    with patch.dict(os.environ, HOME=str(home)):
        first = ProcessKernel(launcher=RemoteLauncher(road.address, 1.0, "session"))
        first.start(RecordingHost())
        Cells(first, RecordingHost()).text("for n in range(10_000): globals()[f'v{n}'] = [n]")
        first.variables()
        first.close(leave=True)
        start = time.perf_counter()
        connected = attach_remote(noted_kernels("session")[0], lambda prompt, hidden: None)
        second = ProcessKernel(launcher=RemoteLauncher(road.address, 1.0, "session", connected))
        second.start(RecordingHost())
        assert len(second.variables()) >= 10_000
        seconds = time.perf_counter() - start
        second.close()
    return seconds * 1000


def _first_result(road: Road) -> tuple[Cells, float]:
    start = time.perf_counter()
    cells = road.kernel()
    cells.text("1 + 1")
    return cells, (time.perf_counter() - start) * 1000


def _timed_cell(cells: Cells) -> float:
    start = time.perf_counter()
    cells.text("1 + 1")
    return (time.perf_counter() - start) * 1000
