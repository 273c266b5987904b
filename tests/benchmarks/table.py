"""Times work, and prints all figures as one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple


class Row(NamedTuple):
    """A figure (the median of its values), a baseline from the same run, and the goal."""

    what: str
    values: float | Sequence[float]
    reach: str = ""
    baseline: float | Sequence[float] | None = None
    note: str = ""
    unit: str = "ms"


def since(start: float) -> float:
    """Milliseconds since a time that `perf_counter` gave."""
    return (perf_counter() - start) * 1000


def timed(work: Callable[..., object], times: int = 1, *args: object) -> list[float]:
    """Milliseconds of each of several runs."""
    took = []
    for _ in range(times):
        start = perf_counter()
        work(*args)
        took.append(since(start))
    return took


async def timed_async(work: Callable[[], Awaitable[object]], times: int = 1) -> list[float]:
    took = []
    for _ in range(times):
        start = perf_counter()
        await work()
        took.append(since(start))
    return took


def timed_in_turns(
    times: int, first_function: Callable[[], object], second_function: Callable[[], object]
) -> tuple[list[float], list[float]]:
    """Milliseconds of both, in turns, so that other load slows both down."""
    pairs = [(timed(first_function)[0], timed(second_function)[0]) for _ in range(times)]
    return [duration for duration, _ in pairs], [duration for _, duration in pairs]


def print_table(rows: Iterable[Row]) -> None:
    """Print each row as soon as it is measured, with the 99th percentile of 20 values or more."""
    line = "{:<58} {:>10} {:<4} {:>8} {:>10} {:>7}  {:<34} {}"
    print(line.format("what", "median", "", "p99", "baseline", "ratio", "reach", ""))
    for row in rows:
        values = _listed(row.values)
        compared = _listed(row.baseline)
        figure = median(values)
        baseline = median(compared) if compared else None
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
