"""pandas tables, and their categorical columns."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ...library_types import is_index, is_own_type
from ...statics import is_one_of, module_of
from ...summary import type_name
from ..cells import ZONES, cell_text, key_text
from ..pace import LookError, Pace
from .arrow import ArrowColumn
from .column import DISTINCT, Column, Condition, Statistics, Table, as_slice, top_values
from .numbers import NumberColumn
from .objects import ObjectColumn


class PandasTable(Table):
    """A DataFrame, or a Series or an Index as its only column."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._frame = value.ndim == 2
        self.rows: int = value.shape[0]
        self.columns: int = value.shape[1] if self._frame else 1

    def name(self, column: int) -> str:
        return key_text(self._value.columns[column] if self._frame else self._value.name)

    def column(self, column: int) -> Column:
        return column_of(self.series(column))

    def labels(self, rows: Sequence[int]) -> list[str] | None:
        index: Any = getattr(self._value, "index", None)
        if index is None or not all(
            map(is_own_type, index.dtypes if hasattr(index, "levels") else [index.dtype])
        ):
            return None
        part = index[rows.start : rows.stop] if isinstance(rows, range) else index[list(rows)]
        if not hasattr(index, "levels") and has_foreign_zone(
            index.dtype
        ):  # which the labels' own methods would call
            return [text or "—" for text in column_of(part).texts(range(len(part)))]
        return [key_text(label) for label in part.tolist()]

    def expression(self, column: int) -> str:
        if not self._frame:
            return ""
        names = list(self._value.columns)
        alone = (
            type(names[column]) is str
            and sum(type(name) is str and name == names[column] for name in names) == 1
        )
        return f"[{names[column]!r}]" if alone else f".iloc[:, {column}]"

    def series(self, column: int) -> Any:
        return self._value.iloc[:, column] if self._frame else self._value

    def cell_expression(self, row: int, column: int) -> str:
        if self._frame:
            return f".iloc[{row}, {column}]"
        return f".iloc[{row}]" if hasattr(self._value, "iloc") else f"[{row}]"


def column_of(series: Any) -> Column:
    """Make the column for a Series, by its dtype."""
    dtype = series.dtype
    name = type(dtype).__name__
    if not is_own_type(dtype):
        raise LookError(f"Values of the type {name} are not supported.")
    if type(dtype).__module__.startswith("numpy"):
        values = series.to_numpy()
        return NumberColumn(values) if dtype.kind in "biufcmM" else ObjectColumn(values)
    if (
        name == "CategoricalDtype"
        and is_index(dtype.categories)
        and is_own_type(dtype.categories.dtype)
    ):
        return CategoryColumn(series.array)
    if name == "ArrowDtype" or getattr(dtype, "storage", "") == "pyarrow":
        return ArrowColumn(
            sys.modules["pyarrow"].chunked_array(series.array.__arrow_array__()), str(dtype)
        )
    if name == "DatetimeTZDtype":
        foreign = has_foreign_zone(dtype)
        moments = (
            series.array.tz_convert(None) if foreign else series.array.tz_localize(None)
        )  # the user's own time zone would run their code
        return NumberColumn(moments.to_numpy(), dtype_text(dtype))
    if name == "SparseDtype":
        values = series.array.to_dense()
        numeric = values.dtype.kind in "biufcmM"
        return (
            NumberColumn(values, dtype_text(dtype))
            if numeric
            else ObjectColumn(values, dtype_text(dtype))
        )
    if getattr(dtype, "_is_numeric", False) or name == "BooleanDtype":
        missing = series.array.isna()
        values = series.array.to_numpy(
            dtype=dtype.numpy_dtype, na_value=False if name == "BooleanDtype" else 0
        )
        return NumberColumn(values, str(dtype), missing)
    return ObjectColumn(series.array, dtype_text(dtype))


def has_foreign_zone(dtype: Any) -> bool:
    """Tell whether a dtype has a time zone of the user's, whose code would run."""
    return (
        is_one_of(dtype, "pandas", "DatetimeTZDtype")
        and module_of(type(dtype.tz)).partition(".")[0] not in ZONES
    )


def dtype_text(dtype: Any) -> str:
    """Format one of numpy's or pandas' own dtypes. What the user has put inside, such as a time
    zone, is named by its type."""
    if has_foreign_zone(dtype):
        return f"datetime64[{dtype.unit}, {type_name(dtype.tz)}]"
    if is_one_of(dtype, "pandas", "IntervalDtype"):
        return f"interval[{dtype_text(dtype.subtype)}, {dtype.closed}]"
    if is_one_of(dtype, "pandas", "SparseDtype"):
        return f"Sparse[{dtype.subtype}]"
    return str(dtype)


class CategoryColumn:
    """A Categorical, sorted in the order of its categories."""

    right = False

    def __init__(self, values: Any) -> None:
        self._values = values
        self._codes = values.codes
        self.type = "category"

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        codes = self._codes[as_slice(rows)].tolist()
        categories = self._values.categories
        known = {code: cell_text(categories[code]) for code in set(codes) if code >= 0}
        return [known.get(code) for code in codes]

    def value(self, row: int) -> Any:
        return self._values[row]

    def order(self, descending: bool, among: Sequence[int] | None, pace: Pace) -> Sequence[int]:
        return NumberColumn(self._codes, missing=self._codes < 0).order(descending, among, pace)

    def matching(self, condition: Condition, pace: Pace) -> Sequence[int]:
        if condition.op in ("missing", "present"):
            return NumberColumn(self._codes, missing=self._codes < 0).matching(condition, pace)
        fitting = ObjectColumn(self._values.categories).matching(condition, pace)
        numpy = sys.modules["numpy"]
        found: Sequence[int] = numpy.flatnonzero(numpy.isin(self._codes, list(fitting)))
        return found

    def statistics(self, pace: Pace) -> Statistics:
        missing = int((self._codes < 0).sum())
        counts = sys.modules["numpy"].bincount(self._codes[self._codes >= 0], minlength=1)
        categories, used = self._values.categories, counts.nonzero()[0].tolist()
        if len(used) > DISTINCT:
            return Statistics(missing)
        return Statistics(
            missing,
            top=top_values((cell_text(categories[code]) or "", int(counts[code])) for code in used),
        )
