"""Runs these cells under Kishu, if it is installed, or in the Python that the variable KISHU_PYTHON
names."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.process import ProcessKernel
from tests.benchmarks.kernel import QuietHost
from tests.benchmarks.table import Row


class Case(NamedTuple):
    """A cell that prepares, one that changes something, and whether all of it is as before."""

    what: str
    setup: str
    change: str
    check: str


_FRAME = (
    "import numpy as np, pandas as pd\nother = [np.random.rand(12_500_000) for _ in range(2)]\n"
    "df = pd.DataFrame(np.random.rand(1_250_000, 10), columns=list('abcdefghij')); first = df.copy()"
)
CASES = (
    Case("all of a frame of 100 MB", _FRAME, "df.iloc[:] = 0.5", "df.equals(first)"),
    Case("a column of it", "first = df.copy()", "df['a'] = 1.0", "df.equals(first)"),
    Case("one number of it", "1", "df.iloc[7, 7] = 1.0", "df.equals(first)"),
    Case("a list that two names hold", "items = [1]; alias = items", "items.append(2)", "items == [1] and items is alias"),
    Case("a list that a function knows", "def get(): return items", "items.append(3)", "items == [1] and get() is items"),
    Case("an array and a view", "arr = np.arange(10.0); view = arr[2:]", "arr[:] = 0", "arr[3] == 3 and np.shares_memory(arr, view)"),
    Case("a closure", "def make():\n    n = [0]\n    def count():\n        n[0] += 1\n        return n[0]\n    return count\ncount = make()", "count()", "count() == 1"),
    Case("an object of a class of the notebook", "class P: pass\np = P(); p.x = [1]", "p.x.append(2)", "p.x == [1] and type(p) is P"),
    Case("random numbers", "import random; random.seed(1)", "random.random()", "random.random() == random.Random(1).random()"),
    Case("a generator", "numbers = (n for n in range(5))", "next(numbers)", "next(numbers) == 0"),
    Case("an open file", "import tempfile; file = tempfile.TemporaryFile(); file.write(b'abc'); file.seek(0)", "file.read(1)", "file.read() == b'abc'"),
)  # fmt: skip


class _Result(NamedTuple):
    ran: float
    """Milliseconds."""
    undone: float
    outcome: str


def rows() -> Iterator[Row]:
    """Figures of each cell: cost of being able to undo it, cost of the undo, and whether all was
    restored; the baseline is Kishu."""
    python = os.environ.get(
        "KISHU_PYTHON", sys.executable if importlib.util.find_spec("kishu") else ""
    )
    if not python:
        return
    theirs_off, theirs = _kishu(python, "off"), _kishu(python, "on")
    ours_off, ours = _ours(0), _ours(20)
    for number, case in enumerate(CASES):
        cost, their_cost = (
            ours[number].ran - ours_off[number].ran,
            theirs[number].ran - theirs_off[number].ran,
        )
        yield Row(
            f"checkpoint, cell changes {case.what}",
            max(cost, 0.0),
            "ms",
            "",
            max(their_cost, 0.0),
            "Kishu",
        )
        yield Row(
            "  undo",
            ours[number].undone,
            "ms",
            "",
            theirs[number].undone,
            f"ours {ours[number].outcome}; Kishu {theirs[number].outcome}",
        )


def _kishu(python: str, mode: str) -> list[_Result]:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [python, str(Path(__file__).with_name("kishu_notebook.py")), folder, mode],
            input=json.dumps([case[1:] for case in CASES]),
            capture_output=True,
            text=True,
            check=True,
        )
    outcomes = json.loads(process.stdout)
    return [
        _Result(each["ran"], each["undone"], _outcome(each["good"], bool(each["error"])))
        for each in outcomes
    ]


def _ours(steps: int) -> list[_Result]:
    kernel = ProcessKernel(undo_steps=steps, undo_memory=4096)
    kernel.start(QuietHost())
    number = 0

    def run(code: str) -> tuple[str, float]:
        nonlocal number
        number += 1
        start = time.perf_counter()
        result = kernel.execute(code, cell=number, on_output=lambda kind, text: None)
        assert result.status == "ok", result.output
        return result.output, (time.perf_counter() - start) * 1000

    found = []
    for case in CASES:
        run(case.setup)
        _, ran = run(case.change)
        start, named = time.perf_counter(), False
        if steps:
            try:
                named = not kernel.undo(number).exact
            except KernelError:
                named = True
        undone = (time.perf_counter() - start) * 1000
        found.append(
            _Result(ran, undone, _outcome(run(f"bool({case.check})")[0] == "True\n", named))
        )
    kernel.close()
    return found


def _outcome(good: bool, named: bool) -> str:
    return "restored" if good else "named as not restored" if named else "differs, and says nothing"
