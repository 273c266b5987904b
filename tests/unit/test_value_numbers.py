"""Which values of a variable are known to be equal, without running the user's code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.worker.cells.value_numbers import ValueNumbers
from tests.unit.test_descriptions import JSON, zoo


@pytest.fixture
def numbers() -> ValueNumbers:
    return started()


def started() -> ValueNumbers:
    numbers = ValueNumbers()
    numbers.start_cell(can_compare=True)
    return numbers


def test_no_user_code_runs(numbers: ValueNumbers) -> None:
    ran: list[str] = []
    objects = zoo(ran)
    ran.clear()
    for name, value in objects.items():
        numbers.start_cell(can_compare=True)
        numbers.assign_number(name, value)
        numbers.assign_number(name, [value, {"key": value}])
        assert ran == [], name


@given(JSON, JSON)
def test_plain_values_have_the_same_number_only_if_they_are_written_alike(
    value: Any, other: Any
) -> None:
    numbers = started()
    first = numbers.assign_number("v", value)
    assert first.number is not None
    assert numbers.assign_number("v", other).is_equal == (repr(value) == repr(other))
    assert numbers.assign_number("v", value).number == first.number


@given(st.lists(st.floats(), max_size=3), st.lists(st.floats(), max_size=3))
def test_tables_have_the_same_number_only_if_they_are_equal(
    values: list[float], others: list[float]
) -> None:
    for make in (np.array, pd.Series, lambda items: pd.DataFrame({"a": items})):
        numbers = started()
        numbers.assign_number("v", make(values))
        is_same = [float(value).hex() for value in values] == [float(o).hex() for o in others]
        assert numbers.assign_number("v", make(others)).is_equal == is_same


def test_labels_and_types_count() -> None:
    numbers = started()
    values = [
        pd.DataFrame({"a": [1]}),
        pd.DataFrame({"b": [1]}),
        pd.DataFrame({"b": [1.0]}),
        pd.DataFrame({"b": [1]}, index=["x"]),
        pd.Series([1], name="b"),
        np.array([1]),
        [1],
        (1,),
        1,
        True,
    ]
    assert len({numbers.assign_number("v", value).number for value in values}) == len(values)


def test_what_code_can_see_of_arrays_and_tables_beside_their_values_counts() -> None:
    numbers = started()
    array = np.ones((2, 3))
    read_only = array.copy()
    read_only.flags.writeable = False
    table = pd.DataFrame({"a": [1]})
    values = [
        array,
        read_only,
        np.asfortranarray(array),
        np.ones((2, 6))[:, ::2],
        [array],
        [read_only],
        table,
        table.set_flags(allows_duplicate_labels=False),
        table["a"],
        table["a"].set_flags(allows_duplicate_labels=False),
    ]
    assert len({numbers.assign_number("v", value).number for value in values}) == len(values)


def test_value_that_may_have_changed_is_not_compared(numbers: ValueNumbers) -> None:
    first = numbers.assign_number("v", 1)
    numbers.forget_current("v")
    assert numbers.assign_number("v", 1) == (first.number, False)
    numbers.start_cell(can_compare=False)
    assert numbers.assign_number("v", 1).number is None
    numbers.start_cell(can_compare=True)
    assert numbers.assign_number("v", 1) == (first.number, False)


def test_only_the_newest_values_are_remembered(numbers: ValueNumbers) -> None:
    first = numbers.assign_number("v", -1).number
    for value in range(100):
        numbers.assign_number("v", value)
    assert numbers.assign_number("v", 99).is_equal
    assert numbers.assign_number("v", -1).number != first


def test_another_kernel_has_other_numbers() -> None:
    assert started().assign_number("v", 1).number != started().assign_number("v", 1).number


@pytest.mark.parametrize(("row_count", "is_compared"), [(30_000, True), (60_000, False)])
def test_only_values_that_are_not_numbers_are_limited(row_count: int, is_compared: bool) -> None:
    numbers = started()
    columns = {"name": ["a", "b"] * (row_count // 2), "size": range(row_count), "price": 1.5}
    table = pd.DataFrame(columns).astype({"name": object})
    numbers.assign_number("v", table)
    numbers.start_cell(can_compare=True)
    assert numbers.assign_number("v", table.copy()).is_equal == is_compared
