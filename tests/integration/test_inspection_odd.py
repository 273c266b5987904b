"""Objects that are unusual, but nobody's ill will: very many attributes, columns or digits, rare
types, files that are none."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import InspectorClient, TableArrangement
from tests.integration.inspection import Looking, looking, named
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def odd() -> Iterator[Looking]:
    with looking() as found:
        found.run("import numpy as np, pandas as pd, polars as pl, pyarrow as pa, decimal")
        yield found


def test_objects_with_very_many_attributes_are_listed_in_time(odd: Looking) -> None:
    """Looking each name up among all others took minutes."""
    odd.run(
        "class Many: pass\nmany = Many(); many.__dict__.update((f'a{n}', n) for n in range(50_000))"
    )
    odd.run(
        "for n in range(2_000): setattr(Many, f'p{n}', property(lambda self: 1))\nmany.__dict__[7] = 'no name'\nall_of_them = [many] * 100"
    )
    assert odd.look.children(named("all_of_them"), 0, 100)[1][99].count == 52_000
    count, (last,) = odd.look.children(named("many"), 51_999, 52_000)
    assert (count, last.label, last.state) == (52_000, "p1999", "property")


def test_dicts_with_very_many_keys_are_not_columns(odd: Looking) -> None:
    odd.run(
        "wide, wider = [dict.fromkeys(map(str, range(5_000)))], [dict.fromkeys(map(str, range(5_001)))]"
    )
    odd.run("apart = [{str(n * 2_000 + k): 1 for k in range(2_000)} for n in range(3)]")
    assert [odd.look.open(named(name)).views[0] for name in ("wide", "wider", "apart")] == [
        "table",
        "tree",
        "tree",
    ]


@pytest.mark.parametrize(
    ("value", "view"),
    [
        ("b'BMW 3 series'", "repr"),
        ("b'BM' + bytes(4) + bytes(4) + b'rest'", "picture"),
        ("bytearray(b'GIF89a')", "picture"),
        ("np.array(['a', 'bb'], dtype=np.dtypes.StringDType())", "table"),
        ("np.array([(1, (2, 3))], dtype=[('a', int), ('b', [('c', int), ('d', int)])])", "table"),
        ("pd.period_range('2026', periods=3, freq='M')", "table"),
        ("pd.interval_range(0, 3)", "table"),
        ("np.array(5)", "repr"),
        ("np.zeros((0, 5))", "array"),
    ],
)
def test_rare_types_open(odd: Looking, value: str, view: str) -> None:
    odd.run(f"rare = {value}")
    opened = odd.look.open(named("rare"))
    assert opened.views[0] == view
    if view == "table":
        odd.table("rare", *range(opened.columns))
        odd.look.figures(named("rare"), 0)


@pytest.mark.parametrize(
    ("value", "drawn"),
    [
        ("np.array([1, 2])", True),
        ("np.array([1 + 2j])", False),
        ("pd.Series([1 + 2j])", False),
        ("pd.date_range('2026', periods=3).to_numpy()", False),
        ("pd.Series([1, None], dtype='Int64')", True),
        ("pa.chunked_array([[decimal.Decimal('1.5'), None]])", True),
        ("pl.Series([decimal.Decimal('1.5'), None])", True),
        ("pl.Series(['a'])", False),
        ("pd.Series([1, 2], dtype='int64[pyarrow]')", True),
    ],
)
def test_only_numbers_are_plotted(odd: Looking, value: str, drawn: bool) -> None:
    odd.run(f"numbers = {value}")
    assert ("plot" in odd.look.open(named("numbers")).views) is drawn
    if drawn:
        assert odd.look.plot(named("numbers"), "line", 20, 20).ys[0] in (1, 1.5)
        assert sum(odd.look.plot(named("numbers"), "histogram", 20, 20).ys) in (1, 2)
    else:
        with pytest.raises(KernelError, match="no numbers to plot"):
            odd.look.plot(named("numbers"), "line", 20, 20)


@pytest.mark.parametrize("code", ["np.arange(100.0)", "np.ones((5, 7))"])
def test_plot_fits_a_tiny_screen(odd: Looking, code: str) -> None:
    odd.run(f"drawn = {code}")
    plot = odd.look.plot(named("drawn"), "line", -1, -2)
    assert (len(plot.xs), len(plot.grid)) in ((2, 0), (0, 1))


@pytest.mark.parametrize("condition", ["> 5 bananas", "> 99999999999999999999999999 s", "= soon"])
def test_unreadable_timedelta_condition_is_refused(odd: Looking, condition: str) -> None:
    odd.run("spans = pd.to_timedelta([1, 2], unit='h').to_numpy()")
    with pytest.raises(KernelError, match="cannot be compared with values of timedelta64"):
        odd.table("spans", 0, c0=condition)


def test_all_numbers_of_a_large_array_in_columns_are_counted(odd: Looking) -> None:
    odd.run("tall = np.zeros((5_001, 10_001), dtype='i1', order='F'); tall[5_000, :] = 7")
    figures = odd.look.array_figures(named("tall"))
    assert (figures.max, figures.zeros) == ("7", 5_000 * 10_001)
    odd.run("tall = np.zeros((5_001 * 2, 10_001), dtype='i1')[::2]")
    with pytest.raises(KernelError, match="is not contiguous"):
        odd.look.array_figures(named("tall"))
    odd.run("tall = np.arange(10)[::3]")
    assert (odd.look.array_figures(named("tall")).max, odd.look.array(named("tall")).layout) == (
        "9",
        "strided",
    )


def test_two_filters_apply_together_in_every_library(odd: Looking) -> None:
    odd.run(
        "data = {'a': [1, 2, 3, 4], 'b': [4, 3, 2, 1]}; p, q, r = pd.DataFrame(data), pl.DataFrame(data), pa.table(data)"
    )
    odd.run("s = [{'a': n + 1, 'b': 4 - n} for n in range(4)]")
    for name in "pqrs":
        page = odd.look.rows(
            named(name), 0, 10, [0], TableArrangement((1, False), ((0, "> 1"), (1, "> 1")))
        )
        assert page.positions == (2, 1)


def test_sorting_emits_no_warnings(odd: Looking) -> None:
    odd.run(
        "import warnings; warned = []; warnings.showwarning = lambda *about: warned.append(about); warnings.simplefilter('always')"
    )
    odd.run("t = pa.table({'a': [2.0, None, float('nan'), 1.0]})")
    assert odd.table("t", sort=(0, True)).positions == (0, 3, 2, 1)
    assert odd.cells.run("print(warned)").output == "[]\n"


def test_docstring_of_any_length_is_truncated(odd: Looking) -> None:
    odd.run("def f(): pass\nf.__doc__ = 'x' * 300_000_000")
    assert len(odd.look.source(named("f")).doc) == 400_000


def test_a_module_whose_file_is_a_pipe_is_not_read(odd: Looking) -> None:
    odd.run(
        "import os, tempfile, types\npipe = types.ModuleType('pipe'); pipe.__file__ = tempfile.mkdtemp() + '/x.py'; os.mkfifo(pipe.__file__)"
    )
    source = odd.look.source(named("pipe"))
    assert (source.source, source.where.endswith("x.py")) == ("", True)


def test_custom_version_class_is_read_without_running_its_code(
    odd: Looking,
) -> None:
    odd.run(
        "import types\nclass Version(str):\n    def __str__(self): asked.append(1)\n    __len__ = __iter__ = isprintable = __str__\nasked = []"
    )
    odd.run(
        "own = types.ModuleType('own'); own.__version__ = Version('2.13.0+cpu'); number = types.ModuleType('number'); number.__version__ = 3"
    )
    assert (
        odd.look.source(named("own")).signature,
        odd.look.source(named("number")).signature,
    ) == ("version 2.13.0+cpu", "")
    assert {
        variable.name: variable.summary
        for variable in odd.cells.kernel.variables()
        if variable.name in ("own", "number", "asked")
    } == {
        "own": "2.13.0+cpu",
        "number": "",
        "asked": "0 items",
    }


def test_late_property_value_is_dropped_after_its_screen_closes() -> None:
    """In a kernel of its own: among the large variables of the others each cell may take longer
    than the property is waited for."""
    with looking() as own:
        own.run("import threading, weakref")
        own.run(
            "class Slow:\n    @property\n    def p(self):\n        begun.set(); closed.wait(1.5); made.add(found := Slow()); return found\nslow = Slow()"
        )

        def was_late() -> bool:
            """Close the screen while the property runs; returns whether its value came afterwards,
            as it does unless the machine is busy."""
            own.run("begun, closed, made = threading.Event(), threading.Event(), weakref.WeakSet()")
            look = InspectorClient(own.cells.kernel)
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(look.evaluate, named("slow"), "p")
                own.run("begun.wait(30)")
                look.close()
                own.run("closed.set()")
                error = asked.exception()
            return isinstance(error, KernelError) and "No one is waiting for this answer" in str(
                error
            )

        wait_for(was_late)
        assert own.cells.run("print(len(made))").output == "0\n"
