"""Pages of the libraries' tables, sorted and filtered."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import TableArrangement
from mahtab_tui.tui.inspector.table_model import TableModel, rows_code
from tests.integration.inspection import Looking, looking, named

FRAME = """
import pandas as pd, numpy as np
df = pd.DataFrame({
    "city": ["Bonn", "ulm", None, "Aachen", "bonn"],
    "people": [330, 126, 5, 249, 330],
    "share": [0.5, float("nan"), 0.25, 1.0, 0.125],
    "day": pd.to_datetime(["2026-03-02", "2026-03-01", None, "2026-03-04", "2026-03-03"]),
    "open": [True, False, True, True, False],
}, index=list("abcde"))
"""

LIBRARIES = """
import datetime as dt, numpy as np, pandas as pd, polars as pl, pyarrow as pa
day, hour = [dt.date(2026, 1, 2), None, dt.date(2025, 1, 1)], [dt.datetime(2026, 1, 2), None, dt.datetime(2025, 1, 1)]
plain = {"text": ["x", None, "Z"], "number": [3, 1, 2], "share": [1.5, float("nan"), None], "day": day, "hour": hour, "ok": [True, None, False]}
polars, arrow = pl.DataFrame(plain, strict=False), pa.table(plain)
extension = pd.DataFrame({
    "text": pd.array(["x", None, "Z"], dtype="string"), "number": pd.array([3, None, 1], dtype="Int64"),
    "ok": pd.array([True, None, False], dtype="boolean"), "grade": pd.Categorical(["low", "high", None], ["low", "mid", "high"], ordered=True),
    "zone": pd.to_datetime(["2026-03-02 10:00", None, "2026-03-01 11:30"]).tz_localize("Europe/Berlin"),
    "span": pd.to_timedelta([5, None, 3], unit="h"), "arrow": pd.Series([1, None, 3], dtype="int64[pyarrow]")})
sparse = pd.get_dummies(pd.Series(["x", "y", "x"]), sparse=True)
records = [{"a": 2, "b": "x"}, {"a": 1}, {"b": "Y", "c": [1]}]
fields = np.array([(1, 2.5, "x"), (2, float("nan"), "y"), (0, 1.0, "z")], dtype=[("n", int), ("v", float), ("t", "U3")])
matrix = np.arange(6.0).reshape(3, 2)
tall = pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([("x", 1), ("y", 2)]))
twins = pd.DataFrame([[1, "a"], [2, "b"]], columns=["same", "same"])
none = pd.DataFrame({"a": pd.Series([], dtype=float), "b": pd.Series([], dtype=str)})
bare = pd.DataFrame(index=range(3))
wide = pd.DataFrame(np.zeros((3, 5_000)))
class Evil:
    def __repr__(self): raise SystemExit
    __str__ = __eq__ = __lt__ = __hash__ = __repr__
mixed = pd.DataFrame({"[bold]": pd.Series([Evil(), 2, "b", None, [1], 1.5], dtype=object)})
"""

TABLES = """
import numpy as np, pandas as pd, polars as pl, pyarrow as pa
rows = {"n": [3, 1, 2, 4, 5], "city": ["Bonn", None, "Bonn", "Köln", "bonn"]}
frame, polar, arrow = pd.DataFrame(rows, index=list("abcde")), pl.DataFrame(rows), pa.table(rows)
records = [dict(zip(rows, values)) for values in zip(*rows.values())]
series, chunked, plus = frame["n"], arrow["n"], polar["n"]
matrix = np.array([rows["n"], [0] * 5]).T
class Own(pd.DataFrame):
    @property
    def _constructor(self): return Own
own = Own(rows)
"""


@pytest.fixture(scope="module")
def frame() -> Iterator[Looking]:
    with looking() as inspection:
        inspection.run(FRAME)
        yield inspection


@pytest.mark.thorough
def test_a_frame_opens_as_a_table_with_names_types_labels_and_texts(frame: Looking) -> None:
    opened = frame.open("df")
    assert (opened.type, opened.views[0], opened.expression) == ("DataFrame", "table", "df")
    assert (opened.rows, opened.columns) == (5, 5)
    headings = frame.look.headings(named("df"), range(5))
    assert [heading.name for heading in headings] == ["city", "people", "share", "day", "open"]
    assert [heading.right for heading in headings] == [False, True, True, False, False]
    page = frame.table("df", 0, 2, 3, start=1, stop=3)
    assert page.labels == ("b", "c")
    assert page.positions == (1, 2)
    assert page.cells == (("ulm", None), (None, "0.250"), ("2026-03-01", None))


@pytest.mark.parametrize("library", ["pd", "pl"])
def test_errors_of_binary_fractions_add_no_decimals(libraries: Looking, library: str) -> None:
    libraries.run(f"sums = {library}.DataFrame({{'a': [0.1 + 0.2, 1.5], 'b': [1 / 3, 2.0]}})")
    assert libraries.table("sums", 0).cells[0] == ("0.3", "1.5")
    assert libraries.table("sums", 1).cells[0] == ("0.3333", "2.0000")


@pytest.mark.parametrize(
    ("column", "descending", "order"),
    [
        (0, False, "daebc"),
        (1, False, "cbdae"),
        (1, True, "aedbc"),
        (2, False, "ecadb"),
        (2, True, "dace b"),
        (3, True, "deabc"),
        (4, False, "beacd"),
    ],
)
def test_table_is_sorted_by_value_with_missing_ones_last(
    frame: Looking, column: int, descending: bool, order: str
) -> None:
    assert frame.table("df", 0, sort=(column, descending)).labels == tuple(order.replace(" ", ""))


def test_filters_of_several_columns_combine(frame: Looking) -> None:
    assert frame.table("df", 0, c1="> 200").labels == ("a", "d", "e")
    assert frame.table("df", 0, c1="> 200", c4="= true").labels == ("a", "d")
    assert frame.table("df", 0, c0="bonn").labels == ("a", "e")
    assert frame.table("df", 0, c0="Bonn").labels == ("a",)
    assert frame.table("df", 0, c2="missing").labels == ("b",)
    assert frame.table("df", 0, c3="> 2026-03-02").labels == ("d", "e")
    page = frame.table("df", 0, sort=(2, False), c1="!= 5")
    assert page.labels == ("e", "a", "d", "b")
    assert (page.rows, page.total_rows) == (4, 5)


def test_condition_not_fitting_the_column_gives_one_sentence(frame: Looking) -> None:
    with pytest.raises(KernelError, match="many cannot be compared with values of int64"):
        frame.table("df", 0, c1="> many")


@pytest.fixture(scope="module")
def libraries() -> Iterator[Looking]:
    with looking() as inspection:
        inspection.run(LIBRARIES)
        yield inspection


@pytest.mark.parametrize(
    ("name", "column", "texts", "upwards", "downwards"),
    [
        ("sparse", 0, ("True", "False", "True"), "102", "021"),
        ("polars", 0, ("x", None, "Z"), "201", "021"),
        ("polars", 2, ("1.5", "NaN", None), "012", "012"),
        ("polars", 3, ("2026-01-02", None, "2025-01-01"), "201", "021"),
        ("arrow", 2, ("1.5", "NaN", None), "012", "012"),
        ("arrow", 4, ("2026-01-02 00:00:00", None, "2025-01-01 00:00:00"), "201", "021"),
        ("extension", 0, ("x", None, "Z"), "201", "021"),
        ("extension", 1, ("3", None, "1"), "201", "021"),
        ("extension", 3, ("low", "high", None), "012", "102"),
        ("extension", 4, ("2026-03-02 10:00", None, "2026-03-01 11:30"), "201", "021"),
        ("extension", 5, ("5:00:00", None, "3:00:00"), "201", "021"),
        ("extension", 6, ("1", None, "3"), "021", "201"),
        ("records", 0, ("2", "1", None), "102", "012"),
        ("records", 2, (None, None, "list 1 item"), "201", "201"),
        ("fields", 1, ("2.5", None, "1.0"), "201", "021"),
        ("matrix", 1, ("1.0", "3.0", "5.0"), "012", "210"),
    ],
)
def test_columns_of_each_library_are_described(
    libraries: Looking,
    name: str,
    column: int,
    texts: tuple[str | None, ...],
    upwards: str,
    downwards: str,
) -> None:
    assert libraries.table(name, column).cells == (texts,)
    for order, descending in ((upwards, False), (downwards, True)):
        positions = libraries.table(name, sort=(column, descending)).positions
        assert positions == tuple(map(int, order))
    missing = tuple(index for index, text in enumerate(texts) if text is None)
    only_missing = TableArrangement(None, ((column, "missing"),))
    assert libraries.look.rows(named(name), 0, 100, (), only_missing).positions == missing
    assert libraries.figures(name, column).missing == len(missing)


def test_column_statistics_are_shown(libraries: Looking) -> None:
    for name in ("polars", "arrow"):
        figures = libraries.figures(name, 1)
        assert (figures.min, figures.max, figures.mean, sum(figures.bars)) == ("1", "3", "2", 3)


def test_most_frequent_texts_are_listed(libraries: Looking) -> None:
    libraries.run(
        """
cities = ["berlin"] * 5 + ["rome"] * 3 + ["bonn", None, "u" * 100, "v"]
frames = {"object": pd.DataFrame({"c": pd.Series(cities, dtype=object)}), "string": pd.DataFrame({"c": pd.array(cities, dtype="string")}),
          "category": pd.DataFrame({"c": pd.Categorical(cities)}), "polars": pl.DataFrame({"c": cities}), "arrow": pa.table({"c": cities}),
          "ids": pd.DataFrame({"c": [f"id{n}" for n in range(2_000)]}), "many": pd.DataFrame({"c": [f"{n % 100_500}" for n in range(101_000)]}),
          "odd": pd.DataFrame({"c": pd.Series(["a", Evil(), "a", 3], dtype=object)})}
object, string, category, polar, arrows, ids, many, odd = frames.values()
"""
    )
    long = f"{'u' * 23}… ×1"
    for name in ("object", "string", "polar", "arrows", "category"):
        figures = libraries.figures(name, 0)
        assert (figures.missing, len(figures.top)) == (1, 4), name
        assert figures.top[:2] == ("berlin ×5", "rome ×3")
        assert set(figures.top[2:]) <= {"bonn ×1", long, "v ×1"}
    assert libraries.figures("ids", 0).top == ("all 2,000 differ",)
    assert libraries.figures("many", 0).top == (), "too many values to count"
    assert libraries.figures("odd", 0).top == (), "not only texts"
    libraries.run(
        "counted = pl.DataFrame({'count': ['a', 'b', 'a']}); nothing_fits = table_rows(pa.table({'n': [1]}), filters={'n': '> 5'})"
    )
    assert libraries.figures("counted", 0).top == ("a ×2", "b ×1")
    assert libraries.cells.text("nothing_fits.num_rows") == "0\n"


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("none", (0, 2)),
        ("bare", (3, 0)),
        ("wide", (3, 5_000)),
        ("twins", (2, 2)),
        ("mixed", (6, 1)),
        ("tall", (2, 1)),
    ],
)
def test_odd_tables_open(libraries: Looking, name: str, shape: tuple[int, int]) -> None:
    opened = libraries.open(name)
    assert (opened.rows, opened.columns) == shape
    last_column = [opened.columns - 1] if opened.columns else []
    assert len(libraries.look.headings(named(name), last_column)) == len(last_column)
    assert libraries.table(name, *last_column).rows == opened.rows
    for column in last_column:
        libraries.figures(name, column)


@pytest.mark.parametrize("name", ["2020", "'two\\nlines'", "r'two\\nlines'", "'x' * 250"])
def test_rows_are_sorted_by_any_name_of_a_column(libraries: Looking, name: str) -> None:
    libraries.run(
        "odd_names = [0.5, 2020, 'two\\nlines', 'x' * 250]\n"
        "oddly_named = pd.DataFrame([[0, 2, 2, 2], [1, 1, 1, 1]], columns=odd_names)"
    )
    assert libraries.cells.text(f"list(table_rows(oddly_named, {name}).index)") == "[1, 0]\n"


def test_duplicate_columns_are_distinguished_and_tuples_label_rows(libraries: Looking) -> None:
    assert libraries.table("twins", 0, 1).cells == (("1", "2"), ("a", "b"))
    assert libraries.table("tall", 0).labels == ("x, 1", "y, 2")


def test_only_existing_items_of_records_have_code(libraries: Looking) -> None:
    assert libraries.open("records", ["cell", 0, 1]).expression == "records[0]['b']"
    assert libraries.open("records", ["cell", 1, 1]).expression == ""


def test_objects_in_a_column_are_never_called(libraries: Looking) -> None:
    assert libraries.table("mixed", 0).cells[0] == ("Evil", "2", "b", None, "list 1 item", "1.5")
    assert libraries.table("mixed", 0, sort=(0, False)).positions == (5, 1, 2, 0, 4, 3)
    assert libraries.table("mixed", 0, c0="evil").positions == (0,)
    assert libraries.open("mixed", ["cell", 0, 0]).type == "Evil"


def test_older_request_is_abandoned_when_the_user_moves_on(libraries: Looking) -> None:
    libraries.run("long = [{'a': str(n * 7919 % 1000003)} for n in range(400_000)]")
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(libraries.table, "long", 0, sort=(0, False))
        while not older.done():
            newer = libraries.table("long", 0)
            assert newer.cells[0][0] == "0"
        with pytest.raises(KernelError, match="No one is waiting for this answer"):
            older.result()


@pytest.mark.parametrize("name", ["frame", "polar", "arrow", "records", "own"])
def test_visible_rows_are_available_in_code(frame: Looking, name: str) -> None:
    frame.run(TABLES)
    arrangement = TableArrangement((0, True), ((1, "bonn"), (0, "< 5")))
    page = frame.look.rows(named(name), 0, 10, [0, 1], arrangement)
    assert page.cells[0] == ("3", "2")
    table = TableModel(frame.open(name))
    table.arrangement = arrangement
    frame.run(f"seen = {rows_code(name, table)}; assert type(seen) is type({name})")
    frame.run(
        f"same = table_rows({name}, sort='n', descending=True, filters={{'city': 'bonn', 'n': '< 5'}})"
    )
    for copy_name in ("seen", "same"):
        assert frame.table(copy_name, 0, 1).cells == page.cells


@pytest.mark.parametrize("name", ["series", "chunked", "plus", "matrix"])
def test_sorted_rows_of_a_column_or_an_array_are_available_in_code(
    frame: Looking, name: str
) -> None:
    frame.run(f"{TABLES}\nseen = table_rows({name}, 0, filters={{0: '> 1'}})")
    assert frame.table("seen", 0).cells == (("2", "3", "4", "5"),)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("table_rows(3)", "The value is not a table."),
        ("table_rows(frame, 'x')", "There is no column 'x'."),
        ("table_rows(frame, 2)", "There is no column 2."),
        ("table_rows(twice, 'n')", "2 columns are called 'n': give the number of the column."),
        (
            "table_rows(frame, filters={'n': '> many'})",
            "many cannot be compared with values of int64.",
        ),
    ],
)
def test_impossible_table_requests_are_explained(frame: Looking, call: str, sentence: str) -> None:
    frame.run(f"{TABLES}\ntwice = pd.concat([series, series], axis=1)")
    assert frame.cells.run(call).output.rstrip().endswith(f"ValueError: {sentence}")


def test_displayed_table_opens_unnamed_until_many_newer_ones_are_shown(frame: Looking) -> None:
    displays = frame.cells.run("df.describe(include='all')").displays
    assert [display.mime for display in displays] == ["text/html"]
    unnamed = frame.look.open((["shown", displays[0].value],))
    assert (unnamed.type, unnamed.columns, unnamed.expression) == ("DataFrame", 5, "")
    named_one = frame.cells.run("display(df, 'words')").displays[0]
    assert frame.look.open((["shown", named_one.value],)).expression == "df"
    frame.cells.run("for _ in range(20): display(df.head(1))")
    with pytest.raises(KernelError, match="no longer kept; run the cell again"):
        frame.look.open((["shown", displays[0].value],))


def test_large_displayed_table_opens_only_while_still_referenced() -> None:
    with looking(undo_steps=0) as frame:
        large = frame.cells.run(
            "import numpy as np, pandas as pd\nbig = pd.DataFrame(np.zeros((1_300_000, 10)))\ndisplay(big)"
        ).displays[0]
        assert frame.look.open((["shown", large.value],)).expression == "big"
        frame.run("del big")
        with pytest.raises(KernelError, match="no longer kept; run the cell again"):
            frame.look.open((["shown", large.value],))


def test_large_integers_with_missing_ones_stay_exact(libraries: Looking) -> None:
    libraries.run("big = [2**60 + 1, None, 2**60]; large = pl.DataFrame({'n': big})")
    libraries.run("stored = pa.table({'n': big})")
    for name in ("large", "stored"):
        assert libraries.table(name, 0, c0=f"= {2**60 + 1}").positions == (0,)
        assert libraries.figures(name, 0).max == f"{2**60 + 1:,}"


def test_moments_are_compared_as_they_are_shown(libraries: Looking) -> None:
    libraries.run(
        "at = pl.Series([dt.datetime(2024, 1, 2, 3)]).dt.replace_time_zone('Asia/Tehran')"
    )
    libraries.run("zoned = pl.DataFrame({'at': at}); moved = zoned.to_arrow()")
    for name in ("zoned", "moved"):
        assert libraries.table(name, 0).cells[0][0].startswith("2024-01-02 03:00")  # type: ignore[union-attr]
        assert libraries.table(name, 0, c0="= 2024-01-02 03:00").positions == (0,)
        assert libraries.figures(name, 0).max.startswith("2024-01-02 03:00")


def test_numbers_too_large_for_a_float_have_figures_and_are_compared(libraries: Looking) -> None:
    libraries.run(
        """
large = [{"n": 10**400}, {"n": 1}, {"n": 3}]
larger = [{"n": -10**5000}, {"n": 10**5000}]
infinite = [{"n": float("inf")}, {"n": 4.0}]
small = np.array([1, 2])
"""
    )
    figures = libraries.figures("large", 0)
    assert (figures.min, figures.max, figures.mean, figures.bars) == ("1", "1,329 bits", "2", ())
    assert libraries.figures("larger", 0).mean == "—"
    assert libraries.figures("infinite", 0).mean == "4"
    number = "9" * 400
    assert libraries.table("large", 0, c0=f"> {number}").positions == (0,)
    assert libraries.table("small", 0, c0=f"< {number}").positions == (0, 1)
    assert libraries.table("small", 0, c0=f"> -{number}").positions == (0, 1)


def test_array_of_complex_numbers_has_no_figures(libraries: Looking) -> None:
    libraries.run("waves = np.array([1 + 2j, 3j])")
    assert libraries.figures("waves").max == ""


def test_wide_table_is_sent_with_all_columns_unless_the_user_limits_them(frame: Looking) -> None:
    wide = "pd.DataFrame([range(60)], columns=[f'c{n}' for n in range(60)])"
    limited = f"with pd.option_context('display.max_columns', 8): display({wide})"
    assert ">c30<" in frame.cells.run(wide).displays[0].data
    assert ">c30<" not in frame.cells.run(limited).displays[0].data
