"""A namespace that was kept is the same in the next kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.kernels import interpreters
from tests.integration.saving import SavedSession, listed, restored


@pytest.fixture
def saved_namespace(home: Path, project: Path) -> Iterator[SavedSession]:
    saved_namespace = SavedSession(home)
    yield saved_namespace
    saved_namespace.close()


@pytest.mark.parametrize(
    ("code", "look"),
    [
        ("v = [1, 'a', None, 2.5, b'x', {1: (2, {3})}]", "v"),
        (
            "import decimal, pathlib, re\nv = decimal.Decimal('1.5'), pathlib.Path('x'), re.compile('a+')",
            "v",
        ),
        ("v = [1]; v.append(v); w = v", "v[1] is v, w is v"),
        ("v = [1]; w = {'v': v}", "v.append(2), w, w['v'] is v"),
        (
            "def v(x, y=2, *, z: int = 3):\n    'doc'\n    return x + y + z + more\nmore = 10",
            "v(1), v.__doc__, v.__annotations__, v.__qualname__",
        ),
        (
            "more = 1\ndef v(): return more",
            "v.__globals__ is globals(), globals().__setitem__('more', 5), v()",
        ),
        (
            "import functools\n@functools.cache\ndef v(n): return n if n < 2 else v(n - 1) + v(n - 2)\nv(5)",
            "v(30), v.cache_info().maxsize",
        ),
        (
            "def make():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n    return up, lambda: n\nup, get = make(); up()",
            "up(), get()",
        ),
        (
            "import collections\nn = 5\nv = collections.defaultdict(lambda: n, a=1)",
            "v['b'], dict(v)",
        ),
        (
            "class C:\n    seen = []\n    def __init__(self): C.seen.append(1); self.me = self\n    def f(self): return super().__repr__()[:5]\nv, w = C(), C()",
            "type(v) is C is type(w), v.me is v, v.f(), C.seen, C().seen is v.seen",
        ),
        (
            "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nv = P(1)",
            "v, v == P(1)",
        ),
        ("import enum\nclass E(enum.Enum):\n    A = 1\nv = E.A", "v is E.A"),
        ("import typing\nclass T(typing.NamedTuple):\n    x: int\nv = T(3)", "v, type(v) is T"),
        ("class S:\n    __slots__ = ('x',)\nv = S(); v.x = [1]", "v.x"),
        (
            "class C: pass\nold = C()\nclass C: new = 1",
            "type(old) is C, hasattr(old, 'new'), C.new",
        ),
        ("import json as v", "v.dumps(1)"),
        ("v = 'a'; _private = 1", "v, _private"),
    ],
)
def test_namespace_is_restored_unchanged(
    saved_namespace: SavedSession, code: str, look: str
) -> None:
    first = saved_namespace.kernel()
    first.text(code)
    saved_namespace.keep(first)
    before = first.text(look)
    first.kernel.close()
    cells = saved_namespace.kernel()
    assert restored(cells) == {}
    assert cells.text(look) == before


def test_views_and_frames_share_their_memory(saved_namespace: SavedSession) -> None:
    pytest.importorskip("pandas")
    first = saved_namespace.kernel()
    first.text(
        "import numpy as np, pandas as pd\na = np.arange(50_000.0); v = a[10:20]; t = a.reshape(100, 500).T; o = np.array([[1], 'x'], dtype=object)"
    )
    first.text(
        "when = np.array(['2020-01-01'] * 9000, 'M8[D]'); f = np.asfortranarray(np.ones((50, 70))); f.flags.writeable = False"
    )
    first.text(
        "df = pd.DataFrame({'x': a, 'y': list('ab') * 25_000}); part = df['x']; small = df[df.x < 5]; inside = {'df': df}"
    )
    before = first.text(
        "df.describe(), df.y.value_counts(), when[0], f.flags.f_contiguous, f.flags.writeable, o, small"
    )
    cells, missing = saved_namespace.again(first)
    assert missing == {}
    assert (
        cells.text(
            "df.describe(), df.y.value_counts(), when[0], f.flags.f_contiguous, f.flags.writeable, o, small"
        )
        == before
    )
    assert cells.text(
        "np.shares_memory(a, v), np.shares_memory(a, t), a.flags.owndata, inside['df'] is df, np.shares_memory(df['x'], part)"
    ) == ("(True, True, True, True, True)\n")
    together = [{variable.name for variable in file.variables} for file in listed(cells).files]
    assert {"a", "v", "t"} in together
    assert {"df", "part", "inside"} in together


def test_tables_of_other_libraries_are_restored(saved_namespace: SavedSession) -> None:
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    first = saved_namespace.kernel()
    first.text(
        "import polars as pl, pyarrow as pa\nv = pl.DataFrame({'a': range(5000)}); lazy = v.lazy().filter(pl.col('a') > 4990); t = pa.table({'b': list(range(5000))})"
    )
    cells, missing = saved_namespace.again(first)
    assert missing == {}
    assert (
        cells.text("v['a'].sum(), lazy.collect().height, t.num_rows, t['b'][4999].as_py()")
        == "(12497500, 9, 5000, 4999)\n"
    )


def test_unchanged_variables_are_not_rewritten(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text(
        "import array\nclass C:\n    def f(self): return 1\nbig = array.array('b', bytes(3_000_000)); other = [C(), array.array('b', bytes(100_000))]"
    )
    saved_namespace.keep(first)
    before = saved_namespace.files()
    assert len(before) == 3
    first.text("x = 1; other[1][0] = 7")
    saved_namespace.keep(first)
    after = saved_namespace.files()
    assert len(after) == 3
    assert len(before.items() & after.items()) == 1, "the large one is the same file"
    first.text("pass")
    saved_namespace.keep(first)
    assert saved_namespace.files() == after


def test_name_rebound_by_a_cell_meanwhile_is_not_overwritten(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text("v = 1; w = 2")
    saved_namespace.keep(first)
    first.kernel.close()
    cells = saved_namespace.kernel()
    cells.text("v = 'mine'")
    assert restored(cells) == {"v": "a cell has made a new one since"}
    assert cells.text("v, w") == "('mine', 2)\n"


def test_source_of_functions_is_restored(saved_namespace: SavedSession) -> None:
    first = saved_namespace.kernel()
    first.text("def f():\n    return 1 / 0")
    cells, _ = saved_namespace.again(first)
    assert "return 1 / 0" in cells.run("f()").output
    assert "return 1 / 0" in cells.text("import inspect; print(inspect.getsource(f))")


@pytest.mark.parametrize("python", interpreters())
def test_every_python_version_saves_and_restores(
    python: str, saved_namespace: SavedSession
) -> None:
    first = saved_namespace.kernel(python)
    first.text(
        "class C:\n    def f(self): return n\nn = 3; v = [C()]; v.append(v[0]); g = lambda: v"
    )
    cells, missing = saved_namespace.again(first, python)
    assert missing == {}
    assert (
        cells.text("v[0].f(), v[0] is v[1], type(v[0]) is C, g() is v") == "(3, True, True, True)\n"
    )


def test_other_python_restores_only_data_and_leaves_code_for_the_first(
    saved_namespace: SavedSession,
) -> None:
    others = [str(param.values[0]) for param in interpreters()]  # type: ignore[attr-defined]
    if len(others) < 2:
        pytest.skip("there is one Python only")
    old, new = others[0], others[-1]
    first = saved_namespace.kernel(old)
    first.text("data = {'a': [1, 2]}\ndef f(): return 1\nclass C:\n    def f(self): return 2")
    cells, missing = saved_namespace.again(first, new)
    assert set(missing) == {"f", "C"}
    assert "it contains code of Python" in missing["f"]
    assert cells.text("data; data['a'].append(3); data") == "{'a': [1, 2, 3]}\n"
    saved_namespace.keep(cells, *(file.name for file in listed(cells).files))
    cells.kernel.close()
    third = saved_namespace.kernel(old)
    assert restored(third) == {}
    assert third.text("data, f(), C().f()") == "({'a': [1, 2, 3]}, 1, 2)\n"
