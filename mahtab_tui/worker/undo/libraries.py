"""Snapshots of libraries' modules, classes, functions and objects, whose attributes code can replace.

There are too many to take a snapshot of them all, so `library_search` follows the names in the code that is
about to run. `LibrarySnapshot.iter_changes` says later what was replaced, and `contents` what was added to
lists, dicts and sets. Which modules are loaded, and state inside libraries that no list, dict or attribute
shows, is not included.
"""

from __future__ import annotations

import os
import sys
import types
import weakref
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any, Callable, NamedTuple

from ..values.objects import (
    ATOMS,
    MISSING,
    Classes,
    OwnReference,
    address_of,
    class_dict,
    class_module,
    has_weak_references,
    is_class,
    is_lazy,
    is_module,
    name_of,
    own_dict,
)
from .actions import Action
from .contents import ContainerSnapshot, may_contain, take_content_snapshots
from .library_search import (
    ALWAYS_WITHIN_REACH,
    CLASS_ATTRIBUTE,
    PRIVATE_REGISTRIES,
    find_changeable,
)
from .registries import read_registered, write_registered

# Attributes that can be set, and that no `__dict__` has.
_FUNCTION_ATTRIBUTES = (
    *("__code__", "__defaults__", "__kwdefaults__", "__doc__", "__name__", "__qualname__"),
    # Since Python 3.14, reading them runs code.
    *(() if sys.version_info >= (3, 14) else ("__annotations__",)),
)
_PROPERTY_ATTRIBUTES = ("__doc__",)

_PLAIN_CONTAINERS = Classes(list, tuple, set, frozenset)
_MAX_ITEMS = 1_000
"""Items of a list, tuple or set that are looked at; a longer one may contain anything."""

_KERNEL_ATTRIBUTES = frozenset(
    "sys.stdin sys.stdout sys.stderr sys.path sys.modules sys.last_exc sys.last_type sys.last_value"
    " sys.last_traceback sys.breakpointhook warnings.filters builtins.exit builtins.help"
    " builtins.input builtins.quit".split()
)
"""The kernel itself sets these, or they are restored as settings."""

_WITHOUT_FINALIZER = ATOMS.union(
    map(address_of, (type, property, classmethod, staticmethod, dict, type(os.environ))),
    map(address_of, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType)),
    map(address_of, (types.MethodDescriptorType, types.WrapperDescriptorType)),
    map(address_of, (types.GetSetDescriptorType,)),
)
"""Addresses of types whose objects end without running code."""


class ReleasedObject:
    """An object that a step does not keep alive, because something happens when it ends."""

    def __init__(self, value: Any) -> None:
        """Refer to an object weakly, if that is possible; else only note which one it is.

        Args:
            value: The object.
        """
        self.address = address_of(value)
        self._reference = OwnReference(value) if has_weak_references(type(value)) else None

    @property
    def ended(self) -> bool:
        """Whether it is known that the object has ended."""
        return self._reference is not None and self._reference() is None

    def value(self, current_value: Any) -> Any:
        """Return the object; `MISSING` if it ended or is unknown.

        Args:
            current_value: An object that may be the same, for those without weak references.
        """
        if self._reference is None:
            if address_of(current_value) == self.address:
                return current_value
            return MISSING
        referent = self._reference()
        return MISSING if referent is None else referent


class AttributeChange(NamedTuple):
    """An attribute of a library that code has replaced."""

    name: str
    old_value: object
    """A `ReleasedObject` for one that is not kept alive; `MISSING` if there was none."""
    new_value: object
    """`MISSING` if there is none."""


class LibrarySnapshot(NamedTuple):
    """The attributes of a library's module, class, function or object, which code can replace."""

    holder: Any
    """The module, class, function or object itself."""
    label: str
    """Its full name, with which the names of its attributes begin for the user."""
    values: dict[str, Any]
    """The attributes by name; a `ReleasedObject` for one that is not kept alive."""
    registered: tuple[weakref.ref[type], ...] = ()
    """The classes registered with an abstract class."""
    contents: tuple[ContainerSnapshot, ...] = ()
    """What is in its lists, dicts and sets."""
    was_lazy: bool = False
    """Whether it is a module that is only loaded when it is used, and was not loaded then."""

    @property
    def was_loaded_since(self) -> bool:
        """Whether the module was loaded since, so that all its attributes are new."""
        return self.was_lazy and not is_lazy(self.holder)

    def registry_action(self) -> Action | None:
        """Return how to register the same classes as before; None if they are registered."""
        if not is_class(self.holder):
            return None
        current_classes = read_registered(self.holder)
        old_classes = [cls for reference in self.registered if (cls := reference()) is not None]
        if list(map(address_of, current_classes)) == list(map(address_of, old_classes)):
            return None
        write = partial(write_registered, self.holder)
        return Action(partial(write, old_classes), partial(write, current_classes))

    def iter_changes(self, mentioned: Collection[str]) -> Iterator[AttributeChange]:
        """Yield the replaced attributes.

        Args:
            mentioned: Names in the code that ran; of others only public ones count.
        """
        if self.was_loaded_since:
            return
        attributes = _attributes(self.holder)
        for name in dict.fromkeys((*self.values, *attributes)):
            old_value = self.values.get(name, MISSING)
            new_value = attributes.get(name, MISSING)
            if _is_same(old_value, new_value):
                continue
            # An import sets submodules as attributes of their packages.
            if is_module(new_value) and (old_value is MISSING or is_module(old_value)):
                continue
            if type(name) is not str or f"{self.label}.{name}" in _KERNEL_ATTRIBUTES:
                continue
            if name in mentioned or self.is_public(name):
                yield AttributeChange(name, old_value, new_value)

    def is_public(self, name: str) -> bool:
        """Return whether an attribute counts, although no code mentions it."""
        if not name.startswith("_") or name == CLASS_ATTRIBUTE:
            return True
        if is_module(self.holder) or is_class(self.holder):
            return f"{self.label}.{name}" in PRIVATE_REGISTRIES
        if name.startswith("__"):
            return name in _special_attributes(self.holder)
        return "cache" not in name

    def set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of the library; delete it if the value is `MISSING`. No code of a derived class
        or a metaclass runs."""
        holder = self.holder
        if name == CLASS_ATTRIBUTE:
            object.__setattr__(holder, name, value)
        elif is_class(holder) and value is MISSING:
            type.__delattr__(holder, name)
        elif is_class(holder):
            type.__setattr__(holder, name, value)
        elif name in _special_attributes(holder):
            setattr(holder, name, value)
        elif value is MISSING:
            own_dict(holder).pop(name, None)
        else:
            own_dict(holder)[name] = value


def _special_attributes(holder: object) -> tuple[str, ...]:
    """Return the attributes of a function or a property that its `__dict__` does not have."""
    if type(holder) is types.FunctionType:
        return _FUNCTION_ATTRIBUTES
    return _PROPERTY_ATTRIBUTES if type(holder) is property else ()


def _is_same(old_value: object, new_value: object) -> bool:
    """Return whether an attribute still refers to the same object.

    Args:
        old_value: The object, or a `ReleasedObject` for it.
        new_value: What the attribute refers to now.
    """
    if type(old_value) is ReleasedObject:
        return address_of(new_value) == old_value.address and not old_value.ended
    return new_value is old_value


def take_library_snapshots(
    mentioned: Iterable[str],
    namespace: dict[str, object],
    is_own: Callable[[Any], bool],
    without: Collection[int] = (),
) -> list[LibrarySnapshot]:
    """Take snapshots of what code can change in libraries.

    Args:
        mentioned: Names in the code.
        namespace: The user's.
        is_own: Returns whether a module or class is the user's own, and compared as an object.
        without: Addresses of what has a snapshot already.
    """
    names = tuple(mentioned)
    holders = find_changeable(names, namespace, is_own)
    return [
        take_library_snapshot(holder, names)
        for address, holder in holders.items()
        if address not in without
    ]


def add_snapshots(
    snapshots: list[LibrarySnapshot], new_snapshots: Iterable[LibrarySnapshot]
) -> None:
    """Add snapshots to others, except those of a holder that has one: another thread may have taken it
    meanwhile, and the older one counts.

    Args:
        snapshots: Gets the others.
        new_snapshots: The snapshots to add.
    """
    noted_holders = {address_of(snapshot.holder) for snapshot in snapshots}
    snapshots += [
        snapshot for snapshot in new_snapshots if address_of(snapshot.holder) not in noted_holders
    ]


def take_library_snapshot(holder: Any, mentioned: Collection[str] = ()) -> LibrarySnapshot:
    """Take a snapshot that keeps no object alive whose end may run code.

    Args:
        holder: The module, class, function or object.
        mentioned: Names in the code; private attributes count only if they are among them.
    """
    attributes = _attributes(holder)
    values = {
        name: value if _has_no_finalizer(value) else ReleasedObject(value)
        for name, value in attributes.items()
    }
    label = _label_holder(holder)
    registered = read_registered(holder) if is_class(holder) else []
    snapshot = LibrarySnapshot(holder, label, values, tuple(map(weakref.ref, registered)))
    if is_module(holder) and is_lazy(holder):
        return snapshot._replace(was_lazy=True)
    if label in ALWAYS_WITHIN_REACH and label not in mentioned:
        return snapshot
    containers = {
        name: value
        for name, value in attributes.items()
        if may_contain(value)
        and (name in mentioned or snapshot.is_public(name))
        and f"{label}.{name}" not in _KERNEL_ATTRIBUTES
    }
    return snapshot._replace(contents=take_content_snapshots(label, containers))


def _label_holder(holder: Any) -> str:
    """Return the full name of a module, class or function; for an object, that of its class."""
    if is_class(holder):
        return f"{class_module(holder)}.{name_of(holder)}"
    function = holder.fget if type(holder) is property else holder
    if type(function) is types.FunctionType:
        return f"{function.__module__}.{function.__qualname__}"
    if is_module(holder):
        return str(own_dict(holder).get("__name__"))
    return f"{class_module(type(holder))}.{name_of(type(holder))}"


def _has_no_finalizer(value: Any) -> bool:
    """Return whether it is certain that the end of an object runs no code."""
    if type(value) in _PLAIN_CONTAINERS:
        return len(value) < _MAX_ITEMS and ATOMS.issuperset(map(address_of, map(type, value)))
    return address_of(type(value)) in _WITHOUT_FINALIZER


def _attributes(holder: Any) -> dict[str, object]:
    """Return a copy of a holder's own attributes, without those that it inherits."""
    attributes = dict(class_dict(holder) if is_class(holder) else own_dict(holder))
    special_names = _special_attributes(holder)
    if special_names:
        attributes.update({name: getattr(holder, name) for name in special_names})
    elif not is_class(holder):
        attributes[CLASS_ATTRIBUTE] = type(holder)
    return attributes
