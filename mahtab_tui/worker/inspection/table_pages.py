"""Sorts and filters the rows of a `Table`, and returns pages of them, and headings of columns."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ..values.objects import as_library_type, is_one_of
from .conditions import parse_condition
from .limits import Deadline, InspectionError
from .tables import Table, as_table

Sort = Optional[Sequence[Any]]
"""The number of a column, and whether the order is descending; None for the table's own order."""
Filters = Sequence[Sequence[Any]]
"""Pairs of the number of a column and a condition as the user wrote it. Like `Sort`, they come as
JSON."""


def arrange(table: Table, sort: Sort, filters: Filters, deadline: Deadline) -> Sequence[int]:
    """Return the numbers of the rows that fulfil all conditions, in order.

    Raises:
        InspectionError: A column cannot be sorted, or cannot be compared with its condition.
    """
    rows = _filter_rows(table, filters, deadline)
    if sort:
        column, is_descending = sort
        return table.column(column).order(is_descending, rows, deadline)
    return range(table.rows) if rows is None else rows


def _filter_rows(table: Table, filters: Filters, deadline: Deadline) -> Sequence[int] | None:
    """Return the numbers of the rows that fulfil all conditions; None if there are no conditions."""
    rows: Sequence[int] | None = None
    for column, condition in filters:
        fitting_rows = table.column(column).matching(parse_condition(condition), deadline)
        if rows is None:
            rows = fitting_rows
        else:
            rows = _intersect(rows, fitting_rows, table.rows, deadline)
        deadline.check()
    return rows


def page(
    table: Table,
    rows: Sequence[int] | None,
    start: int,
    stop: int,
    columns: Sequence[int],
    deadline: Deadline,
) -> dict[str, object]:
    """Return a part of a table.

    Args:
        table: The table.
        rows: The numbers of its rows in order, as `arrange` returns them; None for all.
        start: The first position to return.
        stop: The position after the last one.
        columns: The columns to return.
        deadline: When reading has to end.

    Returns:
        `rows`: how many rows `rows` has. `of`: how many rows the table has. `columns`: how many
        columns the table has. `positions` and `labels`: the numbers and the labels of the rows on
        this page. `cells`: for each column, the texts of these rows.
    """
    ordered_rows = range(table.rows) if rows is None else rows
    page_rows: Sequence[int] = ordered_rows[start:stop]
    if rows is not None:
        page_rows = list(map(int, page_rows))
    cells = []
    for column in columns:
        deadline.check()
        try:
            cells.append(table.column(column).texts(page_rows))
        except InspectionError:
            # The type of the column is not supported.
            cells.append(["?"] * len(page_rows))
    return {
        "rows": len(ordered_rows),
        "of": table.rows,
        "columns": table.columns,
        "positions": list(page_rows),
        "labels": table.labels(page_rows),
        "cells": cells,
    }


def headings(table: Table, columns: Sequence[int]) -> list[dict[str, object]]:
    """Return names and types of columns, and whether their values are right-aligned.

    Columns that do not exist are left out.
    """
    column_headings: list[dict[str, object]] = []
    for number in columns:
        if not 0 <= number < table.columns:
            continue
        heading: dict[str, object] = {"name": table.name(number), "type": "?", "right": False}
        try:
            column = table.column(number)
            heading.update(type=column.type, right=column.is_right_aligned)
        except InspectionError:
            pass  # the type is unknown
        column_headings.append(heading)
    return column_headings


def rows_of(
    value: Any, sort: int | str | None, descending: bool, filters: Mapping[int | str, str]
) -> Any:
    """Return a table with the rows that fulfil all conditions, as an object of the same library.

    Args:
        value: The table.
        sort: The number or name of a column; None for the table's own order.
        descending: Whether the largest values come first.
        filters: Conditions as in the inspector, by number or name of a column.

    Raises:
        ValueError: There is no such table, column or condition; the message is a sentence.
    """
    table = as_table(as_library_type(value))
    if table is None:
        raise ValueError("The value is not a table.")
    order = None if sort is None else (_find_column(table, sort), descending)
    conditions = [(_find_column(table, column), str(text)) for column, text in filters.items()]
    try:
        rows = list(map(int, arrange(table, order, conditions, Deadline(float("inf")))))
    except InspectionError as error:
        raise ValueError(str(error)) from None
    return _take_rows(value, rows)


def _take_rows(value: Any, rows: Sequence[int]) -> Any:
    """Return some rows of a table as an object of its library."""
    if type(value) is list:
        return [value[row] for row in rows]
    if hasattr(value, "iloc"):
        return value.iloc[rows]
    if is_one_of(value, "pyarrow", "Table", "ChunkedArray"):
        return value.take(sys.modules["pyarrow"].array(rows, type="int64"))
    return value[rows]


def _intersect(
    rows: Sequence[int], other_rows: Sequence[int], row_count: int, deadline: Deadline
) -> list[int]:
    """Return the numbers that are in both sequences, in the order of the second.

    Args:
        row_count: The number of rows of the table.
    """
    # A set of ten million rows would take a gigabyte.
    is_in_rows = bytearray(row_count)
    for row in rows:
        is_in_rows[row] = 1
    deadline.check()
    return [row for row in map(int, other_rows) if is_in_rows[row]]


def _find_column(table: Table, column: int | str) -> int:
    """Return the number of a column. Raises `ValueError` if there is not exactly one."""
    if type(column) is int and 0 <= column < table.columns:
        return column
    numbers = range(table.columns)
    positions = [number for number in numbers if table.is_called(number, column)]
    if not positions:
        # The inspector shows long names cut, and control characters as escapes.
        positions = [number for number in numbers if table.name(number) == column]
    if not positions:
        raise ValueError(f"There is no column {column!r}.")
    if len(positions) > 1:
        raise ValueError(
            f"{len(positions):,} columns are called {column!r}: give the number of the column."
        )
    return positions[0]
