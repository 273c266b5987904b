"""What is probably wrong with a result, by its output."""

from __future__ import annotations

import numpy
import pandas
import pytest

from mahtab_tui.session.output_doubts import output_doubts

NO_CARS = pandas.DataFrame({"name": ["ford"]}).query("name == 'opel'")


@pytest.mark.parametrize(
    "output",
    [
        "nan\n",
        "Rows: 3\nThe mean price is: nan",
        "mean = nan.",
        repr(numpy.float64("nan")),
        "@mean_fare[nan], @fares[3]",
    ],
)
def test_a_number_that_could_not_be_computed_is_told(output: str) -> None:
    (sentence,) = output_doubts(output)
    assert sentence.startswith("a result is nan")


@pytest.mark.parametrize(
    "output", [str(NO_CARS), str(NO_CARS["name"]), "Opels:\n" + str(NO_CARS), "[]"]
)
def test_a_table_without_rows_is_told(output: str) -> None:
    (sentence,) = output_doubts(output)
    assert sentence.startswith("a result has no rows")


@pytest.mark.parametrize("name", [None, "year"])
def test_a_condition_in_place_of_rows_is_told(name: str | None) -> None:
    (sentence,) = output_doubts(str(pandas.Series(range(99), name=name) > 80))
    assert sentence.startswith("a result is True or False for each row")


@pytest.mark.parametrize(
    "output",
    [
        str(pandas.DataFrame({"name": ["ford"]}).isna().any()),
        str(pandas.Series(range(99))),
        str(pandas.DataFrame({"name": ["ford", None], "price": [float("nan"), 2.5]})),
        str(pandas.Series(["ford", float("nan")]).unique()),
        str([float("nan"), 2.5]),
        "The names are: nan, ford",
        "Cars without a price: 3",
        "nancy",
        "[[], [1]]",
        "x" * 400 + "\nnan",
    ],
)
def test_missing_values_among_others_are_no_fault(output: str) -> None:
    assert list(output_doubts(output)) == []
