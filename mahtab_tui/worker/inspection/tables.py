"""Tables of known libraries: pages of them, sorted and filtered."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ..objects import as_library_type, has_own_indexes, is_index, is_one_of
from .arrow_tables import ArrowTable, PolarsTable
from .columns import Column, Deadline, InspectionError, ObjectColumn, Table, parse_condition
from .pandas_tables import MatrixTable, PandasTable

MOST = 5_000
"""Maximum number of columns; records with more keys are shown as a tree."""
SAMPLED_RECORDS = 200
"""Number of rows at the start of a list that decide whether it is a table, and its columns."""


class RecordTable(Table):
    """A list of dicts with string keys."""

    def __init__(self, rows: list[Any], names: Sequence[str]) -> None:
        self._rows = rows
        self._names = names
        self.rows = len(rows)
        self.columns = len(names)

    def name(self, column: int) -> str:
        return self._names[column]

    def column(self, column: int) -> Column:
        return ObjectColumn(_Values(self._rows, self._names[column]), "")

    def series(self, column: int) -> Any:
        values = _Values(self._rows, self._names[column])
        return [values[row] for row in range(len(self._rows))]

    def expression(self, column: int) -> str:
        return ""

    def cell_expression(self, row: int, column: int) -> str:
        return f"[{row}][{self._names[column]!r}]"


class _Values:
    """The values under one key."""

    def __init__(self, rows: list[Any], key: str) -> None:
        self._rows = rows
        self._key = key

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Any:
        record = self._rows[row]
        if type(record) is not dict:
            return None
        # A lookup would call `__eq__` of keys of other types.
        for key, value in list(record.items()):
            if type(key) is str and key == self._key:
                return value
        return None


def record_table(value: Any) -> RecordTable | None:
    """Return a list as a table if its first elements are all dicts with string keys, else None."""
    if type(value) is not list or not value:
        return None
    names: dict[str, None] = {}
    for record in value[:SAMPLED_RECORDS]:
        if type(record) is not dict or dict.__len__(record) > MOST:
            return None
        for key in list(record):
            if type(key) is not str:
                return None
            names[key] = None
        if len(names) > MOST:
            return None
    return RecordTable(value, list(names)) if names else None


def as_table(value: Any) -> Table | None:
    """Return an object as a table; None if it is not one, or if its library is not loaded."""
    if is_index(value) or (
        is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value)
    ):
        return PandasTable(value)
    if is_one_of(value, "polars", "DataFrame", "Series"):
        return PolarsTable(value)
    if is_one_of(value, "pyarrow", "Table", "ChunkedArray"):
        return ArrowTable(value)
    if is_one_of(value, "numpy", "ndarray") and value.ndim in (1, 2):
        return MatrixTable(value)
    return record_table(value)


Sort = Optional[Sequence[Any]]
"""A column, and whether the order is descending; None for the table's own order."""
Filters = Sequence[Sequence[Any]]
"""Columns, each with a condition typed by the user."""


class Arrangement:
    """Caches the rows of a table, as last sorted and filtered."""

    def __init__(self) -> None:
        self._last: tuple[Any, tuple[Any, ...], Sequence[int]] = None, (), ()
        """Table, request and rows, read and written as one tuple, because several threads ask."""

    def rows(
        self, value: Any, table: Table, sort: Sort, filters: Filters, deadline: Deadline
    ) -> Sequence[int] | None:
        """Return the positions of rows; None for all in the table's order."""
        if not sort and not filters:
            return None
        wanted = (
            table.rows,
            table.columns,
            tuple(sort) if sort else None,
            tuple(map(tuple, filters)),
        )
        of, before, rows = self._last
        if value is not of or wanted != before:
            rows = arrange(table, sort, filters, deadline)
            self._last = value, wanted, rows
        return rows


def arrange(table: Table, sort: Sort, filters: Filters, deadline: Deadline) -> Sequence[int]:
    """Return the positions of the rows that match all filters, sorted."""
    found: Sequence[int] | None = None
    for column, text in filters:
        fitting = table.column(column).matching(parse_condition(text), deadline)
        if found is None:
            found = fitting
        else:
            matches = bytearray(table.rows)  # a set of ten million rows would take a gigabyte
            for row in found:
                matches[row] = 1
            deadline.check()
            found = [row for row in map(int, fitting) if matches[row]]
        deadline.check()
    if not sort:
        return range(table.rows) if found is None else found
    return table.column(sort[0]).order(sort[1], found, deadline)


def page(
    table: Table,
    rows: Sequence[int] | None,
    start: int,
    stop: int,
    columns: Sequence[int],
    deadline: Deadline,
) -> dict[str, Any]:
    """Return some rows of some columns as texts."""
    total = table.rows if rows is None else len(rows)
    part: Sequence[int] = (
        range(min(start, total), min(stop, total))
        if rows is None
        else [int(row) for row in rows[start:stop]]
    )
    cells = []
    for column in columns:
        deadline.check()
        cells.append(_texts(table, column, part))
    return {
        "rows": total,
        "of": table.rows,
        "columns": table.columns,
        "positions": list(part),
        "labels": table.labels(part),
        "cells": cells,
    }


def headings(table: Table, columns: Sequence[int]) -> list[dict[str, Any]]:
    """Return name and type of some columns."""
    return [_heading(table, column) for column in columns if 0 <= column < table.columns]


def _heading(table: Table, number: int) -> dict[str, Any]:
    try:
        column = table.column(number)
    except InspectionError:
        return {"name": table.name(number), "type": "?", "right": False}
    return {"name": table.name(number), "type": column.type, "right": column.right}


def _texts(table: Table, number: int, rows: Sequence[int]) -> list[str | None]:
    try:
        return table.column(number).texts(rows)
    except InspectionError:
        return ["?"] * len(rows)


def rows_of(
    value: Any, sort: int | str | None, descending: bool, filters: Mapping[int | str, str]
) -> Any:
    """Return the rows of a table that match the filters, sorted, as an object of the same kind.
    Raises ValueError with a message for the user."""
    table = as_table(as_library_type(value))
    if table is None:
        raise ValueError("The value is not a table.")
    try:
        conditions = [
            (_number(table, column), str(condition)) for column, condition in filters.items()
        ]
        rows = arrange(
            table,
            None if sort is None else (_number(table, sort), descending),
            conditions,
            Deadline(float("inf")),
        )
    except InspectionError as error:
        raise ValueError(str(error)) from None
    return _take_rows(value, rows)


def _number(table: Table, column: int | str) -> int:
    if type(column) is int and 0 <= column < table.columns:
        return column
    found = [number for number in range(table.columns) if table.name(number) == column]
    if len(found) != 1:
        raise ValueError(
            f"There is no column {column!r}."
            if not found
            else f"{len(found)} columns are called {column!r}: give the number of the column."
        )
    return found[0]


def _take_rows(value: Any, rows: Sequence[int]) -> Any:
    numbers = [int(row) for row in rows]
    if type(value) is list:
        return [value[number] for number in numbers]
    if hasattr(value, "iloc"):
        return value.iloc[numbers]
    if is_one_of(value, "pyarrow", "Table", "ChunkedArray"):
        return value.take(sys.modules["pyarrow"].array(numbers, type="int64"))
    return value[numbers]
