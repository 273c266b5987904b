"""polars tables."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from typing import Any

from ..cells import cell_text, decimals_of, float_text, number_text
from ..pace import LookError, Pace
from .column import (
    BARS,
    BOOLEANS,
    DISTINCT,
    LOOKED_AT,
    SAMPLE,
    TOP,
    Column,
    Condition,
    Statistics,
    Table,
    compare,
    not_comparable,
    top_values,
)
from .objects import ObjectColumn


class PolarsColumn:
    """A polars Series."""

    def __init__(self, values: Any) -> None:
        self._values = values
        dtype = values.dtype
        self._float = dtype.is_float()
        self._temporal = dtype.is_temporal()
        self.type = str(dtype).partition("(")[0].lower()
        self.right = dtype.is_numeric()
        self._decimals = decimals_of(values.head(LOOKED_AT).to_list()) if self._float else 1

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

    def order(self, descending: bool, among: Sequence[int] | None, pace: Pace) -> Sequence[int]:
        polars = sys.modules["polars"]
        rows = None if among is None else polars.Series(list(map(int, among)), dtype=polars.Int64)
        values = self._values if rows is None else self._values.gather(rows)
        if self._float:
            values = values.fill_nan(None)
        try:
            found = values.arg_sort(descending=descending, nulls_last=True)
        except polars.exceptions.PolarsError:
            raise LookError(f"Values of {self.type} cannot be sorted.") from None
        pace.check()
        taken: Sequence[int] = found if rows is None else rows.gather(found)
        return taken

    def matching(self, condition: Condition, pace: Pace) -> Sequence[int]:
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

    def statistics(self, pace: Pace) -> Statistics:
        values = self._values
        missing = values.null_count()  # NaN is a value in polars
        if self._float:
            values = values.fill_nan(None)
        pace.check()
        if not (self.right or self._temporal) or values.null_count() == len(values):
            return Statistics(missing, top=self._top())
        low, high = values.min(), values.max()
        pace.check()
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
            top_values(counted.head(TOP if counted["count"].max() != 1 else DISTINCT).iter_rows())
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
    places = ((sample - low) / width).cast(polars.Int64).clip(0, BARS - 1)
    counts = [0] * BARS
    for place, count in places.value_counts().rows():
        counts[place] = count
    return counts
