"""Tables of known libraries, read in one way: `as_table` returns a `Table`, whose columns are read
one by one (`columns.py`), because there may be thousands."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Callable, NamedTuple

from ..values.objects import MISSING, has_own_indexes, is_index, is_one_of, is_own_type
from .cell_texts import cell_text
from .columns import Column
from .library_columns import column_of, has_foreign_zone
from .limits import InspectionError
from .numpy_column import NumPyColumn
from .typed_columns import ArrowColumn, PolarsColumn

MAX_COLUMNS = 5_000
"""Keys of records that make a table."""
SAMPLED_RECORDS = 200
"""Records of a list that are looked at to see whether it is a table."""


class TableCode(NamedTuple):
    """Formats of code, with the fields `name` and `column` (of a column) and `row`."""

    column: str = ""
    """Follows the table's name, and means a column; empty if there is no such code."""
    cell: str = "[{row}]"
    """Follows the table's name, and means a value."""


_PLAIN_CODE = TableCode()


class Table:
    """A table whose columns are objects of its library."""

    def __init__(
        self,
        value: Any,
        names: Sequence[Any],
        series: Callable[[int], Any],
        column: Callable[[Any], Column],
        code: TableCode = _PLAIN_CODE,
    ) -> None:
        """Describe how to read a table.

        Args:
            value: The table.
            names: The names of its columns.
            series: Returns a column's object in the library.
            column: Reads such an object. Raises `InspectionError` for unsupported types.
            code: How code names its columns and values.
        """
        self.series = series
        self.rows: int = len(value)
        self.columns: int = len(names)
        self._value = value
        self._names = names
        self._column = column
        self._code = code

    def name(self, column: int) -> str:
        """Return the name of a column as text."""
        return str(self._names[column])

    def is_called(self, column: int, label: int | str) -> bool:
        """Return whether a column has exactly this text or number as its label."""
        name = self._names[column]
        if type(label) is str:
            return type(name) is str and name == label
        is_bool = name is True or name is False
        return isinstance(name, Integral) and not is_bool and int(name) == label

    def column(self, column: int) -> Column:
        """Return what reads a column. Raises `InspectionError` for unsupported types."""
        return self._column(self.series(column))

    def labels(self, rows: Sequence[int]) -> list[str] | None:
        """Return the labels of some rows; None if they are only numbered."""
        return None

    def expression(self, column: int) -> str:
        """Return code for a column, such as ``["price"]``; empty if unknown."""
        return self._code.column.format(name=self._names[column], column=column)

    def cell_expression(self, row: int, column: int) -> str:
        """Return code for a value, such as ``["price"][3]``."""
        return self._code.cell.format(name=self._names[column], row=row, column=column)


class RecordTable(Table):
    """A list of dicts with text as keys."""

    def __init__(self, value: Any, names: Sequence[str]) -> None:
        def series(column: int) -> list[Any]:
            return list(_RecordValues(value, names[column]))

        super().__init__(value, names, series, Column, TableCode(cell="[{row}][{name!r}]"))

    def column(self, column: int) -> Column:
        return Column(_RecordValues(self._value, self._names[column]), "")

    def cell_expression(self, row: int, column: int) -> str:
        """Return code for a value; empty for a record without the key."""
        if _RecordValues(self._value, self._names[column]).find(row) is MISSING:
            return ""
        return super().cell_expression(row, column)


class _RecordValues(Sequence[Any]):
    """The values that records have for a key; None for records without it."""

    def __init__(self, records: list[Any], key: str) -> None:
        self._records = records
        self._key = key

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, row: Any) -> Any:
        value = self.find(row)
        return None if value is MISSING else value

    def find(self, row: Any) -> Any:
        """Return the value of a record; `MISSING` for one without the key."""
        record = self._records[row]
        if type(record) is not dict:
            return MISSING
        # A lookup would call `__eq__` of keys of other types.
        for key, value in list(record.items()):
            if type(key) is str and key == self._key:
                return value
        return MISSING


def _record_table(value: object) -> RecordTable | None:
    """Return a list of dicts as a table; None for other objects."""
    if type(value) is not list or not value:
        return None
    names: dict[str, None] = {}
    for record in value[:SAMPLED_RECORDS]:
        if type(record) is not dict or len(record) > MAX_COLUMNS:
            return None
        keys = list(record)
        if any(type(key) is not str for key in keys):
            return None
        names.update(dict.fromkeys(keys))
        if len(names) > MAX_COLUMNS:
            return None
    return RecordTable(value, list(names)) if names else None


class PandasTable(Table):
    """A table, a column or an index of pandas."""

    def __init__(self, value: Any) -> None:
        if value.ndim == 2:
            code = TableCode(".iloc[:, {column}]", ".iloc[{row}, {column}]")

            # Not a method: a table that refers to itself would live until a garbage collection.
            def series(column: int) -> Any:
                return value.iloc[:, column]

            super().__init__(value, value.columns, series, column_of, code)
        else:
            # An index has no `iloc`.
            code = TableCode(cell=".iloc[{row}]" if hasattr(value, "iloc") else "[{row}]")
            super().__init__(value, [value.name], lambda column: value, column_of, code)

    def name(self, column: int) -> str:
        return key_text(self._names[column])

    def expression(self, column: int) -> str:
        if not self._code.column:
            return ""
        texts = [name for name in self._names if type(name) is str]
        name = self._names[column]
        if type(name) is str and texts.count(name) == 1:
            return f"[{name!r}]"
        return super().expression(column)

    def labels(self, rows: Sequence[int]) -> list[str] | None:
        index: Any = getattr(self._value, "index", None)
        if index is None:
            return None
        # A MultiIndex has a type for each level.
        dtypes = index.dtypes if hasattr(index, "levels") else [index.dtype]
        if not all(map(is_own_type, dtypes)) or any(map(has_foreign_zone, dtypes)):
            return None
        if isinstance(rows, range):
            selected_index = index[rows.start : rows.stop]
        else:
            selected_index = index[list(rows)]
        return [key_text(label) for label in selected_index.tolist()]


def key_text(value: object) -> str:
    """Return the label of a row or a column as text."""
    if type(value) is tuple:
        return ", ".join(map(key_text, value))
    text = cell_text(value)
    return "—" if text is None else text


def as_table(value: Any) -> Table | None:
    """Return how an object is read as a table; None if it is not one."""
    if is_index(value):
        return PandasTable(value)
    if is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value):
        return PandasTable(value)
    if is_one_of(value, "polars", "DataFrame"):
        code = TableCode("[{name!r}]", "[{row}, {column}]")
        return Table(value, value.columns, value.to_series, _polars_column, code)
    if is_one_of(value, "polars", "Series"):
        return Table(value, [value.name], lambda column: value, _polars_column)
    if is_one_of(value, "pyarrow", "Table"):
        code = TableCode(".column({column})", ".column({column})[{row}].as_py()")
        return Table(value, value.column_names, value.column, ArrowColumn, code)
    if is_one_of(value, "pyarrow", "ChunkedArray"):
        return Table(value, [""], lambda column: value, ArrowColumn)
    if is_one_of(value, "numpy", "ndarray") and value.ndim in (1, 2):
        return _array_table(value)
    return _record_table(value)


def _array_table(value: Any) -> Table:
    """Return how an array of one or two dimensions, or of records, is read."""
    names = value.dtype.names
    if names is not None:
        code = TableCode("[{name!r}]", "[{name!r}][{row}]")
        return Table(value, names, lambda column: value[names[column]], _array_column, code)
    if value.ndim == 2:
        numbers = range(value.shape[1])
        code = TableCode("[:, {column}]", "[{row}, {column}]")
        return Table(value, numbers, lambda column: value[:, column], _array_column, code)
    return Table(value, [""], lambda column: value, _array_column)


def _array_column(values: Any) -> Column:
    if values.dtype.kind in "biufmMU" and values.ndim == 1:
        return NumPyColumn(values)
    if values.dtype.kind in "OTcS":
        return Column(values)
    raise InspectionError(f"Values of the type {values.dtype} are not supported.")


def _polars_column(series: Any) -> Column:
    if str(series.dtype) == "Object":
        return Column(series)
    return PolarsColumn(series)
