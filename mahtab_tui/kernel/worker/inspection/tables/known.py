"""Which objects are tables: by their exact class, of libraries that are loaded."""

from __future__ import annotations

from typing import Any

from ...statics import loaded
from .column import Table


def table_of(value: Any) -> Table | None:
    """The table that an object is; None where it is none."""
    cls = type(value)
    if any(
        cls is loaded("pandas", name) for name in ("DataFrame", "Series", "Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "CategoricalIndex")
    ):
        from .from_pandas import PandasTable

        return PandasTable(value)
    return None
