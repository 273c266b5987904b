"""%time, %timeit and %prun."""

from __future__ import annotations

import statistics
from time import perf_counter, process_time
from typing import Any

from ..compiling import compiled
from ..stdlib import late_import
from .magics import Caller

_NAME = "<%time>"


def time(source: str, caller: Caller) -> Any:
    """Run code, which may await, print how long it took, and return the value of its last
    expression."""
    run = compiled(source, _NAME, *caller)
    wall, processor = perf_counter(), process_time()
    try:
        return run()
    finally:
        wall, processor = perf_counter() - wall, process_time() - processor
        print(f"took {duration(wall)} (CPU: {duration(processor)})")


def timeit(source: str, caller: Caller) -> None:
    """Run code many times and print how long one run takes."""
    loops, repeats, code = _options(source)
    timer = late_import("timeit").Timer(code, globals=caller.namespace)
    if not loops:
        loops, _ = timer.autorange()
    runs = [took / loops for took in timer.repeat(repeats, loops)]
    spread = statistics.pstdev(runs)
    print(
        f"{duration(statistics.fmean(runs))} ± {duration(spread)} per loop (of {repeats} runs with {loops:,} loops each; best {duration(min(runs))})"
    )


def prun(source: str, caller: Caller) -> Any:
    """Run code and print in which functions the time went, the longest first."""
    words = source.lstrip().split(" ")
    rows, sort = 30, "tottime"
    while words[:1] and words[0] in ("-l", "-s") and len(words) > 1:
        rows, sort = (int(words[1]), sort) if words[0] == "-l" else (rows, words[1])
        del words[:2]
    run = compiled(" ".join(words), "<%prun>", *caller)
    profile = late_import("cProfile").Profile()
    try:
        return profile.runcall(run)
    finally:
        late_import("pstats").Stats(profile).strip_dirs().sort_stats(sort).print_stats(rows)


def _options(source: str) -> tuple[int, int, str]:
    """Parse the number of loops (0: choose automatically), of repeats, and the code."""
    numbers = {"-n": 0, "-r": 7}
    rest = source.lstrip()
    while rest[:2] in numbers:
        option, rest = rest[:2], rest[2:].lstrip()
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        if not digits or int(digits) < 1:
            raise ValueError(f"%timeit: {option} needs a number, as in {option} 10")
        numbers[option], rest = int(digits), rest[len(digits) :].lstrip(" \t")
    if not rest.strip():
        raise ValueError("%timeit needs code, as in %timeit sum(range(100))")
    return numbers["-n"], numbers["-r"], rest.strip("\n")


def duration(seconds: float) -> str:
    """Format a duration: ``1.23 ms``, ``45.6 ns``, ``1 min 2 s``."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {seconds % 60:.0f} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
