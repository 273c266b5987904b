"""Spans of a text, merged, and as the cells of a bar."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mahtab_tui.search.node import Coverage, Intervals

CHARS = 300
_SPANS = st.lists(st.tuples(st.integers(0, CHARS), st.integers(0, CHARS)), max_size=12)


@given(st.lists(_SPANS, max_size=8))
@settings(deadline=None)
def test_intervals_contain_what_was_added(batches: list[list[tuple[int, int]]]) -> None:
    intervals = Intervals()
    wanted: set[int] = set()
    for spans in batches:
        intervals.add(spans)
        wanted.update(offset for start, end in spans for offset in range(start, end))
    found = list(intervals)
    assert {offset for start, end in found for offset in range(start, end)} == wanted
    assert intervals.size == len(wanted)
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(_SPANS, st.integers(2, 5))
def test_too_many_intervals_are_merged_without_loss(
    spans: list[tuple[int, int]], limit: int
) -> None:
    intervals = Intervals(limit)
    intervals.add(spans)
    covered = {offset for start, end in intervals for offset in range(start, end)}
    assert len(intervals) <= limit
    assert covered >= {offset for start, end in spans for offset in range(start, end)}


def test_grid_cell_shows_its_most_advanced_state() -> None:
    coverage = Coverage(1000)
    coverage.add("handed", [(0, 500)])
    coverage.add("peek", [(0, 100)])
    coverage.add("grep", [(250, 251)])
    coverage.add("answer", [(990, 5000)])
    assert coverage.cells(10) == [
        ("peek", False),
        ("handed", False),
        ("grep", True),
        ("handed", False),
        ("handed", False),
        *[(None, False)] * 4,
        ("answer", True),
    ]
    assert coverage.seen == 0.111
    assert coverage.spans("answer") == [(990, 1000)]


@given(_SPANS, st.integers(1, 80))
def test_every_span_has_a_grid_cell_and_no_cell_is_extra(
    spans: list[tuple[int, int]], count: int
) -> None:
    coverage = Coverage(CHARS)
    coverage.add("grep", spans)
    cells = coverage.cells(count)
    assert len(cells) == count
    for start, end in coverage.spans("grep"):
        assert cells[start * count // CHARS].how == "grep"
        assert cells[(end - 1) * count // CHARS].how == "grep"
    filled = sum(cell.how is not None and not cell.sparse for cell in cells)
    assert filled / count <= 2 * coverage.seen


def test_an_empty_text_has_empty_cells() -> None:
    coverage = Coverage()
    coverage.add("peek", [(0, 10)])
    assert coverage.cells(3) == [(None, False)] * 3
    assert coverage.seen == 0.0
