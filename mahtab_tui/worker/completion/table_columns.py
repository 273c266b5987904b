"""The columns of tables, and of what their methods return."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ..values.objects import class_module, is_one_of, name_of
from .instances import Instance, UnresolvedError, get_class, is_any_of, library_instance

_RESHAPING = frozenset(
    "T transpose pivot pivot_table melt stack unstack value_counts dot to_dict unpivot".split()
)
"""Methods of tables whose results have other columns."""
_MAX_COLUMNS = 100_000
"""Columns of a table that are looked at."""
_MAX_ROW_LABELS = 1_000
"""Labels of a Series that are looked at."""


def is_frame(cls: type) -> bool:
    return is_any_of(cls, (("pandas", "DataFrame"), ("polars", "DataFrame")))


def table_of(value: object) -> object:
    """Return the table whose columns a value probably has; None if there is none."""
    if type(value) is Instance:
        return value.table
    if is_frame(type(value)):
        return value
    return None


def column_instance(value: object, name: str) -> object:
    """Return an `Instance` for a column. Raises `UnresolvedError` if it does not exist."""
    table = table_of(value)
    if table is None or name not in list_columns(table):
        raise UnresolvedError
    if name_of(get_class(value)) == "DataFrameGroupBy":
        return library_instance("pandas.api.typing", "SeriesGroupBy")
    if is_one_of(table, "polars", "DataFrame"):
        return library_instance("polars", "Series")
    return library_instance("pandas", "Series")


def with_columns(result: object, receiver: object, name: str) -> object:
    """Give an instance its receiver's columns if its method keeps them."""
    table = table_of(receiver)
    if table is None or name in _RESHAPING:
        return result
    if type(result) is not Instance or result.table is not None:
        return result
    is_series = is_any_of(result.cls, (("pandas", "Series"), ("polars", "Series")))
    of_library = class_module(result.cls).partition(".")[0] in ("pandas", "polars")
    if of_library and not is_series:
        return result._replace(table=table)
    return result


def list_columns(value: object) -> list[str]:
    """Return the names of a table's columns, or of a Series' labels; empty for anything else."""
    if type(value) is Instance:
        value = value.table
    try:
        return [name for name in _columns(value) if type(name) is str]
    except Exception:  # a library's object in an inconsistent state
        return []


def _columns(value: Any) -> list[Any]:
    if is_one_of(value, "pandas", "Series"):
        return list(islice(value.index, _MAX_ROW_LABELS))
    if is_one_of(value, "pandas", "DataFrame") or is_one_of(value, "polars", "DataFrame"):
        return list(islice(value.columns, _MAX_COLUMNS))
    if is_one_of(value, "pyarrow", "Table"):
        return list(value.column_names)
    if is_one_of(value, "numpy", "ndarray"):
        return list(value.dtype.names or ())
    return []
