"""What a model is told about the values of a table, compared with the values."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mahtab_tui.worker.describing import column_reader
from mahtab_tui.worker.describing.column_facts import facts_text
from mahtab_tui.worker.describing.description import Describer, describe_value
from mahtab_tui.worker.describing.number_texts import moment_text, number_text
from mahtab_tui.worker.describing.pandas_readers import pandas_reader

LIMIT = 2_250

# Reading the statements of a description

_LITERAL = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|True|False)(?: (\d+))?"""


def parse_count(text: str) -> int:
    return int(text.replace(",", ""))


def parse_list(text: str, repetitions: int = 1) -> Iterator[tuple[Any, int]]:
    """Return the listed values and their counts; repetitions: of values without a count."""
    assert re.sub(_LITERAL, "", text).replace(", ", "") == ""
    for value, number in re.findall(_LITERAL, text):
        yield ast.literal_eval(value), parse_count(number) if number else repetitions


def is_written_as(text: str, value: Any) -> bool:
    """Return whether a value is written as this text, perhaps rounded."""
    if isinstance(value, datetime):
        return bool(pd.Timestamp(text.removesuffix(" UTC")) == pd.Timestamp(value))
    if text.startswith("~"):
        return abs(float(text[1:]) - float(value)) <= abs(float(value)) * 1e-4
    return float(text) == float(value)


def check_statement(statement: str, values: Sequence[Any]) -> None:
    """Assert that a statement about a column is true. values: None if missing."""
    cut = re.fullmatch(r"first ([\d,]+) rows only: (.*)", statement)
    if cut:
        values = values[: parse_count(cut[1])]
        statement = cut[2].replace("none missing", "0 missing")
    missing = re.match(r"([\d,]+) missing(?:; |$)", statement)
    assert (parse_count(missing[1]) if missing else 0) == values.count(None)
    facts = statement[missing.end() :] if missing else statement
    present = [value for value in values if value is not None]
    for fact in filter(None, facts.split("; ")):
        check_part(fact, present)


def check_part(fact: str, present: Sequence[Any]) -> None:
    counts = Counter(present)
    numbers = [value for value in present if type(value) is not str and value == value]
    if match := re.fullmatch(r"only (.*)", fact):
        assert all(is_written_as(match[1], value) for value in numbers)
    elif match := re.fullmatch(r"([^'\"]+) to ([^'\"]+)", fact):
        assert is_written_as(match[1], min(numbers))
        assert is_written_as(match[2], max(numbers))
    elif fact == "all different":
        assert len(counts) == len(present)
    elif match := re.fullmatch(r"values(?: \((.*) each\))?: (.*)", fact):
        repetitions = parse_count(match[1]) if match[1] else 1
        assert Counter(dict(parse_list(match[2], repetitions))) == counts
    elif match := re.fullmatch(r"([\d,]+) different(?:, most often (.*))?", fact):
        assert parse_count(match[1]) == len(counts)
        commonest = dict(parse_list(match[2] or ""))
        assert all(counts[value] == number for value, number in commonest.items())
        assert list(commonest.values()) == [n for _, n in counts.most_common(len(commonest))]
    elif match := re.fullmatch(r"([\d,]+) NaN", fact):
        assert parse_count(match[1]) == sum(value != value for value in present)
    elif match := re.fullmatch(r"numbers as text(?:, except ([\d,]+))?", fact):
        other_values = sum(not re.fullmatch(r"-?\d[\d,]*(\.\d+)?", value) for value in present)
        assert other_values == (parse_count(match[1]) if match[1] else 0)
    elif match := re.fullmatch(r"mixed types: (.*)", fact):
        kinds = Counter(type(value).__name__ for value in present)
        pairs = re.findall(r"(\d+) (\w+)", match[1])
        assert {kind: int(number) for number, kind in pairs} == kinds
    else:
        assert fact == "numbers as objects"
        assert {type(value) for value in present} <= {int, float}


# Random tables

texts = st.text("ab1,.é'\"", min_size=1, max_size=5)
moments = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
COLUMNS: dict[str, tuple[st.SearchStrategy[Any], str]] = {
    "ints": (st.integers(-(2**53), 2**53), "int64"),
    "small ints": (st.integers(0, 40), "int8"),
    "floats": (st.none() | st.floats(-1e300, 1e300) | st.just(math.inf), "float64"),
    "nullable": (st.none() | st.integers(-5, 5), "Int64"),
    "bools": (st.booleans(), "bool"),
    "perhaps": (st.none() | st.booleans(), "boolean"),
    "few texts": (st.none() | st.sampled_from(["a", "b", "it's", "1"]), "str"),
    "texts": (st.none() | texts, "str"),
    "object texts": (st.none() | texts, "object"),
    "categories": (st.none() | st.sampled_from(["a", "b"]), "category"),
    "moments": (st.none() | moments, "datetime64[us]"),
    "zoned": (st.none() | moments, "datetime64[us, UTC]"),
    "mixed": (st.none() | st.booleans() | st.integers(-9, 9) | texts, "object"),
    "numbers": (st.none() | st.integers() | st.floats(-1e300, 1e300), "object"),
}


@st.composite
def tables(draw: st.DrawFn, kinds: Sequence[str]) -> dict[str, list[Any]]:
    size = draw(st.integers(0, 40))
    names = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4, unique=True))
    return {name: draw(st.lists(COLUMNS[name][0], min_size=size, max_size=size)) for name in names}


def statements(described: str, names: Sequence[str], before: str, separator: str) -> Iterator[str]:
    """Return what is said about each column. before, separator: patterns of what stands between its
    name and that."""
    for line, name in zip(described.split("\n")[1:], names, strict=False):
        match = re.fullmatch(rf"{name}{before}(?:{separator}(.*))?", line)
        assert match, line
        yield match[1] or ""


@pytest.fixture(params=["read in parts", "cut by the time"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_reader, "FIRST_ROWS", 5)
    monkeypatch.setattr(column_reader, "_NUMBERS_PER_PART", 7)
    monkeypatch.setattr(column_reader, "_TEXTS_PER_PART", 6)
    seconds = 60.0 if request.param == "read in parts" else 0.0
    monkeypatch.setattr(column_reader, "TABLE_TIMEOUT_S", seconds)


@pytest.mark.sample(1)
@pytest.mark.usefixtures("parts")
@settings(max_examples=60)
@given(tables(list(COLUMNS)))
def test_no_statement_about_a_table_of_pandas_is_false(table: dict[str, list[Any]]) -> None:
    frame = pd.DataFrame(
        {name: pd.Series(values, dtype=COLUMNS[name][1]) for name, values in table.items()}
    )
    text = describe_value("it", frame, LIMIT)
    # A small table is shown whole, without statements (see `test_descriptions`).
    assume("\ncolumns: " not in text)
    for statement, values in zip(
        statements(text, list(table), " [^:]+?", ": "), table.values(), strict=False
    ):
        check_statement(statement, values)


TYPED = [name for name, (_, dtype) in COLUMNS.items() if dtype != "object" and name != "zoned"]


@pytest.mark.usefixtures("parts")
@settings(max_examples=30)
@given(tables(TYPED), st.booleans())
def test_no_statement_about_a_table_of_polars_or_arrow_is_false(
    table: dict[str, list[Any]], is_polars: bool
) -> None:
    schema = {"ints": pa.int64(), "floats": pa.float64(), "moments": pa.timestamp("us")}
    arrow = pa.table({name: pa.array(values, schema.get(name)) for name, values in table.items()})
    frame = pl.DataFrame(table, strict=False) if is_polars else arrow
    text = describe_value("it", frame, LIMIT)
    for statement, values in zip(
        statements(text, list(table), " .*?: .*?", "  "), table.values(), strict=False
    ):
        check_statement(statement, values)


def test_rare_values_further_down_are_counted() -> None:
    country = ["USA"] * 3_372 + ["Palau", "Guam", "Thailand", "Micronesia"]
    text = describe_value("airports", pd.DataFrame({"country": country}), LIMIT)
    assert "values: 'USA' 3372, 'Palau' 1, 'Guam' 1, 'Thailand' 1, 'Micronesia' 1" in text


def test_large_table_says_how_many_rows_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_reader, "TABLE_TIMEOUT_S", 0.0)
    rows = 50_000
    frame = pd.DataFrame(
        {"n": np.arange(rows), "x": [1.0] * 9_000 + [None] * 41_000, "s": ["a"] * rows}
    )
    assert describe_value("it", frame, LIMIT).split("\n")[1:4] == [
        "n int64: first 10,000 rows only: none missing; 0 to 9999",
        "x float64: first 10,000 rows only: 1,000 missing; only 1",
        "s str: first 10,000 rows only: none missing; values: 'a' 10000",
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3, 3, *range(4, 40)], "1 to 39; 39 different"),
        (list(range(100, 200)), "100 to 199; all different"),
        ([1, 1_000, 20_000], "1 to 20000"),
        ([7.367222, 145.621384, 5.5], "5.5 to ~145.62"),
        ([7.367222, 9.5], "~7.3672 to 9.5"),
        ([0.000123, 123.456], "0.000123 to 123.456"),
        (
            ["1", "2", "3", "4", "5", "n/a", "n/a"],
            "values: 'n/a' 2, '1' 1, '2' 1, '3' 1, '4' 1, '5' 1; numbers as text, but 2 are not numbers: 'n/a'",
        ),
        (
            ["1", "2.5", "1,000", "n/a"],
            "values: '1', '2.5', '1,000', 'n/a'; numbers as text, but 1 is not a number: 'n/a'",
        ),
        (
            ["2026-01-02", "2025-12-31", "2026-01-02"],
            "'2025-12-31' to '2026-01-02'; 2 different; dates as text",
        ),
        (
            ["2024-01-05", "2024-02-30", "2024-03-09"],
            "'2024-01-05' to '2024-03-09'; all different; dates as text, but 1 is not a date: '2024-02-30'",
        ),
        (
            ["0000-00-00", "0000-00-00", "2024/3/9", "2024/3/8", "2024/12/10"],
            "values: '0000-00-00' 2, '2024/3/9' 1, '2024/3/8' 1, '2024/12/10' 1;"
            " dates as text, but 2 are not dates: '0000-00-00'",
        ),
        (["1/2/2026", "12/1/2026"], "values: '1/2/2026', '12/1/2026'; dates as text"),
        *(
            (dates, f"values: {', '.join(map(repr, dates))}; dates as text")
            for dates in (
                ["2024-01-01 9:00", "2024-01-01 10:00"],
                ["2024-12-31", "2024/01/01"],
                ["2024-01-01T00:30+02:00", "2024-01-01T00:00+00:00"],
                ["2024-01-01T09:00", "2024-01-01 10:00"],
                ["2024-01-01 10:00:00Z", "2024-01-01 10:00:00.5Z"],
                ["Jan 1 2000", "September 30, 2004", "Sept. 3, 2004"],
                ["1-Feb-00", "30 may 2004 10:00"],
            )
        ),
        (
            ["2024-01-01T00:30+02:00", "2023-12-31T23:59+02:00"],
            "'2023-12-31T23:59+02:00' to '2024-01-01T00:30+02:00'; all different; dates as text",
        ),
        (["a", "b", "c"] * 3, "values (3 each): 'a', 'b', 'c'"),
        (["Mary 1 2000", "May 2000", "Jan 1"], "values: 'Mary 1 2000', 'May 2000', 'Jan 1'"),
        (["x" * 500] * 3, ""),
        ([2**300, 1], "numbers as objects"),
    ],
)
def test_what_the_type_does_not_say_is_stated(values: list[Any], expected: str) -> None:
    reader = pandas_reader(pd.Series(values))
    assert reader is not None
    reader.read(0, len(values))
    assert facts_text(reader.facts(len(values)), 30, 400, 70) == expected


def test_repetitions_in_a_column_with_the_name_of_a_key_are_counted() -> None:
    frame = pd.DataFrame({"order_id": [10**6, 5, 700, *range(10**7, 10**9, 10**7), 10**7]})
    assert "5 to 990000000; 102 different" in describe_value("it", frame, LIMIT)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (np.float32(0.1), "0.1"),
        (1 / 3, "~0.33333"),
        (np.int64(-5), "-5"),
        (1e300, "1e+300"),
        (float("inf"), "inf"),
        (10**30, "~1e+30"),
        (1_234_567_890, "1234567890"),
    ],
)
def test_number_is_written_exactly_or_marked(value: Any, text: str) -> None:
    assert number_text(value) == text


def test_descriptions_are_kept_until_a_cell_has_run() -> None:
    frame = pd.DataFrame({"n": range(10)})
    version: list[int | None] = [1]
    describer = Describer({"frame": frame, "gone": 1}, lambda: version[0])

    def read() -> str:
        return describer.describe(["frame", "no such name"], LIMIT)["frame"]

    first_description = read()
    frame.loc[0, "n"] = 99
    assert read() == first_description
    version[0] = 2
    assert "1 to 99" in read()
    version[0] = None  # a cell runs
    frame.loc[0, "n"] = 100
    assert "1 to 100" in read()
    version[0] = 3
    assert "1 to 100" in read()


def test_moment_is_written_with_what_it_has() -> None:
    assert moment_text(0, "D") == "1970-01-01"
    assert moment_text(-1, "ms") == "1969-12-31 23:59:59.999"
    assert moment_text(90_000_000_000_500, "ns", "UTC") == "1970-01-02 01:00:00.0000005 UTC"
    assert moment_text(10**7, "D") == ""
