"""A kernel elsewhere, over a wire that needs 50 ms each way."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.table import Row, median
from tests.integration.far import Road
from tests.integration.kernels import Cells

DELAY = 50.0
"""Milliseconds each way."""


def rows() -> Iterator[Row]:
    """From the command to the first result, where nothing of ours is yet and where it is; then cells."""
    with tempfile.TemporaryDirectory() as folder:
        road = Road(Path(folder))
        road.delay(DELAY)
        try:
            _, first = _first_result(road)
            yield Row("first result over 50 ms, nothing there", first, "ms", "<= 2,000 ms")
            cells, second = _first_result(road)
            yield Row("first result over 50 ms, again", second, "ms", "<= 1,000 ms")
            yield Row("1+1 over 50 ms each way", median([_timed_cell(cells) for _ in range(20)]), "ms", "1 round trip", 2 * DELAY, "the wire")
        finally:
            road.close()


def _first_result(road: Road) -> tuple[Cells, float]:
    start = time.perf_counter()
    cells = road.kernel()
    cells.text("1 + 1")
    return cells, (time.perf_counter() - start) * 1000


def _timed_cell(cells: Cells) -> float:
    start = time.perf_counter()
    cells.text("1 + 1")
    return (time.perf_counter() - start) * 1000
