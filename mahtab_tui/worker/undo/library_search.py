"""Finds what code can change in libraries, by the names in the code.

The names lead to modules and classes, and to what these have under the same names: functions, methods,
properties and objects. `libraries` takes a snapshot of each.
"""

from __future__ import annotations

import os
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Callable

from ..stdlib import belongs_to_worker
from ..values.objects import (
    MISSING,
    Classes,
    address_of,
    class_dict,
    class_module,
    is_class,
    is_module,
    mro_of,
    own_dict,
)

ALWAYS_WITHIN_REACH = ("builtins", "sys")
"""The modules that every cell can change without mentioning them."""

CLASS_ATTRIBUTE = "__class__"
"""The attribute with the class of a module or another object, which can be set."""
_CLASS_NAMES = frozenset(("type", CLASS_ATTRIBUTE))
"""The names by which code gets from an object to its class."""
_DOCUMENTATION = "__doc__"

_MAX_HOLDERS = 60
"""At most this many modules, classes, functions and objects are looked at."""

_METHOD_WRAPPERS = Classes(staticmethod, classmethod)

_CHANGEABLE_CLASS = 1 << 9
"""The flag of classes whose attributes can be set."""
_class_flags: Any = type.__dict__["__flags__"].__get__
"""Returns the flags of a class, bypassing its metaclass."""

PRIVATE_REGISTRIES = frozenset(
    (
        *("xml.etree.ElementTree._namespace_map", "shutil._ARCHIVE_FORMATS"),
        *("shutil._UNPACK_FORMATS", "logging._levelToName", "logging._nameToLevel"),
        *("logging._loggerClass", "logging._logRecordFactory", "mimetypes._db", "calendar.c"),
        *("gettext._localedirs", "gettext._current_domain", "asyncio.events._event_loop_policy"),
        *("matplotlib.scale._scale_mapping", "matplotlib.colors._colors_full_map"),
        *("matplotlib.projections.projection_registry", "urllib.request._opener"),
        *("webbrowser._browsers", "webbrowser._tryorder", "webbrowser._os_preferred_browser"),
        *("copyreg._extension_registry", "copyreg._inverted_registry"),
    )
)
"""Attributes of modules that functions of the same module set: private ones, and objects with a state of their
own."""


def _by_module(dotted_names: Iterable[str]) -> dict[str, list[str]]:
    """Return the attributes among names such as ``calendar.c``, by their modules."""
    names: dict[str, list[str]] = {}
    for dotted_name in dotted_names:
        module, _, name = dotted_name.rpartition(".")
        names.setdefault(module, []).append(name)
    return names


_REGISTRIES_BY_MODULE = _by_module(PRIVATE_REGISTRIES)


def find_changeable(
    names: tuple[str, ...], namespace: dict[str, object], is_own: Callable[[Any], bool]
) -> dict[int, Any]:
    """Return what code with these names can change in libraries, by address.

    Args:
        names: Names in the code.
        namespace: The user's.
        is_own: Returns whether a module or class is the user's own, and compared as an object.
    """
    search = _Search(names, namespace, is_own)
    search.run()
    return search.holders


class _Search:
    """Follows the names in code to modules and classes, and from these on."""

    def __init__(
        self, names: tuple[str, ...], namespace: dict[str, object], is_own: Callable[[Any], bool]
    ) -> None:
        """Begin with what the names mean; the parameters are those of `find_changeable`."""
        self.holders: dict[int, Any] = {}
        """What code can change, by address."""
        self._names = names
        self._is_own = is_own
        self._pending = deque(_values_of_names(names, namespace))
        """Values to be looked at; only modules and classes lead to more."""

    def run(self) -> None:
        """Look at all that the names lead to, nearest first, within a limit."""
        while self._pending and len(self.holders) < _MAX_HOLDERS:
            value = self._pending.popleft()
            if address_of(value) in self.holders:
                continue
            if is_module(value):
                self._look_at_module(value)
            elif is_class(value):
                self._look_at_class(value)

    def _look_at_module(self, module: Any) -> None:
        if self._is_own(module) or _is_being_loaded(module):
            return
        # The names may also mean what the module has.
        members = own_dict(module)
        self._pending += [members[name] for name in self._names if name in members]
        for part in _find_parts(module, self._names, self._is_own):
            if is_module(part):
                self._pending.append(part)
            else:
                self.holders[address_of(part)] = part
        self.holders[address_of(module)] = module

    def _look_at_class(self, cls: Any) -> None:
        if self._is_own(cls):
            return
        for part in _find_class_parts(cls, self._names):
            self.holders[address_of(part)] = part
        # Classes of the interpreter, such as `int`, cannot be changed, but may lead to what can.
        if _class_flags(cls) & _CHANGEABLE_CLASS:
            self.holders[address_of(cls)] = cls


def _values_of_names(names: tuple[str, ...], namespace: dict[str, object]) -> list[object]:
    """Return what names mean in the namespace and among the modules; None for what they do not."""
    values = [
        *(sys.modules.get(name) for name in ALWAYS_WITHIN_REACH),
        *(namespace.get(name) for name in names),
        *(sys.modules.get(name) for name in names),
    ]
    if not _CLASS_NAMES.isdisjoint(names):
        values += [type(namespace[name]) for name in names if name in namespace]
    return values


def _is_being_loaded(module: Any) -> bool:
    """Return whether a module's own code still runs, so that it has no earlier state."""
    spec = own_dict(module).get("__spec__")
    return own_dict(spec).get("_initializing") is True


def _find_parts(module: Any, names: Iterable[str], is_own: Callable[[Any], bool]) -> list[Any]:
    """Return what code can change through the names of a library's module: functions, objects and other
    modules.

    Args:
        module: The module.
        names: Names in the code.
        is_own: See `find_changeable`.
    """
    label = str(own_dict(module).get("__name__"))
    candidates = [
        part
        for name in (*names, *_REGISTRIES_BY_MODULE.get(label, ()))
        for part in _find_holders(module, name)
    ]
    return [part for part in candidates if _is_library_part(part) and not is_own(type(part))]


def _find_class_parts(cls: Any, names: Iterable[str]) -> Iterator[Any]:
    """Yield what code can change through the names of a library's class: methods and properties.

    Args:
        cls: The class.
        names: Names in the code.
    """
    bases = mro_of(cls)
    if _DOCUMENTATION in names:
        # Code that sets `__doc__` may reach any property, also by a text: `getattr(cls, text)`.
        for base in bases:
            members = class_dict(base).values()
            yield from (member for member in members if type(member) is property)
    for name in names:
        for base in bases:
            member: Any = class_dict(base).get(name)
            if type(member) in _METHOD_WRAPPERS:
                member = member.__func__
            if type(member) is property:
                yield member
                member = member.fget
            if type(member) is types.FunctionType:
                yield member


def _is_library_part(part: object) -> bool:
    """Return whether a module, a function or an object has attributes, and is not our own."""
    if type(part) is type(os.environ):
        return False  # restored as a setting
    if is_module(part):
        module = own_dict(part).get("__name__")
    elif type(part) is types.FunctionType:
        module = part.__module__
    else:
        module = class_module(type(part)) if _has_attributes(part) else ""
    return bool(module) and not belongs_to_worker(module)


def _has_attributes(value: object) -> bool:
    """Return whether an object has a `__dict__` of its own."""
    return any("__dict__" in class_dict(base) for base in mro_of(type(value)))


def _find_holders(module: types.ModuleType, name: str) -> Iterator[object]:
    """Yield what an attribute of a library's module leads to and has a state of its own: a function
    and its module, the object whose method it is, any other object."""
    value = own_dict(module).get(name, MISSING)
    if type(value) is types.FunctionType:
        yield value
        yield sys.modules.get(value.__module__)
    elif type(value) is types.MethodType:
        yield value.__self__
    elif not is_class(value) and not is_module(value):
        yield value
