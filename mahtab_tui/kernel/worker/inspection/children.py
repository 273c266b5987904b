"""The children of an object: items of containers by position, attributes of others. Reads only
stored data."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from ..secret_names import UNTOLD, summary_of
from ..statics import (
    MISSING,
    Classes,
    attribute,
    attributes,
    class_dict,
    is_class,
    is_module,
    mro_of,
    own_dict,
)
from ..summary import kind_of, one_line, size_of, summary, type_name
from .pace import LookError

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
_UNTOLD = Classes(property, types.GetSetDescriptorType)
"""Attributes whose values only code can compute."""
_OWN = Classes(property, types.MemberDescriptorType)
_LABEL = 80
"""Characters of a label."""


class Child(NamedTuple):
    """Something inside an object."""

    step: list[Any]
    """The step to it; see `paths`."""
    label: str
    value: Any
    """`MISSING` for a property, since getting it would run code."""
    key: Any = None
    """Key of an item of a dict."""


def base_of(value: object) -> type | None:
    """Return the built-in container class of an object; None if it is no container."""
    for base in mro_of(type(value)):
        if base in _CONTAINERS:
            return base
    return None


def count_of(value: object) -> int:
    """Count the children of an object."""
    base = base_of(value)
    return len(_attribute_names(value)) if base is None else _length(value, base)


def children_of(value: object, start: int, stop: int) -> list[Child]:
    """Return some of the children, by position. Raises `LookError` if a container changes
    meanwhile."""
    base = base_of(value)
    if base is None:
        return [_attribute(value, name) for name in _attribute_names(value)[start:stop]]
    try:
        return list(_items(value, base, start, stop))
    except RuntimeError:
        raise LookError("The object changed while it was read; press r to reload.") from None


def child_at(value: object, position: int) -> Child:
    """Return an item of a container. Raises `LookError`."""
    found = children_of(value, position, position + 1)
    if not found:
        raise LookError("This item no longer exists.")
    return found[0]


def all_attributes(value: object) -> list[Child]:
    """Return the attributes of an object and its classes without special names, private ones last.
    Properties are not run."""
    names = [
        name for name in attributes(value) if not (name.startswith("__") and name.endswith("__"))
    ]
    return [
        _attribute(value, name)
        for name in sorted(names, key=lambda name: (name.startswith("_"), name))
    ]


def described(child: Child, above: Iterable[object]) -> dict[str, Any]:
    """Describe a child as a row. above: the objects on the path to it, which may include it."""
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
        summary=summary_of(child.label, child.value),
        kind=kind_of(child.value),
    )
    if type(child.value) is str and row["summary"] != UNTOLD:
        row["summary"] = quoted(child.value)
    if row["kind"] == "data" and type(child.value) not in _PLAIN:
        if any(child.value is one for one in above):
            row["state"] = "cycle"
        else:
            row["count"] = count_of(child.value)
    return row


def quoted(text: str) -> str:
    """Return the start of a text in quotes."""
    return f"'{one_line(text, _LABEL)}'"


def _length(value: Any, base: type) -> int:
    known = size_of(value)
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
        for place, item in enumerate(part, start):
            yield Child(["item", place], names[place] if place < len(names) else str(place), item)
    elif base is range:
        for place in range(start, min(stop, _length(value, base))):
            yield Child(["item", place], str(place), value.start + place * value.step)
    elif base is dict:
        for place, (key, item) in enumerate(_entries(value, start, stop), start):
            yield Child(["item", place], key_label(key), item, key)
    else:
        for place, item in enumerate(islice(iterate(value), start, stop), start):
            yield Child(["item", place], str(place), item)


def _entries(value: Any, start: int, stop: int) -> list[tuple[Any, Any]]:
    """Return some entries of a dict, iterating from the nearer end."""
    size, entries = dict.__len__(value), dict.items(value)
    stop = min(stop, size)
    if start <= size // 2:
        return list(islice(entries, start, stop))
    return list(islice(reversed(entries), size - stop, max(size - stop, size - start)))[::-1]


def key_label(key: Any) -> str:
    """Format a dict's key in a line."""
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
    return Child(["attribute", name], name, stored(value, name))


def stored(value: object, name: str) -> Any:
    """Return an attribute as stored; `MISSING` if only code can compute it."""
    found = attribute(value, name)
    return MISSING if type(found) in _UNTOLD else found
