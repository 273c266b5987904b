"""The children of an object, and paths to them.

The steps of a path; the first five kinds only start one:

    ["name", "df"]                           a variable
    ["name", "df", 1402]                     a variable, only while it is the object with this `id`
    ["held", 7]                              a computed value, kept until its screen closes
    ["shown", "3f…"]                         the value of a displayed table
    ["frame", 4, "In [4]", 3, "f", 0, 1]     the variables of a frame (see `frame_locals`)
    ["item", 3]                              an item of a container, by position
    ["attribute", "x"]                       an attribute
    ["column", 2], ["cell", 10, 2]           a column, or a cell, of a table
    ["slice", [0, null]]                     a part of an array; null keeps a dimension
"""

from __future__ import annotations

import collections
import keyword
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from ..displays import shown_table
from ..objects import (
    MISSING,
    Classes,
    as_library_type,
    attribute,
    attributes,
    class_dict,
    is_class,
    is_module,
    mro_of,
    own_dict,
)
from ..tracebacks import CELL, cell_filename
from ..variables import (
    UNTOLD,
    masked_summary,
    one_line,
    safe_length,
    summary,
    type_name,
    variable_kind,
)
from .columns import InspectionError
from .content import sliced
from .tables import as_table

_CAUSE, _CONTEXT, _SUPPRESSED, _TRACEBACK = (
    BaseException.__dict__[name]
    for name in ("__cause__", "__context__", "__suppress_context__", "__traceback__")
)
"""Bypass attributes of the exception's own class."""
_MOST = 100
"""Maximum number of chained exceptions to examine."""


def frame_locals(
    cell: int, file: str, line: int, function: str, frame_index: int, of: int
) -> dict[str, Any]:
    """Return the variables of a frame of the error that ended a cell. frame_index: its index among
    the `of` frames at this line of this function.

    Raises `InspectionError` if they are not available.
    """
    error = getattr(sys, "last_value", None)
    errors = list(_exception_chain(error)) if isinstance(error, BaseException) else []
    if not errors or _failing_cell(_TRACEBACK.__get__(errors[-1])) != cell_filename(cell):
        raise InspectionError(
            "The variables are gone: other code has failed since, or the kernel was restarted."
        )
    if function == "<module>":
        raise InspectionError("The variables of this frame are those of the namespace.")
    found = [
        frame
        for each in errors
        for frame, number in _frames(_TRACEBACK.__get__(each))
        if number == line
        and frame.f_code.co_name == function
        and file in (frame.f_code.co_filename, os.path.abspath(frame.f_code.co_filename))
    ]
    if len(found) != of:
        raise InspectionError(
            "The variables are unknown: the same line occurs in the error more often than shown."
        )
    variables = found[frame_index].f_locals
    if isinstance(variables, dict):
        return dict(dict.items(variables))
    # From Python 3.13 on.
    if type(variables).__name__ == "FrameLocalsProxy" and type(variables).__module__ == "builtins":
        return dict(variables)
    raise InspectionError("The variables are in a custom mapping, whose code is not run here.")


def _exception_chain(error: BaseException) -> Iterator[BaseException]:
    """Return an exception's chain in the order of its traceback, ending with itself."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while (
        following is not None
        and len(chain) < _MOST
        and not any(each is following for each in chain)
    ):
        chain.append(following)
        cause = _CAUSE.__get__(following)
        following = (
            cause
            if cause is not None or _SUPPRESSED.__get__(following)
            else _CONTEXT.__get__(following)
        )
    return reversed(chain)


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _failing_cell(traceback: TracebackType | None) -> str:
    """Return the file name of the cell that raised an error."""
    return next(
        (
            frame.f_code.co_filename
            for frame, _ in _frames(traceback)
            if frame.f_code.co_filename.startswith(CELL)
        ),
        "",
    )


_SEQUENCES = Classes(list, tuple)
_CONTAINERS = Classes(
    list,
    tuple,
    set,
    frozenset,
    dict,
    range,
    collections.deque,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
_PLAIN = Classes(
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
)
_COMPUTED = Classes(property, types.GetSetDescriptorType)
"""Attributes whose values only code can compute."""
_OWN = Classes(property, types.MemberDescriptorType)
_LABEL = 80
"""Maximum characters of a label."""


class Child(NamedTuple):
    """An item or attribute of an object."""

    step: list[Any]
    """The step to it; see the module's docstring."""
    label: str
    value: Any
    """`MISSING` for a property, because getting it would run code."""
    key: Any = None
    """The key of a dict's item."""


def container_class(value: object) -> type | None:
    """Return the built-in container class of an object; None if it is not a container."""
    for base in mro_of(type(value)):
        if base in _CONTAINERS:
            return base
    return None


def count_children(value: object) -> int:
    base = container_class(value)
    return len(_attribute_names(value)) if base is None else _length(value, base)


def list_children(value: object, start: int, stop: int) -> list[Child]:
    """Return some of the children, by position. Raises `InspectionError` if a container changes
    meanwhile."""
    base = container_class(value)
    if base is None:
        return [_attribute(value, name) for name in _attribute_names(value)[start:stop]]
    try:
        return list(_items(value, base, start, stop))
    except RuntimeError:
        raise InspectionError("The object changed while it was read; press r to reload.") from None


def child_at(value: object, position: int) -> Child:
    """Return an item of a container. Raises `InspectionError`."""
    found = list_children(value, position, position + 1)
    if not found:
        raise InspectionError("This item no longer exists.")
    return found[0]


def all_attributes(value: object) -> list[Child]:
    """Return the attributes of an object and its classes without special names, private ones last.
    Properties are not evaluated."""
    names = [
        name for name in attributes(value) if not (name.startswith("__") and name.endswith("__"))
    ]
    return [
        _attribute(value, name)
        for name in sorted(names, key=lambda name: (name.startswith("_"), name))
    ]


def describe_child(child: Child, above: Iterable[object]) -> dict[str, Any]:
    """Describe a child as a row. above: the objects on the path to it, which may include the child
    itself."""
    row: dict[str, Any] = {
        "step": child.step,
        "label": child.label,
        "type": "",
        "summary": "",
        "kind": "data",
        "count": 0,
        "state": "",
    }
    if child.value is MISSING:
        return {**row, "type": "property", "summary": "(…)", "state": "property"}
    row.update(
        type=type_name(child.value),
        summary=masked_summary(child.label, child.value),
        kind=variable_kind(child.value),
    )
    if type(child.value) is str and row["summary"] != UNTOLD:
        row["summary"] = quoted(child.value)
    if row["kind"] == "data" and type(child.value) not in _PLAIN:
        if any(child.value is one for one in above):
            row["state"] = "cycle"
        else:
            row["count"] = count_children(child.value)
    return row


def quoted(text: str) -> str:
    """Return the start of a text in quotes."""
    return f"'{one_line(text, _LABEL)}'"


def _length(value: Any, base: type) -> int:
    known = safe_length(value)
    if known is not None:
        return known
    if base is range:
        # Not `len`, because a range may be too long for it.
        return int(
            max(
                0,
                (value.stop - value.start + value.step - (1 if value.step > 0 else -1))
                // value.step,
            )
        )
    return int(base.__len__(value))  # type: ignore[attr-defined]


def _items(value: Any, base: type, start: int, stop: int) -> Iterator[Child]:
    iterate: Callable[[Any], Iterator[Any]] = base.__dict__["__iter__"]
    if base in _SEQUENCES:
        names = field_names(type(value)) if base is tuple else ()
        part = base.__dict__["__getitem__"](value, slice(start, stop))
        for index, item in enumerate(part, start):
            yield Child(["item", index], names[index] if index < len(names) else str(index), item)
    elif base is range:
        for index in range(start, min(stop, _length(value, base))):
            yield Child(["item", index], str(index), value.start + index * value.step)
    elif base is dict:
        for index, (key, item) in enumerate(_entries(value, start, stop), start):
            yield Child(["item", index], key_label(key), item, key)
    else:
        for index, item in enumerate(islice(iterate(value), start, stop), start):
            yield Child(["item", index], str(index), item)


def _entries(value: Any, start: int, stop: int) -> list[tuple[Any, Any]]:
    """Return some entries of a dict, iterating from the nearer end."""
    size, entries = dict.__len__(value), dict.items(value)
    stop = min(stop, size)
    if start <= size // 2:
        return list(islice(entries, start, stop))
    return list(islice(reversed(entries), size - stop, max(size - stop, size - start)))[::-1]


def key_label(key: Any) -> str:
    """Format a dict's key as one line."""
    if type(key) is str:
        return quoted(key)
    return one_line(summary(key) or type_name(key), _LABEL)


def field_names(cls: type) -> tuple[str, ...]:
    """Return the names of a named tuple's fields."""
    for base in mro_of(cls):
        fields = class_dict(base).get("_fields")
        if type(fields) is tuple and all(type(name) is str for name in fields):
            return fields
    return ()


def _attribute_names(value: object) -> list[str]:
    """Return the names of an object's own attributes in order, then of its classes' slots and
    properties."""
    if is_module(value):
        return [name for name in own_dict(value) if type(name) is str and not name.startswith("__")]
    if is_class(value):
        return [
            name
            for name in class_dict(value)  # type: ignore[arg-type]
            if type(name) is str and not name.startswith("__")
        ]
    names = dict.fromkeys(name for name in list(own_dict(value)) if type(name) is str)
    for base in mro_of(type(value)):
        for name, item in list(class_dict(base).items()):
            if type(name) is str and type(item) in _OWN and not name.startswith("__"):
                names[name] = None
    return list(names)


def _attribute(value: object, name: str) -> Child:
    return Child(["attribute", name], name, stored_attribute(value, name))


def stored_attribute(value: object, name: str) -> Any:
    """Return an attribute as stored; `MISSING` if only code can compute it."""
    found = attribute(value, name)
    return MISSING if type(found) in _COMPUTED else found


_WRITTEN = Classes(str, bytes, type(None))
"""Keys that, like numbers, can be written as literals."""
_LONGEST = 1000
"""Maximum length of a key, in characters or bits, that is written as a literal."""
_BY_POSITION = Classes(list, tuple, range, collections.deque)


class ComputedValue(NamedTuple):
    """A value computed on request, and its expression."""

    value: Any
    expression: str


class ResolvedPath(NamedTuple):
    """The objects on a path."""

    objects: list[Any]
    """All objects on the path; the last one is the target."""
    expression: str
    """Python code for the target; empty if unknown."""
    path: list[Any]
    """The path, valid only while the variable is the same object."""

    @property
    def target(self) -> Any:
        return self.objects[-1]

    @property
    def library_value(self) -> Any:
        """The target as an object of its library's own class."""
        return as_library_type(self.objects[-1])


def resolve_path(
    path: Sequence[Sequence[Any]], namespace: dict[str, Any], computed: dict[int, ComputedValue]
) -> ResolvedPath:
    """Follow a path. Raises `InspectionError` if it is no longer valid."""
    objects: list[Any] = []
    expression = ""
    for kind, *rest in path:
        value = objects[-1] if objects else None
        if kind == "name":
            name = rest[0]
            if name not in namespace:
                raise InspectionError(f"There is no variable named {name}.")
            found, expression = namespace[name], name if _is_name(name) else f"globals()[{name!r}]"
            if rest[1:] and rest[1] != id(found):
                raise InspectionError(f"{name} is now a different object; press r to reload.")
        elif kind == "frame":
            found = frame_locals(*rest)
        elif kind == "shown":
            found = shown_table(rest[0])
            if found is None:
                raise InspectionError(
                    "The value of this table is no longer kept; run the cell again."
                )
            expression = next(
                (
                    name
                    for name, each in dict.items(namespace)
                    if each is found and type(name) is str and _is_name(name)
                ),
                "",
            )
        elif kind == "held":
            if rest[0] not in computed:
                raise InspectionError("This value is no longer kept; open it again.")
            found, expression = computed[rest[0]]
        elif kind == "item":
            child = child_at(value, rest[0])
            found, expression = child.value, _item(expression, value, rest[0], child.key)
        elif kind == "attribute":
            found = stored_attribute(value, rest[0])
            if found is MISSING:
                raise InspectionError(f"The attribute {rest[0]} no longer exists.")
            expression = f"{expression}.{rest[0]}" if expression and _is_name(rest[0]) else ""
        elif kind == "slice":
            found = sliced(as_library_type(value), rest[0])
            written = ", ".join(":" if index is None else str(index) for index in rest[0])
            expression = (
                f"{expression}[{written}]" if expression and set(rest[0]) != {None} else expression
            )
        else:
            table = as_table(as_library_type(value))
            column = rest[-1]
            if (
                table is None
                or not 0 <= column < table.columns
                or (kind == "cell" and not 0 <= rest[0] < table.rows)
            ):
                raise InspectionError("This part of the table no longer exists.")
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
    base = container_class(value)
    if not expression:
        return ""
    if base is dict:
        return f"{expression}[{key!r}]" if _can_be_written(key) else ""
    return f"{expression}[{position}]" if base in _BY_POSITION else ""


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _can_be_written(key: Any) -> bool:
    """Return whether a key can be written as a literal of reasonable length."""
    if type(key) is float:
        return key - key == 0
    if type(key) is int or type(key) is bool:
        return key.bit_length() < _LONGEST
    return type(key) in _WRITTEN and (key is None or len(key) < _LONGEST)
