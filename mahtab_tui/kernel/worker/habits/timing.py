"""%time and %timeit."""

from __future__ import annotations

import ast
import linecache
import statistics
import time
from types import CodeType
from typing import Any

from ..stdlib import late_import
from .magics import Caller

_NAME = "<%time>"
_CO_COROUTINE = 0x80


def run_once(source: str, caller: Caller) -> Any:
    """Run code, which may await, and say how long it took; its last expression's value is the value."""
    linecache.cache[_NAME] = (len(source), None, [line + "\n" for line in source.split("\n")], _NAME)
    tree = ast.parse(source.strip("\n"), _NAME)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    body = compile(tree, _NAME, "exec", flags, dont_inherit=True)
    value = compile(ast.Expression(last.value), _NAME, "eval", flags, dont_inherit=True) if isinstance(last, ast.Expr) else None
    wall, processor = time.perf_counter(), time.process_time()
    try:
        _evaluate(body, caller)
        return None if value is None else _evaluate(value, caller)
    finally:
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        print(f"took {duration(wall)} (processor: {duration(processor)})")


def _evaluate(code: CodeType, caller: Caller) -> Any:
    result = eval(code, caller.namespace)
    return caller.await_(result) if code.co_flags & _CO_COROUTINE else result


def run_often(source: str, caller: Caller) -> None:
    """Run code many times and say how long one run takes."""
    loops, repeats, code = _options(source)
    timer = late_import("timeit").Timer(code, globals=caller.namespace)
    if not loops:
        loops, _ = timer.autorange()
    runs = [took / loops for took in timer.repeat(repeats, loops)]
    spread = statistics.pstdev(runs)
    print(
        f"{duration(statistics.fmean(runs))} ± {duration(spread)} per loop (of {repeats} runs with {loops:,} loops each; best {duration(min(runs))})"
    )


def _options(source: str) -> tuple[int, int, str]:
    """Loops (0: as many as take a while), repeats, and the code."""
    numbers = {"-n": 0, "-r": 7}
    rest = source.lstrip()
    while rest[:2] in numbers:
        option, rest = rest[:2], rest[2:].lstrip()
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        if not digits or int(digits) < 1:
            raise ValueError(f"%timeit: {option} wants a number, as in {option} 10")
        numbers[option], rest = int(digits), rest[len(digits) :].lstrip(" \t")
    if not rest.strip():
        raise ValueError("%timeit wants code, as in %timeit sum(range(100))")
    return numbers["-n"], numbers["-r"], rest.strip("\n")


def duration(seconds: float) -> str:
    """``1.23 ms``, ``45.6 ns``, ``1 min 2 s``."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {seconds % 60:.0f} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


COMMANDS = {"time": run_once, "timeit": run_often}
