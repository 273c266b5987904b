"""Undo of arrays and tables that were changed in place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.worker.undo.checkpoint import dump_state, load_state
from tests.integration.kernels import Cells, RecordingHost
from tests.integration.undo import kinds, undone


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    """One kernel for all tests: loading pandas takes long."""
    host = RecordingHost()
    kernel = ProcessKernel()
    kernel.start(host)
    yield Cells(kernel, host)
    kernel.close()


@pytest.mark.parametrize(
    ("setup", "change", "look"),
    [
        ("v = np.arange(6.0)", "v[:] = 0", "v.tolist()"),
        ("v = np.arange(6.0)", "v.shape = (2, 3)", "v.tolist()"),
        ("v = np.arange(6)", "v.resize(10, refcheck=False); v[:] = 7", "v.tolist()"),
        ("v = np.arange(6)", "v.flags.writeable = False", "v.flags.writeable"),
        (
            "v = np.array([[1], 'x', None], dtype=object)",
            "v[0].append(2); v[1] = 'y'",
            "v.tolist()",
        ),
        ("v = np.arange(12).reshape(3, 4, order='F')", "v[1] = 0", "v.tolist()"),
        (
            "v = np.ma.array([1, 2, 3], mask=[0, 1, 0])",
            "v[0] = np.ma.masked; v[2] = 9",
            "v.tolist()",
        ),
        ("v = np.zeros(3, dtype=[('a', int), ('b', float)])", "v['a'] = 5", "v.tolist()"),
        ("v = np.ones(500_000)", "v[400_000:] = 2; v[0] = 3", "v.sum(), v[0]"),
        (
            "v = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})",
            "v.drop(columns='a', inplace=True)",
            "v.to_dict()",
        ),
        (
            "v = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})",
            "v['c'] = 1; v.loc[0, 'a'] = 9; v.loc[1, 'b'] = 'z'",
            "v.to_dict()",
        ),
        (
            "v = pd.DataFrame({'a': [1, 2]})",
            "v.loc[2] = 5; v.index = [7, 8, 9]; v.columns = ['q']",
            "v.to_dict()",
        ),
        (
            "v = pd.DataFrame({'a': [3, 1, 2]})",
            "v.sort_values('a', inplace=True); v.attrs['x'] = 1",
            "v.to_dict(), v.attrs",
        ),
        (
            "v = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})",
            "v.insert(0, 'z', 0); del v['a']; v.b *= 2",
            "v.to_dict()",
        ),
        (
            "v = pd.DataFrame({'a': [1, 2]})",
            "v.rename(columns={'a': 'b'}, inplace=True); v.index.name = 'i'",
            "v.to_dict(), v.index.name",
        ),
        ("v = pd.Series([1, 2], name='s')", "v.iloc[0] = 5; v.name = 't'", "v.to_dict(), v.name"),
        ("v = pd.Series(['a', 'b'], dtype='category')", "v.iloc[0] = 'b'", "v.tolist()"),
        ("v = pd.Series([1, None], dtype='Int64')", "v.iloc[1] = 5", "v.tolist()"),
        (
            "v = pd.Series(pd.to_datetime(['2026-01-01', '2026-01-02']))",
            "v.iloc[0] = pd.NaT",
            "v.tolist()",
        ),
        (
            "v = pd.DataFrame({'a': pd.array(['x', 'y'], dtype='string')})",
            "v.iloc[0, 0] = 'q'",
            "v.to_dict()",
        ),
    ],
)
def test_changes_inside_tables_and_arrays_are_undone(
    cells: Cells, setup: str, change: str, look: str
) -> None:
    cells.run(f"import numpy as np, pandas as pd\n{setup}\naddress = id(v)")
    before = cells.text(look)
    cells.text(change)
    assert cells.text(look) != before
    done = cells.kernel.undo(cells.number - 1)
    assert done.exact
    assert kinds(done)["v"] == "changed"
    assert (
        cells.text(f"{look}, id(v) == address")
        == f"({before.strip().removeprefix('(').removesuffix(')') if before.startswith('(') else before.strip()}, True)\n"
    )


def test_view_still_refers_to_its_array(cells: Cells) -> None:
    undone(
        cells,
        "import numpy as np\nv = np.arange(10)\nw = v[2:5]",
        "w[:] = 0; v[9] = 1; w = w.copy()",
    )
    assert (
        cells.text("w[0] = 70; v.tolist(), np.shares_memory(v, w)")
        == "([0, 1, 70, 3, 4, 5, 6, 7, 8, 9], True)\n"
    )


def test_column_and_its_frame_are_restored(cells: Cells) -> None:
    undone(
        cells,
        "import pandas as pd\nv = pd.DataFrame({'a': [1, 2]})\nw = v['a']",
        "v.loc[0, 'a'] = 9; w.iloc[1] = 5; v['b'] = w",
    )
    assert cells.text("v.to_dict(), w.tolist()") == "({'a': {0: 1, 1: 2}}, [1, 2])\n"


def test_a_frame_works_as_before_after_undo(cells: Cells) -> None:
    undone(
        cells,
        "import pandas as pd\nv = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})",
        "v['c'] = 0; v.drop(index=0, inplace=True)",
    )
    look = "v['d'] = v.a + 1; v.loc[5] = [7, 'q', 8]; v.groupby('b').a.sum().to_dict(), v.shape"
    assert cells.text(look) == "({'q': 7, 'x': 1, 'y': 2}, (3, 3))\n"


def test_reading_a_frame_is_not_a_change(cells: Cells) -> None:
    done = undone(
        cells,
        "import pandas as pd\nv = pd.DataFrame({'a': [1, 2]})",
        "x = v.loc[1], v['a'].sum(), v.describe()",
    )
    assert kinds(done) == {"x": "deleted"}


def test_parquet_frame_is_compared_exactly(cells: Cells) -> None:
    cells.text("import io, pandas as pd\nfile = io.BytesIO()")
    cells.text(
        "pd.DataFrame({'a': [1.0, 2], 'b': ['x', 'y'], 'c': pd.Categorical(['p', 'q'])}).to_parquet(file)\ndf = pd.read_parquet(file)"
    )
    for code in ("df.head()", "df.describe()", "df.groupby('b').a.sum()", "str(df)"):
        assert [change.name for change in cells.run(code).changes] == []
    assert [(change.name, change.change) for change in cells.run("df.loc[0, 'a'] = 5").changes] == [
        ("df", "changed")
    ]
    cells.kernel.undo(cells.number)
    assert cells.text("df.a.tolist()") == "[1.0, 2.0]\n"


def test_library_value_at_a_reused_address_is_not_mistaken_for_the_old_one(
    cells: Cells,
) -> None:
    cells.text(
        "import numpy as np, pandas as pd\n"
        "makers = [pd.Timestamp, pd.Timedelta, lambda n: pd.Period(ordinal=n, freq='D'), np.float64, lambda n: np.datetime64(n, 's'), np.str_,"
        " lambda n: np.dtype([(f'f{n}', int)])]\n"
        "v = [[make(n) for n in range(1, 1001)] for make in makers]"
    )
    before = cells.text("repr(v)")
    cells.text(
        "for values, make in zip(v, makers):\n    del values[500:]\n    values += [make(n) for n in range(2001, 2501)]"
    )
    assert cells.kernel.undo(cells.number).exact
    assert cells.text("repr(v)") == before


def test_column_positions_of_a_block_are_copied_by_value() -> None:
    namespace: dict[str, object] = {}
    import pandas  # not before: it takes long

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
