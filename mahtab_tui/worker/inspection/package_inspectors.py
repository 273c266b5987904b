"""Finds the inspectors that packages register for their classes, as entry points."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Callable

from ..stdlib import late_import
from ..values.objects import class_dict, get_if_loaded, mro_of

ENTRY_POINT_GROUP = "mahtab_tui.inspectors"
"""The group of the entry points by which packages register inspectors."""


def find_inspector(value: object) -> Callable[[Any], Mapping[str, Any]] | None:
    """Return the inspector that a package registers for a class (``shapes.Polygon``) as an entry
    point: a function that returns a mapping of titles to objects."""
    names = [name for name in map(_full_name, mro_of(type(value))) if name]
    if not names:
        return None
    points = _entry_points(tuple(entry for entry in sys.path if type(entry) is str))
    for name in names:
        if name in points:
            inspector: Callable[[Any], Mapping[str, Any]] = points[name].load()
            return inspector
    return None


@lru_cache(1)
def _entry_points(path: tuple[str, ...]) -> dict[str, Any]:
    """Return the entry points of inspectors by name.

    Args:
        path: `sys.path`, on which they depend.
    """
    all_points = late_import("importlib.metadata").entry_points()
    # A dict before Python 3.10.
    if hasattr(all_points, "select"):
        points = all_points.select(group=ENTRY_POINT_GROUP)
    else:
        points = all_points.get(ENTRY_POINT_GROUP, ())
    return {point.name: point for point in points}


def _full_name(cls: type) -> str:
    """Return the module and the name by which a class can be imported; empty if it cannot be."""
    module = class_dict(cls).get("__module__")
    name = type.__dict__["__qualname__"].__get__(cls)
    if type(module) is not str or module in ("builtins", "__main__"):
        return ""
    if get_if_loaded(module, name) is cls:
        return f"{module}.{name}"
    return ""
