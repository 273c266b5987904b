"""Classes derived from the libraries' tables and arrays are seen as those, and nothing of the
classes' own code runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mahtab_tui.kernel.inspector_client import TableArrangement
from tests.integration.inspection import TRAP, Looking, looking, named

DERIVED = (
    TRAP
    + """
import numpy as np, pandas as pd, polars as pl
METHODS = "__repr__ __str__ __len__ __iter__ __getitem__ __getattr__ __getattribute__ __eq__ __array__ __array_finalize__ __array_ufunc__ __array_function__ __finalize__"
PROPERTIES = "shape dtype dtypes ndim iloc columns index _constructor _constructor_sliced array flags values name"
class Frame(pd.DataFrame): pass
class Column(pd.Series): pass
class Array(np.ndarray): pass
frame, column, array = Frame({"a": [1, 2], "[bold]": ["x", None]}), Column([1.5, 2.5], name="price"), np.arange(6.0).reshape(3, 2).view(Array)
class Polar(pl.DataFrame): pass
class Row(pl.Series): pass
polar, row = Polar({"a": [1, 2], "[bold]": ["x", None]}), Row("price", [1.5, 2.5])
shell, hollow = object.__new__(Polar), object.__new__(Frame)
for cls in (Frame, Column, Array, Polar, Row):
    for name in METHODS.split(): setattr(cls, name, trap(name))
    for name in PROPERTIES.split(): setattr(cls, name, property(trap(name)))
class Labels(pd.Index): pass
odd, odds = pd.DataFrame({"a": [1, 2]}, index=["x", "y"]), pd.Series([1, 2], index=["x", "y"])
odd.columns.__class__ = odd.index.__class__ = odds.index.__class__ = Labels
Labels.__getitem__ = Labels.__iter__ = Labels.__len__ = trap("labels"); Labels.dtype = property(trap("dtype"))
class Kind(pd.api.extensions.ExtensionDtype):
    name, type, na_value = property(trap("name")), object, None
class Kinds(pd.api.extensions.ExtensionArray):
    dtype, __len__, copy = Kind(), lambda self: 2, lambda self: self
kinds, kinded = pd.Series(Kinds()), pd.DataFrame({"a": [1, 2]}, index=pd.Index(Kinds()))
Kinds.__getitem__ = Kinds.__iter__ = trap("kinds")
Kind.__str__ = Kind.__repr__ = trap("kind")
masked = np.ma.masked_array([1, 2, 3], [False, True, False])
records = np.rec.array([(1, "x"), (2, "y")], names="n,t")
"""
)


@pytest.fixture(scope="module")
def derived() -> Iterator[Looking]:
    with looking() as found:
        found.run(DERIVED)
        yield found


@pytest.mark.parametrize(
    ("name", "view", "shape", "known"),
    [
        ("frame", "table", (2, 2), "pandas.DataFrame"),
        ("column", "table", (2, 1), "pandas.Series"),
        ("array", "array", (3, 2), "numpy.ndarray"),
        ("records", "table", (2, 2), "numpy.ndarray"),
        ("odd", "tree", (0, 0), "pandas.DataFrame"),
        ("odds", "tree", (0, 0), "pandas.Series"),
        ("polar", "table", (2, 2), "polars.DataFrame"),
        ("row", "table", (2, 1), "polars.Series"),
        ("shell", "tree", (0, 0), "__main__.Polar"),
        ("hollow", "tree", (0, 0), "__main__.Frame"),
    ],
)
def test_derived_table_opens_as_its_base_and_runs_no_code(
    derived: Looking, name: str, view: str, shape: tuple[int, int], known: str
) -> None:
    derived.run("touched.clear()")
    opened = derived.look.open(named(name))
    assert (opened.views[0], (opened.rows, opened.columns), opened.known) == (view, shape, known)
    derived.look.children(named(name), 0, 50, attributes=True)
    assert derived.cells.kernel.variables()
    columns = range(opened.columns)
    for column in columns:
        derived.look.headings(named(name), columns)
        derived.look.figures(named(name), column)
        derived.look.rows(
            named(name), 0, 100, columns, TableArrangement((column, True), ((column, "present"),))
        )
    if "array" in opened.views:
        assert derived.look.array(named(name)).shape == shape
        assert derived.look.array_figures(named(name)).max == "5"
    if "plot" in opened.views:
        derived.look.plot(named(name), "line", 20, 20)
    assert derived.cells.run("print(touched)").output == "[]\n"


def test_derived_table_shows_the_cells_in_its_memory(derived: Looking) -> None:
    assert derived.table("frame", 0, 1).cells == (("1", "2"), ("x", None))
    assert derived.table("array", 1).cells == (("1.0", "3.0", "5.0"),)
    assert derived.table("column", sort=(0, True)).positions == (1, 0)
    assert derived.table("polar", 0, 1).cells == (("1", "2"), ("x", None))
    assert derived.table("row", sort=(0, True)).positions == (1, 0)
    assert derived.look.headings(named("column"), [0])[0].name == "price"
    assert derived.look.open((*named("frame"), ["cell", 1, 0])).summary == "2"


def test_column_of_an_unknown_type_is_not_queried_for_its_name(derived: Looking) -> None:
    derived.run("touched.clear()")
    assert derived.look.open(named("kinds")).summary == ""
    page = derived.table("kinded", 0)
    assert (page.labels, page.cells) == (None, (("1", "2"),))
    assert derived.cells.run("print(touched)").output == "[]\n"


def test_a_masked_array_stays_a_tree(derived: Looking) -> None:
    assert derived.look.open(named("masked")).views[0] == "tree"


def test_memory_mapped_array_is_read_slice_by_slice(derived: Looking) -> None:
    derived.run(
        "import tempfile\nmapped = np.memmap(tempfile.NamedTemporaryFile(), 'f8', 'w+', shape=(3, 4, 2)); mapped[2, 3, 1] = 7"
    )
    part = (*named("mapped"), ["slice", [2, None, None]])
    assert derived.look.open(part).rows == 4
    assert derived.look.rows(part, 0, 10, [1], TableArrangement()).cells == (
        ("0.0", "0.0", "0.0", "7.0"),
    )
    assert derived.look.array_figures(part).max == "7"
