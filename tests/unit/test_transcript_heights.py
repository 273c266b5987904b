"""Sums of heights agree with adding them up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.tui.transcript.viewport import Heights

heights_of_entries = st.lists(st.integers(0, 5), max_size=40)


def built(numbers: list[int]) -> Heights:
    heights = Heights()
    for number in numbers:
        heights.append(number)
    return heights


@given(
    heights_of_entries,
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 9)), max_size=10),
    st.integers(0, 20),
)
def test_sums_stay_right_through_appends_and_changes(
    numbers: list[int], changes: list[tuple[int, int]], more: int
) -> None:
    heights = built(numbers)
    for index, height in changes:
        if index < len(numbers):
            heights.set(index, height)
            numbers[index] = height
    heights.append(more)
    numbers.append(more)
    assert [heights.rows_before(index) for index in range(len(numbers) + 1)] == [
        sum(numbers[:index]) for index in range(len(numbers) + 1)
    ]
    assert heights.total == sum(numbers)


@given(heights_of_entries)
def test_every_row_is_found_in_its_entry(numbers: list[int]) -> None:
    heights = built(numbers)
    rows = [(index, row) for index, height in enumerate(numbers) for row in range(height)]
    assert [heights.find(row) for row in range(heights.total)] == rows
    assert heights.find(heights.total + 3) == (len(numbers), 3)
