"""Columns of pandas, each read as its values are stored: by NumPy, by Arrow, or as Python's objects.

Types are told by their exact classes, so that no code of the user's runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..values.objects import is_index, is_one_of, is_own_type
from ..values.summaries import type_name
from .cell_texts import cell_text, is_safe_zone
from .columns import Column, Rows
from .conditions import Condition
from .limits import Deadline, InspectionError
from .numpy_column import NumPyColumn
from .statistics import MAX_DISTINCT_VALUES, Statistics, format_top_values
from .typed_columns import ArrowColumn

_NUMPY_KINDS = "biufmM"
"""The kinds of NumPy's types that a `NumPyColumn` reads here; texts are objects in pandas."""


class _Categories(Sequence[Any]):
    """The values of a Categorical of pandas; a missing one has the code -1."""

    def __init__(self, values: Any) -> None:
        self._codes = values.codes
        self.categories = [*values.categories.tolist(), float("nan")]

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, row: object) -> Any:
        return self.categories[self._codes[row]]


class CategoryColumn(Column):
    """A categorical column of pandas."""

    def __init__(self, values: Any) -> None:
        """
        Args:
            values: A Categorical.
        """
        super().__init__(_Categories(values), "category")
        self._codes = values.codes

    def order(self, descending: bool, selected_rows: Rows | None, deadline: Deadline) -> Rows:
        """Sort in the order of the categories."""
        codes = NumPyColumn(self._codes, missing=self._codes < 0)
        return codes.order(descending, selected_rows, deadline)

    def matching(self, condition: Condition, deadline: Deadline) -> Rows:
        numpy = _numpy()
        fits = numpy.zeros(len(self._values.categories), dtype=bool)
        fits[list(Column(self._values.categories).matching(condition, deadline))] = True
        return numpy.flatnonzero(fits[self._codes])

    def statistics(self, deadline: Deadline) -> Statistics:
        codes, counts = _numpy().unique(self._codes, return_counts=True)
        missing = 0
        if len(codes) and codes[0] < 0:
            missing = int(counts[0])
        # More cannot be counted anyway.
        first_codes = codes[: MAX_DISTINCT_VALUES + 2].tolist()
        text_counts = [
            (cell_text(self._values.categories[code]) or "", count)
            for code, count in zip(first_codes, counts.tolist())
            if code >= 0
        ]
        return Statistics(missing, top=format_top_values(text_counts))


def column_of(series: Any) -> Column:
    """Return what reads a column or an index of pandas.

    Raises `InspectionError` for types that are not known, whose code would run.
    """
    dtype = series.dtype
    name = type(dtype).__name__
    if not is_own_type(dtype):
        raise InspectionError(f"Values of the type {name} are not supported.")
    if type(dtype).__module__.startswith("numpy"):
        return _array_column(series.to_numpy(), "")
    if name == "CategoricalDtype" and _has_own_categories(dtype):
        return CategoryColumn(series.array)
    if name == "ArrowDtype" or getattr(dtype, "storage", "") == "pyarrow":
        return ArrowColumn(_arrow().chunked_array(series.array.__arrow_array__()), str(dtype))
    if name == "DatetimeTZDtype":
        return _zoned_column(series.array)
    if name == "SparseDtype":
        return _array_column(series.array.to_dense(), dtype_text(dtype))
    if getattr(dtype, "_is_numeric", False) or name == "BooleanDtype":
        return _masked_column(series.array)
    return Column(series.array, dtype_text(dtype))


def _has_own_categories(dtype: Any) -> bool:
    """Return whether the categories of a type are of a type of the library's."""
    categories: Any = dtype.categories
    return is_index(categories) and is_own_type(categories.dtype)


def _zoned_column(values: Any) -> NumPyColumn:
    """Return what reads datetimes with a time zone: in their zone, or in UTC if this is the user's,
    whose code would run."""
    if has_foreign_zone(values.dtype):
        datetimes = values.tz_convert(None)
    else:
        datetimes = values.tz_localize(None)
    return NumPyColumn(datetimes.to_numpy(), dtype_text(values.dtype))


def _masked_column(values: Any) -> NumPyColumn:
    """Return what reads numbers or truth values with a mask, which says which of them are missing."""
    dtype = values.dtype
    filler = False if type(dtype).__name__ == "BooleanDtype" else 0
    numbers = values.to_numpy(dtype=dtype.numpy_dtype, na_value=filler)
    return NumPyColumn(numbers, str(dtype), values.isna())


def _array_column(values: Any, kind: str) -> Column:
    """Return what reads an array of NumPy.

    Args:
        values: The array.
        kind: The name of the type; empty for NumPy's.
    """
    if values.dtype.kind in _NUMPY_KINDS:
        return NumPyColumn(values, kind)
    return Column(values, kind or "object")


def has_foreign_zone(dtype: Any) -> bool:
    """Return whether a dtype has a time zone of the user's, whose code would run."""
    return is_one_of(dtype, "pandas", "DatetimeTZDtype") and not is_safe_zone(dtype.tz)


def dtype_text(dtype: Any) -> str:
    """Return the name of a type of pandas, without running a time zone of the user's."""
    if has_foreign_zone(dtype):
        return f"datetime64[{dtype.unit}, {type_name(dtype.tz)}]"
    if is_one_of(dtype, "pandas", "IntervalDtype"):
        return f"interval[{dtype_text(dtype.subtype)}, {dtype.closed}]"
    if is_one_of(dtype, "pandas", "SparseDtype"):
        return f"Sparse[{dtype.subtype}]"
    return str(dtype)


def _numpy() -> Any:
    return sys.modules["numpy"]


def _arrow() -> Any:
    return sys.modules["pyarrow"]
