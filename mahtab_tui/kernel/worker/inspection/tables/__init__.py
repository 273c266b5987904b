"""Tables of known libraries, recognised by their exact class and read by columns."""

from __future__ import annotations

from typing import Any

from ...library_types import has_own_indexes, is_index
from ...statics import is_one_of
from .arrow import ArrowTable
from .column import Table
from .from_pandas import PandasTable
from .from_polars import PolarsTable
from .numbers import MatrixTable
from .records import record_table


def table_of(value: Any) -> Table | None:
    """Return an object as a table; None if it is not one, or its library is not loaded."""
    if is_index(value) or (
        is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value)
    ):
        return PandasTable(value)
    if is_one_of(value, "polars", "DataFrame", "Series"):
        return PolarsTable(value)
    if is_one_of(value, "pyarrow", "Table", "ChunkedArray"):
        return ArrowTable(value)
    if is_one_of(value, "numpy", "ndarray") and value.ndim in (1, 2):
        return MatrixTable(value)
    return record_table(value)
