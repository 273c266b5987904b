"""Arrow and polars tables."""

from __future__ import annotations

import datetime
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from .columns import (
    BARS,
    BOOLEANS,
    DISTINCT,
    SAMPLE,
    SAMPLED_ROWS,
    TOP,
    Column,
    Condition,
    Deadline,
    InspectionError,
    ObjectColumn,
    Statistics,
    Table,
    cell_text,
    choose_decimals,
    compare,
    float_text,
    format_top_values,
    not_comparable,
    number_text,
)

_COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


class ArrowColumn:
    """A ChunkedArray."""

    def __init__(self, values: Any, type: str = "") -> None:
        self._values = values
        types = _arrow().types
        self._float = types.is_floating(values.type)
        self._number = self._float or types.is_integer(values.type) or types.is_decimal(values.type)
        self._text = types.is_string(values.type) or types.is_large_string(values.type)
        self._time = types.is_temporal(values.type)
        self.type = type or str(values.type)
        self.right = self._number
        self._decimals = (
            choose_decimals(values.slice(0, SAMPLED_ROWS).to_pylist()) if self._float else 1
        )

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        part = (
            self._values.slice(rows.start, len(rows))
            if isinstance(rows, range)
            else self._values.take(_arrow().array(list(rows), type="int64"))
        )
        if self._float:
            return [
                None if value is None else float_text(value, self._decimals)
                for value in part.to_pylist()
            ]
        return [cell_text(value) for value in part.to_pylist()]

    def value(self, row: int) -> Any:
        return self._values[row].as_py()

    def order(
        self, descending: bool, among: Sequence[int] | None, deadline: Deadline
    ) -> Sequence[int]:
        arrow = _arrow()
        rows = None if among is None else arrow.array(list(map(int, among)), type="int64")
        values = self._values if rows is None else self._values.take(rows)
        try:
            found = _compute().sort_indices(
                values, sort_keys=[("", "descending" if descending else "ascending")]
            )
        except (arrow.ArrowNotImplementedError, arrow.ArrowInvalid, arrow.ArrowTypeError):
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        order: Sequence[int] = (found if rows is None else rows.take(found)).to_pylist()
        return order

    def matching(self, condition: Condition, deadline: Deadline) -> Sequence[int]:
        compute, op = _compute(), condition.op
        if op in ("missing", "present"):
            gone = self._values.is_null(nan_is_null=True)
            fits = gone if op == "missing" else compute.invert(gone)
        elif op == "contains" and self._text:
            fits = compute.match_substring(
                self._values,
                condition.operand,
                ignore_case=not any(map(str.isupper, condition.operand)),
            )
        else:
            fits = getattr(compute, _COMPARISONS[{"contains": "=="}.get(op, op)])(
                self._values, self._operand(condition.operand)
            )
        found: Sequence[int] = compute.indices_nonzero(fits).to_pylist()
        return found

    def statistics(self, deadline: Deadline) -> Statistics:
        values, compute = self._values, _compute()
        missing = compute.sum(values.is_null(nan_is_null=self._float)).as_py() or 0
        deadline.check()
        if not (self._number or self._time) or missing == len(values):
            return Statistics(missing, top=self._top() if self._text else ())
        if self._float and missing:
            values = values.filter(compute.invert(values.is_null(nan_is_null=True)))
        try:
            ends = compute.min_max(values).as_py()
        except _arrow().ArrowNotImplementedError:
            return Statistics(missing)
        deadline.check()
        if self._time:
            return Statistics(missing, str(ends["min"]), str(ends["max"]))
        low, high = float(ends["min"]), float(ends["max"])
        return Statistics(
            missing,
            number_text(low),
            number_text(high),
            number_text(float(compute.mean(values).as_py())),
            _arrow_bars(values, low, high),
        )

    def _top(self) -> Sequence[str]:
        """Return the most common texts."""
        counted = self._values.drop_null().value_counts()
        if len(counted) > DISTINCT:
            return ()
        return format_top_values((each["values"], each["counts"]) for each in counted.to_pylist())

    def _operand(self, text: str) -> Any:
        try:
            if self._time:
                value: Any = datetime.datetime.fromisoformat(text)
            elif str(self._values.type) == "bool":
                value = BOOLEANS[text.lower()]
            else:
                value = float(text) if self._float else int(text) if self._number else text
            return _arrow().scalar(value, type=self._values.type)
        except (ValueError, KeyError, TypeError, _arrow().ArrowException):
            raise not_comparable(text, self.type) from None


class ArrowTable(Table):
    """An Arrow Table, or a ChunkedArray as its only column."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._names = getattr(value, "column_names", None)
        self.rows: int = len(value)
        self.columns: int = 1 if self._names is None else len(self._names)

    def name(self, column: int) -> str:
        return "" if self._names is None else str(self._names[column])

    def column(self, column: int) -> Column:
        return ArrowColumn(self.series(column))

    def series(self, column: int) -> Any:
        return self._value if self._names is None else self._value.column(column)

    def expression(self, column: int) -> str:
        return f".column({column})"

    def cell_expression(self, row: int, column: int) -> str:
        return f"[{row}]" if self._names is None else f".column({column})[{row}].as_py()"


def _arrow_bars(values: Any, low: float, high: float) -> Sequence[int]:
    width = (high - low) / BARS
    if not 0 < width < float("inf"):
        return ()
    compute, arrow = _compute(), _arrow()
    step = max(1, len(values) // SAMPLE)
    if step > 1:
        values = values.take(arrow.array(range(0, len(values), step)))
    bins = compute.floor(compute.divide(compute.subtract(values.cast("float64"), low), width))
    counts = [0] * BARS
    for one in compute.value_counts(bins).to_pylist():
        if one["values"] is not None:
            counts[max(0, min(BARS - 1, int(one["values"])))] += one["counts"]
    return counts


def _arrow() -> Any:
    """Return pyarrow, which is already loaded if there is one of its arrays."""
    return sys.modules["pyarrow"]


def _compute() -> Any:
    """Return pyarrow's compute functions, which load on first use."""
    return importlib.import_module("pyarrow.compute")


class PolarsColumn:
    """A polars Series."""

    def __init__(self, values: Any) -> None:
        self._values = values
        dtype = values.dtype
        self._float = dtype.is_float()
        self._temporal = dtype.is_temporal()
        self.type = str(dtype).partition("(")[0].lower()
        self.right = dtype.is_numeric()
        self._decimals = choose_decimals(values.head(SAMPLED_ROWS).to_list()) if self._float else 1

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        part = (
            self._values.slice(rows.start, len(rows))
            if isinstance(rows, range)
            else self._values.gather(list(rows))
        )
        if self._float:
            return [
                None if value is None else float_text(value, self._decimals) or "NaN"
                for value in part.to_list()
            ]
        return [cell_text(value) for value in part.to_list()]

    def value(self, row: int) -> Any:
        return self._values[row]

    def order(
        self, descending: bool, among: Sequence[int] | None, deadline: Deadline
    ) -> Sequence[int]:
        polars = sys.modules["polars"]
        rows = None if among is None else polars.Series(list(map(int, among)), dtype=polars.Int64)
        values = self._values if rows is None else self._values.gather(rows)
        if self._float:
            values = values.fill_nan(None)
        try:
            found = values.arg_sort(descending=descending, nulls_last=True)
        except polars.exceptions.PolarsError:
            raise InspectionError(f"Values of {self.type} cannot be sorted.") from None
        deadline.check()
        order: Sequence[int] = found if rows is None else rows.gather(found)
        return order

    def matching(self, condition: Condition, deadline: Deadline) -> Sequence[int]:
        values, op, operand = self._values, condition.op, condition.operand
        polars = sys.modules["polars"]
        try:
            if op in ("missing", "present"):
                fits = values.is_null() if op == "missing" else values.is_not_null()
            elif op == "contains" and values.dtype in (polars.String, polars.Categorical):
                texts = values.cast(polars.String)
                texts = texts if any(map(str.isupper, operand)) else texts.str.to_lowercase()
                fits = texts.str.contains(operand, literal=True)
            else:
                fits = compare(
                    values.fill_nan(None) if self._float else values, op, self._operand(operand)
                )
            found: Sequence[int] = fits.arg_true()
        except (polars.exceptions.PolarsError, NotImplementedError, TypeError):
            raise not_comparable(operand, self.type) from None
        return found

    def statistics(self, deadline: Deadline) -> Statistics:
        values = self._values
        missing = values.null_count()  # NaN is a value in polars
        if self._float:
            values = values.fill_nan(None)
        deadline.check()
        if not (self.right or self._temporal) or values.null_count() == len(values):
            return Statistics(missing, top=self._top())
        low, high = values.min(), values.max()
        deadline.check()
        if self._temporal:
            return Statistics(missing, cell_text(low) or "", cell_text(high) or "")
        mean = number_text(float(values.mean()))
        shown = (
            (number_text(float(low)), number_text(float(high)))
            if self._float
            else (str(low), str(high))
        )
        return Statistics(missing, *shown, mean, _polars_bars(values, float(low), float(high)))

    def _top(self) -> Sequence[str]:
        """Return the most common texts."""
        polars = sys.modules["polars"]
        if self._values.dtype not in (polars.String, polars.Categorical, polars.Enum):
            return ()
        counted = (
            self._values.drop_nulls().cast(polars.String).alias("value").value_counts(sort=True)
        )
        return (
            format_top_values(
                counted.head(TOP if counted["count"].max() != 1 else DISTINCT).iter_rows()
            )
            if len(counted) <= DISTINCT
            else ()
        )

    def _operand(self, text: str) -> Any:
        try:
            if self._temporal:
                moment = datetime.datetime.fromisoformat(text)
                return moment.date() if self.type == "date" else moment
            if self.right:
                return float(text) if self._float else int(text)
            if self.type == "boolean":
                return BOOLEANS[text.lower()]
            return text
        except (ValueError, KeyError):
            raise not_comparable(text, self.type) from None


class PolarsTable(Table):
    """A DataFrame, or a Series as its only column."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._frame = hasattr(value, "columns")
        self._names = value.columns if self._frame else [value.name]
        self.rows: int = value.shape[0]
        self.columns: int = len(self._names)

    def name(self, column: int) -> str:
        return str(self._names[column])

    def column(self, column: int) -> Column:
        series = self.series(column)
        return ObjectColumn(series) if str(series.dtype) == "Object" else PolarsColumn(series)

    def series(self, column: int) -> Any:
        return self._value.to_series(column) if self._frame else self._value

    def expression(self, column: int) -> str:
        return f"[{self._names[column]!r}]" if self._frame else ""

    def cell_expression(self, row: int, column: int) -> str:
        return f"[{row}, {column}]" if self._frame else f"[{row}]"


def _polars_bars(values: Any, low: float, high: float) -> Sequence[int]:
    polars = sys.modules["polars"]
    width = (high - low) / BARS
    if not 0 < width < float("inf"):
        return ()
    sample = values.drop_nulls().gather_every(max(1, len(values) // SAMPLE)).cast(polars.Float64)
    bins = ((sample - low) / width).cast(polars.Int64).clip(0, BARS - 1)
    counts = [0] * BARS
    for bin_number, count in bins.value_counts().rows():
        counts[bin_number] = count
    return counts
