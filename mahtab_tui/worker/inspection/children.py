"""The children of an object: the items of a container, or the attributes of another object.

No user code runs: properties are listed without their values, and containers are read by the
methods of their built-in class.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from ..values.objects import (
    MISSING,
    SCALARS,
    Classes,
    class_dict,
    copy_text_keys,
    is_class,
    is_module,
    mro_of,
    own_dict,
    slot_names,
)
from ..values.secret_names import HIDDEN_VALUE
from ..values.short_values import LABEL_CHARS, stored_attribute, summary_or_type
from ..values.summaries import one_line, safe_length, type_name, variable_kind
from ..values.variables import masked_summary
from .limits import InspectionError

SLICEABLE = Classes(list, tuple, range)
"""Containers whose parts are read by slices."""
_CONTAINERS = Classes(
    *(list, tuple, set, frozenset, dict, range, collections.deque),
    *(type({}.keys()), type({}.values()), type({}.items())),
)
_OWN = Classes(property, types.MemberDescriptorType)
"""What a class has for an attribute of its instances."""


class Child(NamedTuple):
    """An item or an attribute of an object."""

    step: list[Any]
    """The step that leads to it, as in `object_paths`."""
    label: str
    value: Any
    """`MISSING` for a property, because getting it would run code."""
    key: Any = None
    """The key of an item of a dict."""


def container_class(value: object) -> Any:
    """Return the built-in class of a container; None for other objects."""
    return next((base for base in mro_of(type(value)) if base in _CONTAINERS), None)


def count_children(value: Any) -> int:
    """Return the number of an object's items or attributes."""
    base = container_class(value)
    if base is None:
        return len(_attribute_names(value))
    if base is range:
        # It may be too long for `len`.
        if not value:
            return 0
        return int((value[-1] - value[0]) // value.step + 1)
    length = safe_length(value)
    if length is None:
        return int(base.__len__(value))
    return length


def list_children(value: Any, start: int, stop: int) -> list[Child]:
    """Return the children from the position `start` up to `stop`.

    Raises `InspectionError` if a container changes meanwhile.
    """
    base = container_class(value)
    if base is None:
        names = _attribute_names(value)[start:stop]
        return [Child(["attribute", name], name, stored_attribute(value, name)) for name in names]
    try:
        if base is dict:
            pairs = enumerate(islice(dict.items(value), start, stop), start)
            return [
                Child(["item", index], _key_label(key), item, key) for index, (key, item) in pairs
            ]
        if base in SLICEABLE:
            items = base.__getitem__(value, slice(start, stop))
        else:
            items = list(islice(base.__iter__(value), start, stop))
    except RuntimeError:
        raise InspectionError("The object changed while it was read; press r to reload.") from None
    labels = {}
    if base is tuple:
        labels = dict(enumerate(field_names(type(value))))
    return [
        Child(["item", index], labels.get(index, str(index)), item)
        for index, item in enumerate(items, start)
    ]


def describe_child(child: Child, ancestors: Iterable[object]) -> dict[str, object]:
    """Return a child as a row of a tree.

    Args:
        child: The child.
        ancestors: The objects on the path to it, which may include the child.

    Returns:
        "step", "label", "type", "summary", "kind" (as `variable_kind`), "count" (of its own
        children), and "state": "property", "cycle" or empty.
    """
    value = child.value
    row = {"step": child.step, "label": child.label, "kind": "data", "count": 0, "state": ""}
    if value is MISSING:
        return {**row, "type": "property", "summary": "(…)", "state": "property"}
    summary = masked_summary(child.label, value)
    if type(value) is str and summary != HIDDEN_VALUE:
        summary = _quote(value)
    row.update(type=type_name(value), summary=summary, kind=variable_kind(value))
    if row["kind"] == "data" and type(value) not in SCALARS:
        if any(value is ancestor for ancestor in ancestors):
            row["state"] = "cycle"
        else:
            row["count"] = count_children(value)
    return row


def field_names(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of a named tuple's class; empty for other classes."""
    for base in mro_of(cls):
        names = class_dict(base).get("_fields")
        if type(names) is tuple and all(type(name) is str for name in names):
            return names
    return ()


def _attribute_names(value: Any) -> list[str]:
    """Return the names of an object's attributes without double underscores; of a module or a class,
    those of its own members."""
    if is_class(value):
        members = class_dict(value)
    else:
        members = own_dict(value)
    names = copy_text_keys(members)
    if is_module(value) or is_class(value):
        return [name for name in names if not name.startswith("__")]
    names.update(dict.fromkeys(slot_names(type(value))))
    for base in mro_of(type(value)):
        for name, member in copy_text_keys(class_dict(base)).items():
            if type(member) in _OWN and not name.startswith("__"):
                names[name] = None
    return list(names)


def _key_label(key: object) -> str:
    if type(key) is str:
        return _quote(key)
    return summary_or_type(key)


def _quote(text: str) -> str:
    return f"'{one_line(text, LABEL_CHARS)}'"
