"""Cells of random programs are run again: only those that are marked as stale may print something
else."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mahtab_tui.bus.code_inputs import find_inputs
from mahtab_tui.bus.records import Namespace
from mahtab_tui.bus.staleness import Staleness
from mahtab_tui.kernel.process import ProcessKernel
from tests.integration.kernels import Cells, running

PROGRAMS = 6
CELLS = 20
LINES = (
    "a = {n}",
    "a += {n}",
    "b = a + {n}; print(b)",
    "c = [a, {n}]",
    "c.append(a)",
    "c[0] = {n}",
    "e = c",
    "d = {{'key': c, 'number': {n}}}",
    "d['key'].append({n})",
    "def f(): return a + {n}",
    "def g(k={n}): return f() + k",
    "f = lambda: sum(c)",
    "del b",
    "print(a, c)",
    "print(d)",
    "print(f())",
    "print(g())",
    "print([a * each for each in c])",
    "print(e is c, e)",
    "if a > {n}: b = 0\nprint(b)",
    "class K: size = {n}",
    "K.size = a",
    "class K:\n    size = a\n    def get(self): return c, self.size\nprint(K.size)",
    "print(K().get() if hasattr(K, 'get') else 0)",
    "def h(): return g()\nprint(h())",
    "if a > {n}: b = 0\nelse: b = 1\nprint(b)",
    "print(K().size)",
    "h = f",
    "h = g",
    "print(h())",
    "k = K()",
    "m = k",
    "L = K",
    "print(k.size)",
    "print(m.get() if hasattr(m, 'get') else 0)",
    "print(L().get() if hasattr(L, 'get') else 0)",
    "class L(K): pass\nprint(L.size)",
)


FIRST_CELL = """
a = 1; b = 2; c = e = [a, b]; d = {'key': c}
def f(): return a
class K:
    size = a
    def get(self): return c, self.size
h = f; k = m = K(); L = K
"""


class RandomCells:
    """A session of random cells."""

    def __init__(self, cells: Cells, seed: int) -> None:
        self.cells = cells
        self.choice = random.Random(seed)
        self.staleness = Staleness()
        self.latest: dict[str, int] = {}
        """By code: the number of its last run."""
        self.outputs: dict[int, str] = {}
        """By cell: what it printed, if it can run again: it did not fail, and has neither changed
        what it had read nor deleted anything."""

    def run(self, code: str) -> None:
        self.latest[code] = number = self.cells.number + 1
        self.staleness.start(number, code)
        result = self.cells.run(code)
        self.staleness.fold(Namespace(cell=number, changes=tuple(result.changes)))
        changed_names = {change.name for change in result.changes}
        has_deleted = any(change.change == "deleted" for change in result.changes)
        has_changed_inputs = not changed_names.isdisjoint(find_inputs(code).names)
        if result.status == "ok" and not has_deleted and not has_changed_inputs:
            self.outputs[number] = result.output

    def wrong_cells(self) -> Iterator[str]:
        """Run each cell again that is not stale, and yield those that print something else."""
        for code, number in self.latest.items():
            if number in self.outputs and not self.staleness.inputs_of(number):
                again = self.cells.run(code)
                if again.output != self.outputs[number]:
                    yield f"In {number}: {code!r} printed {self.outputs[number]!r}, now {again.output!r}"
                self.cells.kernel.undo(self.cells.number)


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    with running(ProcessKernel()) as cells:
        yield cells


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_what_is_not_stale_prints_the_same_again(cells: Cells, seed: int) -> None:
    cells.run("for name in 'abcdefghkmKL': globals().pop(name, None)\ndel name")
    program = RandomCells(cells, seed)
    program.run(FIRST_CELL)
    for _ in range(CELLS):
        line = program.choice.choice(LINES)
        program.run(line.format(n=program.choice.randrange(3)))
    assert list(program.wrong_cells()) == []
    stale_count = sum(bool(program.staleness.inputs_of(number)) for number in program.outputs)
    assert 0 < stale_count < len(program.outputs)
