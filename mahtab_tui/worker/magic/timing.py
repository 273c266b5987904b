"""Magic commands that time and profile code."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any, NamedTuple

from ..cells.compiling import compile_callable
from ..stdlib import late_import
from .syntax import MagicContext, transform

MAX_PROFILE_LINES = 30

_PRUN_OPTION = re.compile(r"[ \t]*-(?:[rq]+|([slTD])[ \t]*(\S+))(?:[ \t]+|$)")
_TIMEIT_OPTION = re.compile(r"[ \t]*-(?:([nrp])[ \t]*(\d+)|([oqtc]+))(?:[ \t]+|$)")


def duration(seconds: float) -> str:
    """Format a duration: ``1.23 ms``, ``45.6 ns``, ``1 min 2 s``."""
    if seconds >= 60:
        return f"{int(seconds) // 60:,} min {seconds % 60:.0f} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


@contextmanager
def report_time() -> Iterator[None]:
    """Print how long the code took, also after an error."""
    wall_start = perf_counter()
    cpu_start = process_time()
    try:
        yield
    finally:
        wall_s = perf_counter() - wall_start
        cpu_s = process_time() - cpu_start
        print(f"took {duration(wall_s)} (CPU: {duration(cpu_s)})")


@contextmanager
def report_profile(
    sort_key: str = "tottime", limits: tuple[Any, ...] = (MAX_PROFILE_LINES,)
) -> Iterator[None]:
    """Print which functions took the time, also after an error.

    Args:
        sort_key: a key of `pstats.Stats.sort_stats`.
        limits: what to print, as `pstats.Stats.print_stats` takes it.
    """
    profile = late_import("cProfile").Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        late_import("pstats").Stats(profile).strip_dirs().sort_stats(sort_key).print_stats(*limits)


def time_code(source: str, caller: MagicContext) -> Any:
    """`%time`: run code once, and print how long it took."""
    run = compile_callable(transform(source), "<%time>", *caller)
    with report_time():
        return run()


class TimeitResult:
    """What `%timeit -o` returns. Durations are in seconds, for one loop."""

    def __init__(self, loops: int, all_runs: list[float]) -> None:
        self.loops = loops
        self.repeat = len(all_runs)
        self.all_runs = all_runs
        """Durations of all loops of a run."""
        self.timings = [duration / loops for duration in all_runs]
        self.best = min(self.timings)
        self.worst = max(self.timings)

    @property
    def average(self) -> float:
        return statistics.fmean(self.timings)

    @property
    def stdev(self) -> float:
        return statistics.pstdev(self.timings)

    def __str__(self) -> str:
        runs = "1 run" if self.repeat == 1 else f"{self.repeat:,} runs"
        loops = "1 loop" if self.loops == 1 else f"{self.loops:,} loops"
        return f"{duration(self.average)} ± {duration(self.stdev)} per loop (of {runs} with {loops} each; best {duration(self.best)})"

    def __repr__(self) -> str:
        return f"<TimeitResult: {self}>"


class _TimeitOptions(NamedTuple):
    loops: int
    """0 to choose a good number."""
    repeats: int
    letters: str
    """The letters of the options without a number: o returns the result, q prints nothing."""


def _split_timeit(line: str) -> tuple[_TimeitOptions, str]:
    """Separate the options from the code after them."""
    numbers = {"n": 0, "r": 7}
    letters = ""
    while option := _TIMEIT_OPTION.match(line):
        if option[1]:
            numbers[option[1]] = int(option[2])
        letters += option[3] or ""
        line = line[option.end() :]
    return _TimeitOptions(numbers["n"], numbers["r"] or 1, letters), line


def time_line(line: str, caller: MagicContext) -> TimeitResult | None:
    """`%timeit`: time a line, in many loops."""
    options, code = _split_timeit(line)
    return _time_loops(options, "pass", code, caller)


def time_cell(source: str, caller: MagicContext) -> TimeitResult | None:
    """Time the lines below the first one, which prepares each run and is not timed."""
    first, _, body = source.partition("\n")
    options, setup = _split_timeit(first)
    return _time_loops(options, setup or "pass", body, caller)


def _time_loops(
    options: _TimeitOptions, setup: str, code: str, caller: MagicContext
) -> TimeitResult | None:
    """Time code in loops. setup: runs before each series of loops, and is not timed."""
    if not code.strip():
        raise ValueError("%timeit needs code, as in %timeit -n LOOPS -r REPEATS sum(range(100))")
    timer = late_import("timeit").Timer(code.strip("\n"), setup.strip(), globals=caller.namespace)
    loops = options.loops or timer.autorange()[0]
    result = TimeitResult(loops, timer.repeat(options.repeats, loops))
    if "q" not in options.letters:
        print(result)
    return result if "o" in options.letters else None


def profile_code(source: str, caller: MagicContext) -> Any:
    """`%prun`: run code, and print which functions took the time."""
    sort_key = "tottime"
    limits: list[Any] = []
    while option := _PRUN_OPTION.match(source):
        if option[1] == "s":
            sort_key = option[2]
        elif option[1] == "l":
            limits.append(_parse_number(option[2]))
        elif option[1]:
            raise ValueError(
                f"%prun does not take -{option[1]}: it prints the profile, for a file use cProfile"
            )
        source = source[option.end() :]
    run = compile_callable(transform(source), "<%prun>", *caller)
    with report_profile(sort_key, tuple(limits) or (MAX_PROFILE_LINES,)):
        return run()


def _parse_number(text: str) -> int | float | str:
    """Return a limit of pstats: a number of lines, a part of them, or a pattern of names."""
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text
