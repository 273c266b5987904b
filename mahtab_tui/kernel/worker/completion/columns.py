"""Finds the columns of tables without importing their libraries, since a library that is not loaded has no objects."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ..statics import loaded

MOST = 100_000
"""Columns and keys that are examined."""


def columns_of(value: object) -> list[str]:
    """Return the names of a table's columns."""
    try:
        return [name for name in _columns(value) if type(name) is str]
    except Exception:  # a library's object in an inconsistent state
        return []


def _columns(value: Any) -> list[Any]:
    cls = type(value)
    if cls is loaded("pandas", "DataFrame"):
        return list(islice(value.columns, MOST))
    if cls is loaded("pandas", "Series"):
        return list(islice(value.index, 1_000))
    if cls is loaded("polars", "DataFrame"):
        return list(value.columns)
    if cls is loaded("pyarrow", "Table"):
        return list(value.column_names)
    if cls is loaded("numpy", "ndarray"):
        return list(value.dtype.names or ())
    return []
