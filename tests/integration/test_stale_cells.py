"""Cells of random programs are run again: only those that are marked as stale may print something
else, and only variables that are marked may get another value."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.code_inputs import find_inputs
from mahtab_tui.bus.records import Namespace
from mahtab_tui.bus.staleness import Staleness
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session.stale_outputs import StaleOutputs
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
    # Under another name of the same object
    "e.append({n})",
    "w = d['key']",
    "w.append(a)",
    "print(w, e)",
    "p = (c, a)",
    "p[0].append({n})",
    "print(p)",
    # Functions that change variables
    "def add():\n    global a\n    a += {n}",
    "add()",
    "add()\nprint(a)",
    "def swap():\n    global a, b\n    a, b = b, a",
    "swap()",
    "def put(v): c.append(v)",
    "put({n})",
    "put(a)",
    "def bind():\n    global w\n    w = c",
    "bind()",
    "def start():\n    def inner():\n        global b\n        b = a\n    inner()",
    "start()",
    # Loops
    "for i in range({n}): c.append(i)",
    "for i in range({n}): a = a + i",
    "v = 0\nfor i in range({n}): v = v + a\nprint(v)",
    "v = u = 0\nfor i in range(3):\n    v = u\n    u = a\nprint(v)",
    "for i in range(2):\n    v = u\n    u = a",
    "while len(c) > 3: c.pop()",
    "v = a\nwhile v > 1: v = v - 1\nprint(v)",
    "print(v, u)",
    # What is left out
    "v = 0\nfor i in range(4):\n    if i == a: continue\n    v += i\nprint(v)",
    "v = 0\nwhile True:\n    v += 1\n    if v > a: break\nprint(v)",
    "try: v = 6 // a\nexcept ZeroDivisionError: v = b\nprint(v)",
    "try: a // {n}\nexcept ZeroDivisionError: u = 1\nelse: u = 2\nprint(u)",
    "for v in range(3):\n    try: 6 // (v - a); break\n    except ZeroDivisionError: u = b\nprint(u)",
    "for v in range(3):\n    with suppress(ZeroDivisionError): 6 // (v - a); break\n    u = {n}",
    "match c:\n    case [q, *_]: print(q, a)\n    case _: print(b)",
    "print([v := a, v + b])",
    "if 'u' not in globals(): u = {n}\nprint(u)",
)


FIRST_CELL = """
from contextlib import suppress
a = 1; b = 2; c = e = [a, b]; d = {'key': c}
def f(): return a
class K:
    size = a
    def get(self): return c, self.size
h = f; k = m = K(); L = K
w = c; p = (c, a); u = v = 0
def add():
    global a
    a += 1
def put(v): c.append(v)
def bind():
    global w
    w = c
swap = start = add
"""


class RandomCells:
    """A session of random cells."""

    def __init__(self, cells: Cells, seed: int) -> None:
        self.cells = cells
        self.choice = random.Random(seed)
        self.staleness = Staleness()
        self.latest: dict[str, int] = {}
        """By code: the number of its last run."""
        self.texts: dict[str, tuple[int, str]] = {}
        """By variable: the cell that made it, and its value as text."""
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
        # Also what it reads through the functions that it calls.
        inputs = self.staleness._uses[number].made_by.keys() | find_inputs(code).names
        has_changed_inputs = not changed_names.isdisjoint(inputs)
        if result.status == "ok" and not has_deleted and not has_changed_inputs:
            self.outputs[number] = result.output
            for name in changed_names:
                self.texts[name] = (number, self.text_of(name))
        self.texts = {
            name: (maker, text)
            for name, (maker, text) in self.texts.items()
            if maker == number or name not in changed_names
        }

    def text_of(self, name: str) -> str:
        """Return the value of a variable; its type if its text has an address."""
        text = self.cells.run(f"repr({name})").output
        self.cells.kernel.undo(self.cells.number)
        return text.split(" at 0x")[0]

    def wrong_variables(self) -> Iterator[str]:
        """Run the last cells of variables that are not marked again, and yield variables that are
        different then."""
        codes = {number: code for code, number in self.latest.items()}
        marked_names = self.staleness.stale_variables()
        for name, (maker, text) in self.texts.items():
            if name not in marked_names and maker in codes:
                self.cells.run(codes[maker])
                rerun_cell = self.cells.number
                new_text = self.text_of(name)
                self.cells.kernel.undo(rerun_cell)
                if new_text != text:
                    yield f"{name} of In {maker}: {codes[maker]!r} made {text!r}, now {new_text!r}"

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
    names = "a b c d e f g h i k m p q u v w K L add swap put bind start"
    cells.run(f"for name in {names!r}.split(): globals().pop(name, None)\ndel name")
    program = RandomCells(cells, seed)
    program.run(FIRST_CELL)
    for _ in range(CELLS):
        line = program.choice.choice(LINES)
        program.run(line.format(n=program.choice.randrange(3)))
    assert list(program.wrong_cells()) == []
    assert list(program.wrong_variables()) == []
    stale_count = sum(bool(program.staleness.inputs_of(number)) for number in program.outputs)
    assert 0 < stale_count < len(program.outputs)


DEFINE = """
limit = {limit}
warm = table["t"] >= limit
warm_count = int(warm.sum())
warm_mean = float(table.loc[warm, "t"].mean())
print(warm_count, warm_mean)
"""
COUNT = """
years = pd.to_datetime(table["date"]).dt.year
print(int((warm & (years == 2014)).sum()))
"""


class FollowedCells:
    """Cells whose stale outputs the model is told."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.stale_outputs = StaleOutputs()
        self.first = cells.number + 1

    def run(self, code: str) -> dict[str, tuple[str, bool]]:
        """Run a cell. Return its changes: of which kind, and whether the value is equal."""
        number = self.cells.number + 1
        self.stale_outputs.fold(records.UserReplIn(code, cell=number, party="you"))
        result = self.cells.run(code)
        assert result.status == "ok", result.output
        self.stale_outputs.fold(Namespace(cell=number, changes=tuple(result.changes)))
        return {change.name: (change.change, change.is_equal) for change in result.changes}


def test_definition_that_changes_and_comes_back_marks_only_what_rests_on_it(cells: Cells) -> None:
    followed = FollowedCells(cells)
    followed.run(
        "import pandas as pd\n"
        "table = pd.DataFrame({'t': range(40), 'date': ['2013-01-01', '2014-05-05'] * 20})"
    )
    defined = followed.first + 1
    counted = followed.first + 2
    followed.run(DEFINE.format(limit=20))
    followed.run(COUNT)
    assert followed.stale_outputs.tell() == ""

    followed.run(DEFINE.format(limit=25))
    assert followed.stale_outputs.stale_marks() == {}
    assert followed.stale_outputs.tell() == (
        f"In {defined} and {counted} use `warm` from In {defined}, changed by In {counted + 1}"
    )
    followed.run("shown = table[warm]")
    changes = followed.run(COUNT)
    assert changes == {"years": ("rebound", True)}
    assert followed.stale_outputs.tell() == ""
    followed.run("limit = 20\nwarm = table['t'] >= limit")
    assert followed.stale_outputs.stale_marks() == {"shown": f"from In {counted + 2} (stale)"}
    assert [cell.number for cell in followed.stale_outputs.stale_cells()] == [
        counted + 2,
        counted + 3,
    ]


@pytest.mark.parametrize(
    "value",
    [
        "7",
        "'a' * 100",
        "[1, {'k': (2.5, None)}]",
        "{1, 2, 'a'}",
        "np.arange(5) / 3",
        "pd.DataFrame({'a': [1, 2], 'b': ['x', None]})",
        "pd.Series(pd.date_range('2020-01-01', periods=3))",
        "pd.Series(['a', 'b'], dtype='category')",
        "datetime.date(2020, 1, 1)",
        "[np.float64(1.5), pd.Timestamp('2020-01-01')]",
    ],
)
def test_value_that_is_made_again_is_known_to_be_equal(cells: Cells, value: str) -> None:
    followed = FollowedCells(cells)
    followed.run("import datetime; import numpy as np; import pandas as pd; v = 0")
    assert followed.run(f"v = {value}") == {"v": ("rebound", False)}
    assert followed.run(f"v = {value}") == {"v": ("rebound", True)}
    assert followed.run(f"v = [{value}]") == {"v": ("rebound", False)}


def test_value_that_was_changed_in_place_is_not_taken_for_the_old_one(cells: Cells) -> None:
    followed = FollowedCells(cells)
    followed.run("v = [1]; same = 1.0")
    assert followed.run("v.append(2)") == {"v": ("changed", False)}
    assert followed.run("v = [1]; same = 1") == {
        "v": ("rebound", False),
        "same": ("rebound", False),
    }
    assert followed.run("v = [1]; v.append(3)") == {"v": ("rebound", False)}


def test_values_that_cannot_be_compared_are_not_said_to_be_equal(cells: Cells) -> None:
    followed = FollowedCells(cells)
    followed.run("class V: pass\nimport numpy as np")
    for value in ("V()", "[V()]", "(lambda: 0)", "np.zeros(10_000_000)", "['a'] * 1_000_000"):
        followed.run(f"v = {value}")
        assert followed.run(f"v = {value}")["v"] == ("rebound", False)


def test_object_that_a_variable_gets_again_is_known_to_be_the_same(cells: Cells) -> None:
    followed = FollowedCells(cells)
    followed.run("class V: size = 1\nv = w = V()\ndef f(): pass\ng = f")
    assert followed.run("v = w") == {"v": ("rebound", True)}
    assert followed.run("if 'v' not in globals(): v = V()") == {"v": ("rebound", True)}
    assert followed.run("if 0:\n    class V: pass") == {"V": ("rebound", True)}
    assert followed.run("g = f") == {"g": ("rebound", True)}
    assert followed.run("w.size = 2\nv = v")["v"] == ("rebound", False)
    assert followed.run("v = v") == {"v": ("rebound", True)}
    # A new object may have the address of the old one.
    assert followed.run("del w\nv = None\nv = V()")["v"] == ("rebound", False)


def test_module_is_not_said_to_be_the_same(cells: Cells) -> None:
    followed = FollowedCells(cells)
    followed.run("import types; v = types.ModuleType('v'); v.x = [1]")
    assert followed.run("v.x.append(2); v = v") == {"v": ("rebound", False)}


@pytest.mark.parametrize("change", ["v['a'] = 2", "w.append(2)"])
def test_value_before_an_undo_is_not_taken_for_the_one_after_it(cells: Cells, change: str) -> None:
    followed = FollowedCells(cells)
    followed.run("class V: pass\nw = [1]; v = {'a': w}; u = V(); u.v = v")
    followed.run(change)
    changed_text = cells.run("print(repr(v))").output
    cells.kernel.undo(cells.number - 1)
    assert followed.run(f"v = {changed_text}") == {"v": ("rebound", False)}
    assert followed.run("u = u") == {"u": ("rebound", True)}
