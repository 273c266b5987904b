"""Recognises tables by their exact class, of libraries that are loaded."""

from __future__ import annotations

from typing import Any

from ...own import has_own_indexes, is_index
from ...statics import is_one_of
from .column import Table


def table_of(value: Any) -> Table | None:
    """Return an object as a table; None if it is not one."""
    return next((table for look in _KINDS if (table := look(value)) is not None), None)


def _pandas(value: Any) -> Table | None:
    if not is_index(value) and not (is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value)):
        return None
    from .from_pandas import PandasTable

    return PandasTable(value)


def _polars(value: Any) -> Table | None:
    if not is_one_of(value, "polars", "DataFrame", "Series"):
        return None
    from .from_polars import PolarsTable

    return PolarsTable(value)


def _arrow(value: Any) -> Table | None:
    if not is_one_of(value, "pyarrow", "Table", "ChunkedArray"):
        return None
    from .arrow import ArrowTable

    return ArrowTable(value)


def _matrix(value: Any) -> Table | None:
    if not is_one_of(value, "numpy", "ndarray") or value.ndim not in (1, 2):
        return None
    from .matrix import MatrixTable

    return MatrixTable(value)


def _records(value: Any) -> Table | None:
    from .records import record_table

    return record_table(value)


_KINDS = (_pandas, _polars, _arrow, _matrix, _records)
