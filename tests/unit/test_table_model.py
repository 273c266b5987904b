"""The rows, statistics and arrangement that the inspector keeps of a table."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mahtab_tui.kernel.inspector_client import (
    ColumnStatistics,
    Heading,
    InspectedObject,
    TableArrangement,
    TablePage,
)
from mahtab_tui.tui.inspector.table_model import (
    MAX_CACHED_BLOCKS,
    ROWS_PER_BLOCK,
    TableAnswer,
    TableModel,
    TableRequest,
)

ROW_COUNT = 5_000
STATISTICS = ColumnStatistics(0, "1", "9", "5", (1, 2), ())
FILTERED = TableArrangement(filters=((0, "> 5"),))


@pytest.fixture
def table() -> TableModel:
    opened = InspectedObject(
        path=(["name", "frame"],),
        type="DataFrame",
        summary="",
        kind="data",
        views=("table",),
        expression="frame",
        rows=ROW_COUNT,
        columns=1,
        size=0,
    )
    return TableModel(opened)


def answer(
    request: TableRequest | None, row_count: int = ROW_COUNT, total_row_count: int = ROW_COUNT
) -> TableAnswer:
    """Return the answer of a kernel whose table has these rows."""
    assert request is not None
    pages = []
    for block in request.blocks:
        start = block.block_number * ROWS_PER_BLOCK
        positions = tuple(range(start, min(start + ROWS_PER_BLOCK, row_count)))
        cells = tuple(str(position) for position in positions)
        pages.append(TablePage(row_count, total_row_count, 1, positions, None, (cells,)))
    headings = [Heading("n", "int64", True) for _ in request.heading_columns]
    return TableAnswer(request, headings, pages)


def show(table: TableModel, rows: range, column: Sequence[int] = (0,)) -> None:
    """Fetch the visible rows, and draw them."""
    request = table.take_table_request(rows, column)
    if request is not None:
        assert table.apply(answer(request))
    for row in rows:
        assert table.use_block(row) is not None


def test_statistics_of_a_table_that_has_changed_are_asked_for_again(table: TableModel) -> None:
    old_request = table.take_statistics_request([0], 0)
    assert old_request is not None
    assert table.take_statistics_request([0], 0) is None

    changed = answer(table.take_table_request(range(10), [0]), 7, 7)
    assert table.apply(changed)
    table.set_statistics(old_request, STATISTICS)
    assert table.statistics == {}
    new_request = table.take_statistics_request([0], 0)
    assert new_request is not None
    table.set_statistics(new_request, STATISTICS)
    assert table.statistics == {0: STATISTICS}


def test_headings_of_a_table_that_has_changed_are_asked_for_again(table: TableModel) -> None:
    show(table, range(10))
    request = table.take_table_request(range(ROWS_PER_BLOCK, ROWS_PER_BLOCK + 10), [0])
    assert table.apply(answer(request, 7, 7))
    request = table.take_table_request(range(7), [0])
    assert request is not None
    assert request.heading_columns == (0,)


def test_visible_rows_stay_cached(table: TableModel) -> None:
    show(table, range(ROWS_PER_BLOCK, ROWS_PER_BLOCK + 10))
    for number in range(2, MAX_CACHED_BLOCKS + 1):
        show(table, range(number * ROWS_PER_BLOCK, number * ROWS_PER_BLOCK + 10))
    # Draws the block that was fetched first, and fetches the one above it.
    table.use_block(ROWS_PER_BLOCK)
    show(table, range(ROWS_PER_BLOCK - 10, ROWS_PER_BLOCK + 10))
    assert table.use_block(2 * ROWS_PER_BLOCK) is None


def test_a_failed_arrangement_leaves_the_filtered_rows(table: TableModel) -> None:
    table.arrange(FILTERED, "filtering …")
    assert table.apply(answer(table.take_table_request(range(10), [0]), 10))
    assert table.row_count == 10

    table.arrange(TableArrangement((0, False)), "sorting …")
    table.arrange(TableArrangement((0, True)), "sorting …")
    assert table.row_count == ROW_COUNT
    assert table.revert()
    assert (table.arrangement, table.row_count) == (FILTERED, 10)
    assert not table.revert()
