"""The kernel lists the namespace by exact type, from metadata, and runs no code of the user's."""

from __future__ import annotations

import ast
import datetime
import decimal
import fractions
import math
import pathlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.worker.cells.tracker import NamespaceTracker
from mahtab_tui.worker.describing.detail import describe_detail as describe
from mahtab_tui.worker.inspection.children import list_children
from mahtab_tui.worker.values.summaries import SUMMARY_CHARS, format_count, summary

TABLE = """
import matplotlib, numpy as np, pandas as pd
matplotlib.use("agg")
df = pd.DataFrame({
    "a": [1, 2, 2], "b": [0.5, None, -1.0], "c": ["x", "y", "x"], "d": pd.Categorical(["u", "v", "u"]),
    "e": pd.date_range("2026", periods=3), "f": pd.array([1, None, 3], dtype="Int64"), "g": pd.Series([1, "z", None], dtype=object),
})
def helper(table): return table.a.sum()
"""

COPIES = """
df.sort_values('a'); df.dropna(); df.rename(columns={'a': 'z'}); df.assign(n=1)
df[['a', 'b']].apply(lambda column: column.max())
df.pivot_table(index='a', values='b'); df.isin([1]); df.groupby('c').a.sum()
df.plot(x='a', y='b')
df.to_csv(); df.to_dict(); list(df.itertuples()); repr(df)
helper(df); np.sort(df.a); df['c'].str.upper()
df.T; df.describe(); pd.concat([df, df])
"""
MUTATIONS = """
df.loc[0, 'a'] = 7
df.loc[0, 'b'] = -2.0
df.loc[0, 'c'] = 'w'
df.loc[0, 'd'] = 'v'
df.loc[1, 'f'] = 2
df.loc[2, 'g'] = 1
df['e'] = df['e'] + pd.Timedelta(days=1)
df.columns = list('tuvwxyz')
df.index.name = 'row'
df.insert(0, 'new', 1)
df.pop('a')
df.update(pd.DataFrame({'a': [9, 9, 9]}))
df.attrs['unit'] = 'm'
df['a'] = [1, 2, 3]
"""


class Bomb(Exception):
    """Raised by the hostile classes when their code runs."""


def boom(*args: Any, **kwargs: Any) -> Any:
    raise Bomb


HOSTILE_METHODS = dict.fromkeys(
    "__repr__ __str__ __len__ __getattr__ __getattribute__ __eq__ __hash__ __bool__ __format__ __iter__ __dir__".split(),
    boom,
)
PROPERTIES = dict.fromkeys(("__class__", "shape", "dtype"), property(boom))
Hostile = type("Hostile", (), {**HOSTILE_METHODS, **PROPERTIES})
HostileList = type("HostileList", (list,), HOSTILE_METHODS)
HostileDict = type("HostileDict", (dict,), HOSTILE_METHODS)
HostileStr = type("HostileStr", (str,), HOSTILE_METHODS)
HostileFrame = type("DataFrame", (), HOSTILE_METHODS)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (42, "42"),
        (True, "True"),
        (None, "None"),
        (1.5, "1.5"),
        (math.nan, "nan"),
        ("short", "'short'"),
        ("x" * 18_400_000, "18.4 M chars"),
        (b"abc", "b'abc'"),
        ([1, 2, 3], "3 items"),
        (HostileList([1, 2]), "2 items"),
        (HostileStr("abc"), "3 chars"),
        ((1,), "1 item"),
        ({}, "0 items"),
        (OrderedDict(a=1), "1 item"),
        (defaultdict(list), "0 items"),
        (range(3), "range(0, 3)"),
        (range(10**5_000), ""),
        ("\x1b" * 50, "'" + "\\x1b" * 14 + "\\…'"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (decimal.Decimal("1.20"), "1.20"),
        (fractions.Fraction(1, 3), "1/3"),
        (datetime.date(2026, 3, 29), "2026-03-29"),
        (datetime.timedelta(seconds=90), "0:01:30"),
        (10**100_000, "332,193 bits"),
        ("two\nlines\x1b[31m", "'two\\nlines\\x1b[31m'"),
        (pd.DataFrame({"a": [1, 2], "b": [3, 4]}), "2 × 2"),
        (pd.Series([1.0, 2.0]), "2 float64"),
        (pd.Series([1, 2, 3]).to_numpy(), "3 int64"),
        (pd.Series(0, range(1_234)).to_numpy().reshape(2, 617), "2 × 617 int64"),
        (pd.Series(0, range(1_234)), "1,234 int64"),
        (pd.Series([1.5]).to_numpy()[0], "1.5"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_simple_things_are_summarised(value: object, expected: str) -> None:
    assert summary(value) == expected


HOSTILE: dict[str, Callable[[], Any]] = {
    "object": lambda: Hostile(),
    "called like a table": lambda: HostileFrame(),
    "list": lambda: HostileList([1]),
    "dict": lambda: HostileDict(a=1),
    "text": lambda: HostileStr("x"),
    "class": lambda: Hostile,
    "of a metaclass": lambda: type("Meta", (type,), HOSTILE_METHODS)("C", (), {}),
}
"""Factories, because even a test runner would touch the objects themselves."""


@pytest.mark.parametrize("name", HOSTILE)
def test_listing_runs_no_code_of_user_classes(name: str) -> None:
    watch = NamespaceTracker({"it": HOSTILE[name]()})
    [listed] = watch.listing()
    assert listed["name"] == "it"
    watch.changes(ast.parse("it.touched()"))


def test_user_object_has_public_fields() -> None:
    class Slots:
        __slots__ = ("size", "unset")

        __repr__ = __getattr__ = boom

    class Order(Slots):
        def __init__(self) -> None:
            self.id = 7
            self.total = 3.5
            self._cache = boom
            self.api_key = "sk-1234567"
            self.note = "red\x1b[31m" * 20
            self.owner = self
            self.size = 1

        computed = property(boom)

    [listed] = NamespaceTracker({"order": Order()}).listing()
    assert listed["type"] == "Order"
    assert listed["summary"] == "(id=7, total=3.5, api_key=••••••••, note=160 chars, …)"
    assert len(listed["summary"]) <= SUMMARY_CHARS
    [listed] = NamespaceTracker({"it": Slots()}).listing()
    assert listed["summary"] == ""


def test_slots_are_listed_as_they_were_declared() -> None:
    class Base:
        __slots__ = ("zeta",)

    class Point(Base):
        # Names in a literal would be sorted by the linter.
        __slots__ = tuple("yx")

        def __init__(self) -> None:
            self.x = 1
            self.y = 2
            self.zeta = 3

    [listed] = NamespaceTracker({"point": Point()}).listing()
    assert listed["summary"] == "(zeta=3, y=2, x=1)"
    assert [child.label for child in list_children(Point(), 0, 9)] == ["zeta", "y", "x"]


@given(st.text())
def test_text_is_summarised_in_one_line(text: str) -> None:
    line = summary(text)
    assert line.isprintable()
    assert len(line) <= SUMMARY_CHARS


def test_rounded_count_changes_its_unit_at_a_thousand() -> None:
    counts = [999_949_999, 999_950_000, 1_000_000_000]
    written = [format_count(count, "chars") for count in counts]
    assert written == ["999.9 M chars", "1.0 G chars", "1.0 G chars"]


def changes(setup_code: str, cell_code: str) -> str:
    """Return the changes that the second cell makes."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(setup_code, namespace)
    watch = NamespaceTracker(namespace)
    tree = ast.parse(cell_code)
    code = compile(tree, "<cell>", "exec")
    watch.before_cell(tree, (code,))
    exec(code, namespace)
    return ", ".join(f"{change['name']} {change['change']}" for change in watch.changes(tree))


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("setup_code", "cell_code", "expected"),
    [
        ("", "x = 1", "x added"),
        ("x = 5", "x = 5", "x rebound"),
        ("x = 1", "x = 'a'", "x rebound"),
        ("x = [1]", "x.append(2)", "x changed"),
        ("x = [1]", "x[0] = 1", ""),
        ("x = [2, 1]", "x.sort()", "x changed"),
        ("x = [1, 2]", "x.sort()", ""),
        ("x = y = [2, 1]", "x.sort()", "x changed, y changed"),
        ("x = {}", "x['a'] = 1", "x changed"),
        ("x = [1]", "print(x); len(x)", ""),
        ("x = [1]; y = 1", "[x for x in (1, 2)]", ""),
        ("x = 1", "del x", "x deleted"),
        ("", "import os.path", "os added"),
        ("import os", "import os", ""),
        ("from math import pi", "from math import pi", ""),
        ("def f(): pass", "def f(): pass", "f rebound"),
        ("", "def f(): inner = 1", "f added"),
        ("", "for i in range(2): pass", "i added"),
        ("", "globals()['made'] = 1", "made added"),
        ("x = 'abc'", "x.upper()", ""),
        ("def f(a): a.append(1)\nx = []", "f(x)", "x changed"),
        ("def f(a): a[0] = 1\nx = [0]", "f(x)", "x changed"),
        ("def f(a): return a[0]\nx = [0]", "f(x)", ""),
        ("def f(): x[0] = 1\nx = [0]", "f()", "x changed"),
        ("def g(): x[0] = 1\ndef f(): g()\nx = [0]", "f()", "x changed"),
        ("class P: pass\np = P()\np.x = 1", "p.x = 2", "p changed"),
        ("class P: pass\np = P()\np.x = [1]", "p.x.append(2)", "p changed"),
        ("class P: pass\np = P()\np.x = [1]", "p.x.copy()", ""),
        ("x = ([1],)", "x[0].append(2)", "x changed"),
        ("x = (i for i in range(3))", "next(x)", "x changed"),
        ("x = {}", "x.get('a')", ""),
        ("x = {'a': [1]}", "x['a'][0] = -2", "x changed"),
        ("x = [-1] * 100", "x[0] = -2", "x changed"),
        ("x = [-1.0] * 100", "x[0] = -2.0", "x changed"),
        ("x = bytearray(5)", "x[0] = 1", "x changed"),
        ("x = {1}", "x.discard(2)", ""),
    ],
)
def test_cell_changes_are_reported(setup_code: str, cell_code: str, expected: str) -> None:
    assert changes(setup_code, cell_code) == expected


@pytest.mark.sample(3)
@pytest.mark.parametrize("code", COPIES.strip().split("\n"))
def test_copying_a_table_changes_nothing(code: str) -> None:
    assert changes(TABLE, code) == ""


@pytest.mark.sample(4)
@pytest.mark.parametrize("code", MUTATIONS.strip().split("\n"))
def test_mutations_of_a_table_are_reported(code: str) -> None:
    assert changes(TABLE, code) == "df changed"


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("construction", "code", "expected"),
    [
        ("np.zeros(5)", "x[2] = 1", "x changed"),
        ("np.zeros((4, 4)).T[1:, ::2]", "x[0, 0] = 1", "x changed"),
        ("np.zeros(5)", "np.sort(x)", ""),
        ("np.array([3, 1])", "x.sort()", "x changed"),
        ("np.zeros(5)", "x.sum() + x.mean()", ""),
        ("np.array([[1], None], dtype=object)", "x[0].append(1)", "x changed"),
        ("np.zeros(20_000_000)", "x[10_000] = 1", "x perhaps"),
        ("np.zeros(20_000_000)", "x.sum()", "x perhaps"),
        ("pd.Series([1, 2])", "x[0] = 5", "x changed"),
        ("pl.DataFrame({'a': [1, 2]})", "x[0, 'a'] = 5", "x changed"),
        (
            "pl.DataFrame({'a': [1]})",
            "x.with_columns(b=pl.lit(1)); len(x); x.sort('a'); print(x)",
            "",
        ),
        ("pa.table({'a': [1, 2]})", "x.append_column('b', [[1, 2]]); x.to_pandas()", ""),
    ],
)
def test_changes_of_library_objects_are_reported(
    construction: str, code: str, expected: str
) -> None:
    imports = "import numpy as np, pandas as pd, polars as pl, pyarrow as pa"
    assert changes(f"{imports}\nx = {construction}", code) == expected


def test_invalid_names_are_skipped() -> None:
    namespace: Any = {1: 2, "__builtins__": {}, "__warningregistry__": {}, "_": 3, "x": 1}
    assert [listed["name"] for listed in NamespaceTracker(namespace).listing()] == ["x"]


def test_recursive_and_huge_lists_are_truncated() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert describe({"it": loop}, "it")["text"] == "[1, …]"
    detail = describe({"it": list(range(1_000_000))}, "it")
    assert detail["cut"]
    assert len(detail["text"]) <= 200_000


def test_slow_representation_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.worker.describing.detail.DETAIL_TIMEOUT_S", 0.05)

    class Slow:
        def __repr__(self) -> str:
            while True:
                pass

    assert "did not end" in describe({"it": Slow()}, "it")["error"]
    detail = describe({"it": Hostile()}, "it")
    assert (detail["text"], "Bomb" in detail["error"]) == ("", True)
