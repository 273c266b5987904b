"""Paths to objects: which object an inspector shows, in JSON values.

The steps of a path; the first five kinds only start one:

    ["name", "df"]                           a variable
    ["name", "df", 1402]                     a variable, only while it is the object with this `id`
    ["computed", 7]                          a computed value, kept until its screen closes
    ["shown", "3f…"]                         the value of a displayed table
    ["frame", 4, "In [4]", 3, "f", 0, 1]     the variables of a frame (see `frame_variables`)
    ["item", 3]                              an item of a container, by position
    ["attribute", "x"]                       an attribute
    ["column", 2], ["cell", 10, 2]           a column, or a cell, of a table
    ["slice", [0, null]]                     a part of an array; null keeps a dimension
"""

from __future__ import annotations

import collections
import keyword
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..values.displayed_tables import displayed_table
from ..values.objects import MISSING, Classes, as_library_type
from ..values.short_values import stored_attribute
from .arrays import slice_array
from .children import SLICEABLE, container_class, list_children
from .frame_variables import FramePlace, frame_variables
from .limits import InspectionError
from .tables import as_table

_MAX_KEY_CHARS = 1000
"""A key that is written in code has at most this many characters."""
_LITERALS = Classes(str, bytes, type(None))
"""Types of keys that, like numbers, can be written in code."""


class ComputedValue(NamedTuple):
    """A value that an inspector has computed."""

    value: Any
    expression: str
    """Code that computes it; empty if there is none."""


class ResolvedObject(NamedTuple):
    """Where a path leads."""

    objects: list[Any]
    """The object of each step. The last one is the target."""
    expression: str
    """Code for the target; empty if there is none."""
    path: list[Any]
    """The path, valid only while the variable is the same object."""

    @property
    def target(self) -> Any:
        return self.objects[-1]

    @property
    def library_value(self) -> object:
        """The target as its library's own class (see `as_library_type`)."""
        return as_library_type(self.objects[-1])


def resolve_path(
    path: Sequence[Sequence[object]],
    namespace: dict[str, object],
    computed: Mapping[int, ComputedValue],
) -> ResolvedObject:
    """Find the object of a path.

    Args:
        path: The steps.
        namespace: The variables.
        computed: The computed values that are kept, by their numbers.

    Raises:
        InspectionError: The path is no longer valid; the message is a sentence.
    """
    start_step, *further_steps = path
    value, expression = _resolve_start(start_step, namespace, computed)
    objects = [value]
    for step in further_steps:
        value, code = _follow(value, step)
        if expression and code is not None:
            expression += code
        else:
            expression = ""
        objects.append(value)
    if start_step[0] == "name":
        start_step = ["name", start_step[1], id(objects[0])]
    return ResolvedObject(objects, expression, [start_step, *further_steps])


def _resolve_start(
    step: Sequence[Any], namespace: dict[str, Any], computed: Mapping[int, ComputedValue]
) -> tuple[object, str]:
    """Return the object of a first step, and code for it, which is empty if there is none."""
    kind, name, *arguments = step
    if kind == "frame":
        return frame_variables(FramePlace(name, *arguments)), ""
    if kind == "computed":
        if name not in computed:
            raise InspectionError("This value is no longer kept; open it again.")
        return computed[name]
    if kind == "shown":
        table = displayed_table(name)
        if table is None:
            raise InspectionError("The value of this table is no longer kept; run the cell again.")
        return table, _variable_of(table, namespace)

    if name not in namespace:
        raise InspectionError(f"There is no variable named {name}.")
    value = namespace[name]
    if arguments and arguments[0] != id(value):
        raise InspectionError(f"{name} is now a different object; press r to reload.")
    if _is_name(name):
        return value, name
    return value, f"globals()[{name!r}]"


def _variable_of(value: object, namespace: dict[str, object]) -> str:
    """Return the name of a variable that is this object; empty if there is none."""
    for name, other_value in dict.items(namespace):
        if other_value is value and type(name) is str and _is_name(name):
            return name
    return ""


def _follow(value: Any, step: Sequence[Any]) -> tuple[object, str | None]:
    """Return the object of a further step, and code to append to that of `value`; None if there is no
    code."""
    kind = step[0]
    if kind == "item":
        return _follow_item(value, step[1])
    if kind == "attribute":
        return _follow_attribute(value, step[1])
    if kind == "slice":
        return _follow_slice(value, step[1])
    if kind == "column":
        return _follow_table(value, None, step[1])
    return _follow_table(value, step[1], step[-1])


def _follow_item(value: object, position: int) -> tuple[object, str | None]:
    children = list_children(value, position, position + 1)
    if not children:
        raise InspectionError("This item no longer exists.")
    (child,) = children
    base = container_class(value)
    if base is dict and _can_be_written(child.key):
        return child.value, f"[{child.key!r}]"
    if base in SLICEABLE or base is collections.deque:
        return child.value, f"[{position}]"
    return child.value, None


def _follow_attribute(value: object, name: str) -> tuple[object, str | None]:
    attribute_value = stored_attribute(value, name)
    if attribute_value is MISSING:
        raise InspectionError(f"The attribute {name} no longer exists.")
    if _is_name(name):
        return attribute_value, f".{name}"
    return attribute_value, None


def _follow_slice(value: object, indices: Sequence[int | None]) -> tuple[object, str]:
    part = slice_array(as_library_type(value), indices)
    if set(indices) == {None}:
        return part, ""
    index_texts = [":" if index is None else str(index) for index in indices]
    return part, f"[{', '.join(index_texts)}]"


def _follow_table(value: object, row: int | None, column: int) -> tuple[object, str | None]:
    """Return a cell of a table, or a whole column if the row is None."""
    table = as_table(as_library_type(value))
    if table is None or not 0 <= column < table.columns:
        raise InspectionError("This part of the table no longer exists.")
    if row is None:
        return table.series(column), table.expression(column) or None
    if not 0 <= row < table.rows:
        raise InspectionError("This part of the table no longer exists.")
    return table.column(column).value(row), table.cell_expression(row, column) or None


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _can_be_written(key: Any) -> bool:
    """Return whether a key can be written in code."""
    if type(key) is float:
        # Infinity and NaN have no literal.
        return key - key == 0
    if type(key) is int or type(key) is bool:
        return key.bit_length() < _MAX_KEY_CHARS
    return type(key) in _LITERALS and (key is None or len(key) < _MAX_KEY_CHARS)
