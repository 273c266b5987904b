"""Recognises tables by their exact class, of libraries that are loaded."""

from __future__ import annotations

from typing import Any

from ...own import has_own_indexes, is_index
from ...statics import is_one_of
from .column import Table


def table_of(value: Any) -> Table | None:
    """Return an object as a table; None if it is not one. Imports the reader of a library only for a value of that library."""
    if is_index(value) or (is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value)):
        from .from_pandas import PandasTable

        return PandasTable(value)
    if is_one_of(value, "polars", "DataFrame", "Series"):
        from .from_polars import PolarsTable

        return PolarsTable(value)
    if is_one_of(value, "pyarrow", "Table", "ChunkedArray"):
        from .arrow import ArrowTable

        return ArrowTable(value)
    if is_one_of(value, "numpy", "ndarray") and value.ndim in (1, 2):
        from .numbers import MatrixTable

        return MatrixTable(value)
    from .records import record_table

    return record_table(value)
