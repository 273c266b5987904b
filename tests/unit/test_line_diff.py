"""The lines by which two texts differ: exact, and found in linear time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.worker.tools.line_diff import unified_diff

HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
LINES = st.lists(st.sampled_from("abcdefgh"), max_size=30)


def apply(old: Sequence[str], diff: Sequence[str]) -> list[str]:
    """Return the new lines that a diff makes of the old ones."""
    new: list[str] = []
    position = 0
    for line in diff:
        header = HEADER.fullmatch(line)
        if header is not None:
            start = int(header[1])
            if header[2] != "0":
                start -= 1
            new += old[position:start]
            position = start
            continue
        sign = line[0]
        if sign in " -":
            assert old[position] == line[1:]
            position += 1
        if sign in " +":
            new.append(line[1:])
    return [*new, *old[position:]]


@given(LINES, LINES, st.integers(0, 3))
def test_a_diff_makes_the_new_lines_of_the_old_ones(
    old: list[str], new: list[str], context_lines: int
) -> None:
    assert apply(old, unified_diff(old, new, context_lines)) == new


def test_a_diff_is_written_as_by_other_programs() -> None:
    old = ["one", "two", "three", "four", "five", "six", "seven"]
    new = ["one", "2", "three", "four", "five", "six", "seven", "eight"]
    assert unified_diff(old, new, 1) == [
        *("@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"),
        *("@@ -7 +7,2 @@", " seven", "+eight"),
    ]
    assert unified_diff([], ["one"], 2) == ["@@ -0,0 +1 @@", "+one"]
    assert unified_diff(old, old, 1) == []


def test_a_line_that_was_moved_is_the_only_difference() -> None:
    old = [f"line {index}" for index in range(200)]
    new = [*old[1:150], old[0], *old[150:]]
    changed_lines = [line for line in unified_diff(old, new, 0) if not line.startswith("@@")]
    assert changed_lines == ["-line 0", "+line 0"]


class CountedLine(str):
    """A line that counts how often it is compared."""

    comparison_count = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedLine.comparison_count += 1
        return str.__eq__(self, other)


def count_comparisons(old: Sequence[str], new: Sequence[str]) -> int:
    CountedLine.comparison_count = 0
    unified_diff([CountedLine(line) for line in old], [CountedLine(line) for line in new], 1)
    return CountedLine.comparison_count


def swapped(count: int) -> tuple[list[str], list[str]]:
    """Every two neighbours change places."""
    old = [str(index) for index in range(count)]
    return old, [old[index ^ 1] for index in range(count)]


def half_changed(count: int) -> tuple[list[str], list[str]]:
    old = [f"{index} old" if index % 2 else f"{index}" for index in range(count)]
    return old, [line.replace("old", "new") for line in old]


def repeated(count: int) -> tuple[list[str], list[str]]:
    """Few different lines, in other orders."""
    return [str(index % 90) for index in range(count)], [str(index % 91) for index in range(count)]


@pytest.mark.parametrize("make_lines", [swapped, half_changed, repeated])
def test_the_work_grows_with_the_number_of_lines(
    make_lines: Callable[[int], tuple[list[str], list[str]]],
) -> None:
    few_comparisons = count_comparisons(*make_lines(400))
    many_comparisons = count_comparisons(*make_lines(4_000))
    # A hundred times as many would be quadratic.
    assert many_comparisons < 30 * few_comparisons
