"""Paths to objects: lists of steps, each a list of plain values.

["name", "df"]                          a variable; first step ["name", "df", 1402]
the same, valid only while the variable is the object with this `id` ["held", 7]
a computed value, kept until its screen closes; first step ["shown", "3f…"]
the value of a table that was displayed; first step ["frame", 4, "In [4]", 3, "f", 0, 1]    the
variables of a frame of the last error (`frames.locals_of`); first step ["item", 3]
an item of a container, by position ["attribute", "x"]                      an attribute ["column",
2], ["cell", 10, 2]          a column, or a cell, of a table ["slice", [0, null]]
a part of an array; null keeps a dimension
"""

from __future__ import annotations

import collections
import keyword
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..library_types import as_library_type
from ..showing.displays import shown_table
from ..statics import MISSING, Classes
from .arrays import sliced
from .children import base_of, child_at, stored
from .frames import locals_of
from .pace import LookError
from .tables import table_of

_WRITTEN = Classes(str, bytes, type(None))
"""Keys, besides numbers, that can be written as literals."""
_LONGEST = 1000
"""Longest key, in characters or bits, that is written as a literal."""
_BY_POSITION = Classes(list, tuple, range, collections.deque)


class ComputedValue(NamedTuple):
    """A value that was computed on request, and its expression."""

    value: Any
    expression: str


class ResolvedPath(NamedTuple):
    """The objects on a path."""

    objects: list[Any]
    """All objects on it; the last is the goal."""
    expression: str
    """The goal as Python code; empty if unknown."""
    path: list[Any]
    """The path, valid only while the variable is the same object."""

    @property
    def goal(self) -> Any:
        return self.objects[-1]

    @property
    def seen(self) -> Any:
        """The goal as an object of its library's own class."""
        return as_library_type(self.objects[-1])


def follow(
    path: Sequence[Sequence[Any]], namespace: dict[str, Any], held: dict[int, ComputedValue]
) -> ResolvedPath:
    """Follow a path. Raises `LookError` if it is no longer valid."""
    objects: list[Any] = []
    expression = ""
    for kind, *rest in path:
        value = objects[-1] if objects else None
        if kind == "name":
            name = rest[0]
            if name not in namespace:
                raise LookError(f"There is no variable named {name}.")
            found, expression = namespace[name], name if _is_name(name) else f"globals()[{name!r}]"
            if rest[1:] and rest[1] != id(found):
                raise LookError(f"{name} is now a different object; press r to reload.")
        elif kind == "frame":
            found = locals_of(*rest)
        elif kind == "shown":
            found = shown_table(rest[0])
            if found is None:
                raise LookError("The value of this table is no longer kept; run the cell again.")
            expression = next(
                (
                    name
                    for name, each in dict.items(namespace)
                    if each is found and type(name) is str and _is_name(name)
                ),
                "",
            )
        elif kind == "held":
            if rest[0] not in held:
                raise LookError("This value is no longer kept; open it again.")
            found, expression = held[rest[0]]
        elif kind == "item":
            child = child_at(value, rest[0])
            found, expression = child.value, _item(expression, value, rest[0], child.key)
        elif kind == "attribute":
            found = stored(value, rest[0])
            if found is MISSING:
                raise LookError(f"The attribute {rest[0]} no longer exists.")
            expression = f"{expression}.{rest[0]}" if expression and _is_name(rest[0]) else ""
        elif kind == "slice":
            found = sliced(as_library_type(value), rest[0])
            written = ", ".join(":" if place is None else str(place) for place in rest[0])
            expression = (
                f"{expression}[{written}]" if expression and set(rest[0]) != {None} else expression
            )
        else:
            table = table_of(as_library_type(value))
            column = rest[-1]
            if (
                table is None
                or not 0 <= column < table.columns
                or (kind == "cell" and not 0 <= rest[0] < table.rows)
            ):
                raise LookError("This part of the table no longer exists.")
            found = table.column(column).value(rest[0]) if kind == "cell" else table.series(column)
            written = (
                table.expression(column)
                if kind == "column"
                else table.cell_expression(rest[0], column)
            )
            expression = f"{expression}{written}" if expression and written else ""
        objects.append(found)
    first, *others = path
    return ResolvedPath(
        objects,
        expression,
        [["name", first[1], id(objects[0])] if first[0] == "name" else first, *others],
    )


def _item(expression: str, value: Any, position: int, key: Any) -> str:
    base = base_of(value)
    if not expression:
        return ""
    if base is dict:
        return f"{expression}[{key!r}]" if _can_be_written(key) else ""
    return f"{expression}[{position}]" if base in _BY_POSITION else ""


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _can_be_written(key: Any) -> bool:
    """Tell whether a key can be written as a literal of reasonable length."""
    if type(key) is float:
        return key - key == 0
    if type(key) is int or type(key) is bool:
        return key.bit_length() < _LONGEST
    return type(key) in _WRITTEN and (key is None or len(key) < _LONGEST)
