"""Inspection: expressions, derived classes, frames, changed objects, kinds of kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.values import TracebackFrame
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inprocess import InProcessKernel
from mahtab_tui.kernel.inspector_client import InspectorClient, TableArrangement
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.tui.inspector.export import export_code, suggest_file_name
from mahtab_tui.tui.screens.frames import variables_path
from tests.integration.inspection import TRAP, Looking, looking, named
from tests.integration.kernels import interpreters, running

CODE = """
class Point:
    def __init__(self): self.x = [1, 2]
    @property
    def p(self): return 'asked'
point, rows, text = Point(), [{'a': 2}, {'a': 1}], 'one\\ntwo'
def far(days): return days
"""

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
hollow = object.__new__(Frame)
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

OBJECTS = """
import collections, numpy as np, pandas as pd, polars as pl, pyarrow as pa
class Thing: pass
thing = Thing(); thing.x = [1, 2]; thing.__dict__["class"] = [3]
table = {"k": [1], 7: [2], 2.5: [3], b"b": [4], None: [5], True: [6], "it's \\n": [7], (1, 2): [8], 10 ** 5000: [9], float("nan"): [10], "x" * 5000: [11], -3: [12]}
queue = collections.deque([[1], [2]])
frame = pd.DataFrame([[1, 2, 3]], columns=["a", "same", "same"])
numbered = pd.DataFrame([[1, 2]], columns=[1, True])
polar, arrow, cube = pl.DataFrame({"a": [1, 2]}), pa.table({"a": [1, 2]}), np.arange(8).reshape(2, 2, 2)
line, grid = np.arange(3), np.arange(4).reshape(2, 2)
fields = np.array([(1, "x")], dtype=[("n", int), ("t", "U3")])
globals()["a b"] = [1]
globals()["x); print('run'"] = [2]
globals()["class"] = [3]
"""

EXPORTED = {
    "frame": ("frame.csv", ",a,same,same\n0,1,2,3\n"),
    "single": ("single.json", '[{"a":1}]'),
    "labelled": ("labelled.json", '[{"index":"x","a":1}]'),
    "named_rows": ("named_rows.json", '[{"row":0,"a":1}]'),
    "polar": ("polar.csv", "a\n1\n2\n"),
    "polar ": ("polar.json", '[{"a":1},{"a":2}]'),
    "arrow": ("arrow.csv", '"a"\n1\n2\n'),
    "flat": ("flat.csv", "0,1\n2,3\n"),
    "flat ": ("flat.json", "[[0, 1], [2, 3]]\n"),
    "thing.x": ("x.json", "[\n 1,\n 2\n]\n"),
    "words": ("words.txt", "one\ntwo"),
    "words ": ("words.json", '"one\\ntwo"\n'),
    "queue": ("queue.txt", "deque([[1], [2]])\n"),
    "days": ("days.json", '["2026-03-01 00:00:00"]\n'),
    "column": ("column.json", '[{"a":1},{"a":2}]'),
    "arrow ": ("arrow.json", '[{"a": 1}, {"a": 2}]'),
    "labels": ("labels.json", '["x", "y"]'),
    "bag": ("bag.json", '{"set": [1], "day": "2026-03-01", "array": [0, 1]}'),
    "commas": ("commas.csv", '"a,b"\n"c""d"\n'),
    "fields": ("fields.csv", "1,x\n"),
}

FAILS = """
class Early(Exception):
    pass
def inner(rows):
    part = [1, 2]
    raise Early
def outer():
    name = "x"
    try:
        inner({"a": 3})
    except Early:
        again = True
        raise ValueError("late")
outer()
"""

SPYING = """
ran = []
class Spying(dict):
    def keys(self): ran.append("keys"); return super().keys()
    def __getitem__(self, name): ran.append(name); return super().__getitem__(name)
class Meta(type):
    @classmethod
    def __prepare__(cls, name, bases): return Spying()
class Body(metaclass=Meta):
    x = 1
    ran.clear()
    1 / 0
"""


def look_at_all(look: InspectorClient) -> None:
    assert look.open(named("point")).views[0] == "tree"
    children = look.children(named("point"), 0, 10).children
    assert [(child.label, child.state) for child in children] == [("x", ""), ("p", "property")]
    assert look.evaluate(named("point"), "p").summary == "'asked'"
    assert look.rows(named("rows"), 0, 10, [0], TableArrangement((0, False))).cells == (("1", "2"),)
    assert look.text(named("text"), 4, 9).line == 1
    assert look.find(named("text"), "two", 0, backwards=True) == (4, 7)
    assert look.source(named("far")).signature == "far(days)"
    assert look.representation(named("rows")) == ("[{'a': 2}, {'a': 1}]", False)
    with pytest.raises(KernelError, match="There is no variable named nothing"):
        look.open(named("nothing"))
    look.close()


def test_inspection_works_in_the_program_itself() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(CODE, "mine.py", "exec"), names)
    with running(InProcessKernel(names)) as cells:
        look_at_all(InspectorClient(cells.kernel))


@pytest.mark.parametrize("python", interpreters())
def test_inspection_works_under_each_interpreter(python: str) -> None:
    with running(ProcessKernel(python)) as cells:
        cells.run(CODE)
        look_at_all(InspectorClient(cells.kernel))


def test_slow_request_does_not_delay_the_others() -> None:
    with looking() as inspection:
        inspection.run(
            "import threading\nclass Slow:\n    go = threading.Event()\n    @property\n    def p(self): return self.go.wait(1.5)\nslow, quick = Slow(), 5"
        )
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(inspection.look.evaluate, named("slow"), "p")
            while not slow.done():
                assert inspection.open("quick").summary == "5"
                inspection.run("slow.go.set()")
            assert slow.result().summary == "True"


def test_closed_kernel_is_reported() -> None:
    with looking() as inspection:
        inspection.cells.kernel.close()
        with pytest.raises(KernelError, match="closed"):
            inspection.open("x")


@pytest.fixture(scope="module")
def kernel() -> Iterator[Looking]:
    with looking() as inspection:
        inspection.run("import numpy as np, pandas as pd")
        yield inspection


def test_path_leads_only_to_the_object_that_was_opened(kernel: Looking) -> None:
    kernel.run("df = pd.DataFrame({'a': range(1000)}); old = df")
    opened = kernel.open("df")
    kernel.run("df = pd.DataFrame({'b': range(1000)})")
    for path in (opened.path, (*opened.path, ["cell", 5, 0])):
        with pytest.raises(
            KernelError, match=r"^df is now a different object; press r to reload\.$"
        ):
            kernel.look.open(path)
    with pytest.raises(KernelError, match="a different object"):
        kernel.look.rows(opened.path, 100, 200, [0], TableArrangement())
    again = kernel.look.open((*opened.path, ["column", 0]), again=True)
    assert kernel.look.headings(again.path, [0])[0].name == "b"


def test_object_of_a_changed_kind_gives_one_sentence(kernel: Looking) -> None:
    kernel.run("box = {'k': 5}")
    path = (*kernel.open("box").path, ["item", 0])
    look = kernel.look
    questions: list[Callable[[], object]] = [
        lambda: look.text(path, 0, 5),
        lambda: look.find(path, "a", 0, backwards=False),
        lambda: look.array(path),
        lambda: look.rows(path, 0, 5, [0], TableArrangement()),
        lambda: look.plot(path, "line", 5, 5),
        lambda: look.picture(path),
    ]
    for question in questions:
        with pytest.raises(
            KernelError,
            match=r"^This is no longer (a text|an array|a table|a picture); press r to reload\.$",
        ):
            question()


@pytest.fixture(scope="module")
def derived() -> Iterator[Looking]:
    with looking() as inspection:
        inspection.run(DERIVED)
        yield inspection


@pytest.mark.parametrize(
    ("name", "view", "shape", "library_type"),
    [
        ("frame", "table", (2, 2), "pandas.DataFrame"),
        ("column", "table", (2, 1), "pandas.Series"),
        ("array", "array", (3, 2), "numpy.ndarray"),
        ("records", "table", (2, 2), "numpy.ndarray"),
        ("masked", "tree", (0, 0), "numpy.MaskedArray"),
        ("odd", "tree", (0, 0), "pandas.DataFrame"),
        ("odds", "tree", (0, 0), "pandas.Series"),
        ("polar", "tree", (0, 0), "__main__.Polar"),
        ("row", "tree", (0, 0), "__main__.Row"),
        ("hollow", "tree", (0, 0), "__main__.Frame"),
    ],
)
def test_derived_table_opens_as_its_base_and_runs_no_code(
    derived: Looking, name: str, view: str, shape: tuple[int, int], library_type: str
) -> None:
    derived.run("touched.clear()")
    opened = derived.open(name)
    assert (opened.views[0], (opened.rows, opened.columns), opened.library_type) == (
        view,
        shape,
        library_type,
    )
    derived.look.children(named(name), 0, 50)
    assert derived.cells.kernel.variables()
    columns = range(opened.columns)
    for column in columns:
        derived.look.headings(named(name), columns)
        derived.figures(name, column)
        derived.look.rows(
            named(name), 0, 100, columns, TableArrangement((column, True), ((column, "present"),))
        )
    if "array" in opened.views:
        assert derived.look.array(named(name)).shape == shape
        assert derived.figures(name).max == "5"
    if "plot" in opened.views:
        derived.look.plot(named(name), "line", 20, 20)
    assert derived.cells.run("print(touched)").output == "[]\n"


def test_derived_table_shows_the_cells_in_its_memory(derived: Looking) -> None:
    assert derived.table("frame", 0, 1).cells == (("1", "2"), ("x", None))
    assert derived.table("array", 1).cells == (("1.0", "3.0", "5.0"),)
    assert derived.table("column", sort=(0, True)).positions == (1, 0)
    assert derived.look.headings(named("column"), [0])[0].name == "price"
    assert derived.open("frame", ["cell", 1, 0]).summary == "2"


def test_column_of_an_unknown_type_is_not_queried_for_its_name(derived: Looking) -> None:
    derived.run("touched.clear()")
    assert derived.open("kinds").summary == ""
    page = derived.table("kinded", 0)
    assert (page.labels, page.cells) == (None, (("1", "2"),))
    assert derived.cells.run("print(touched)").output == "[]\n"


@pytest.fixture(scope="module")
def objects() -> Iterator[Looking]:
    with looking() as inspection:
        inspection.run(OBJECTS)
        yield inspection


@pytest.mark.parametrize(
    ("name", "step", "expression"),
    [
        ("thing", ["attribute", "x"], "thing.x"),
        ("thing", ["attribute", "class"], ""),
        *(
            ("table", ["item", index], key and f"table[{key}]")
            for index, key in enumerate(["'k'", "7", "2.5", "b'b'", "None", "True", '"it\'s \\n"'])
        ),
        *(("table", ["item", index], "") for index in (7, 8, 9, 10)),
        ("table", ["item", 11], "table[-3]"),
        ("queue", ["item", 1], "queue[1]"),
        ("frame", ["column", 0], "frame['a']"),
        ("frame", ["column", 2], "frame.iloc[:, 2]"),
        ("numbered", ["column", 1], "numbered.iloc[:, 1]"),
        ("polar", ["column", 0], "polar['a']"),
        ("arrow", ["cell", 1, 0], "arrow.column(0)[1].as_py()"),
        ("cube", ["slice", [1, None, None]], "cube[1, :, :]"),
        ("fields", ["column", 0], "fields['n']"),
        ("grid", ["column", 1], "grid[:, 1]"),
        ("line", ["column", 0], ""),
        ("a b", None, "globals()['a b']"),
        ("x); print('run'", None, "globals()[\"x); print('run'\"]"),
        ("class", None, "globals()['class']"),
    ],
)
def test_object_is_written_exactly_or_not_at_all(
    objects: Looking, name: str, step: list[Any] | None, expression: str
) -> None:
    path = named(name) if step is None else (*named(name), step)
    assert objects.look.open(path).expression == expression
    if expression:
        objects.run(expression)


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_object_is_in_the_file(objects: Looking, name: str, tmp_path: Path) -> None:
    file, content = EXPORTED[name]
    objects.run(
        f"import os; os.chdir({str(tmp_path)!r}); flat = cube[0]; single = frame[['a']]; labelled = single.set_axis(['x']); named_rows = single.rename_axis('row'); words = 'one\\ntwo'; days = np.array(['2026-03-01'], 'M8[ms]'); "
        "column = polar['a']; labels = pd.Index(['x', 'y']); commas = np.array(['a,b', 'c\"d'])\n"
        "import datetime; bag = {'set': {1}, 'day': datetime.date(2026, 3, 1), 'array': np.arange(2)}"
    )
    variable, *attribute = name.strip().split(".")
    opened = objects.look.open(
        (*named(variable), *(["attribute", attribute_name] for attribute_name in attribute))
    )
    objects.run(export_code(opened, file))
    written = (tmp_path / file).read_text(encoding="utf-8")
    assert "".join(written.split()) == "".join(content.split())


@pytest.mark.parametrize("value", ["{(1, 2): 3}", "[pd.Series([1])]", "b'x'", "np.array([1j])"])
def test_what_json_cannot_hold_is_refused(objects: Looking, value: str, tmp_path: Path) -> None:
    file = tmp_path / "value.json"
    objects.run(f"value = {value}")
    result = objects.cells.run(export_code(objects.open("value"), str(file)))
    assert re.search("TypeError: (Object of type .* is not JSON|keys must be)", result.output)
    assert not file.exists()


def test_array_of_three_dimensions_is_not_written_as_csv(objects: Looking) -> None:
    opened = objects.open("cube")
    assert suggest_file_name(opened) == "cube.pkl"
    with pytest.raises(ValueError, match="one or two dimensions"):
        export_code(opened, "cube.csv")


def test_value_is_restored_from_a_pickle(objects: Looking, tmp_path: Path) -> None:
    file = tmp_path / "frame.pkl"
    objects.run(export_code(objects.open("frame"), str(file)))
    code = f"import pickle; pickle.load(open({str(file)!r}, 'rb')).equals(frame)"
    assert objects.cells.text(code) == "True\n"


def test_home_folder_of_an_export_is_that_of_the_kernel(objects: Looking, tmp_path: Path) -> None:
    objects.run(f"import os; home = os.environ['HOME']; os.environ['HOME'] = {str(tmp_path)!r}")
    objects.run(export_code(objects.open("frame"), "~/frame.csv"))
    objects.run("os.environ['HOME'] = home")
    assert (tmp_path / "frame.csv").exists()


@pytest.mark.parametrize("ending", ["csv", "json", "txt", "pkl"])
def test_export_overwrites_no_file_and_leaves_none_if_it_fails(
    objects: Looking, ending: str, tmp_path: Path
) -> None:
    existing = tmp_path / f"frame.{ending}"
    file = tmp_path / f"bad.{ending}"
    existing.write_text("precious")
    result = objects.cells.run(export_code(objects.open("frame"), str(existing)))
    assert "FileExistsError" in result.output
    assert existing.read_text() == "precious"
    objects.run(
        "class Bad:\n    def fail(self, *args): raise RuntimeError('it fails')\n    __repr__ = __str__ = __reduce_ex__ = fail\n"
        "rows = [Bad() if row == 5_000 else 'x' for row in range(10_000)]; bad = pd.DataFrame({'a': rows}) if "
        f"{ending == 'csv'} else rows"
    )
    result = objects.cells.run(export_code(objects.open("bad"), str(file)))
    reason = "TypeError: Object of type Bad" if ending == "json" else "RuntimeError: it fails"
    assert reason in result.output
    assert not file.exists()


@pytest.fixture(scope="module")
def failing() -> Iterator[Looking]:
    with looking() as inspection:
        yield inspection


def fail(inspection: Looking, code: str) -> list[TracebackFrame]:
    return list(inspection.cells.run(code).frames)


def variables(
    inspection: Looking, cell: int, frames: list[TracebackFrame], at: int
) -> dict[str, str]:
    children = inspection.look.children(variables_path(cell, frames, at), 0, 100).children
    return {child.label.strip("'"): child.summary for child in children}


def test_each_frame_has_its_own_variables_even_for_chained_errors(failing: Looking) -> None:
    frames = fail(failing, FAILS)
    cell = failing.cells.number
    assert [frame.function for frame in frames] == ["outer", "inner", "<module>", "outer"]
    assert variables(failing, cell, frames, 1) == {"rows": "1 item", "part": "2 items"}
    assert variables(failing, cell, frames, 3)["again"] == "True"
    with pytest.raises(KernelError, match="those of the namespace"):
        variables(failing, cell, frames, 2)


def test_frames_of_an_older_error_are_refused(failing: Looking) -> None:
    first_frames = fail(failing, "def f(n):\n    return n / 0\nf(1)")
    cell = failing.cells.number
    assert variables(failing, cell, first_frames, 1) == {"n": "1"}
    second = fail(failing, "f(2)")
    assert variables(failing, cell + 1, second, 1) == {"n": "2"}
    with pytest.raises(KernelError, match="other code has failed since"):
        variables(failing, cell, first_frames, 1)


def test_frames_at_the_same_line_have_their_own_variables(failing: Looking) -> None:
    frames = fail(failing, "def down(n):\n    return down(n - 1) if n else 1 / 0\ndown(1)")
    cell = failing.cells.number
    assert [variables(failing, cell, frames, at)["n"] for at in (1, 2)] == ["1", "0"]
    deep = fail(failing, "down(100)")
    with pytest.raises(KernelError, match="more often than shown"):
        variables(failing, cell + 1, deep, 3)


def test_class_body_variables_are_listed_without_running_user_code(failing: Looking) -> None:
    frames = fail(failing, SPYING)
    assert variables(failing, failing.cells.number, frames, 1)["x"] == "1"
    output = failing.cells.run("ran").output
    assert output == "['ZeroDivisionError']\n" or "keys" not in output
