"""Makes a table of the rows of a table that the inspector shows."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Union

from ...own import as_own
from ...statics import is_one_of
from ..pace import LookError, Pace
from .column import Table
from .known import table_of
from .pages import arranged

Column = Union[str, int]
"""A name, or a number from 0."""


def rows_of(value: Any, sort: Column | None, descending: bool, filters: Mapping[Column, str]) -> Any:
    """Return the rows of a table that match the filters, sorted, as an object of the same kind. Raises ValueError with a message for the user."""
    table = table_of(as_own(value))
    if table is None:
        raise ValueError("The value is not a table.")
    try:
        conditions = [(_number(table, column), str(condition)) for column, condition in filters.items()]
        rows = arranged(table, None if sort is None else (_number(table, sort), descending), conditions, Pace(float("inf")))
    except LookError as error:
        raise ValueError(str(error)) from None
    return _taken(value, rows)


def _number(table: Table, column: Column) -> int:
    if type(column) is int and 0 <= column < table.columns:
        return column
    found = [number for number in range(table.columns) if table.name(number) == column]
    if len(found) != 1:
        raise ValueError(
            f"There is no column {column!r}." if not found else f"{len(found)} columns are called {column!r}: give the number of the column."
        )
    return found[0]


def _taken(value: Any, rows: Sequence[int]) -> Any:
    places = [int(row) for row in rows]
    if type(value) is list:
        return [value[place] for place in places]
    if hasattr(value, "iloc"):
        return value.iloc[places]
    if is_one_of(value, "pyarrow", "Table", "ChunkedArray"):
        return value.take(sys.modules["pyarrow"].array(places, type="int64"))
    return value[places]
