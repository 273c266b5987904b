"""Magic commands that time and profile code: `%time`, `%timeit` and `%prun`.

`%run` uses `report_time` and `report_profile` for scripts.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any, NamedTuple

from ..cells.compiling import cache_source, compile_callable
from ..stdlib import late_import
from .state import MagicContext
from .syntax import transform

MAX_PROFILE_LINES = 30
"""Functions that `%prun` lists, unless `-l` says otherwise."""

_DEFAULT_REPEATS = 7
"""How often `%timeit` runs its loops."""
_PRUN_OPTION = re.compile(
    r"[ \t]*-(?:(?P<flags>[rq]+)|(?P<name>[slTD])[ \t]*(?P<value>\S+))(?:[ \t]+|$|(?=\n))"
)
_TIMEIT_OPTION = re.compile(
    r"[ \t]*-(?:(?P<name>[nrp])[ \t]*(?P<number>\d+)|(?P<flags>[oqtc]+))(?:[ \t]+|$)"
)

# The statement in the loop is replaced by the code that is timed, as in `timeit.Timer`.
_LOOPS_SOURCE = """\
def _time_loops(_it, _timer):
    _t0 = _timer()
    for _i in _it:
        pass
    return _timer() - _t0
"""


def duration(seconds: float) -> str:
    """Format a duration: ``1.23 ms``, ``45.6 ns``, ``1 min 2 s``."""
    # Units are chosen after rounding: 0.9996 s is "1 s", not "1e+03 ms".
    if float(f"{seconds:.3g}") >= 60:
        rounded_s = round(seconds)
        return f"{rounded_s // 60:,} min {rounded_s % 60} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if float(f"{seconds * factor:.3g}") >= 1:
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
    sort_key: str = "tottime",
    limits: tuple[object, ...] = (MAX_PROFILE_LINES,),
    is_quiet: bool = False,
) -> Iterator[Any]:
    """Print which functions took the time, also after an error. Yields the `cProfile.Profile`.

    Args:
        sort_key: A key of `pstats.Stats.sort_stats`.
        limits: What to print, as `pstats.Stats.print_stats` takes it.
        is_quiet: Whether to print nothing.
    """
    profile = late_import("cProfile").Profile()
    profile.enable()
    try:
        yield profile
    finally:
        profile.disable()
        if not is_quiet:
            _sort_stats(profile, sort_key).print_stats(*limits)


def _sort_stats(profile: object, sort_key: str) -> Any:
    """Return a profile's `pstats.Stats`."""
    return late_import("pstats").Stats(profile).strip_dirs().sort_stats(sort_key)


def time_code(source: str, caller: MagicContext) -> object:
    """`%time`: run code once, and print how long it took."""
    run = compile_callable(transform(source), "<%time>", *caller)
    with report_time():
        return run()


class TimeitResult:
    """What `%timeit -o` returns. All durations are in seconds; those but `all_runs` are of one loop."""

    def __init__(self, loops: int, all_runs: list[float]) -> None:
        self.loops = loops
        self.repeat = len(all_runs)
        self.all_runs = all_runs
        """The duration of each run, with all its loops."""
        self.timings = [run_s / loops for run_s in all_runs]
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
    """The options of `%timeit`. Its `-t` and `-p` are accepted, and have no effect."""

    loops: int
    """0 to choose a good number."""
    repeats: int
    measures_cpu: bool
    """Whether time is that of the processor."""
    returns_result: bool
    is_quiet: bool


def _split_timeit(line: str) -> tuple[_TimeitOptions, str]:
    """Separate the options from the code after them."""
    numbers = {"n": 0, "r": _DEFAULT_REPEATS}
    flags = ""
    while option := _TIMEIT_OPTION.match(line):
        if option["name"]:
            numbers[option["name"]] = int(option["number"])
        flags += option["flags"] or ""
        line = line[option.end() :]
    options = _TimeitOptions(
        loops=numbers["n"],
        repeats=numbers["r"] or 1,
        measures_cpu="c" in flags,
        returns_result="o" in flags,
        is_quiet="q" in flags,
    )
    return options, line


def time_line(line: str, caller: MagicContext) -> TimeitResult | None:
    """`%timeit`: time a line, in many loops."""
    options, code = _split_timeit(line)
    return _time_loops(options, "pass", code, caller)


def time_cell(source: str, caller: MagicContext) -> TimeitResult | None:
    """`%%timeit`: time the lines below the first one, which prepares each run and is not timed."""
    first, _, body = source.partition("\n")
    options, setup = _split_timeit(first)
    return _time_loops(options, setup or "pass", body, caller)


def _compile_loops(setup: str, code: str, namespace: dict[str, object]) -> object:
    """Return the function that `timeit.Timer` calls with an iterator and a timer. It runs `setup`,
    and times `code`.

    The syntax trees are joined, because indenting the source would change strings of several lines.

    Raises:
        SyntaxError: The setup or the code is not Python.
    """
    filename = "<%timeit>"
    cache_source(f"{setup}\n{code}", filename)
    setup_tree = ast.parse(transform(setup), filename)
    code_tree = ast.increment_lineno(ast.parse(transform(code), filename), setup.count("\n") + 1)
    module = ast.parse(_LOOPS_SOURCE, filename)
    function: Any = module.body[0]
    loop = function.body[1]  # the statement after the start of the timer
    loop.body = code_tree.body or loop.body
    function.body = [*setup_tree.body, *function.body]
    local_names: dict[str, object] = {}
    exec(compile(module, filename, "exec", dont_inherit=True), namespace, local_names)
    return local_names["_time_loops"]


def _time_loops(
    options: _TimeitOptions, setup: str, code: str, caller: MagicContext
) -> TimeitResult | None:
    """Time code in loops.

    Args:
        setup: Code that runs before each series of loops, and is not timed.
    """
    if not code.strip():
        raise ValueError("%timeit needs code, as in %timeit -n LOOPS -r REPEATS sum(range(100))")
    timer = late_import("timeit").Timer(
        timer=process_time if options.measures_cpu else perf_counter
    )
    timer.inner = _compile_loops(setup.strip(), code.strip("\n"), caller.namespace)
    loops = options.loops or timer.autorange()[0]
    result = TimeitResult(loops, timer.repeat(options.repeats, loops))
    if not options.is_quiet:
        print(result)
    return result if options.returns_result else None


class _PrunOptions(NamedTuple):
    """The options of `%prun`."""

    sort_key: str
    """A key of `pstats.Stats.sort_stats`."""
    limits: tuple[Any, ...]
    """What is printed, as `pstats.Stats.print_stats` takes it."""
    returns_stats: bool
    is_quiet: bool


def _split_prun(source: str) -> tuple[_PrunOptions, str]:
    """Separate the options from the code after them. Raises `ValueError` for an unknown option."""
    sort_key = "tottime"
    limits: list[Any] = []
    flags = ""
    while option := _PRUN_OPTION.match(source):
        name = option["name"]
        if name == "s":
            sort_key = option["value"]
            _check_sort_key(sort_key)
        elif name == "l":
            limits.append(_parse_limit(option["value"]))
        elif name:
            raise ValueError(
                f"%prun does not take -{name}: it prints the profile, for a file use cProfile"
            )
        flags += option["flags"] or ""
        source = source[option.end() :]
    options = _PrunOptions(
        sort_key=sort_key,
        limits=tuple(limits) or (MAX_PROFILE_LINES,),
        returns_stats="r" in flags,
        is_quiet="q" in flags,
    )
    return options, source


def _parse_limit(text: str) -> int | float | str:
    """Return a limit as pstats takes it: a number of lines, a share of them, or a pattern of names."""
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _check_sort_key(sort_key: str) -> None:
    """Raise `ValueError` if a profile cannot be sorted by a key."""
    stats = late_import("pstats").Stats
    # Their beginnings are keys, too.
    if sort_key not in stats().get_sort_arg_defs():
        keys = ", ".join(stats.sort_arg_dict_default)
        raise ValueError(f"%prun -s does not know {sort_key!r}, only {keys}")


def profile_code(source: str, caller: MagicContext) -> object:
    """`%prun`: run code, and print which functions took the time.

    Returns:
        The code's last value; with -r the `pstats.Stats`.
    """
    options, code = _split_prun(source)
    run = compile_callable(transform(code), "<%prun>", *caller)
    with report_profile(options.sort_key, options.limits, options.is_quiet) as profile:
        value = run()
    return _sort_stats(profile, options.sort_key) if options.returns_stats else value
