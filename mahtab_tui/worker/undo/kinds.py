"""Kinds of objects: which parts an object of a class has, and how much an undo knows of it."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ..stdlib import belongs_to_worker
from ..values.objects import (
    MISSING,
    address_of,
    class_dict,
    class_module,
    get_if_loaded,
    is_class,
    is_module,
    is_subclass,
    mro_of,
    name_of,
    own_dict,
)
from .library_parts import BY_BASE, DTYPE, IMMUTABLE, SCALAR
from .opaque import is_memory_file, opaque_kind, progress_part
from .parts import (
    ANNOTATIONS,
    ATTRIBUTES,
    BUILTINS,
    CLASS,
    FUNCTION,
    MODULE,
    PANDAS_ATTRIBUTES,
    SLOTS,
    ObjectPart,
    slot_descriptors,
)
from .user_modules import user_modules

_PARTLESS_CLASSES = (
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
    type(NotImplemented),
)
"""Classes whose objects never change, and need no comparison."""
_UNCHANGING_PACKAGES = ("pyarrow", "polars", "weakref", "torch")
"""Packages and modules whose objects are only compared by identity."""
_PLAIN_PACKAGES = ("numpy", "pandas", "polars", "pyarrow", "torch")
"""Packages whose objects contain only data: nothing happens when they end."""
_IO_MODULE = "_io"
_CAPSULE = ("builtins", "PyCapsule")
"""Keeps memory alive for an array, which shows its contents."""

# As `type` defines them, whatever a metaclass defines.
_BASE: Callable[[type], type] = type.__dict__["__base__"].__get__
_FLAGS: Callable[[type], int] = type.__dict__["__flags__"].__get__
_OBJECT_BYTES: Callable[[type], int] = type.__dict__["__basicsize__"].__get__
_ITEM_BYTES: Callable[[type], int] = type.__dict__["__itemsize__"].__get__

# Flags of classes whose objects keep these two outside the memory that `__basicsize__` counts.
_MANAGED_WEAKREF = 1 << 3
_MANAGED_DICT = 1 << 4
_WORD_BYTES = 8
"""The size of an attribute dict's, a weak reference list's or a slot's pointer in an object."""


class Kind(NamedTuple):
    """What an undo knows of the objects of one class."""

    parts: tuple[ObjectPart, ...]
    """What can be read, compared and written of them."""
    is_user_defined: bool = False
    """Whether their class is the user's own."""
    has_memory: bool = False
    """Whether they have memory that is compared as bytes, such as arrays."""
    is_complete: bool = True
    """Whether the parts contain all of their state."""
    is_weak: bool = False
    """Whether they are weak references."""
    has_finalizer: bool = False
    """Whether their end has an effect: a file is closed, `__del__` runs."""
    referable: bool = False
    """Whether weak references to them can have callbacks, which run when they end."""

    @property
    def can_change(self) -> bool:
        """Whether undo can write a part of them."""
        return any(part.write is not None for part in self.parts)


_NO_PARTS = Kind(())
_USER_CLASS = Kind((CLASS,))
_USER_KINDS = {
    address_of(types.ModuleType): Kind((MODULE,)),
    address_of(types.FunctionType): Kind((FUNCTION, ANNOTATIONS, ATTRIBUTES)),
}
"""Modules and functions of the user, by the addresses of their types; those of libraries have no
parts."""


class Kinds:
    """Finds the kinds of objects, and remembers them by class."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        """Tell the user's modules from others, and note which classes of libraries are loaded.

        Args:
            namespace: The user's.
        """
        self._namespace = namespace
        self._module_count = len(sys.modules)
        self.user_modules = user_modules()
        """Modules that are neither in the standard library nor in installed packages, by their names."""
        self._globals = {
            address_of(namespace),
            *(address_of(own_dict(module)) for module in self.user_modules.values()),
        }
        """Addresses of the globals of the user's functions."""
        self._immutable_parts = _load_immutable_parts()
        self._parts_by_base: list[tuple[Any, tuple[ObjectPart, ...]]] = [
            *((get_if_loaded(*class_name), parts) for class_name, parts in BY_BASE.items()),
            *((cls, (part,)) for cls, part in BUILTINS),
        ]
        self._kinds: dict[int, Kind] = {}
        """By the addresses of classes."""
        self._classes: dict[int, weakref.ref[type]] = {}
        """To forget a class when it ends, because another one could get its address."""

    def current(self) -> Kinds:
        """Return new kinds if a module was loaded since: a class of it may be the user's own."""
        if len(sys.modules) == self._module_count:
            return self
        return Kinds(self._namespace)

    def kind(self, value: object) -> Kind:
        """Return the kind of an object."""
        cls = type(value)
        class_address = address_of(cls)
        kind = self._kinds.get(class_address)
        if kind is None:
            user_kind = _USER_CLASS if is_class(value) else _USER_KINDS.get(class_address)
            # Of classes, modules and functions, the kind depends on the object.
            if user_kind is not None:
                return user_kind if self.is_user_defined(value) else _NO_PARTS
            kind = self._find_kind(cls)
            self._kinds[class_address] = kind
            self._classes[class_address] = weakref.ref(cls, self._forget)

        # The namespace is restored name by name.
        if value is self._namespace:
            return _NO_PARTS
        return kind

    def is_fixed(self, address: int, holder: object) -> bool:
        """Return whether an object cannot be replaced in its holder."""
        fixed_values = [
            value
            for part in self.kind(holder).parts
            if part.write is None
            for value in part.read(holder)
        ]
        return any(address_of(value) == address for value in fixed_values)

    def is_user_defined(self, value: Any) -> bool:
        """Return whether a class, module, function or closure is the user's."""
        if is_class(value):
            return self._is_user_class(value)
        if is_module(value):
            return address_of(own_dict(value)) in self._globals
        if address_of(value.__globals__) in self._globals:
            return True
        is_ours = belongs_to_worker(value.__globals__.get("__name__"))
        return value.__closure__ is not None and not is_ours

    @property
    def shared_objects(self) -> list[tuple[str, object]]:
        """Modules of the user's, and matplotlib's settings and figures, with their labels."""
        figures = get_if_loaded("matplotlib._pylab_helpers", "Gcf")
        if is_class(figures):
            figures = class_dict(figures)["figs"]
        plot_objects = (
            ("matplotlib.rcParams", get_if_loaded("matplotlib", "rcParams")),
            ("open figures", figures),
        )
        return [
            *((f"module {name}", module) for name, module in self.user_modules.items()),
            *((label, value) for label, value in plot_objects if value is not MISSING),
        ]

    def _forget(self, ended_reference: weakref.ref[type]) -> None:
        """Forget the kind of a class that has ended."""
        # Runs on any thread, while another one may remember a class.
        for address, reference in self._classes.copy().items():
            if reference is ended_reference:
                del self._classes[address]
                del self._kinds[address]

    def _find_kind(self, cls: type) -> Kind:
        """Return the kind of a class's objects."""
        # A fork changes the kernel's own objects, which must not come back.
        if belongs_to_worker(class_module(cls)):
            return _NO_PARTS

        immutable_parts = self._find_immutable_parts(cls)
        opaque = opaque_kind(cls)
        if immutable_parts is not None:
            parts = immutable_parts
            is_complete = True
            has_finalizer = False
        elif opaque is not None:
            parts = (progress_part(cls, opaque),)
            is_complete = opaque.read_progress is not None
            has_finalizer = opaque.has_finalizer
        else:
            parts = self._find_mutable_parts(cls)
            is_complete = self._has_all_state_in_parts(cls)
            has_finalizer = not is_complete

        bases = mro_of(cls)
        has_finalizer |= has_del_method(cls)
        is_weak = is_subclass(cls, weakref.ref)
        is_plain = is_weak or _package_of(cls) in _PLAIN_PACKAGES
        return Kind(
            parts,
            is_user_defined=self._is_user_class(cls),
            has_memory=any(part.has_memory for part in parts),
            is_complete=is_complete,
            is_weak=is_weak,
            has_finalizer=has_finalizer and not is_plain,
            referable=not is_plain and any("__weakref__" in class_dict(base) for base in bases),
        )

    def _find_immutable_parts(self, cls: type) -> tuple[ObjectPart, ...] | None:
        """Return what distinguishes objects that never change; None for other classes."""
        is_record = is_subclass(cls, get_if_loaded("numpy", "void"))
        if is_subclass(cls, get_if_loaded("numpy", "generic")) and not is_record:
            return (SCALAR,)
        if is_subclass(cls, get_if_loaded("numpy", "dtype")):
            return (DTYPE,)
        is_struct_sequence = "n_sequence_fields" in class_dict(cls) and is_subclass(cls, tuple)
        if is_struct_sequence:
            return (ObjectPart(lambda value: list(tuple.__iter__(value))),)
        if any(is_subclass(cls, base) for base in _PARTLESS_CLASSES):
            return ()
        return self._immutable_parts.get(address_of(cls))

    def _find_base(self, cls: type) -> tuple[Any, tuple[ObjectPart, ...]]:
        """Return the first base of a class that the tables know, and its parts; None and no parts
        without one."""
        for base, parts in self._parts_by_base:
            if is_subclass(cls, base):
                return base, parts
        return None, ()

    def _find_mutable_parts(self, cls: type) -> tuple[ObjectPart, ...]:
        """Return the parts of a class's objects."""
        _, parts = self._find_base(cls)
        bases = mro_of(cls)
        if any("__dict__" in class_dict(base) for base in bases):
            is_of_pandas = any(class_module(base).startswith("pandas.") for base in bases)
            parts += (PANDAS_ATTRIBUTES if is_of_pandas else ATTRIBUTES,)
        if slot_descriptors(cls):
            parts += (SLOTS,)
        return parts

    def _has_all_state_in_parts(self, cls: type) -> bool:
        """Return whether the parts of a class's objects are all of their state."""
        native_class = _native_base(cls)
        native_package = _package_of(native_class)
        if native_class is object or native_package in _UNCHANGING_PACKAGES:
            return True
        if (class_module(cls), name_of(cls)) == _CAPSULE:
            return True

        base, _ = self._find_base(cls)
        if base is None:
            return False
        if is_subclass(base, native_class):
            return True
        # Within one package, the parts of a base cover what its derived C classes add.
        return is_subclass(native_class, base) and _package_of(base) == native_package

    def _is_user_class(self, cls: type) -> bool:
        """Return whether a class is the user's, by the module that it names."""
        module = class_module(cls)
        return module in self.user_modules or module == self._namespace.get("__name__", "__main__")


def has_del_method(cls: type) -> bool:
    """Return whether objects of a class run a `__del__` when they end that does something."""
    bases = mro_of(cls)
    finalizing_base = next((base for base in bases if "__del__" in class_dict(base)), None)
    if finalizing_base is None or class_module(finalizing_base) != _IO_MODULE:
        return finalizing_base is not None
    # It closes the file. One in memory does nothing then, unless a derived class does.
    own_bases = [base for base in bases if class_module(base) != _IO_MODULE]
    overrides = any(name in class_dict(base) for base in own_bases for name in ("close", "flush"))
    return overrides or not is_memory_file(cls)


def _load_immutable_parts() -> dict[int, tuple[ObjectPart, ...]]:
    """Return the parts of immutable objects by the addresses of their classes, as far as these are
    loaded."""
    parts_by_class: dict[int, tuple[ObjectPart, ...]] = {}
    for class_name, read in IMMUTABLE.items():
        cls = get_if_loaded(*class_name)
        if cls is not MISSING:
            parts_by_class[address_of(cls)] = () if read is None else (ObjectPart(read),)
    return parts_by_class


def _package_of(cls: type) -> str:
    return class_module(cls).partition(".")[0]


def _native_base(cls: type) -> type:
    """Return the C class that determines what objects store; `object` if all is in attributes and
    slots."""
    while cls is not object:
        base = _BASE(cls)
        added_bytes = _OBJECT_BYTES(cls) - _OBJECT_BYTES(base)
        if added_bytes > _count_python_fields(cls) * _WORD_BYTES:
            return cls
        if _ITEM_BYTES(cls) != _ITEM_BYTES(base):
            return cls
        cls = base
    return cls


def _count_python_fields(cls: type) -> int:
    """Count the pointers that a class adds to its objects for attributes, weak references and
    slots."""
    names = class_dict(cls)
    flags = _FLAGS(cls)
    count = 0
    if "__dict__" in names and not flags & _MANAGED_DICT:
        count += 1
    if "__weakref__" in names and not flags & _MANAGED_WEAKREF:
        count += 1
    if "__slots__" in names:
        count += sum(type(slot) is types.MemberDescriptorType for slot in names.values())
    return count
