"""Remembers the tables that cells displayed, so that they can be opened."""

from __future__ import annotations

import os
from typing import Any, Callable

from .objects import OwnReference, is_instance_if_loaded

_MAX_KEPT_TABLES = 20
"""Displayed tables that can still be opened."""
_MAX_KEPT_TABLE_BYTES = 5_000_000
"""Size up to which a table is kept alive so that it can be opened."""


_displayed_tables: dict[str, Callable[[], Any]] = {}
"""Tables by random keys, so that no other kernel has the same."""


def displayed_table(key: str) -> object:
    """Return a displayed table; None if it is no longer there."""
    if key in _displayed_tables:
        return _displayed_tables[key]()
    return None


def remember_table(value: object) -> str:
    """Keep a table so that it can be opened; return its key, or an empty text if it cannot be."""
    key = os.urandom(8).hex()
    size = _table_size(value)
    if size is not None and size <= _MAX_KEPT_TABLE_BYTES:
        _displayed_tables[key] = lambda: value
    else:
        # A large table must not outlive the user's own references to it.
        try:
            _displayed_tables[key] = OwnReference(value)
        except TypeError:
            return ""
    if len(_displayed_tables) > _MAX_KEPT_TABLES:
        del _displayed_tables[next(iter(_displayed_tables))]
    return key


def _table_size(value: Any) -> int | None:
    """Return a table's size in bytes, if it is known."""
    try:
        if is_instance_if_loaded(value, "pandas", "DataFrame"):
            return int(value.memory_usage(deep=False).sum())
        if is_instance_if_loaded(value, "polars", "DataFrame"):
            return int(value.estimated_size())
    except Exception:  # raised by the code of a subclass
        pass
    return None
