"""Tables of known libraries, and pages of them, sorted and filtered."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from ..values.objects import as_library_type, has_own_indexes, is_index, is_one_of, is_own_type
from .columns import Column, Deadline, InspectionError, cell_text, parse_condition
from .library_columns import (
    ArrowColumn,
    NumberColumn,
    PolarsColumn,
    column_of,
    has_foreign_zone,
)

MAX_COLUMNS = 5_000
SAMPLED_RECORDS = 200


class Table:
    """Reads columns one by one, because there may be thousands."""

    def __init__(
        self,
        value: Any,
        names: Sequence[Any],
        series: Callable[[int], Any],
        column: Callable[[Any], Column],
        code: str = "",
        cell_code: str = "[{row}]",
    ) -> None:
        """series: returns a column's object in the library. column: reads that. code, cell_code:
        formats of the code for a column and a value; empty if unknown."""
        self.series = series
        self.rows: int = len(value)
        self.columns: int = len(names)
        self._value = value
        self._names = names
        self._column = column
        self._code = code
        self._cell_code = cell_code

    def name(self, column: int) -> str:
        return str(self._names[column])

    def column(self, column: int) -> Column:
        """Raises `InspectionError` for unsupported types."""
        return self._column(self.series(column))

    def labels(self, rows: Sequence[int]) -> list[str] | None:
        """Return the labels of some rows; None if they are only numbered."""
        return None

    def expression(self, column: int) -> str:
        """Return code for a column, such as ``["price"]``; empty if unknown."""
        return self._code.format(name=self._names[column], column=column)

    def cell_expression(self, row: int, column: int) -> str:
        return self._cell_code.format(name=self._names[column], row=row, column=column)


class RecordTable(Table):
    def __init__(self, value: Any, names: Sequence[str]) -> None:
        def series(column: int) -> list[Any]:
            return list(_RecordValues(value, names[column]))

        super().__init__(value, names, series, Column, cell_code="[{row}][{name!r}]")

    def column(self, column: int) -> Column:
        return Column(_RecordValues(self._value, self._names[column]), "")


class _RecordValues(Sequence[Any]):
    def __init__(self, records: list[Any], key: str) -> None:
        self._records = records
        self._key = key

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, row: Any) -> Any:
        record = self._records[row]
        if type(record) is not dict:
            return None
        # A lookup would call `__eq__` of keys of other types.
        for key, value in list(record.items()):
            if type(key) is str and key == self._key:
                return value
        return None


def _record_table(value: object) -> RecordTable | None:
    if type(value) is not list or not value:
        return None
    names: dict[str, None] = {}
    for record in value[:SAMPLED_RECORDS]:
        if type(record) is not dict or len(record) > MAX_COLUMNS:
            return None
        for key in list(record):
            if type(key) is not str:
                return None
            names[key] = None
        if len(names) > MAX_COLUMNS:
            return None
    if names:
        return RecordTable(value, list(names))
    return None


class PandasTable(Table):
    def __init__(self, value: Any) -> None:
        if value.ndim == 2:
            codes = ".iloc[:, {column}]", ".iloc[{row}, {column}]"
            iloc = value.iloc
            super().__init__(value, value.columns, lambda at: iloc[:, at], column_of, *codes)
        else:
            cell = "[{row}]"
            if hasattr(value, "iloc"):
                cell = ".iloc[{row}]"
            super().__init__(value, [value.name], lambda _: value, column_of, cell_code=cell)

    def name(self, column: int) -> str:
        return key_text(self._names[column])

    def expression(self, column: int) -> str:
        if not self._code:
            return ""
        texts = [name if type(name) is str else None for name in self._names]
        name = texts[column]
        is_unique = name is not None and texts.count(name) == 1
        if is_unique:
            return f"[{name!r}]"
        return super().expression(column)

    def labels(self, rows: Sequence[int]) -> list[str] | None:
        index: Any = getattr(self._value, "index", None)
        if index is None:
            return None
        has_levels = hasattr(index, "levels")
        dtypes = index.dtypes if has_levels else [index.dtype]
        if not all(map(is_own_type, dtypes)) or any(map(has_foreign_zone, dtypes)):
            return None
        if isinstance(rows, range):
            selected_index = index[rows.start : rows.stop]
        else:
            selected_index = index[list(rows)]
        return [key_text(label) for label in selected_index.tolist()]


def key_text(value: object) -> str:
    if type(value) is tuple:
        return ", ".join(map(key_text, value))
    if (text := cell_text(value)) is None:
        return "—"
    return text


def as_table(value: Any) -> Table | None:
    if is_index(value) or (
        is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value)
    ):
        return PandasTable(value)
    if is_one_of(value, "polars", "DataFrame"):
        codes = "[{name!r}]", "[{row}, {column}]"
        return Table(value, value.columns, value.to_series, _polars_column, *codes)
    if is_one_of(value, "polars", "Series"):
        return Table(value, [value.name], lambda _: value, _polars_column)
    if is_one_of(value, "pyarrow", "Table"):
        codes = ".column({column})", ".column({column})[{row}].as_py()"
        return Table(value, value.column_names, value.column, ArrowColumn, *codes)
    if is_one_of(value, "pyarrow", "ChunkedArray"):
        return Table(value, [""], lambda _: value, ArrowColumn)
    if is_one_of(value, "numpy", "ndarray") and value.ndim in (1, 2):
        return _array_table(value)
    return _record_table(value)


def _array_table(value: Any) -> Table:
    names = value.dtype.names
    if names is not None:
        codes = "[{name!r}]", "[{name!r}][{row}]"
        return Table(value, names, lambda at: value[names[at]], _array_column, *codes)
    if value.ndim == 2:
        names = range(value.shape[1])
        codes = ("[:, {column}]", "[{row}, {column}]")
        return Table(value, names, lambda at: value[:, at], _array_column, *codes)
    return Table(value, [""], lambda _: value, _array_column)


def _array_column(values: Any) -> Column:
    if values.dtype.kind in "biufmMU" and values.ndim == 1:
        return NumberColumn(values)
    if values.dtype.kind in "OTcS":
        return Column(values)
    raise InspectionError(f"Values of the type {values.dtype} are not supported.")


def _polars_column(series: Any) -> Column:
    if str(series.dtype) == "Object":
        return Column(series)
    return PolarsColumn(series)


# Rows, sorted and filtered

Sort = Optional[Sequence[Any]]
"""A column, and whether the order is descending."""
Filters = Sequence[Sequence[Any]]


def arrange(table: Table, sort: Sort, filters: Filters, deadline: Deadline) -> Sequence[int]:
    row_numbers: Sequence[int] | None = None
    for column, text in filters:
        fitting = table.column(column).matching(parse_condition(text), deadline)
        if row_numbers is None:
            row_numbers = fitting
        else:
            matches = bytearray(table.rows)  # a set of ten million rows would take a gigabyte
            for row in row_numbers:
                matches[row] = 1
            deadline.check()
            row_numbers = [row for row in map(int, fitting) if matches[row]]
        deadline.check()
    if not sort:
        if row_numbers is None:
            return range(table.rows)
        return row_numbers
    return table.column(sort[0]).order(sort[1], row_numbers, deadline)


def page(
    table: Table,
    rows: Sequence[int] | None,
    start: int,
    stop: int,
    columns: Sequence[int],
    deadline: Deadline,
) -> dict[str, object]:
    page_rows: Sequence[int] = range(table.rows)[start:stop] if rows is None else rows[start:stop]
    if rows is not None:
        page_rows = list(map(int, page_rows))
    cells = []
    for column in columns:
        deadline.check()
        try:
            cells.append(table.column(column).texts(page_rows))
        except InspectionError:
            cells.append(["?"] * len(page_rows))
    return {
        "rows": table.rows if rows is None else len(rows),
        "of": table.rows,
        "columns": table.columns,
        "positions": list(page_rows),
        "labels": table.labels(page_rows),
        "cells": cells,
    }


def headings(table: Table, columns: Sequence[int]) -> list[dict[str, Any]]:
    cells = []
    for number in columns:
        if not 0 <= number < table.columns:
            continue
        try:
            column = table.column(number)
            about = {"type": column.type, "right": column.right}
        except InspectionError:
            about = {"type": "?", "right": False}
        cells.append({"name": table.name(number), **about})
    return cells


def rows_of(
    value: Any, sort: int | str | None, descending: bool, filters: Mapping[int | str, str]
) -> Any:
    """Raises ValueError with a sentence."""
    table = as_table(as_library_type(value))
    if table is None:
        raise ValueError("The value is not a table.")
    if sort is None:
        order = None
    else:
        order = (_find_column(table, sort), descending)
    conditions = [(_find_column(table, column), str(text)) for column, text in filters.items()]
    try:
        rows = list(map(int, arrange(table, order, conditions, Deadline(float("inf")))))
    except InspectionError as error:
        raise ValueError(str(error)) from None
    if type(value) is list:
        return [value[row] for row in rows]
    if hasattr(value, "iloc"):
        return value.iloc[rows]
    if is_one_of(value, "pyarrow", "Table", "ChunkedArray"):
        return value.take(sys.modules["pyarrow"].array(rows, type="int64"))
    return value[rows]


def _find_column(table: Table, column: int | str) -> int:
    if type(column) is int and 0 <= column < table.columns:
        return column
    positions = [number for number in range(table.columns) if table.name(number) == column]
    if not positions:
        raise ValueError(f"There is no column {column!r}.")
    if len(positions) > 1:
        raise ValueError(
            f"{len(positions):,} columns are called {column!r}: give the number of the column."
        )
    return positions[0]
