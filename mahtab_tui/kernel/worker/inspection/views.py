"""In which views an object can be seen: the first one is what a person most likely wants."""

from __future__ import annotations

from typing import Any

from ..summary import kind_of
from .tables.known import table_of


def views_of(value: Any) -> list[str]:
    """Kinds of views, by what the object is."""
    if table_of(value) is not None:
        return ["table", "attributes", "repr"]
    if kind_of(value) in ("function", "class"):
        return ["source", "attributes", "repr"]
    return ["tree", "attributes", "repr"]
