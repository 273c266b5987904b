"""Undo with the libraries that people work with, each where it is installed. All of them still
compute afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from tests.integration.kernels import Cells, RecordingHost

pytestmark = pytest.mark.xdist_group("undo with libraries")


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    """One kernel for all tests: loading these libraries takes long."""
    host = RecordingHost()
    kernel = ProcessKernel()
    kernel.start(host)
    yield Cells(kernel, host)
    kernel.close()


def as_before(cells: Cells, setup: str, change: str, look: str) -> None:
    """Undo of the second cell, after a preview; then redo and undo again."""
    cells.text(setup)
    before = cells.text(look)
    cells.text(change)
    preview = cells.kernel.preview_undo(cells.number)
    done = cells.kernel.undo(cells.number)
    assert preview == done
    assert done.exact, done.kept_as_is
    cells.kernel.redo()
    cells.kernel.undo(cells.number)
    assert cells.text(look) == before


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
def test_polars(cells: Cells, change: str) -> None:
    pytest.importorskip("polars")
    as_before(
        cells,
        "import polars as pl; d = pl.DataFrame({'a': [1, 2, 3], 'b': ['x', 'y', None]}); s = pl.Series('s', [1, 2]); box = [d]",
        change,
        "d.to_dict(as_series=False), s.to_list(), s.name, box[0] is d",
    )
    assert (
        cells.text(
            "d.group_by('b').agg(pl.col('a').sum()).height, d.lazy().filter(pl.col('a') > 1).collect().height"
        )
        == "(3, 2)\n"
    )


def test_arrow(cells: Cells) -> None:
    pytest.importorskip("pyarrow")
    as_before(
        cells,
        "import pyarrow as pa; t = pa.table({'a': [1, 2]}); box = [t]",
        "t = t.append_column('b', [[3, 4]]); box.clear()",
        "t.to_pydict(), box[0] is t",
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
def test_torch(cells: Cells, change: str) -> None:
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
    as_before(cells, setup, change, look)
    cells.text("optimizer.step(); torch.ones(500, 500) @ torch.ones(500, 500)")


def test_scikit_learn(cells: Cells) -> None:
    pytest.importorskip("sklearn")
    setup = (
        "import numpy as np; from sklearn.linear_model import LogisticRegression; from sklearn.ensemble import RandomForestClassifier\n"
        "x = np.random.default_rng(0).random((200, 3)); y = (x[:, 0] > .5).astype(int)\n"
        "m = LogisticRegression().fit(x, y); f = RandomForestClassifier(5, random_state=np.random.RandomState(3)).fit(x, y)"
    )
    look = "m.coef_.tolist(), f.predict_proba(x).sum(0).tolist(), len(f.estimators_), f.random_state.get_state()[2], f.estimators_[0].tree_.node_count"
    as_before(
        cells,
        setup,
        "m.fit(x, 1 - y); f.fit(x, 1 - y); f.set_params(n_estimators=9); x[:] = 0",
        look,
    )
    cells.text(
        "from sklearn.ensemble import HistGradientBoostingClassifier; HistGradientBoostingClassifier().fit(x, y).score(x, y)"
    )


def test_numpy_random_numbers(cells: Cells) -> None:
    pytest.importorskip("numpy")
    setup = "import numpy as np; np.random.seed(1); r = np.random.default_rng(2); q = np.random.RandomState(3)"
    as_before(
        cells,
        setup,
        "np.random.rand(); r.random(9); q.rand()",
        "np.random.get_state()[2], r.bit_generator.state['state'], q.get_state()[2]",
    )


def test_figure_is_restored(cells: Cells) -> None:
    pytest.importorskip("matplotlib")
    setup = "import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt; fig, ax = plt.subplots(); line, = ax.plot([1, 2, 3]); ax.set_title('a')"
    look = (
        "len(ax.lines), ax.get_title(), line.get_ydata().tolist(), plt.gcf() is fig, ax.get_xlim()"
    )
    cells.text(setup)
    before = cells.text(look)
    cells.text(
        "ax.plot([5]); ax.set_title('b'); line.set_ydata([0, 0, 0]); ax.set_xlim(0, 99); fig.canvas.draw()"
    )
    cells.kernel.undo(cells.number)
    assert cells.text(look) == before
    assert cells.text("fig.canvas.draw(); len(fig.canvas.buffer_rgba()) > 0") == "True\n"


def test_open_figures_and_settings_of_matplotlib(cells: Cells) -> None:
    pytest.importorskip("matplotlib")
    # Leftovers of earlier drawings are collected first: figures have weak references to them.
    setup = "import gc, matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt; plt.close('all'); gc.collect()"
    as_before(
        cells,
        setup,
        "plt.rcParams['lines.linewidth'] = 9; f = plt.figure(); plt.plot([1])",
        "plt.get_fignums(), plt.rcParams['lines.linewidth']",
    )


def test_duckdb_in_memory_is_named(cells: Cells) -> None:
    pytest.importorskip("duckdb")
    cells.text("import duckdb; c = duckdb.connect(); c.execute('create table t (a int)')")
    cells.text("c.execute('insert into t values (1)'); after = 1")
    done = cells.kernel.undo(cells.number)
    assert [each.name for each in done.kept_as_is] == ["c"]
    assert (
        cells.text("c.execute('select count(*) from t').fetchall(), 'after' in globals()")
        == "([(1,)], False)\n"
    )


def test_threads_of_libraries_and_executors_still_work(cells: Cells) -> None:
    cells.text(
        "from concurrent.futures import ThreadPoolExecutor; pool = ThreadPoolExecutor(2); pool.submit(sum, [1]).result()"
    )
    cells.text("x = pool.submit(sum, [1, 2]).result(); pool.submit(sum, [3]).result()")
    cells.kernel.undo(cells.number)
    assert cells.text("pool.submit(sum, [1, 2]).result(timeout=10)") == "3\n"
