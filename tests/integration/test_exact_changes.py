"""Changes inside objects are found by comparing with the state before a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.values import Change
from mahtab_tui.kernel.process import ProcessKernel
from tests.integration.kernels import Cells, running

SIGNS = {"changed": "~", "perhaps": "?"}

RECORDS = "records = [{'n': n - 1, 'name': str(n), 'rate': n / 7, 'tags': ['a', None]} for n in range(20_000)]"

CASES = {
    "undone in the same cell": ("items = [1]", "items.append(2)\nitems.pop()", ""),
    "a helper that knows the object by another name": (
        "items = alias = [1]\ndef helper(): alias.append(2)",
        "helper()",
        "~items ~alias",
    ),
    "an object with two names": ("a = []\nb = {'inside': a}", "a.append(1)", "~a ~b"),
    "deep inside": (
        "deep = {'a': [{'b': ({'c': [1]},)}]}",
        "deep['a'][0]['b'][0]['c'].append(2)",
        "~deep",
    ),
    "the 5,000th number": ("many = list(range(5000))", "many[4999] = -1", "~many"),
    "the 1,000th object": ("many = [[n] for n in range(1000)]", "many[999].append(1)", "~many"),
    "the 20,000th record": (RECORDS, "records[19_999]['tags'][1] = 5", "~records"),
    "a record of other values with the same hash": (RECORDS, "records[0]['n'] = -2", "~records"),
    "an empty text and a zero that change places": (
        "price = {'name': '', 'price': 0.0}",
        "price['name'], price['price'] = 0.0, ''",
        "~price",
    ),
    "reading records": (RECORDS, "len(records), records[-1], sum(x['n'] for x in records)", ""),
    "records whose keys move": (RECORDS, "records[7]['n'] = records[7].pop('n')", "~records"),
    "a list beside a larger object": (
        "class C: pass\nmany = [C() for _ in range(5000)]\nitems = [[{1}]]",
        "len(many), len(items)",
        "?many",
    ),
    "a list beside a larger object that the cell makes": (
        "class C: pass\nitems = [{1}]",
        "many = [C() for _ in range(5000)]\nlen(many), len(items)",
        "",
    ),
    "many numbers that are only read": ("many = list(range(200_000))", "max(many)", ""),
    "one of many numbers": ("many = list(range(200_000))", "many[-1] = 3.0", "~many"),
    "objects of a class": (
        "class C: pass\nmany = [C() for _ in range(5000)]",
        "len(many)",
        "?many",
    ),
    "a list of itself, twice": (
        "many = []\nmany += [many, many] + [[n] for n in range(5000)]",
        "len(many)",
        "?many",
    ),
    "very deep": ("deep = []\nfor _ in range(50_000): deep = [deep]", "len(deep)", "?deep"),
    "code in a text": ("items = [1]", "exec('items' + '[0] = 2')", "~items"),
    "a variable of a closure": (
        "def make():\n    n = []\n    return lambda: n.append(1)\nadd = make()",
        "add()",
        "~add",
    ),
    "a class": ("class C:\n    n = 1\nc = C()", "C.n = 2", "~C"),
    "a queue": ("import queue\njobs = queue.Queue()", "jobs.put(1)", "~jobs"),
    "an iterator in C": ("numbers = iter([1, 2])", "next(numbers)", "~numbers"),
    "an iterator that is only shown": ("numbers = iter([1, 2])", "numbers", ""),
    "only that name": ("import queue\njobs = queue.Queue()\nitems = [1]", "items[0] = 2", "~items"),
    "a decimal number that is only shown": (
        "import decimal, re\nprice = [decimal.Decimal(1), re.compile('a')]",
        "str(price)",
        "",
    ),
}

MADE_TABLES = """
import numpy as np, pandas as pd
arr = np.arange(100.0)
view = arr[1:]
df = pd.DataFrame({'a': [3, 1, 2], 'b': [0.5, None, 1.0], 'c': list('xyx')})
def change(table): table.loc[0, 'b'] = 7.5
texts = {name: [f'{name} {n % 97}' if n % 10 else None for n in range(12_000)] for name in 'abcd'}
cities = pd.DataFrame(texts, dtype=object)
prices = pd.DataFrame({'a': ['none', 0.0, *texts['a']]}, dtype=object)
letters = pd.DataFrame({'a': ['x' * 4_000] * 20_000}, dtype=object)
"""
TABLES = {
    "dropped in place": ("df.drop(columns='a', inplace=True)", "~df"),
    "a function that changes it": ("change(df)", "~df"),
    "an array changed through a view": ("view[3] = 5", "~arr ~view"),
    "an array filled with what it has": ("arr[:] = arr.copy()", ""),
    "an array changed and changed back": ("arr[2] += 1\narr[2] -= 1", ""),
    "48,000 texts that are only read": ("cities.head(), cities['a'].value_counts()", ""),
    "one of 48,000 texts": ("cities.iloc[11_999, 3] = 'Oslo'", "~cities"),
    "a missing text": ("cities.iloc[11_999, 3] = float('nan')", "~cities"),
    "a text that comes where one is missing": ("cities.iloc[10, 0] = 'a 10'", "~cities"),
    "a number among texts whose sign alone changes": ("prices.iloc[1, 0] = -0.0", "~prices"),
    "texts of 80 million characters": ("letters.head(1)", "?letters"),
    "an array that is only read": ("arr.sum(), view.mean()", ""),
}

FORK = """
import os
def fork():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
"""

HOSTILE = """
import array, collections, decimal, functools, io, itertools, threading
ran = []
def trap(what):
    def boom(*args, **kwargs):
        ran.append(what)
        raise RuntimeError(what)
    return boom
methods = (
    "__eq__ __hash__ __len__ __bool__ __iter__ __repr__ __reduce__ __reduce_ex__ __getstate__ __getattribute__ __getattr__ __sizeof__ __copy__"
    " __deepcopy__ __bytes__ __buffer__ __contains__ __getitem__ __index__ __int__ __float__ __format__ __str__ __dir__ __call__ items keys copy"
    " getvalue tell closed tobytes typecode default_factory func args keywords fget __func__"
).split()
class Meta(type):
    pass
for name in "__eq__ __hash__ __getattribute__ __instancecheck__ __subclasscheck__ __repr__".split():
    setattr(Meta, name, trap(f"Meta.{name}"))
bases = [object, list, dict, set, frozenset, tuple, bytearray, int, str, decimal.Decimal, io.StringIO, io.BytesIO, array.array, functools.partial,
         property, staticmethod, collections.defaultdict, collections.OrderedDict, collections.deque]
arguments = {array.array: ("b",), functools.partial: (print,), staticmethod: (print,)}
def made(base, slots):
    cls = type.__new__(Meta, "Hostile", (base,), {"__slots__": ()} if slots else {})
    thing = base.__new__(cls, *arguments.get(base, ()))
    if base in (io.StringIO, io.BytesIO):
        base.__init__(thing)
    for name in methods:
        type.__setattr__(cls, name, trap(f"{base.__name__}.{name}"))
    return thing
hostile = [made(base, slots) for base in bases for slots in (False, True)]
inside_c = [itertools.chain(hostile), itertools.repeat(hostile[0]), map(print, hostile), iter(hostile)]
class Thread(threading.Thread):
    def is_alive(self):
        ran.append("is_alive")
thread = Thread()
del ran[:]
"""


def inside(cells: Cells, *codes: str) -> str:
    """Return the changes that the last cell made inside objects, as in `~items ?generator`."""
    result = [cells.run(code) for code in codes][-1]
    assert result.status == "ok", result.output
    return " ".join(
        SIGNS[change.change] + change.name for change in result.changes if change.change in SIGNS
    )


@pytest.fixture(scope="module", params=[20, 0], ids=["with undo", "without undo"])
def shared_cells(request: pytest.FixtureRequest) -> Iterator[Cells]:
    """With a forked process to compare with, and without."""
    with running(ProcessKernel(undo_steps=request.param)) as cells:
        cells.text("_first = {*globals(), '_first'}")
        yield cells


@pytest.fixture
def any_cells(shared_cells: Cells) -> Cells:
    shared_cells.text(
        "for _name in [*globals()]:\n    if _name not in _first: del globals()[_name]"
    )
    return shared_cells


@pytest.mark.sample(15)
@pytest.mark.parametrize("case", CASES)
def test_changes_inside_objects_are_reported(any_cells: Cells, case: str) -> None:
    setup_code, code, expected = CASES[case]
    assert inside(any_cells, setup_code, code) == expected


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", TABLES)
def test_changes_inside_tables_are_reported(any_cells: Cells, case: str) -> None:
    pytest.importorskip("pandas")
    code, expected = TABLES[case]
    assert inside(any_cells, MADE_TABLES, code) == expected


def test_fitted_model_counts_as_changed(cells: Cells) -> None:
    pytest.importorskip("sklearn")
    setup_code = "from sklearn.linear_model import LinearRegression\nmodel = LinearRegression()"
    assert inside(cells, setup_code, "model.fit([[1.0], [2.0]], [1.0, 2.0])") == "~model"
    assert inside(cells, "model.predict([[3.0]])") == ""


def test_polars_table_is_compared_up_to_a_size_limit(any_cells: Cells) -> None:
    pytest.importorskip("polars")
    any_cells.text(
        "import polars as pl, numpy as np\nsmall = pl.DataFrame({'a': [1, 2]})\nlarge = pl.DataFrame({'a': np.zeros(10_000_000)})"
    )
    assert inside(any_cells, "small.sort('a')") == ""
    assert inside(any_cells, "small[0, 'a'] = 5") == "~small"
    assert inside(any_cells, "large.sort('a')") == "?large"


def test_one_changed_number_in_a_gigabyte_is_detected(cells: Cells) -> None:
    pytest.importorskip("numpy")
    cells.text("import numpy as np\nlarge = [np.zeros(2**24) for _ in range(8)]")
    assert inside(cells, "large[5][12_345_678] = 1") == "~large"
    assert inside(cells, "large[5].max()") == ""


def test_incomparable_variable_is_unknown_only_if_mentioned(any_cells: Cells) -> None:
    any_cells.text("huge = [[n] for n in range(200_000)]\nsmall = [1]")
    assert inside(any_cells, "huge[199_999].append(1)") == "?huge"
    assert inside(any_cells, "small.append(1)") == "~small"
    assert inside(any_cells, "huge.append(1)") == "~huge"


def test_large_arrays_without_a_fork_are_unknown(project: Path) -> None:
    pytest.importorskip("numpy")
    with running(ProcessKernel(undo_steps=0)) as cells:
        large = "import numpy as np\nlarge = np.zeros(2**24)"
        assert inside(cells, large, "large[7] = 1") == "?large"


def test_process_forked_by_the_cell_hides_no_change(cells: Cells) -> None:
    pytest.importorskip("numpy")
    cells.text(
        f"import numpy as np\narr = np.arange(1_000_000)\nother = np.arange(1_000_000)\n{FORK}"
    )
    assert inside(cells, "arr[:3] = 9\nfork()\nother[5] = 8") == "~arr ~other"
    done = cells.kernel.undo(cells.number)
    assert [item.name for item in done.not_restored] == ["os.fork"]
    assert cells.text("arr[:3].tolist(), other[5].item()") == "([0, 1, 2], 5)\n"


def test_a_fork_in_an_earlier_cell_hides_no_change(cells: Cells) -> None:
    pytest.importorskip("numpy")
    cells.text(f"import numpy as np\narr = np.arange(1_000_000)\n{FORK}")
    cells.text("arr[:3] = 9\nfork()")
    first_cell = cells.number
    cells.text("arr.sum()")
    cells.text("arr[900_000] = 9")
    cells.kernel.undo(first_cell)
    assert cells.text("arr[:4].tolist(), arr[900_000].item()") == "([0, 1, 2, 3], 900000)\n"


def test_changes_of_nested_and_outer_cells_are_distinguished(cells: Cells) -> None:
    nested: list[Change] = []

    def answer(name: str, args: Mapping[str, Any]) -> str:
        nested.extend(cells.run("inner[0] = 1", nested=True).changes)
        return ""

    cells.host.answer = answer
    cells.text("outer, inner, numbers = [0], [0], [0]")
    assert inside(cells, "outer[0] = 1\nprint(input())\nnumbers[0] = 2") == "~outer ~numbers"
    assert [(change.name, change.change) for change in nested] == [("inner", "changed")]


def test_no_code_of_a_hostile_class_runs(any_cells: Cells) -> None:
    any_cells.text(HOSTILE)
    assert any_cells.text("ran") == "[]\n"
    any_cells.text("hostile[1]; inside_c[0]; None")
    assert any_cells.text("ran") == "[]\n"
    assert "~hostile" in inside(any_cells, "hostile.append(1)")


def test_disabled_undo_keeps_no_objects_alive(project: Path) -> None:
    with running(ProcessKernel(undo_steps=0)) as cells:
        cells.text(
            "import weakref\nclass C: pass\nthing = C()\nseen = weakref.ref(thing)\nfile = open('written.txt', 'w')\nfile.write('abc')"
        )
        freed = cells.text("del thing, file\nseen() is None, open('written.txt').read()")
        assert freed == "(True, 'abc')\n"
