"""Descriptions of variables for a model: words, length, and no code of the user's runs."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import sqlite3
import typing
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.api.extensions import ExtensionArray, ExtensionDtype

from mahtab_tui.llm.token_estimates import estimated_tokens
from mahtab_tui.worker.describing import description
from mahtab_tui.worker.describing.described_columns import DescribedColumn
from mahtab_tui.worker.describing.description import describe, describe_value
from mahtab_tui.worker.describing.table_lines import (
    DETAILS,
    DescribedTable,
    head_lines,
    table_lines,
)
from mahtab_tui.worker.inspection.cell_texts import cell_text
from mahtab_tui.worker.values.secret_names import HIDDEN_VALUE
from tests.benchmarks.answers.tables import SOURCES
from tests.hostile import HOSTILE

LIMIT = 2_250

CARS = pd.DataFrame(
    {
        "Name": ["chevrolet chevelle malibu", "buick skylark 320", None, *map(str, range(403))],
        "Miles_per_Gallon": [18.0, 15.0, *[None] * 8, *[20.5] * 396],
        "Cylinders": [8] * 406,
        "Origin": pd.Series(["USA", "Japan"] * 203, dtype=object),
    }
)
INDEXED = pd.DataFrame(
    {"v": [1, 2]}, index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", None])
)
KINDS = pd.DataFrame(
    {
        "day": [pd.Timestamp("2026-01-01", tz="UTC"), pd.NaT],
        "kind": pd.Categorical(["u", "v"]),
        "n": pd.array([1, None], dtype="Int64"),
        "any": pd.Series([{"a": 1}, [1, 2]], dtype=object),
        "part": pd.interval_range(0, 2),
        " padded": ["x" * 50, "y"],
        "password": ["hunter2", "open sesame"],
    }
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)

SPECIAL = (
    "__repr__ __str__ __len__ __iter__ __getitem__ __getattr__ __getattribute__ __eq__ __ne__ __lt__ __hash__ __bool__ __contains__ __dir__ "
    "__format__ __sizeof__ __reduce_ex__ __index__ __int__ __float__ __call__ __array__ __dataframe__ __arrow_c_stream__ __fspath__"
).split()
META = "__repr__ __getattribute__ __getattr__ __eq__ __hash__ __instancecheck__ __subclasscheck__ __dir__ __call__".split()


def lines(value: Any, name: str = "it", limit: int = LIMIT) -> list[str]:
    return describe_value(name, value, limit).split("\n")


@dataclasses.dataclass
class Point:
    """A point.

    On a plane.
    """

    x: int
    y: float = 0.0

    def norm(self, scale: float = 1.0) -> float:
        return self.x * scale


class Slotted:
    __slots__ = ("a", "never")

    def __init__(self) -> None:
        self.a = [1]


def area(width: float, *, height: float | None = None) -> float:
    """Return the area.

    Of a rectangle.
    """
    return width


async def fetch(url: str) -> None: ...


Named = collections.namedtuple("Named", "first second")

SIMPLE: list[tuple[Any, list[str]]] = [
    # Containers.
    ({"lr": 0.1, "steps": 100}, ["it: dict, 2 items: {'lr': 0.1, 'steps': 100}"]),
    ({}, ["it: dict, 0 items"]),
    (
        {"user": {"id": 1}, "items": [{"a": 1, "b": 2}] * 12, "text": "x" * 100, "t": (None, "a")},
        [
            "it: dict, 4 items",
            "  'user': {'id': int}",
            "  'items': [dict with keys 'a', 'b'] x 12",
            f"  'text': '{'x' * 60}…'",
            "  't': (None, 'a')",
        ],
    ),
    (
        {"password": "hunter2", "token": ["abc"], "api_key": 5},
        ["it: dict, 3 items: {'password': ••••••••, 'token': list of 1, 'api_key': ••••••••}"],
    ),
    (
        [{"id": 1, "name": "Ann", "sub": {"x": 1}}] * 12,
        ["it: list, 12 items of dict", "  first item: {'id': 1, 'name': 'Ann', 'sub': {'x': int}}"],
    ),
    (
        list(range(1_200)),
        [f"it: list, 1,200 items of int: {', '.join(map(str, range(12)))}, ... and 1,188 more"],
    ),
    ([[1, 2], [3] * 100], ["it: list, 2 items of list", "  [0]: [1, 2]", "  [1]: [int] x 100"]),
    ((1, "a"), ["it: tuple, 2 items of int or str: 1, 'a'"]),
    ({7}, ["it: set, 1 item of int: 7"]),
    (
        [("a", 1), (2,), (), {3}, set(), frozenset({4}), frozenset(), collections.deque([5])],
        [
            "it: list, 8 items of tuple or set or frozenset or others",
            "  [0]: ('a', 1)",
            "  [1]: (2,)",
            "  [2]: ()",
            "  [3]: {3}",
            "  [4]: set()",
            "  [5]: frozenset({4})",
            "  [6]: frozenset()",
            "  [7]: deque([5])",
        ],
    ),
    (
        [(1,) * 100, set(range(9)), ([1],)],
        [
            "it: list, 3 items of tuple or set",
            "  [0]: (int) x 100",
            "  [1]: {int} x 9",
            "  [2]: (list) x 1",
        ],
    ),
    (collections.OrderedDict(a=1), ["it: OrderedDict, 1 item: {'a': 1}"]),
    (collections.deque("ab"), ["it: deque, 2 items of str: 'a', 'b'"]),
    (Named(1, "x"), ["it: Named, 2 items of int or str: first=1, second='x'"]),
    # Texts, bytes, plain values.
    ("short", ["it: str, 5 characters: 'short'"]),
    ("one\ntwo\n", ["it: str, 8 characters, 2 lines", "  first line: 'one'"]),
    ("y" * 500, ["it: str, 500 characters, 1 line", f"  first line: '{'y' * 100}…'"]),
    (b"\x89PNG" + b"0" * 96, [r"it: bytes, 100 bytes: b'\x89PNG0000000000000000…'"]),
    (42, ["it: int = 42"]),
    (None, ["it: NoneType = None"]),
    (decimal.Decimal("1.20"), ["it: Decimal = 1.20"]),
    (datetime.date(2026, 3, 29), ["it: date = 2026-03-29"]),
    (pathlib.PurePosixPath("a/b"), ["it: PurePosixPath = a/b"]),
    # Code and objects.
    (
        area,
        [
            "def it(width: float, *, height: float | None = None) -> float",
            '    """Return the area."""',
        ],
    ),
    (fetch, ["async def it(url: str) -> None"]),
    (len, ["function it(obj, /)", '    """Return the number of items in a container."""']),
    (
        Point,
        [
            "class Point",
            '    """A point."""',
            "it(x: int, y: float = 0.0)",
            "  methods: norm",
            "  attributes: y",
        ],
    ),
    (Point(1), [f"it: {__name__}.Point object", "  .x: 1", "  .y: 0.0"]),
    (Slotted(), [f"it: {__name__}.Slotted object", "  .a: [1]"]),
    (pathlib, ["it: module pathlib"]),
    (pd, [f"it: module pandas {pd.__version__}"]),
    (sqlite3.connect(":memory:"), ["it: sqlite3.Connection object"]),
    # Arrays.
    (
        np.arange(12.0).reshape(3, 4),
        ["it: ndarray, float64, shape (3, 4), min 0, max 11", "first values: 0, 1, 2, 3, ..."],
    ),
    (
        np.array([1.5, np.nan]),
        ["it: ndarray, float64, shape (2,), min 1.5, max 1.5, 1 missing", "first values: 1.5, nan"],
    ),
    (np.array([np.nan]), ["it: ndarray, float64, shape (1,), all missing", "first values: nan"]),
    (np.array(["a", "b"]), ["it: ndarray, <U1, shape (2,)", "first values: 'a', 'b'"]),
    (
        np.array([(1, "a")], dtype=[("id", int), ("n", "U5")]),
        ["it: ndarray, [('id', '<i8'), ('n', '<U5')], shape (1,)", "first values: (1, 'a')"],
    ),
    (np.zeros((0, 3)), ["it: ndarray, float64, shape (0, 3)"]),
    # Tables.
    (
        CARS,
        [
            "it: DataFrame, 406 rows x 4 columns",
            f"Name {CARS.dtypes['Name']}: 1 missing; all different; numbers as text, but 2 are not numbers",
            "Miles_per_Gallon float64: 8 missing; 15 to 20.5",
            "Cylinders int64: only 8",
            "Origin object: values (203 each): 'USA', 'Japan'",
            "it.head(2):",
            "0 | chevrolet chevelle malibu | 18.0 | 8 | USA",
            "1 | buick skylark 320 | 15.0 | 8 | Japan",
        ],
    ),
    (
        INDEXED,
        [
            "it: DataFrame, 2 rows x 1 column, MultiIndex ('x', None)",
            "columns: v int64",
            "a, 1 | 1",
            "b, 2 | 2",
        ],
    ),
    (
        pd.DataFrame({0: [1]}, index=pd.Index(["k"], name="key", dtype=object)),
        [
            "it: DataFrame, 1 row x 1 column, index: key object, column labels: int",
            "columns: 0 int64",
            "k | 1",
        ],
    ),
    (
        pd.DataFrame([[1, 2, 3]], columns=pd.Index([1990, "1990", "-"], dtype=object), index=[5]),
        [
            "it: DataFrame, 1 row x 3 columns, row labels: int64, column labels: int",
            "columns: 1990 int64 | '1990' int64 | - int64",
            "5 | 1 | 2 | 3",
        ],
    ),
    (
        pd.DataFrame({("a", "x"): [1]}),
        [
            "it: DataFrame, 1 row x 1 column, columns: MultiIndex of 2 levels",
            "columns: ('a', 'x') int64",
            "0 | 1",
        ],
    ),
    (
        pd.DataFrame({"a": pd.Series([], dtype="float64")}),
        ["it: DataFrame, 0 rows x 1 column", "a float64"],
    ),
    (
        pd.Series([1.5, None], name="price"),
        [
            "it: Series, 2 rows, float64, name 'price'",
            "1 missing; only 1.5",
            "it.head(2):",
            "0 | 1.5",
            "1 | NaN",
        ],
    ),
    (pd.Index([1, 2], name="n"), ["it: Index, 2 items, index: n int64", "first values: 1, 2"]),
    (
        pl.DataFrame({"a": [1, None], "b": [[1], [2, 3]], "c": ["x", "y"]}),
        [
            "it: polars DataFrame, 2 rows x 3 columns",
            "a Int64: 1, null  1 missing; only 1",
            "b List(Int64): list 1 item, list 2 items",
            "c String: x, y  values: 'x', 'y'",
        ],
    ),
    (
        pl.Series("a", [1.5, float("nan"), None]),
        [
            "it: polars Series, 3 rows x 1 column",
            "a Float64: 1.5, NaN  1 missing; only 1.5; 1 NaN",
        ],
    ),
    (
        pa.table({"a": [1, 2], "b": ["x", None]}),
        [
            "it: pyarrow Table, 2 rows x 2 columns",
            "a int64: 1, 2  1 to 2",
            "b string: x, null  1 missing",
        ],
    ),
]


@pytest.mark.parametrize(
    ("value", "expected"),
    SIMPLE,
    ids=[f"{number} {type(value).__name__}" for number, (value, _) in enumerate(SIMPLE)],
)
def test_each_kind_of_value_is_described(value: Any, expected: list[str]) -> None:
    assert lines(value) == expected


def test_columns_are_described_without_secrets() -> None:
    text = describe_value("it", KINDS, LIMIT)
    rows = [line.split() for line in text.split("\n")]
    assert ["any", "object:", "mixed", "types:", "1", "dict,", "1", "list"] in rows
    assert ["n", "Int64:", "1", "missing;", "only", "1"] in rows
    expected_texts = ("' padded'", f"{'x' * 39}…", "{'a': int}", "[1, 2]", "(0, 1]", "NaT")
    assert [expected_text for expected_text in expected_texts if expected_text not in text] == []
    assert [secret for secret in ("hunter2", "sesame") if secret in text] == []


@pytest.mark.parametrize(
    "label", ["password", "password" + " again" * 10, "again " * 10 + "password"]
)
@pytest.mark.parametrize("values", [[1_234, 9_876], [1_234.5, 9_876.5]], ids=["whole", "fractions"])
def test_numbers_in_a_column_with_the_name_of_a_secret_are_not_described(
    label: str, values: list[float]
) -> None:
    columns = {label: values, "n": [5, 6]}
    frame = pd.DataFrame(columns)
    # Twelve rows have a line for each column, with its smallest and largest value.
    frames = [frame, pd.concat([frame] * 6), pl.DataFrame(columns), pa.table(columns)]
    described_values = [*frames, frame[label], pl.Series(label, values)]
    texts = [describe_value("it", value, LIMIT) for value in described_values]
    assert [text for text in texts if "1234" in text or "9876" in text] == []
    assert all(HIDDEN_VALUE in text for text in texts)


def test_fields_of_an_array_with_the_name_of_a_secret_are_not_described() -> None:
    login = np.dtype([("user", "U9"), ("password", "i8")])
    array = np.array([(1, ("Ann", 1_234))], dtype=[("id", "i8"), ("login", login)])
    hidden = f"(1, ('Ann', {HIDDEN_VALUE}))"
    assert describe_value("it", array, LIMIT).endswith(hidden)
    assert describe_value("it", array[0:1].reshape(()), LIMIT).endswith(hidden)
    objects = np.empty(1, dtype=object)
    objects[0] = ("Ann", (1, 2))
    assert describe_value("it", objects, LIMIT).endswith("('Ann', (1, 2))")


def test_secret_looking_variables_are_omitted() -> None:
    namespace = {"api_key": ["abc"], "get_token": area, "x": 1}
    names = ["api_key", "get_token", "x", "no such name"]
    assert describe(namespace, names, LIMIT).keys() == {"get_token", "x"}


CELLS = st.integers(-99, 99) | st.floats() | st.sampled_from(["a", " a", "", "1", "…", None])


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=12))
def test_all_rows_of_a_small_table_are_shown_only_as_they_are(rows: list[list[Any]]) -> None:
    table = pd.DataFrame(rows, columns=["first", "second", "third"])
    description_lines = lines(table)
    if not description_lines[1].startswith("columns: "):
        assert description_lines[-1].count(" | ") <= 3
        return
    row_cells = [line.split(" | ") for line in description_lines[2:]]
    assert len(row_cells) == len(rows) <= 10
    for (_, *texts), row in zip(row_cells, table.itertuples(index=False), strict=True):
        for text, value in zip(texts, row, strict=True):
            if isinstance(value, str) or value is None:
                assert text in (str(value), "NaN")
            else:
                assert text == "NaN" if pd.isna(value) else float(text) == value


NANOSECOND = pd.Timedelta(1, "ns")
LEVELS = pd.MultiIndex.from_tuples([("a, b", "c"), ("a", "b, c")])


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1]}, index=[1.123456789]),
        pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1.123456789, "b")])),
        pd.DataFrame({"a": [1, 2]}, index=LEVELS),
        pd.DataFrame({"a": [1, 2]}, index=["x | y", "z"]),
        pd.DataFrame({"a": [1, 2]}, index=["x" * 80, "y"]),
        pd.DataFrame({"a": [1, 2]}, index=[" x", ""]),
        pd.DataFrame({"a": [1, 2]}, index=["NaN", None]),
        pd.DataFrame({"a": [1, 2]}, index=pd.Index([1, "1"], dtype=object)),
        pd.DataFrame({"a": [1]}, index=pd.TimedeltaIndex([NANOSECOND])),
        pd.DataFrame({"a | b": [1], "c": [2]}),
        pd.DataFrame({"a" * 80: [1], "c": [2]}),
        pd.DataFrame({"a": ["NaN", None]}),
        pd.DataFrame({"a": pd.Series(["None", None], dtype=object)}),
        pd.DataFrame({"a": [pd.Timedelta(2, "D") + NANOSECOND, pd.NaT]}),
    ],
    ids=range(14),
)
def test_rows_that_could_be_misread_are_not_shown_as_the_whole_table(table: pd.DataFrame) -> None:
    assert not lines(table)[1].startswith("columns: ")


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1, 2]}, index=[1.5, None]),
        pd.DataFrame({"a": [pd.Timedelta(2, "D"), pd.NaT]}),
        pd.DataFrame({"a": [1]}, index=pd.DatetimeIndex(["2026-01-01 00:00:00.000000001"])),
        pd.DataFrame({"a": ["x", None]}, index=["x", "y"]),
        pd.DataFrame([[1]], columns=[1.123456789]),
        pd.DataFrame([[1]], columns=["NaN"]),
    ],
    ids=range(6),
)
def test_rows_with_exact_labels_and_values_are_shown_as_the_whole_table(
    table: pd.DataFrame,
) -> None:
    assert lines(table)[1].startswith("columns: ")


def test_whole_table_without_row_labels_has_its_rows() -> None:
    columns = [DescribedColumn("a", "int64", ["1", "2"]), DescribedColumn("b", "str", ["x", "y"])]
    table = DescribedTable("it", "it: table", columns, 2, is_whole=True)
    expected = ["it: table", "columns: a int64 | b str", "1 | x", "2 | y"]
    assert table_lines(table, LIMIT) == expected


@pytest.mark.parametrize(("last", "is_shown"), [("-89.2345", True), ("-89.23450345", False)])
def test_short_last_column_is_shown_rather_than_an_ellipsis(last: str, is_shown: bool) -> None:
    cells = ["00M", "Thigpen", "Bay Springs", "MS", "USA", "31.9538", last]
    columns = [DescribedColumn(str(number), "str", [cell]) for number, cell in enumerate(cells)]
    table = DescribedTable("airports", "", columns, len(columns), ["0"])
    row = head_lines(table, DETAILS[-1])[-1]
    assert row == f"0 | {' | '.join(cells[:-1])} | {last if is_shown else '...'}"


def test_wide_table_shows_some_columns() -> None:
    wide = pd.DataFrame(np.zeros((3, 2_000)), columns=[f"col_{n}" for n in range(2_000)])
    description_lines = lines(wide, "wide", 10_000)
    assert description_lines[0] == "wide: DataFrame, 3 rows x 2,000 columns"
    head = description_lines[description_lines.index("wide.head(1):") + 1 :]
    assert max(map(len, head)) <= 70
    assert all(line.endswith(" | ...") for line in head)
    named = " ".join(description_lines)
    assert "col_59 float64 ... and 1,940 more columns" in named
    assert "col_60" not in named


def test_a_table_of_long_row_labels_without_columns_is_described() -> None:
    names = [f"a rather long name of level {number}" for number in range(60)]
    index = pd.MultiIndex.from_arrays([[1]] * 60, names=names)
    described = describe({"it": pd.DataFrame(index=index)}, ["it"], LIMIT)
    assert described["it"].startswith("it: DataFrame, 1 row x 0 columns, MultiIndex ('a rather")


@pytest.mark.parametrize("limit", [1, 10, 40, 100, 400, 1_000])
def test_a_description_is_cut_after_a_line(limit: int) -> None:
    for value in ("x" * 500, {n: n for n in range(100)}, Point):
        text = describe_value("it", value, limit)
        full_text = describe_value("it", value, 100_000)
        assert len(text) <= limit
        if len(full_text) > limit >= 100:
            assert text.endswith("\n...")
            assert full_text.startswith(text[: -len("\n...")])


@pytest.mark.parametrize("name", ["airports", "cars", "riots", "barley", "seattle_weather"])
def test_public_tables_are_described_in_few_tokens(name: str) -> None:
    table = pd.read_csv(StringIO(SOURCES[name]()))
    text = describe_value(name, table, LIMIT)
    assert estimated_tokens([text]) <= 260
    assert all(column in text for column in table.columns)


def test_a_table_of_many_digits_is_described_in_few_tokens() -> None:
    measured = np.random.default_rng(1).normal(1_000, 10, (500, 7))
    text = describe_value("sensors", pd.DataFrame(measured).add_prefix("sensor_"), LIMIT)
    assert estimated_tokens([text]) <= 260
    assert "sensor_6 float64: ~" in text
    assert "\nsensors.head(1):\n" in text


def test_types_of_items_are_stated_only_for_those_that_were_looked_at() -> None:
    assert lines([*[1] * 150, "a"])[0].startswith("it: list, 151 items of int or str: 1, 1, ")
    first_line = lines([0.5] * 200_000)[0]
    assert first_line.startswith("it: list, 200,000 items, the first 100,000 of float: ")
    assert lines([[1] * 101])[1] == "  [0]: [int, …] x 101"


@pytest.mark.parametrize("limit", [1, 40, 160, 400, 600, 1_000, 2_250])
def test_a_table_has_fewer_details_where_they_do_not_fit(limit: int) -> None:
    cars = describe_value("cars", CARS, limit)
    assert len(cars) <= limit
    names = [name for name in CARS.columns if name in cars]
    assert len(names) == 4 or limit < 160
    assert ("'USA', 'Japan'" in cars) == (limit >= 400)
    assert ("\n" in cars) == (limit >= 400)


def test_description_lines_are_always_printable() -> None:
    for text in HOSTILE:
        tables = pd.DataFrame({text: [text]}), pl.Series(text, [text])
        for value in (text, {text: text}, [text], Point(text), *tables):  # type: ignore[arg-type]
            assert all(line.isprintable() for line in lines(value))


@given(JSON)
def test_any_plain_data_is_described(value: Any) -> None:
    text = describe({"it": value}, ["it"], 500)["it"]
    assert len(text) <= 500
    assert all(line.isprintable() and len(line) <= 240 for line in text.split("\n"))


def test_slow_description_is_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(name: str, value: object, limit: int) -> None:
        while value == "slow":
            pass

    monkeypatch.setattr(description, "DESCRIPTION_TIMEOUT_S", 0.1)
    monkeypatch.setattr(description, "describe_table", endless)
    assert list(describe({"slow": "slow", "quick": "quick"}, ["slow", "quick"], LIMIT)) == ["quick"]


# Nothing of the user's runs.


def zoo(ran: list[str]) -> dict[str, Any]:
    """Build objects whose classes add each call of their code to `ran`."""

    def trap(name: str) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            ran.append(name)
            raise RuntimeError(name)

        return run

    def arm(cls: Any, *names: str) -> None:
        for name in names:
            type.__setattr__(cls, name, trap(f"{cls} {name}"))

    traps = {name: trap(name) for name in SPECIAL} | {
        name: property(trap(name)) for name in ("__class__", "prop", "shape", "dtype", "columns")
    }
    meta = type("Meta", (type,), {})
    cls: Any = meta("Hostile", (), {"__class__": traps["__class__"], "prop": traps["prop"]})
    hostile = object.__new__(cls)

    def make(base: Any, name: str, **members: Any) -> Any:
        return type(name, (base,), members)

    utc = {"utcoffset": lambda *_: datetime.timedelta(0), "dst": lambda *_: None}
    Zone = make(datetime.tzinfo, "Zone", **utc, tzname=lambda *_: "Z")
    Kind = make(ExtensionDtype, "Kind", type=object, na_value=None)
    Kind.name = "kind"
    members = {"dtype": property(lambda self: Kind()), "__len__": lambda self: 3}
    Kinds = make(ExtensionArray, "Kinds", **members, copy=lambda self: self)
    Frame = make(pd.DataFrame, "Frame")
    Key = make(object, "Key", __hash__=lambda self: 1)
    Colour: Any = enum.Enum("Colour", "RED")

    class Storage(pa.ExtensionType):  # type: ignore[misc]
        num_fields = traps["prop"]

        def __init__(self) -> None:
            super().__init__(pa.int64(), "test.storage")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, *args: object) -> Any:
            return cls()

    sub_list = make(list, "SubList", **traps)
    sub_dict = make(dict, "SubDict", **traps)
    bag = make(object, "Bag", prop=traps["prop"])()
    bag.x = hostile
    bag.__dict__[5] = 1

    namespace: dict[str, Any] = {"Hostile": cls, "hostile": hostile, "typing": typing}
    code = "def function(a: Hostile, b: typing.Optional[Hostile] = hostile, c: typing.Annotated[int, hostile] = 1) -> list[Hostile]: pass"
    # Not as texts, which this module's future import would make of annotations.
    exec(compile(code, "cell", "exec", dont_inherit=True), namespace)

    zoned = pd.DataFrame({"t": pd.date_range("2026", periods=3, tz=Zone()), "v": [1, 2, 3]})
    objects = np.empty(3, dtype=object)
    objects[0] = hostile
    fields = np.empty(1, dtype=[("a", "O"), ("b", "i4")])
    fields["a"][0] = hostile
    extension = pa.ExtensionArray.from_storage(Storage(), pa.array([1, 2, 3]))
    key = Key()
    variables = {
        "instance": hostile,
        "class": cls,
        "sub_list": list.__new__(sub_list),
        "sub_dict": dict.__new__(sub_dict),
        "sub_str": str.__new__(make(str, "SubStr", **traps), "text " * 3),
        "sub_int": int.__new__(make(int, "SubInt", **traps), 7),
        "sub_tuple": tuple.__new__(make(tuple, "SubTuple", **traps), (1, 2)),
        "inside": {"list": [hostile], "dict": {"k": hostile}, "it": hostile},
        "key": {key: 1, (key, 1): 2},
        "labels": pd.DataFrame([[1, 2]], columns=pd.Index([key, "b"], dtype=object)),
        "named": pd.Series([1], name=key),
        "frame": Frame({"a": [1, 2]}),
        "column": pd.DataFrame({"o": pd.Series(objects, dtype=object)}),
        "array": objects,
        "fields": fields,
        "void": fields[0],
        "zoned": zoned,
        "zoned_index": zoned.set_index("t"),
        "zoned_levels": zoned.set_index(["t", "v"]),
        "zoned_columns": pd.DataFrame([[1, 2, 3]], columns=zoned["t"]),
        "zoned_categories": pd.DataFrame({"c": zoned["t"].astype("category")}),
        "zoned_intervals": pd.DataFrame(
            {"i": pd.Series([pd.Interval(*zoned["t"].iloc[:2])], dtype=object)}
        ),
        "zoned_moments": [datetime.datetime(2026, 1, 1, tzinfo=Zone())],
        "kinds": pd.DataFrame({"a": [1, 2, 3], "k": Kinds()}),
        "kinds_series": pd.Series(Kinds()),
        "kinds_index": pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index(Kinds())),
        "arrow": pa.table({"e": extension, "i": [1, 2, 3]}),
        "arrow_column": pd.DataFrame({"e": pd.arrays.ArrowExtensionArray(extension)}),
        "polars": pl.DataFrame({"o": pl.Series([object(), None], dtype=pl.Object)}),
        "bag": bag,
        "function": namespace["function"],
        "colour": Colour.RED,
        "error": ValueError(hostile),
        "masked": np.ma.masked_array([1, 2], [False, True]),
    }
    list.append(variables["sub_list"], hostile)
    dict.__setitem__(variables["sub_dict"], "k", hostile)
    arm(Key, "__hash__", "__eq__", "__repr__")
    arm(Zone, "utcoffset", "dst", "tzname", "fromutc", "__str__", "__repr__", "__eq__", "__hash__")
    arm(Kinds, "__len__", "__getitem__", "__iter__", "isna", "copy", "__repr__")
    Kinds.dtype = property(trap("dtype"))
    arm(Kind, "__str__", "__repr__", "__eq__", "__hash__")
    arm(Storage, "__str__", "__repr__", "__eq__", "__hash__")
    arm(Frame, "__repr__", "__len__", "__getitem__", "__getattr__", "head")
    arm(Colour, "__repr__", "__str__")
    for name, value in traps.items():
        if name != "__class__":
            type.__setattr__(cls, name, value)
    arm(meta, *META)
    return variables


def test_no_user_code_runs() -> None:
    ran: list[str] = []
    objects = zoo(ran)
    ran.clear()
    described = {}
    for name in objects:
        described.update(describe(objects, [name], LIMIT))
        assert ran == [], name
    assert described.keys() == objects.keys()
    assert described["column"].endswith("0 | <Hostile>\n1 | None\n2 | None")
    assert "k <Kinds>" in described["kinds"]
    assert described["sub_list"] == "sub_list: SubList, 1 item of Hostile\n  [0]: <Hostile>"
    arguments = "a: Hostile, b: Hostile | None = …, c: int = 1"
    assert described["function"] == f"def function({arguments}) -> list[Hostile]"
    assert "2026-01-01" in described["zoned_index"]


def test_an_interval_is_written_as_pandas_does_without_running_its_time_zone() -> None:
    class Zone(datetime.tzinfo):
        is_armed = False

        def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
            assert not self.is_armed
            return datetime.timedelta(0)

        def dst(self, moment: datetime.datetime | None) -> None:
            assert not self.is_armed

        def tzname(self, moment: datetime.datetime | None) -> str:
            assert not self.is_armed
            return "Z"

    zone = Zone()
    zoned = pd.Interval(pd.Timestamp(0, tz=zone), pd.Timestamp(1, tz=zone), closed="left")
    zone.is_armed = True
    assert cell_text(zoned) == "[Timestamp 0 ns, Timestamp 1 ns)"

    days = (pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02"))
    spans = (pd.Timedelta(1), pd.Timedelta(2, "D"))
    for ends in ((0.1, 2), (np.float64(0.1), np.int64(2)), (-np.inf, 1.5), days, spans):
        for closed in ("left", "right", "both", "neither"):
            interval = pd.Interval(*ends, closed=closed)
            assert cell_text(interval) == str(interval)


def test_an_interval_is_written_without_running_the_classes_of_its_ends() -> None:
    class Celsius(float):
        def __format__(self, spec: str) -> str:
            raise AssertionError

        __str__ = __repr__ = __format__  # type: ignore[assignment]

    assert cell_text(pd.Interval(Celsius(1), Celsius(2))) == "(Celsius, Celsius]"
    assert cell_text(pd.Interval(1, Celsius(2))) == "(1, Celsius]"
    # Python refuses to write such a number.
    assert cell_text(pd.Interval(0, 10**5_000)) == "(0, 16,610 bits]"


def test_an_interval_of_moments_is_described_with_both_of_them() -> None:
    days = pd.Interval(pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02"))
    frame = pd.DataFrame({"during": pd.Series([days], dtype=object)})
    description = describe({"frame": frame}, ["frame"], LIMIT)["frame"]
    assert "(2026-01-01 00:00:00, 2026-01-02 00:" in description


def test_describing_changes_nothing() -> None:
    box = {"a": [1, 2], "b": collections.defaultdict(list)}
    copied_table = CARS.copy()
    describe({"box": box, "cars": CARS, "it": iter([1])}, ["box", "cars", "it"], LIMIT)
    assert box == {"a": [1, 2], "b": {}}
    pd.testing.assert_frame_equal(CARS, copied_table)
