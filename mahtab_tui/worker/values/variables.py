"""Describes variables in a line each, for the list of the namespace. No user code runs."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

from .objects import Classes, class_module, get_if_loaded, is_own_column, is_own_index, own_dict
from .secret_names import HIDDEN_VALUE, is_hidden
from .short_values import fields
from .summaries import summary, type_name, variable_kind

HIDDEN_NAMES = frozenset(
    "__name__ __builtins__ __doc__ __file__ __loader__ __package__ __spec__ __cached__ __annotations__ __warningregistry__ _".split()
)
"""Names of a namespace that are not listed."""
LARGE_BYTES = 100_000
"""Sizes from here on are listed."""
MAX_COLUMNS = 200
"""At most this many columns of a table are measured, and compared by name."""

_TEXTS = Classes(str, bytes, bytearray)
_STANDARD_LIBRARY = os.path.dirname(types.__file__)


def describe_variable(name: str, value: object) -> dict[str, object]:
    """Return a variable as a row of the list.

    Returns:
        "name", "type", "summary", "kind" (as `variable_kind`), and "size" in bytes, or 0.
    """
    kind = variable_kind(value)
    text = masked_summary(name, value)
    if not text and kind == "data" and not _is_of_library(type(value)):
        text = fields(value)
    return {
        "name": name,
        "type": type_name(value),
        "summary": text,
        "kind": kind,
        "size": _large_size(value),
    }


def masked_summary(name: str, value: object) -> str:
    """Return the summary of a variable or attribute; `HIDDEN_VALUE` if its name is that of a
    secret."""
    if is_hidden(name, value):
        return HIDDEN_VALUE
    return summary(value)


def _large_size(value: object) -> int:
    """Return the bytes of an array, a table or a text, without running code of the user's classes; 0
    for small and other objects."""
    try:
        size = _stored_bytes(value)
    except Exception:  # a library's object in an inconsistent state
        return 0
    if size < LARGE_BYTES:
        return 0
    return size


def _stored_bytes(value: Any) -> int:
    """Return the bytes of a value of a known type; 0 for other types. May raise anything."""
    cls = type(value)
    if cls in _TEXTS:
        return sys.getsizeof(value)
    # Most variables need no look at libraries.
    if class_module(cls) == "builtins":
        return 0
    if cls is get_if_loaded("numpy", "ndarray"):
        return int(value.nbytes)
    if cls is get_if_loaded("pandas", "DataFrame") and all(map(is_own_index, value.axes)):
        column_count = len(value.columns)
        if column_count > MAX_COLUMNS:
            return 0
        columns = [value.iloc[:, index] for index in range(column_count)]
        return sum(int(column._values.nbytes) for column in columns if is_own_column(column))
    if cls is get_if_loaded("pandas", "Series") and is_own_column(value):
        return int(value._values.nbytes)
    if cls is get_if_loaded("polars", "DataFrame"):
        return int(value.estimated_size())
    return 0


def _is_of_library(cls: type) -> bool:
    """Return whether a class is of an installed library or the standard library."""
    module = sys.modules.get(class_module(cls))
    if type(module) is not types.ModuleType:
        return False
    file = own_dict(module).get("__file__")
    if type(file) is not str:
        return False
    is_installed = "site-packages" in file or "dist-packages" in file
    return is_installed or file.startswith(_STANDARD_LIBRARY)
