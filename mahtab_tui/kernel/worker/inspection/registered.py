"""Inspectors that packages provide with the entry point ``mahtab_tui.inspectors`` in the kernel's
environment.

An entry point's name is a class (``shapes.polygon.Polygon``). Its value is a function that takes an
object of this class or a subclass, and returns a mapping of titles to ordinary objects, each of
which is shown in the view of its own kind.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..statics import class_dict, loaded, mro_of
from ..stdlib import late_import

GROUP = "mahtab_tui.inspectors"
FRESH = 10.0
"""Seconds before the installed entry points are read again."""
MOST_VIEWS = 7
"""Views of one object at most."""


class InspectorRegistry:
    """The inspectors in this environment."""

    def __init__(self) -> None:
        self._points: dict[str, Any] = {}
        self._looked = -FRESH
        self._path: tuple[str, ...] = ()

    def inspector_of(self, value: Any) -> Callable[[Any], Mapping[str, Any]] | None:
        """Return the inspector for an object, or None. Loading it imports its package."""
        names = [name for cls in mro_of(type(value)) if (name := _name(cls))]
        if not names:
            return None
        self._look()
        point = next((self._points[name] for name in names if name in self._points), None)
        return None if point is None else point.load()

    def _look(self) -> None:
        path = tuple(entry for entry in sys.path if type(entry) is str)
        if time.monotonic() - self._looked < FRESH and path == self._path:
            return
        found = late_import("importlib.metadata").entry_points()
        points = (
            found.select(group=GROUP) if hasattr(found, "select") else found.get(GROUP, ())
        )  # a dict, before Python 3.10
        self._points = {point.name: point for point in points}
        self._looked, self._path = time.monotonic(), path


def views(shown: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Check what an inspector has returned."""
    if not isinstance(shown, Mapping):
        raise TypeError(
            f"an inspector returns a mapping of titles to objects, not {type(shown).__name__}"
        )
    return [(str(title), value) for title, value in list(shown.items())[:MOST_VIEWS]]


def _name(cls: type) -> str:
    """Return a class's full name if its module really has it; empty for built-in classes."""
    module, name = class_dict(cls).get("__module__"), type.__dict__["__qualname__"].__get__(cls)
    if (
        type(module) is not str
        or module in ("builtins", "__main__")
        or loaded(module, name) is not cls
    ):
        return ""
    return f"{module}.{name}"
