"""Reads objects without running code of their classes: no properties, `__getattr__`, `__dir__` or
metaclasses."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any, Callable


class Classes:
    """A set of classes compared by identity, because hashing or comparing a class may run its
    metaclass's code."""

    def __init__(self, *classes: type) -> None:
        self._classes = classes
        self._ids = frozenset(map(id, classes))

    def __contains__(self, cls: object) -> bool:
        return id(cls) in self._ids


SLOTS = Classes(types.GetSetDescriptorType, types.MemberDescriptorType)
BOUND = Classes(staticmethod, classmethod)

MISSING: Any = object()
"""Returned by `attribute` if there is no value."""

address_of: Callable[[object], int] = object.__hash__
"""Returns a number that stands for an object while it lives. `id` does so too, but is slow, because
it raises an audit event each time."""

mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
"""Returns a class and its bases, bypassing its metaclass."""

name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
"""Returns a class's name, bypassing its metaclass."""

class_dict: Callable[[type], Mapping[Any, Any]] = type.__dict__["__dict__"].__get__
"""Returns a class's own attributes."""

VARARGS, VARKEYWORDS = 0x04, 0x08
"""Flags of a code object: it takes ``*args``, ``**kwargs``."""

_MODULE: Callable[[type], Any] = type.__dict__["__module__"].__get__
_WRAPPED = 20
"""Decorators that `unwrapped` follows."""
_DICTS = Classes(dict, types.MappingProxyType)


def descends(cls: type, base: object) -> bool:
    """Tell whether a class is another class or a subclass of it."""
    for one in mro_of(cls):  # noqa: SIM110 - three times as fast as `any`, and called hundreds of times for each cell
        if one is base:
            return True
    return False


def module_of(cls: type) -> str:
    """Return the name of the module that a class is from; empty if the class tells something else
    than a name."""
    try:
        found = _MODULE(cls)
    except AttributeError:  # it was deleted
        return ""
    return found if type(found) is str else ""


def is_class(value: object) -> bool:
    """Tell whether it is a class, ignoring its `__class__`."""
    return descends(type(value), type)


def is_module(value: object) -> bool:
    """Tell whether it is a module."""
    return type(value) is types.ModuleType or descends(type(value), types.ModuleType)


def own_dict(value: object) -> dict[Any, Any]:
    """Return the own attributes of an object that is not a class; empty if it has none or its class
    hides them."""
    for base in mro_of(type(value)):
        slot = class_dict(base).get("__dict__")
        if slot is None:
            continue
        found = slot.__get__(value) if type(slot) in SLOTS else None
        return found if type(found) is dict else {}
    return {}


def unwrapped(function: Any) -> types.FunctionType | None:
    """Return the function inside its decorators (`functools.wraps`); None if it is not a Python
    function."""
    for _ in range(_WRAPPED):
        inner = (
            own_dict(function).get("__wrapped__") if type(function) is types.FunctionType else None
        )
        if type(inner) is not types.FunctionType:
            break
        function = inner
    return function if type(function) is types.FunctionType else None


def in_class(cls: type, name: str) -> Any:
    """Look a name up in a class and its bases; `MISSING` if undefined."""
    for base in mro_of(cls):
        found = class_dict(base).get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def attributes(value: object) -> dict[str, Any]:
    """Return all attributes by name as stored: functions instead of methods, properties
    themselves."""
    found: dict[str, Any] = {}
    for base in reversed(mro_of(value if is_class(value) else type(value))):  # type: ignore[arg-type]
        found.update(named(class_dict(base)))
    if is_class(value):
        found.update(
            named(found.get("_member_map_"))
        )  # members of an enumeration before Python 3.11
    else:
        found.update(named(own_dict(value)))
    return found


def attribute(value: object, name: str) -> Any:
    """Return an attribute as stored, with slots read; `MISSING` if reading it would run code."""
    if is_class(value):
        found = in_class(value, name)  # type: ignore[arg-type]
        if found is MISSING:
            found = named(in_class(value, "_member_map_")).get(name, MISSING)  # type: ignore[arg-type]
        return found
    found = in_class(type(value), name)
    if type(found) is property:
        return found
    if type(found) is types.MemberDescriptorType:
        try:
            return found.__get__(value)
        except (AttributeError, TypeError):
            return MISSING
    return own_dict(value).get(name, found)


def loaded(module: str, name: str) -> Any:
    """Return a name of a module if the module is loaded; otherwise `MISSING`."""
    found = sys.modules.get(module)
    return own_dict(found).get(name, MISSING) if is_module(found) else MISSING


def is_one_of(value: object, module: str, *names: str) -> bool:
    """Tell whether an object's class is one of these classes of a loaded module."""
    cls = type(value)
    return any(cls is loaded(module, name) for name in names)


def named(names: object) -> dict[str, Any]:
    """Return what has a name that is a text, copied in one step, since other threads may change
    it."""
    if type(names) not in _DICTS:
        return {}
    return {name: item for name, item in list(names.items()) if type(name) is str}  # type: ignore[attr-defined]
