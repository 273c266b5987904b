"""Chooses the views of an object; the first is the most likely one."""

from __future__ import annotations

import sys
from typing import Any

from ..statics import Classes
from ..summary import kind_of
from . import arrays, pictures, texts
from .pace import LookError
from .tables.arrow import ArrowColumn
from .tables.column import Table
from .tables.from_polars import PolarsColumn
from .tables.numbers import NumberColumn
from .tables.records import RecordTable

_PLAIN = Classes(int, float, complex, bool, type(None), type(Ellipsis), type(NotImplemented))


def views_of(value: Any, table: Table | None) -> list[str]:
    """Return the views of an object. table: the object as a table, if it is one."""
    views = _own_views(value, table)
    if pictures.is_picture(value):
        views.insert(0, "picture")
    elif pictures.draws_itself(value):
        views.append("picture")
    return list(dict.fromkeys([*views, "attributes", "repr"]))


def _own_views(value: Any, table: Table | None) -> list[str]:
    if arrays.is_array(value):
        return (
            ["array", "plot"]
            if value.shape and arrays.can_be_drawn(value)
            else ["array"]
            if value.shape
            else ["repr"]
        )
    if table is not None:
        views = ["table", "tree"] if isinstance(table, RecordTable) else ["table"]
        return [*views, "plot"] if _numbers(table) is not None else views
    if texts.base_of(value) is not None:
        return ["text"] if texts.base_of(value) is str else ["repr"]
    kind = kind_of(value)
    if kind in ("function", "class"):
        return ["source"] if kind == "function" else ["source", "tree"]
    if kind == "module":
        return ["tree", "source"]
    return ["repr"] if type(value) in _PLAIN else ["tree"]


def numbers_of(table: Table) -> Any:
    """Return the numbers of a one-column table as a numpy array; None if it has none or numpy is
    not loaded."""
    column = _numbers(table)
    if column is None:
        return None
    if isinstance(column, NumberColumn):
        return column.numbers
    series = table.series(0)
    found = (
        series.array.to_numpy(dtype="f8", na_value=float("nan"))
        if hasattr(series, "array")
        else series.to_numpy()
    )
    return found.astype("f8") if found.dtype.kind == "O" else found  # of Decimal


def _numbers(table: Table) -> NumberColumn | ArrowColumn | PolarsColumn | None:
    """Return the only column of a table, if its numbers can be plotted."""
    if table.columns != 1 or "numpy" not in sys.modules or isinstance(table, RecordTable):
        return None
    try:
        column = table.column(0)
    except LookError:
        return None
    if not column.right or column.type.startswith("complex"):
        return None
    return column if isinstance(column, (NumberColumn, ArrowColumn, PolarsColumn)) else None
