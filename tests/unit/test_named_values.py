"""The values of tables that a question names, as a small model is told of them."""

from __future__ import annotations

from typing import Any

import pandas
import polars
import pytest

from mahtab_tui.worker.describing.named_values import named_values

CARS = {
    "Name": ["ford pinto", "Opel manta", "toyota corona"],
    "Origin": ["USA", "Europe", "Japan"],
    "Weight": [1, 2, 3],
}


def about(question: str, table: Any = None) -> str:
    namespace = {"cars": pandas.DataFrame(CARS) if table is None else table}
    return named_values(namespace, ["cars"], question).get("cars", "")


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("How many come from Japan?", "cars['Origin'] has the value 'Japan'"),
        ("Which japanese cars are there?", "cars['Origin'] has the value 'Japan'"),
        ("The heaviest of the Europeans?", "cars['Origin'] has the value 'Europe'"),
        ("Is the USA first?", "cars['Origin'] has the value 'USA'"),
        ("Where is the Ford Pinto from?", "cars['Name'] has the value 'ford pinto'"),
        ("How many are made by Ford?", "in cars['Name'] Ford is written 'ford'"),
        ("How many are made by Opel?", ""),
        ("How heavy is it for us?", ""),
        ("usa", ""),
        ("", ""),
    ],
)
def test_question_names_values_in_other_forms_and_spellings(question: str, statement: str) -> None:
    assert about(question) == statement


@pytest.mark.parametrize("library", ["polars", "arrow"])
def test_tables_of_each_library_are_read(library: str) -> None:
    table = polars.DataFrame(CARS)
    value: Any = table if library == "polars" else table.to_arrow()
    assert about("From Japan?", value) == "cars['Origin'] has the value 'Japan'"


def test_categories_are_read() -> None:
    table = pandas.DataFrame(CARS).astype({"Origin": "category"})
    assert about("From Japan?", table) == "cars['Origin'] has the value 'Japan'"


def test_a_column_with_many_matches_is_not_named() -> None:
    table = pandas.DataFrame({"city": ["Lima", "Oslo", "Bern", "Rome"]})
    assert about("Compare Lima, Oslo and Bern.", table).count("has the value") == 3
    assert about("Compare Lima, Oslo, Bern and Rome.", table) == ""


def test_a_word_with_two_spellings_is_not_corrected() -> None:
    table = pandas.DataFrame({"maker": ["ford a", "FORD b"]})
    assert about("How many are made by Ford?", table) == ""


def test_secrets_and_objects_that_are_no_tables_are_left_out() -> None:
    table = pandas.DataFrame({"password": ["Japan"]})
    assert about("From Japan?", table) == ""
    assert about("From Japan?", ["Japan"]) == ""
    assert named_values({"api_key": pandas.DataFrame(CARS)}, ["api_key"], "From Japan?") == {}
    assert named_values({}, ["gone"], "From Japan?") == {}


def test_code_of_the_user_does_not_run() -> None:
    class Text(str):
        def casefold(self) -> str:
            raise AssertionError

        __hash__ = str.__hash__

    table = pandas.DataFrame({"city": pandas.Series([Text("Lima")], dtype=object)})
    assert about("In Lima?", table) == ""


def test_long_questions_and_texts_take_linear_time() -> None:
    table = pandas.DataFrame({"city": [f"a {'b ' * 25}{number}" for number in range(30_000)]})
    assert about("a b " * 100_000, table) == ""
