"""One way of timing and one table for all figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple


class Row(NamedTuple):
    """One figure, its baseline from the same run, and what is to be reached.

    Of several values the median counts.
    """

    what: str
    values: float | Sequence[float]
    reach: str = ""
    baseline: float | Sequence[float] | None = None
    note: str = ""
    unit: str = "ms"


def timed(work: Callable[[], object], times: int = 1) -> list[float]:
    """Milliseconds of each of several runs."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        took.append((time.perf_counter() - start) * 1000)
    return took


def timed_in_turns(
    times: int, one: Callable[[], object], other: Callable[[], object]
) -> tuple[list[float], list[float]]:
    """Milliseconds of both, in turns: whatever else the machine does slows both down."""
    pairs = [(timed(one)[0], timed(other)[0]) for _ in range(times)]
    return [each for each, _ in pairs], [each for _, each in pairs]


def print_table(rows: Iterable[Row]) -> None:
    """Print a line for each row as it is measured; the 99th percentile where it means something."""
    line = "{:<58} {:>10} {:<4} {:>8} {:>10} {:>7}  {:<34} {}"
    print(line.format("what", "median", "", "p99", "baseline", "ratio", "reach", ""))
    for row in rows:
        values, compared = _listed(row.values), _listed(row.baseline)
        figure, baseline = median(values), median(compared) if compared else None
        slowest = sorted(values)[int(len(values) * 0.99)]
        print(
            line.format(
                row.what,
                f"{figure:.2f}",
                row.unit,
                f"{slowest:.2f}" if len(values) >= 20 else "",
                "" if baseline is None else f"{baseline:.2f}",
                f"{figure / baseline:.2f}" if baseline else "",
                row.reach,
                row.note,
            ),
            flush=True,
        )


def _listed(values: float | Sequence[float] | None) -> list[float]:
    if values is None:
        return []
    return [*values] if isinstance(values, Sequence) else [values]
