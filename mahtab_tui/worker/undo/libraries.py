"""Attributes of libraries that code can replace, such as a function of a module.

There are too many to compare them all, so `take_library_snapshots` follows the names in the code that
is about to run: the modules and classes that they may mean, and what these have under the same names.
`LibrarySnapshot.iter_changes` says later what was replaced. Loaded modules, and state inside
libraries that no list, dict or attribute shows, are not included.
"""

from __future__ import annotations

import os
import sys
import types
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any, Callable, NamedTuple

from ..stdlib import belongs_to_worker
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
    mro_of,
    name_of,
    own_dict,
)
from .actions import Action
from .contents import (
    PRIVATE_REGISTRIES,
    REGISTRIES_BY_MODULE,
    ContainerSnapshot,
    find_holders,
    may_contain,
    take_content_snapshots,
)
from .registries import read_registered, write_registered

_ALWAYS_WITHIN_REACH = ("builtins", "sys")
"""The modules that every cell can change without mentioning them."""

_FUNCTION_ATTRIBUTES = (
    *("__code__", "__defaults__", "__kwdefaults__", "__doc__", "__name__", "__qualname__"),
    # Since Python 3.14, reading them runs code.
    *(() if sys.version_info >= (3, 14) else ("__annotations__",)),
)

_CLASS_ATTRIBUTE = "__class__"
"""The attribute with the class of a module or another object, which can be set."""

_CLASS_NAMES = frozenset(("type", _CLASS_ATTRIBUTE))
"""The names by which code gets from an object to its class."""

_MAX_LIBRARIES = 60
"""At most this many modules, classes, functions and objects are looked at."""

_PLAIN_CONTAINERS = Classes(list, tuple, set, frozenset)
_METHOD_WRAPPERS = Classes(staticmethod, classmethod)
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

_DOCUMENTATION = "__doc__"
_PROPERTY_ATTRIBUTES = (_DOCUMENTATION,)
"""The attributes of a property that can be set."""

_CHANGEABLE_CLASS = 1 << 9
"""The flag of classes whose attributes can be set."""

_class_flags: Any = type.__dict__["__flags__"].__get__
"""Returns the flags of a class, bypassing its metaclass."""


class ReleasedObject:
    """An object that a step does not keep alive, because something happens when it ends."""

    def __init__(self, value: Any) -> None:
        """
        Args:
            value: The object, which is only referred to weakly, if that is possible.
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
    label: str
    values: dict[str, Any]
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
        if not name.startswith("_") or name == _CLASS_ATTRIBUTE:
            return True
        if is_module(self.holder) or is_class(self.holder):
            return f"{self.label}.{name}" in PRIVATE_REGISTRIES
        if name.startswith("__"):
            return name in _special_attributes(self.holder)
        return "cache" not in name

    def set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of the library; delete it if the value is `MISSING`."""
        if name == _CLASS_ATTRIBUTE:
            object.__setattr__(self.holder, name, value)
        elif is_class(self.holder):
            if value is MISSING:
                type.__delattr__(self.holder, name)
            else:
                type.__setattr__(self.holder, name, value)
        elif name in _special_attributes(self.holder):
            setattr(self.holder, name, value)
        elif value is MISSING:
            own_dict(self.holder).pop(name, None)
        else:
            own_dict(self.holder)[name] = value


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
        without: Addresses of modules, classes and objects of which there are snapshots.
    """
    names = tuple(mentioned)
    holders = _find_changeable(names, namespace, is_own)
    return [
        take_library_snapshot(holder, names)
        for address, holder in holders.items()
        if address not in without
    ]


def add_snapshots(
    snapshots: list[LibrarySnapshot], new_snapshots: Iterable[LibrarySnapshot]
) -> None:
    """Add snapshots to others, but none of a holder that has one: another thread may have taken it
    meanwhile, and the older one counts."""
    noted_holders = {address_of(snapshot.holder) for snapshot in snapshots}
    snapshots += [
        snapshot for snapshot in new_snapshots if address_of(snapshot.holder) not in noted_holders
    ]


def _find_changeable(
    names: tuple[str, ...], namespace: dict[str, object], is_own: Callable[[Any], bool]
) -> dict[int, Any]:
    """Return what code with these names can change in libraries, by address.

    The parameters are those of `take_library_snapshots`.
    """
    holders: dict[int, Any] = {}
    pending = deque(_values_of_names(names, namespace))
    while pending and len(holders) < _MAX_LIBRARIES:
        value = pending.popleft()
        value_is_module = is_module(value)
        if address_of(value) in holders or not (value_is_module or is_class(value)):
            continue
        if is_own(value) or (value_is_module and _is_being_loaded(value)):
            continue
        if value_is_module:
            # The names may also mean what the module has.
            members = own_dict(value)
            pending += [members[name] for name in names if name in members]
            parts = _find_parts(value, names, is_own)
            pending += filter(is_module, parts)
            holders.update({address_of(part): part for part in parts if not is_module(part)})
        else:
            holders.update({address_of(part): part for part in _find_class_parts(value, names)})
        # Classes of the interpreter, such as `int`, cannot be changed, but may lead to what can.
        if value_is_module or _class_flags(value) & _CHANGEABLE_CLASS:
            holders[address_of(value)] = value
    return holders


def _values_of_names(names: tuple[str, ...], namespace: dict[str, object]) -> list[object]:
    """Return what names mean in the namespace and among the modules; None for what they do not."""
    values = [
        *(sys.modules.get(name) for name in _ALWAYS_WITHIN_REACH),
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
    """Return what code can change through these names of a library's module: functions, objects
    and other modules."""
    label = str(own_dict(module).get("__name__"))
    candidates = [
        part
        for name in (*names, *REGISTRIES_BY_MODULE.get(label, ()))
        for part in find_holders(module, name)
    ]
    return [part for part in candidates if _is_library_part(part) and not is_own(type(part))]


def _find_class_parts(cls: Any, names: Iterable[str]) -> Iterator[Any]:
    """Yield what code can change through these names of a library's class: methods and
    properties."""
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
    if label in _ALWAYS_WITHIN_REACH and label not in mentioned:
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
        attributes[_CLASS_ATTRIBUTE] = type(holder)
    return attributes
