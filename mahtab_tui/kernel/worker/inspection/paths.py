"""The way to an object: a list of steps, each a list of plain values.

``["name", "df"]`` first, with a third part only as long as the variable is the object of that `id`; then ``["item", 3]`` (of any container, by position), ``["attribute", "x"]``, ``["column", 2]`` and
``["cell", 10, 2]`` of a table; ``["slice", [0, null]]`` of an array, which keeps the dimensions where it has null; ``["held", 7]`` alone stands for something that was made on demand and is kept until its screen closes;
``["frame", 4, "In [4]", 3, "f", 0, 1]`` alone stands for the variables of a frame of the last error (`frames.locals_of`).
"""

from __future__ import annotations

import collections
import keyword
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ..own import as_own
from ..statics import MISSING, Classes
from .arrays import sliced
from .children import base_of, child_at, key_at, stored
from .frames import locals_of
from .pace import LookError

_WRITTEN = Classes(str, bytes, type(None))
"""Keys that are written in code as they are, besides numbers."""
_LONGEST = 1000
"""Characters of a key, or bits of a number, that are written."""
_BY_POSITION = Classes(list, tuple, range, collections.deque)


class ComputedValue(NamedTuple):
    """Something that was made on demand, and how it is written in code."""

    value: Any
    expression: str


class Tables(Protocol):
    """Gives the table that an object is."""

    def __call__(self, value: Any, /) -> Any: ...


class Way(NamedTuple):
    """Where a path leads."""

    objects: list[Any]
    """All objects on it, the last one the goal."""
    expression: str
    """How the goal is written in code; empty where that is not known."""
    path: list[Any]
    """The path, which from now on leads there only as long as the variable is the same object."""

    @property
    def goal(self) -> Any:
        return self.objects[-1]

    @property
    def seen(self) -> Any:
        """The goal as its library's own class sees it."""
        return as_own(self.objects[-1])


def follow(path: Sequence[Sequence[Any]], namespace: dict[str, Any], held: dict[int, ComputedValue], table_of: Tables) -> Way:
    """Walk a path. Raises `LookError` where it leads nowhere any more."""
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
                raise LookError(f"{name} is another object by now; r looks again.")
        elif kind == "frame":
            found = locals_of(*rest)
        elif kind == "held":
            if rest[0] not in held:
                raise LookError("It is not kept any more; look at it again.")
            found, expression = held[rest[0]]
        elif kind == "item":
            found = child_at(value, rest[0]).value
            expression = _item(expression, value, rest[0])
        elif kind == "attribute":
            found = stored(value, rest[0])
            if found is MISSING:
                raise LookError(f"There is no attribute {rest[0]} any more.")
            expression = f"{expression}.{rest[0]}" if expression and _is_name(rest[0]) else ""
        elif kind == "slice":
            found = sliced(as_own(value), rest[0])
            written = ", ".join(":" if place is None else str(place) for place in rest[0])
            expression = f"{expression}[{written}]" if expression and set(rest[0]) != {None} else expression
        else:
            table = table_of(as_own(value))
            column = rest[-1]
            if table is None or not 0 <= column < table.columns or (kind == "cell" and not 0 <= rest[0] < table.rows):
                raise LookError("The table has no such place any more.")
            found = table.column(column).value(rest[0]) if kind == "cell" else table.series(column)
            written = table.expression(column) if kind == "column" else table.cell_expression(rest[0], column)
            expression = f"{expression}{written}" if expression and written else ""
        objects.append(found)
    first, *others = path
    return Way(objects, expression, [["name", first[1], id(objects[0])] if first[0] == "name" else first, *others])


def _item(expression: str, value: Any, position: int) -> str:
    base = base_of(value)
    if not expression:
        return ""
    if base is dict:
        key = key_at(value, position)
        return f"{expression}[{key!r}]" if _can_be_written(key) else ""
    return f"{expression}[{position}]" if base in _BY_POSITION else ""


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _can_be_written(key: Any) -> bool:
    """Whether a key stands in code as it is, and no longer than a line."""
    if type(key) is float:
        return key - key == 0
    if type(key) is int or type(key) is bool:
        return key.bit_length() < _LONGEST
    return type(key) in _WRITTEN and (key is None or len(key) < _LONGEST)
