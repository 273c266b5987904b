"""Undo by type: the standard library, arrays and tables, libraries; and random programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.worker.undo.reduction import dump_state, load_state
from tests.integration.kernels import Cells, running
from tests.integration.undo import assert_undone, kinds, undone
from tests.random_undo import difference, prepare
from tests.tables import rows

_SOURCE = Path(__file__).parents[1] / "undo_types.py"
_DIGESTS = "__import__('undo_types').write({name: globals()[name] for name in NAMES}, PATH)"

TABLES = r"""
v = np.arange(6.0) | v[:] = 0 | v.tolist()
v = np.arange(6.0) | v.shape = (2, 3) | v.tolist()
v = np.arange(6) | v.flags.writeable = False | v.flags.writeable
v = np.array([[1], 'x', None], dtype=object) | v[0].append(2); v[1] = 'y' | v.tolist()
v = np.arange(12).reshape(3, 4, order='F') | v[1] = 0 | v.tolist()
v = np.ma.array([1, 2, 3], mask=[0, 1, 0]) | v[0] = np.ma.masked; v[2] = 9 | v.tolist()
v = np.zeros(3, dtype=[('a', int), ('b', float)]) | v['a'] = 5 | v.tolist()
v = np.ones(500_000) | v[400_000:] = 2; v[0] = 3 | v.sum(), v[0]
v = np.arange(10)\nw = v[2:5] | w[:] = 0; v[9] = 1; w = w.copy() | v.tolist(), w.tolist(), np.shares_memory(v, w)
v = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']}) | v.drop(columns='a', inplace=True) | v.to_dict()
v = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']}) | v['c'] = 1; v.loc[0, 'a'] = 9; v.loc[1, 'b'] = 'z' | v.to_dict()
v = pd.DataFrame({'a': [1, 2]}) | v.loc[2] = 5; v.index = [7, 8, 9]; v.columns = ['q'] | v.to_dict()
v = pd.DataFrame({'a': [3, 1, 2]}) | v.sort_values('a', inplace=True); v.attrs['x'] = 1 | v.to_dict(), v.attrs
v = pd.DataFrame({'a': [1, 2], 'b': [3, 4]}) | v.insert(0, 'z', 0); del v['a']; v.b *= 2 | v.to_dict()
v = pd.DataFrame({'a': [1, 2]}) | v.rename(columns={'a': 'b'}, inplace=True); v.index.name = 'i' | v.to_dict(), v.index.name
v = pd.DataFrame({'a': pd.array(['x', 'y'], dtype='string')}) | v.iloc[0, 0] = 'q' | v.to_dict()
v = pd.DataFrame({'a': [1, 2]})\nw = v['a'] | v.loc[0, 'a'] = 9; w.iloc[1] = 5; v['b'] = w | v.to_dict(), w.tolist()
v = pd.Series([1, 2], name='s') | v.iloc[0] = 5; v.name = 't' | v.to_dict(), v.name
v = pd.Series(['a', 'b'], dtype='category') | v.iloc[0] = 'b' | v.tolist()
v = pd.Series([1, None], dtype='Int64') | v.iloc[1] = 5 | v.tolist()
v = pd.Series(pd.to_datetime(['2026-01-01', '2026-01-02'])) | v.iloc[0] = pd.NaT | v.tolist()
"""

IN_MEMORY = r"""
import io; s = io.StringIO('abc'); n = s.seek(2) | s.write('xyz') | s.getvalue(), s.tell()
import io; b = io.BytesIO(b'abc') | b.write(b'wxyz'); b.tag = 1 | b.getvalue(), b.tell(), vars(b)
import io; c = io.StringIO('abc'); box = [c] | c.close() | c.closed, box[0] is c
import io; d = io.BytesIO(b'abc'); box = [io.StringIO('a')] | d = box.pop() | d.getvalue(), [file.getvalue() for file in box]
import io\nclass File(io.StringIO): pass\nf = File('a'); f.lines = [1] | f.write('b'); f.lines.append(2) | f.getvalue(), f.lines
import array; a = array.array('i', [1]); d = array.array('d', [1.5]) | a.append(2); d[0] = 2 | a, d
import array; a = array.array('u', 'a'); box = [a] | box.clear(); a = 5 | a, box
import array; a = array.array('i', [1]); view = memoryview(a) | view[0] = 2 | a, view.tolist()
import operator; get = operator.itemgetter(1); call = operator.methodcaller('f', 1, k=[2]) | get = 5; del call | get, call
"""

MAKERS = {
    "standard library": "decimal.Decimal, fractions.Fraction, datetime.date.fromordinal, datetime.timedelta, lambda n: uuid.UUID(int=n), range,"
    " lambda n: pathlib.Path(str(n)), lambda n: re.compile(str(n)), lambda n: datetime.time(n % 24, n // 24 % 60, n % 60),"
    " lambda n: datetime.datetime.fromtimestamp(n, datetime.timezone.utc)",
    "libraries": "pd.Timestamp, pd.Timedelta, lambda n: pd.Period(ordinal=n, freq='D'), np.float64, lambda n: np.datetime64(n, 's'), np.str_,"
    " lambda n: np.dtype([(f'f{n}', int)]), lambda n: np.full((n % 7 + 1, n % 3 + 1), n, 'fi'[n % 2], 'CF'[n % 5 // 3])",
}

# Collect the rest of earlier drawings first: figures have weak references to it.
LIBRARIES = r"""
numpy | import numpy as np; v = np.arange(6.0); box = [v] | v.dtype = 'i8' | v.tolist(), box[0] is v
numpy | import numpy as np; v = np.arange(6.0); box = [v] | v.resize(9, refcheck=False); v[:] = 7 | v.tolist(), box[0] is v
numpy | import numpy as np; np.random.seed(1); r = np.random.default_rng(2); q = np.random.RandomState(3) | np.random.rand(); r.random(9); q.rand() | np.random.get_state()[2], r.bit_generator.state['state'], q.get_state()[2]
pandas | import pandas as pd | pd.api.extensions.register_dataframe_accessor('mine')(type('Mine', (), {'__init__': lambda self, frame: None})) | hasattr(pd.DataFrame, 'mine'), 'mine' in pd.DataFrame._accessors
numpy | import numpy as np | np.setbufsize(16384) | np.getbufsize()
pandas | import sys; import pandas as pd | pd.api.extensions.register_extension_dtype(type('Mine', (pd.api.extensions.ExtensionDtype,), {'name': 'mine'})) | [kind.__name__ for kind in sys.modules['pandas.core.dtypes.base']._registry.dtypes].count('Mine')
pandas | import json | json.dumps.__annotations__['z'] = int; json.loads.__doc__ = 'x' | json.dumps.__annotations__, json.loads.__doc__ == 'x'
pyarrow | import pyarrow as pa; t = pa.table({'a': [1, 2]}); box = [t] | t = t.append_column('b', [[3, 4]]); box.clear() | t.to_pydict(), box[0] is t
matplotlib | import gc, matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt; plt.close('all'); gc.collect() | plt.rcParams['lines.linewidth'] = 9; f = plt.figure(); plt.plot([1]) | plt.get_fignums(), plt.rcParams['lines.linewidth']
"""


def test_text_and_numbers_in_memory_are_restored(cells: Cells) -> None:
    for setup, change, look in rows(IN_MEMORY):
        assert_undone(cells, setup, change, look)


def test_a_view_of_data_in_memory_does_not_prevent_an_undo(cells: Cells) -> None:
    undone(cells, "import io; v = io.BytesIO(b'abc'); view = v.getbuffer()", "view[0] = 65; x = 1")
    assert cells.text("bytes(view), 'x' in globals()") == "(b'abc', False)\n"


def test_each_type_of_the_standard_library_is_restored_or_named(cells: Cells) -> None:
    Path("site-packages").mkdir()
    Path("site-packages/undo_types.py").write_text(_SOURCE.read_text())
    cells.text(
        f"import sys; sys.path.insert(0, {str(Path('site-packages').resolve())!r}); import undo_types; globals().update(undo_types.make())"
    )
    names = json.loads(
        cells.text(
            "import json; print(json.dumps([name for name in globals() if name.startswith('of_')]))"
        ).splitlines()[-1]
    )
    assert len(names) > 300

    def digests(number: int) -> dict[str, str]:
        path = Path(f"digests{number}.json").resolve()
        cells.text(_DIGESTS.replace("NAMES", repr(names)).replace("PATH", repr(str(path))))
        states: dict[str, str] = json.loads(path.read_text())
        return states

    digests(0)  # looking at an object for the first time may change it
    digests_before = digests(1)
    cells.text("\n".join(f"undo_types.change({name})" for name in names))
    cell = cells.number
    changed = digests(2)
    done = cells.kernel.undo(cell)
    digests_after = digests(3)
    named = {entry.name for entry in done.not_restored}
    differing = {name for name in names if digests_before[name] != changed[name]}
    assert len(differing) > 100
    assert len(differing - named) > 80, "undo names nearly everything"
    wrong = [
        name for name in names if digests_before[name] != digests_after[name] and name not in named
    ]
    assert [(name, digests_before[name], digests_after[name]) for name in wrong] == []


@pytest.fixture(scope="module")
def library_cells() -> Iterator[Cells]:
    with running(ProcessKernel()) as cells:
        yield cells


@pytest.mark.sample(6)
@pytest.mark.parametrize(("setup", "change", "look"), rows(TABLES))
def test_changes_inside_tables_and_arrays_are_undone(
    library_cells: Cells, setup: str, change: str, look: str
) -> None:
    done = assert_undone(
        library_cells, f"import numpy as np, pandas as pd\n{setup}", change, f"{look}, id(v)"
    )
    assert kinds(done)["v"] == "changed"


def test_a_frame_works_as_before_after_undo(library_cells: Cells) -> None:
    undone(
        library_cells,
        "import pandas as pd\nv = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})",
        "v['c'] = 0; v.drop(index=0, inplace=True)",
    )
    look = "v['d'] = v.a + 1; v.loc[5] = [7, 'q', 8]; v.groupby('b').a.sum().to_dict(), v.shape"
    assert library_cells.text(look) == "({'q': 7, 'x': 1, 'y': 2}, (3, 3))\n"


def test_reading_a_frame_is_not_a_change(library_cells: Cells) -> None:
    done = undone(
        library_cells,
        "import pandas as pd\nv = pd.DataFrame({'a': [1, 2]})",
        "x = v.loc[1], v['a'].sum(), v.describe()",
    )
    assert kinds(done) == {"x": "deleted"}


def test_parquet_frame_is_compared_exactly(library_cells: Cells) -> None:
    library_cells.text("import io, pandas as pd\nfile = io.BytesIO()")
    library_cells.text(
        "pd.DataFrame({'a': [1.0, 2], 'b': ['x', 'y'], 'c': pd.Categorical(['p', 'q'])}).to_parquet(file)\ndf = pd.read_parquet(file)"
    )
    for code in ("df.head()", "df.describe()", "df.groupby('b').a.sum()", "str(df)"):
        assert [change.name for change in library_cells.run(code).changes] == []
    changes = library_cells.run("df.loc[0, 'a'] = 5").changes
    assert [(change.name, change.change) for change in changes] == [("df", "changed")]
    library_cells.kernel.undo(library_cells.number)
    assert library_cells.text("df.a.tolist()") == "[1.0, 2.0]\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize("makers", MAKERS)
def test_value_at_a_reused_address_is_not_mistaken_for_the_old_one(
    library_cells: Cells, makers: str
) -> None:
    assert_undone(
        library_cells,
        "import datetime, decimal, fractions, pathlib, re, uuid, numpy as np, pandas as pd\n"
        f"makers = [{MAKERS[makers]}]\nv = [[make(n) for n in range(1, 1001)] for make in makers]",
        "for values, make in zip(v, makers):\n    del values[500:]\n    values += [make(n) for n in range(2001, 2501)]",
        "repr(v)",
    )


@pytest.mark.thorough
def test_views_of_an_array_at_a_reused_address_are_made_again(library_cells: Cells) -> None:
    assert_undone(
        library_cells,
        "import numpy as np\nmany = [[a := np.arange(24.0), a[2:5]] for _ in range(4000)]; del a",
        "permuted = np.zeros(24).reshape(2, 3, 4).transpose(1, 0, 2).copy(order='K')\n"
        "for i in range(4000):\n    many[i] = None\n    many[i] = [np.empty_like(permuted)]",
        "len(many), all((pair[0] == np.arange(24.0)).all() and np.shares_memory(*pair) for pair in many if len(pair) == 2), len(many[-1])",
    )
    library_cells.text("del many")


def test_column_positions_of_a_block_are_copied_by_value() -> None:
    namespace: dict[str, object] = {}
    import pandas  # takes long

    manager = pandas.DataFrame({"a": [1, 2], "b": [3, 4], "c": [0.5, 1.5]})._mgr
    positions = [block.mgr_locs for block in manager.blocks]
    again = load_state(
        dump_state(positions, set(), namespace), dict[int, object]().__getitem__, namespace
    )
    assert [position.indexer for position in again] == [position.indexer for position in positions]


def test_objects_sharing_data_with_an_index_are_copied_with_it() -> None:
    import pandas

    series = pandas.Series([1, 2, 3])
    index = pandas.Index(series)
    refs = series._mgr.blocks[0].refs
    again, _, _ = load_state(dump_state([refs, series, index], set(), {}), lambda address: None, {})
    assert len(again.referenced_blocks) == 2


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "change",
    [
        "d[0, 'a'] = 9",
        "d.insert_column(0, pl.Series('z', [0, 0, 0]))",
        "d.extend(d.clone())",
        "d = d.with_columns(b=1)",
        "s.append(s.clone())",
        "s[0] = 100",
        "d.drop_in_place('a'); s.rename('t')",
    ],
)
def test_polars_changes_are_undone(library_cells: Cells, change: str) -> None:
    pytest.importorskip("polars")
    assert_undone(
        library_cells,
        "import polars as pl; d = pl.DataFrame({'a': [1, 2, 3], 'b': ['x', 'y', None]}); s = pl.Series('s', [1, 2]); box = [d]",
        change,
        "d.to_dict(as_series=False), s.to_list(), s.name, box[0] is d",
    )
    assert (
        library_cells.text(
            "d.group_by('b').agg(pl.col('a').sum()).height, d.lazy().filter(pl.col('a') > 1).collect().height"
        )
        == "(3, 2)\n"
    )


@pytest.mark.parametrize(
    "change",
    [
        "t.zero_()",
        "t.data = torch.ones(5)",
        "t.resize_(2)",
        "p.requires_grad_(False); p.grad.fill_(7)",
        "optimizer.zero_grad(); model(torch.ones(2)).sum().backward(); optimizer.step(); optimizer.step()",
        "model.add_module('more', torch.nn.Linear(1, 1)); model.eval()",
        "torch.manual_seed(5); torch.rand(3)",
        "w[0] = 50",
    ],
)
def test_torch_changes_are_undone(library_cells: Cells, change: str) -> None:
    pytest.importorskip("torch")
    setup = (
        "import torch; torch.manual_seed(1); t = torch.arange(6.0); w = t[2:4]; p = torch.ones(2, requires_grad=True); (p * 3).sum().backward()\n"
        "model = torch.nn.Sequential(torch.nn.Linear(2, 2)); optimizer = torch.optim.Adam(model.parameters(), lr=.1)\n"
        "model(torch.ones(2)).sum().backward(); optimizer.step()"
    )
    look = (
        "t.tolist(), w.tolist(), w.data_ptr() - t.data_ptr(), p.requires_grad, p.grad, [x.tolist() for x in model.state_dict().values()],"
        " len(optimizer.state), optimizer.state_dict()['state'], model.training, torch.get_rng_state().sum(), [x.grad for x in model.parameters()]"
    )
    assert_undone(library_cells, setup, change, look)
    library_cells.text("optimizer.step(); torch.ones(500, 500) @ torch.ones(500, 500)")


def test_scikit_learn_changes_are_undone(library_cells: Cells) -> None:
    pytest.importorskip("sklearn")
    setup = (
        "import numpy as np; from sklearn.linear_model import LogisticRegression; from sklearn.ensemble import RandomForestClassifier\n"
        "x = np.random.default_rng(0).random((200, 3)); y = (x[:, 0] > .5).astype(int)\n"
        "m = LogisticRegression().fit(x, y); f = RandomForestClassifier(5, random_state=np.random.RandomState(3)).fit(x, y)"
    )
    look = "m.coef_.tolist(), f.predict_proba(x).sum(0).tolist(), len(f.estimators_), f.random_state.get_state()[2], f.estimators_[0].tree_.node_count"
    assert_undone(
        library_cells,
        setup,
        "m.fit(x, 1 - y); f.fit(x, 1 - y); f.set_params(n_estimators=9); x[:] = 0",
        look,
    )
    library_cells.text(
        "from sklearn.ensemble import HistGradientBoostingClassifier; HistGradientBoostingClassifier().fit(x, y).score(x, y)"
    )


def test_figure_is_restored(cells: Cells) -> None:
    pytest.importorskip("matplotlib")
    setup = "import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt; fig, ax = plt.subplots(); line, = ax.plot([1, 2, 3]); ax.set_title('a')"
    look = (
        "len(ax.lines), ax.get_title(), line.get_ydata().tolist(), plt.gcf() is fig, ax.get_xlim()"
    )
    cells.text(setup)
    output_before = cells.text(look)
    cells.text(
        "ax.plot([5]); ax.set_title('b'); line.set_ydata([0, 0, 0]); ax.set_xlim(0, 99); fig.canvas.draw()"
    )
    cells.kernel.undo(cells.number)
    assert cells.text(look) == output_before
    assert cells.text("fig.canvas.draw(); len(fig.canvas.buffer_rgba()) > 0") == "True\n"


@pytest.mark.sample(3)
@pytest.mark.parametrize(("library", "setup", "change", "look"), rows(LIBRARIES))
def test_state_of_a_library_is_undone(
    library_cells: Cells, library: str, setup: str, change: str, look: str
) -> None:
    pytest.importorskip(library)
    assert_undone(library_cells, setup, change, look)


def test_duckdb_in_memory_is_named(library_cells: Cells) -> None:
    pytest.importorskip("duckdb")
    library_cells.text("import duckdb; c = duckdb.connect(); c.execute('create table t (a int)')")
    library_cells.text("c.execute('insert into t values (1)'); after = 1")
    done = library_cells.kernel.undo(library_cells.number)
    assert [entry.name for entry in done.not_restored] == ["c"]
    assert (
        library_cells.text("c.execute('select count(*) from t').fetchall(), 'after' in globals()")
        == "([(1,)], False)\n"
    )


def test_threads_of_libraries_and_executors_still_work(library_cells: Cells) -> None:
    library_cells.text(
        "from concurrent.futures import ThreadPoolExecutor; pool = ThreadPoolExecutor(2); pool.submit(sum, [1]).result()"
    )
    library_cells.text("x = pool.submit(sum, [1, 2]).result(); pool.submit(sum, [3]).result()")
    library_cells.kernel.undo(library_cells.number)
    assert library_cells.text("pool.submit(sum, [1, 2]).result(timeout=10)") == "3\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "first_seed",
    [
        0,
        pytest.param(10, marks=pytest.mark.slow),
        pytest.param(20, marks=pytest.mark.thorough),
    ],
)
def test_random_undo_leaves_no_difference(cells: Cells, first_seed: int) -> None:
    prepare(cells)
    assert [
        differences
        for seed in range(first_seed, first_seed + 10)
        if (differences := difference(cells, seed))
    ] == []
