"""One table for all figures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One figure, what it is held against, and what is to be reached."""

    what: str
    median: float
    unit: str
    reach: str
    baseline: float | None = None
    """Baseline of the same unit, measured in the same run."""
    note: str = ""


def timed(work: Callable[[], object], times: int) -> list[float]:
    """Milliseconds of each of several runs."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        took.append((time.perf_counter() - start) * 1000)
    return took


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def print_table(rows: Iterable[Row]) -> None:
    """A line for each row, printed as it is measured."""
    line = "{:<58} {:>10} {:<4} {:>10} {:>7}  {:<34} {}"
    print(line.format("what", "median", "", "baseline", "ratio", "reach", ""))
    for row in rows:
        baseline = "" if row.baseline is None else f"{row.baseline:.2f}"
        ratio = "" if not row.baseline else f"{row.median / row.baseline:.2f}"
        print(
            line.format(
                row.what, f"{row.median:.2f}", row.unit, baseline, ratio, row.reach, row.note
            ),
            flush=True,
        )
