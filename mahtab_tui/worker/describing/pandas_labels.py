"""Describes indexes of pandas, and writes the labels of rows, without running code of the user's."""

from __future__ import annotations

from typing import Any

from ..inspection.library_columns import column_of, dtype_text, has_foreign_zone
from ..values.objects import is_one_of, is_own_column, is_own_index, is_own_type
from ..values.secret_names import HIDDEN_VALUE, looks_secret
from .arrow_types import arrow_type_text
from .described_columns import cell_texts, label_literal, label_text

LEVEL_SEPARATOR = ", "
"""What separates the levels of a row's label."""


def is_readable(series: Any) -> bool:
    """Return whether reading the values of a Series or an index runs no user code."""
    if not is_own_column(series):
        return False
    dtype = series.dtype
    if is_one_of(dtype, "pandas", "ArrowDtype"):
        return bool(arrow_type_text(dtype.pyarrow_dtype))
    if is_one_of(dtype, "pandas", "CategoricalDtype"):
        index = dtype.categories
        return is_own_index(index) and is_readable(index) and not has_foreign_zone(index.dtype)
    if is_one_of(dtype, "pandas", "IntervalDtype"):
        return is_own_type(dtype.subtype) and not has_foreign_zone(dtype.subtype)
    return not is_one_of(dtype, "pandas", "SparseDtype")


def describe_index(index: Any) -> str:
    """Return the names and types of an index, with a comma before them; nothing if it only numbers the
    rows."""
    if is_one_of(index, "pandas", "MultiIndex"):
        words = ("None" if name is None else label_literal(name) for name in index.names)
        return f", MultiIndex ({', '.join(words)})"
    names = [label_text(name) for name in index.names if name is not None]
    if is_one_of(index, "pandas", "RangeIndex") and not names:
        return ""
    if not names:
        return f", row labels: {dtype_text(index.dtype)}"
    return f", index: {' '.join([*names, dtype_text(index.dtype)])}"


def row_labels(index: Any) -> list[str]:
    """Return the labels of rows as texts; ellipses if only the user's code could read them."""
    if is_one_of(index, "pandas", "MultiIndex"):
        levels = [row_labels(index.get_level_values(number)) for number in range(index.nlevels)]
        return [LEVEL_SEPARATOR.join(texts) for texts in zip(*levels)]
    if not is_readable(index):
        return ["…"] * len(index)
    if type(index.name) is str and looks_secret(index.name):
        return [HIDDEN_VALUE] * len(index)
    return cell_texts(column_of(index), len(index), "NaN")
