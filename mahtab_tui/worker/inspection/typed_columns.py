"""Columns of Arrow and polars."""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import Any

from .cell_texts import cell_text, choose_decimals, float_text
from .columns import Column, Rows
from .conditions import Condition
from .limits import Deadline, InspectionError
from .number_column import NumberColumn
from .statistics import MAX_DISTINCT_VALUES, SAMPLED_ROWS, Statistics, format_top_values

_ARROW_KINDS = {
    "is_floating": "float",
    **dict.fromkeys(("is_integer", "is_decimal"), "int"),
    **dict.fromkeys(("is_string", "is_large_string"), "text"),
    "is_temporal": "time",
    "is_boolean": "bool",
}
"""The kinds of `_TypedColumn`, by the functions of `pyarrow.types` that recognise them."""
_ARROW_COMPARISONS = {
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
}
"""Functions of `pyarrow.compute`."""


class _TypedColumn(Column):
    """A column of a library that knows the type of its values; derived classes read them."""

    def __init__(self, values: Any, name: str, kind: str) -> None:
        """Choose how the values are written.

        Args:
            values: The library's object.
            name: The name of their type.
            kind: ``float``, ``int``, ``text``, ``time``, ``bool``, or empty for others.
        """
        self._values = values
        self.type = name
        self._kind = kind
        self.right = kind in ("float", "int")
        sample = range(min(SAMPLED_ROWS, len(values)))
        self._decimals = choose_decimals(self._read(sample)) if kind == "float" else 1

    def _read(self, rows: Rows) -> list[Any]:
        """Return some values as Python's objects; None for missing ones."""
        raise NotImplementedError

    def _local(self) -> Any:
        """Return the values, moments as they are shown, without their time zone."""
        raise NotImplementedError

    def _matching_texts(self, condition: Condition) -> Rows:
        """Return the rows whose texts fulfil a condition."""
        raise NotImplementedError

    def _count_missing(self) -> int:
        raise NotImplementedError

    def _count_texts(self) -> list[tuple[str, int]]:
        """Return different texts, at most one more than can be counted, each with its number."""
        raise NotImplementedError

    def texts(self, rows: Rows) -> list[str | None]:
        return list(map(self._format, self._read(rows)))

    def _format(self, value: Any) -> str | None:
        if self._kind == "float" and value is not None:
            return float_text(value, self._decimals)
        return cell_text(value)

    def numbers(self) -> Any:
        local_values = self._local().to_numpy()
        if local_values.dtype.kind == "O" and self.right:
            return local_values.astype("f8")
        return local_values

    def _converted(self) -> Column:
        """Return a column of numpy's values, or else of Python's."""
        if self._kind in ("float", "int", "time", "bool"):
            with suppress(ImportError):
                column = self._exact_column()
                if column is not None:
                    return column
                numbers = self.numbers()  # a missing one is NaN
                if numbers.dtype.kind in "biufmM":
                    return NumberColumn(numbers, self.type)
        return Column(self._read(range(len(self._values))), self.type)

    def _exact_column(self) -> NumberColumn | None:
        """Return whole numbers and truth values of which some are missing, without the floats with
        NaN that numpy would make of them; None for other values."""
        if self._kind not in ("int", "bool") or not self._count_missing():
            return None
        filler = 0 if self._kind == "int" else False
        numbers = self._values.fill_null(filler).to_numpy()
        if numbers.dtype.kind not in "iub":
            return None
        return NumberColumn(numbers, self.type, self._values.is_null().to_numpy())

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        if self._kind == "text" and condition.op not in ("missing", "present"):
            return self._matching_texts(condition)
        return self._converted().matching(condition, deadline)

    def statistics(self, deadline: Deadline) -> Statistics:
        column_statistics = Statistics(0)
        if self._kind in ("float", "int", "time"):
            column_statistics = self._converted().statistics(deadline)
        elif self._kind == "text":
            column_statistics = Statistics(0, top=format_top_values(self._count_texts()))
        return column_statistics._replace(missing=self._count_missing())


class ArrowColumn(_TypedColumn):
    """A column of Arrow, or of pandas with Arrow's values."""

    def __init__(self, values: Any, name: str = "") -> None:
        """Find the kind of the values.

        Args:
            values: A chunked array.
            name: The name of the type in pandas, which reads NaN as missing; empty in a table of
                Arrow.
        """
        self._nan_is_missing = bool(name)
        super().__init__(values, name or str(values.type), _arrow_kind(values.type))

    def _format(self, value: Any) -> str | None:
        if not self._nan_is_missing and type(value) is float and value != value:
            return "NaN"
        return super()._format(value)

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        if condition.op in ("missing", "present"):
            compute = _compute()
            fits = self._missing()
            if condition.op == "present":
                fits = compute.invert(fits)
            return compute.indices_nonzero(fits).to_pylist()
        return super().matching(condition, deadline)

    def _missing(self) -> Any:
        """Return an array of Arrow that says of each value whether it is missing."""
        is_float = self._kind == "float"
        return self._values.is_null(nan_is_null=is_float and self._nan_is_missing)

    def _read(self, rows: Rows) -> list[Any]:
        if isinstance(rows, range):
            selected_values = self._values.slice(rows.start, len(rows))
        else:
            selected_values = self._values.take(_arrow().array(list(rows), type="int64"))
        return selected_values.to_pylist()

    def _local(self) -> Any:
        if getattr(self._values.type, "tz", None) is None:
            return self._values
        return _compute().local_timestamp(self._values)

    def _matching_texts(self, condition: Condition) -> Rows:
        compute = _compute()
        op, operand = condition
        if op == "contains":
            ignore_case = condition.ignores_case
            fits = compute.match_substring(self._values, operand, ignore_case=ignore_case)
        else:
            fits = getattr(compute, _ARROW_COMPARISONS[op])(self._values, operand)
        return compute.indices_nonzero(fits).to_pylist()

    def _count_missing(self) -> int:
        return _compute().sum(self._missing()).as_py() or 0

    def _count_texts(self) -> list[tuple[str, int]]:
        counted = self._values.drop_null().value_counts()[: MAX_DISTINCT_VALUES + 1]
        return list(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist()))

    def value(self, row: int) -> Any:
        return self._values[row].as_py()

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        arrow = _arrow()
        rows = None
        values = self._values
        if among is not None:
            rows = arrow.array(list(map(int, among)), type="int64")
            values = values.take(rows)
        direction = "descending" if descending else "ascending"
        try:
            row_order = _compute().sort_indices(values, sort_keys=[("", direction)])
        except arrow.ArrowException:
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        if rows is not None:
            row_order = rows.take(row_order)
        return row_order.to_pylist()


class PolarsColumn(_TypedColumn):
    """A column of polars."""

    def __init__(self, values: Any) -> None:
        """values: a Series."""
        name = str(values.dtype).partition("(")[0].lower()
        super().__init__(values, name, _polars_kind(values.dtype))

    def _read(self, rows: Rows) -> list[Any]:
        if isinstance(rows, range):
            return self._values.slice(rows.start, len(rows)).to_list()
        return self._values.gather(list(rows)).to_list()

    def _format(self, value: Any) -> str | None:
        # NaN is not a missing value.
        if type(value) is float and value != value:
            return "NaN"
        return super()._format(value)

    def _local(self) -> Any:
        if getattr(self._values.dtype, "time_zone", None) is None:
            return self._values
        return self._values.dt.replace_time_zone(None)

    def _matching_texts(self, condition: Condition) -> Rows:
        texts = self._values.cast(sys.modules["polars"].String)
        if condition.op == "contains":
            if condition.ignores_case:
                texts = texts.str.to_lowercase()
            return texts.str.contains(condition.operand, literal=True).arg_true()
        return condition.compare(texts, condition.operand).arg_true()

    def _count_missing(self) -> int:
        return int(self._values.null_count())

    def _count_texts(self) -> list[tuple[str, int]]:
        texts = self._values.drop_nulls().cast(sys.modules["polars"].String)
        return texts.alias("value").value_counts().head(MAX_DISTINCT_VALUES + 1).rows()

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        if condition.op in ("missing", "present"):
            fits = self._values.is_null()
            if condition.op == "present":
                fits = ~fits
            return fits.arg_true()
        return super().matching(condition, deadline)

    def order(self, descending: bool, among: Rows | None, deadline: Deadline) -> Rows:
        polars = sys.modules["polars"]
        rows = None
        values = self._values
        if among is not None:
            rows = polars.Series(list(map(int, among)), dtype=polars.Int64)
            values = values.gather(rows)
        try:
            if self._kind == "float":
                values = values.fill_nan(None)
            row_order = values.arg_sort(descending=descending, nulls_last=True)
        except polars.exceptions.PolarsError:
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        return row_order if rows is None else rows.gather(row_order)


def _arrow_kind(dtype: Any) -> str:
    """Return the kind of a type of Arrow, as in `_TypedColumn`."""
    types = _arrow().types
    for test, kind in _ARROW_KINDS.items():
        if getattr(types, test)(dtype):
            return kind
    return ""


def _polars_kind(dtype: Any) -> str:
    """Return the kind of a type of polars, as in `_TypedColumn`."""
    polars = sys.modules["polars"]
    if dtype.is_float():
        return "float"
    if dtype.is_numeric():
        return "int"
    if dtype in (polars.String, polars.Categorical, polars.Enum):
        return "text"
    if dtype.is_temporal():
        return "time"
    return "bool" if dtype == polars.Boolean else ""


def _arrow() -> Any:
    return sys.modules["pyarrow"]


def _compute() -> Any:
    return importlib.import_module("pyarrow.compute")
