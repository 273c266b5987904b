"""numpy arrays as tables."""

from __future__ import annotations

from typing import Any

from ..pace import LookError
from .column import Column, Table
from .numbers import NumberColumn
from .objects import ObjectColumn


class MatrixTable(Table):
    """A numpy array of one or two dimensions; its columns are those of the second dimension, or the fields of a record array."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._fields: tuple[str, ...] = value.dtype.names or ()
        self.rows: int = value.shape[0]
        self.columns: int = len(self._fields) or (value.shape[1] if value.ndim == 2 else 1)

    def name(self, column: int) -> str:
        return self._fields[column] if self._fields else str(column) if self._value.ndim == 2 else ""

    def column(self, column: int) -> Column:
        values = self.series(column)
        if values.dtype.kind in "biufcmMUS" and values.ndim == 1:
            return NumberColumn(values)
        if values.dtype.kind in "OT":
            return ObjectColumn(values)
        raise LookError(f"Values of the type {values.dtype} are not supported.")

    def series(self, column: int) -> Any:
        if self._fields:
            return self._value[self._fields[column]]
        return self._value[:, column] if self._value.ndim == 2 else self._value

    def expression(self, column: int) -> str:
        if self._fields:
            return f"[{self._fields[column]!r}]"
        return f"[:, {column}]" if self._value.ndim == 2 else ""

    def cell_expression(self, row: int, column: int) -> str:
        if self._fields:
            return f"[{self._fields[column]!r}][{row}]"
        return f"[{row}, {column}]" if self._value.ndim == 2 else f"[{row}]"
