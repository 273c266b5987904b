"""Says what an object is, and which views an inspector has of it, without running its code."""

from __future__ import annotations

import sys
from typing import Any

from ..values.objects import SCALARS, as_library_type, class_module
from ..values.summaries import summary, type_name, variable_kind
from . import arrays, pictures, texts
from .columns import Column
from .limits import InspectionError
from .tables import RecordTable, Table, as_table

_VIEWS_BY_KIND = {
    "function": ["source"],
    "class": ["source", "tree"],
    "module": ["tree", "source"],
}
"""The views of what is not data."""


def describe_object(value: object, expression: str) -> dict[str, Any]:
    """Describe an object for the head of an inspector.

    Args:
        value: The object.
        expression: Code for it, or empty.
    """
    plain_value = as_library_type(value)
    table = as_table(plain_value)
    package = class_module(type(plain_value)).partition(".")[0]
    return {
        "type": type_name(value),
        "library_type": f"{package}.{type_name(plain_value)}",
        "summary": summary(plain_value),
        "kind": variable_kind(value),
        "views": _list_views(plain_value, table),
        "expression": expression,
        "rows": table.rows if table else 0,
        "columns": table.columns if table else 0,
        "size": 0 if texts.text_class(value) is None else texts.text_length(value),
    }


def _list_views(value: object, table: Table | None) -> list[str]:
    """Return the names of the views of an object, the best first."""
    views = _own_views(value, table)
    picture = pictures.picture_of(value)
    if picture and picture.on_request:
        views = [*views, "picture"]
    elif picture:
        views = ["picture", *views]
    return list(dict.fromkeys([*views, "repr"]))


def _own_views(value: Any, table: Table | None) -> list[str]:
    """Return the names of the views besides picture and repr.

    Args:
        table: The value as a table.
    """
    if arrays.is_array(value):
        if not value.shape:
            return ["repr"]
        return ["array", "plot"] if arrays.can_be_drawn(value) else ["array"]
    if isinstance(table, RecordTable):
        return ["table", "tree"]
    if table is not None:
        return ["table"] if plottable_column(table) is None else ["table", "plot"]
    text_class = texts.text_class(value)
    if text_class is not None:
        return ["text"] if text_class is str else ["repr"]

    kind = variable_kind(value)
    if kind in _VIEWS_BY_KIND:
        return _VIEWS_BY_KIND[kind]
    return ["repr"] if type(value) in SCALARS else ["tree"]


def plottable_column(table: Table) -> Column | None:
    """Return the only column of a table, if it has numbers in numpy's memory."""
    if table.columns != 1 or "numpy" not in sys.modules:
        return None
    try:
        column = table.column(0)
    except InspectionError:
        return None
    if type(column) is not Column and column.is_right_aligned:
        return column
    return None
