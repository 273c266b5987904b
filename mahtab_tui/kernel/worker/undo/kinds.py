"""Which parts the objects of a class have."""

from __future__ import annotations

import io
import os
import sys
import sysconfig
import types
import warnings
import weakref
from typing import Any, ClassVar, NamedTuple

from ..statics import (
    MISSING,
    address_of,
    class_dict,
    descends,
    is_class,
    is_module,
    loaded,
    module_of,
    mro_of,
    name_of,
    own_dict,
)
from ..stdlib import late_import
from .fixed import FixedKinds
from .opaque import opaque_kind, progress_marker
from .part import ATOMS, Part, Values, prepared
from .parts import ATTRIBUTES, CLASS, CONTAINERS, OF_PANDAS, SLOTS, pairs, slot_descriptors
from .tables import SPECIAL

_UNCHANGING = ("pyarrow", "polars", "weakref", "torch")
"""Packages and modules of classes whose objects are compared by identity alone."""
_CAPSULE = ("builtins", "PyCapsule")
"""The class of what keeps memory alive that a library lends to an array, as Arrow does; the array
tells what is in it."""
_PLAIN = ("numpy", "pandas", "polars", "pyarrow", "torch")
"""Packages whose objects hold nothing but data."""
_BASE: Any = type.__dict__["__base__"].__get__
_FLAGS: Any = type.__dict__["__flags__"].__get__
_SIZE: Any = type.__dict__["__basicsize__"].__get__
_ITEM_SIZE: Any = type.__dict__["__itemsize__"].__get__
_MANAGED_WEAKREF, _MANAGED_DICT = 1 << 3, 1 << 4
_WORD = 8
_OURS = f"{__package__.rpartition('.')[0]}."
"""Prefix of the names of the kernel's own modules: a fork changes its objects, which must not
come back."""
_REDUCED = (("sklearn.tree._tree", "Tree"),)
"""Classes in C of libraries that are compared by what they write of themselves."""
_BY_VALUE = ATOMS | frozenset(
    map(address_of, (tuple, list, dict, set, frozenset, bytearray, range))
)


def _reduced(value: Any) -> Values:
    """An object of a class in C, as its own class writes it. Objects in it of other classes than
    Python's own count by identity."""
    array = loaded("numpy", "ndarray")

    class Pickler(late_import("pickle").Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar[dict[type, Any]] = {}

        def persistent_id(self, thing: Any) -> int | None:
            return (
                None
                if thing is value or type(thing) is array or address_of(type(thing)) in _BY_VALUE
                else address_of(thing)
            )

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            Pickler(buffer, 4).dump(value)
        except Exception:  # whatever its class raises
            return []
    return [buffer.getvalue()]


def native_base(cls: type) -> type:
    """Return the class written in C that determines what objects store; `object` if all of it is in
    attributes and slots."""
    while cls is not object:
        base, names, flags = _BASE(cls), class_dict(cls), _FLAGS(cls)
        fields = ("__dict__" in names and not flags & _MANAGED_DICT) + (
            "__weakref__" in names and not flags & _MANAGED_WEAKREF
        )
        if "__slots__" in names:
            fields += sum(type(slot) is types.MemberDescriptorType for slot in names.values())
        if _SIZE(cls) - _SIZE(base) > fields * _WORD or _ITEM_SIZE(cls) != _ITEM_SIZE(base):
            return cls
        cls = base
    return cls


REDUCED = Part("reduced", _reduced, None, costly=True)


def _module(module: Any) -> Values:
    return [
        part
        for name, value in list(own_dict(module).items())
        if not name.startswith("__")
        for part in (name, value)
    ]


@prepared(pairs)
def _put_module(module: Any, wanted: Any) -> None:
    held = own_dict(module)
    for name in list(held):
        if name not in wanted and not name.startswith("__"):
            del held[name]
    for name, value in wanted.items():
        if held.get(name, MISSING) is not value:
            held[name] = value


_MODULE = Part("module", _module, _put_module)


def _own_modules() -> dict[str, types.ModuleType]:
    """Return the user's own modules, by name: neither in the standard library nor among installed
    packages, much of whose state must stay."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    foreign = tuple(
        os.path.join(place, "")
        for place in {*places, *map(os.path.realpath, places), ours}
        if place
    )
    return {
        name: module
        for name, module in list(sys.modules.items())
        if is_module(module) and _is_own_module(module, foreign)
    }


def _is_own_module(module: Any, foreign: tuple[str, ...]) -> bool:
    names = own_dict(module)
    file = names.get("__file__")
    if type(file) is not str or not file.endswith(".py") or names.get("__name__") == "__main__":
        return False
    return (
        not os.path.abspath(file).startswith(foreign)
        and "site-packages" not in file
        and "dist-packages" not in file
    )


class Kind(NamedTuple):
    """Facts about all objects of a class."""

    parts: tuple[Part, ...]
    is_own: bool = False
    """The class is the user's own, and may be changed too."""
    has_memory: bool = False
    """They may be arrays (see `tables.block_of`)."""
    known: bool = True
    """All of their state is in the parts."""
    is_weak: bool = False
    """They are weak references."""
    ends: bool = False
    """Something happens when such an object ends: a file is closed, `__del__` runs."""
    referable: bool = False
    """There may be weak references to them, which tell when they end."""


_NONE = Kind(())
EACH = Kind((CLASS,))
"""Stands for kinds of which each object has parts of its own."""


class CurrentKinds:
    """The kinds of a namespace, made anew after a module was loaded: a class of it may be the
    user's own."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._kinds: Kinds
        self._modules = 0

    def get(self) -> Kinds:
        if len(sys.modules) != self._modules:
            self._kinds, self._modules = Kinds(self._namespace), len(sys.modules)
        return self._kinds


class Kinds:
    """The parts of each class that was met. Made for one comparison, because classes come and
    go."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._modules = _own_modules()
        self._globals = {
            address_of(namespace),
            *(address_of(own_dict(module)) for module in self._modules.values()),
        }
        self._special = [
            (cls, part)
            for module, name, part in SPECIAL
            if (cls := loaded(module, name)) is not MISSING
        ]
        self._fixed = FixedKinds()
        reduced = [(loaded(module, name), REDUCED) for module, name in _REDUCED]
        self._readers = [
            *self._special,
            *CONTAINERS,
            *(row for row in reduced if row[0] is not MISSING),
        ]
        self._function = self._parts_of(types.FunctionType)[0]
        self._known: dict[int, Kind] = {}
        self._classes: dict[int, weakref.ref[type]] = {}
        """Forget what is known of a class when it ends: another one could get its address."""

    def kind(self, value: Any) -> Kind:
        cls = type(value)
        known = self._known.get(address_of(cls))
        if known is None:
            if is_class(value) or cls is types.ModuleType or cls is types.FunctionType:
                return EACH if self.is_own(value) else _NONE
            known = self._kind_of(cls)
            self._known[address_of(cls)] = known
            self._classes[address_of(cls)] = weakref.ref(cls, self._forget)
        return _NONE if value is self._namespace else known

    def _forget(self, reference: weakref.ref[type]) -> None:
        for address in [address for address, known in self._classes.items() if known is reference]:
            del self._known[address], self._classes[address]

    def _kind_of(self, cls: type) -> Kind:
        if f"{module_of(cls)}.".startswith(_OURS):
            return _NONE
        parts, known, ends = self._parts_of(cls)
        of_ctypes = module_of(type(cls)) == "_ctypes"
        if of_ctypes and not _has_pointers(cls):
            known, ends = True, False
        has_memory = of_ctypes or any(part.name in ("array", "tensor") for part in parts)
        is_weak = descends(cls, weakref.ref)
        bases = mro_of(cls)
        plain = is_weak or module_of(cls).partition(".")[0] in _PLAIN
        referable = not plain and any("__weakref__" in class_dict(base) for base in bases)
        ends = not plain and (ends or any("__del__" in class_dict(base) for base in bases))
        return Kind(parts, self._is_own_class(cls), has_memory, known, is_weak, ends, referable)

    def parts(self, value: Any) -> tuple[Part, ...]:
        """The parts of an object; none for what is only compared by identity."""
        kind = self.kind(value)
        if kind is not EACH:
            return kind.parts
        return (
            (_MODULE,)
            if type(value) is types.ModuleType
            else (CLASS,)
            if is_class(value)
            else self._function
        )

    def is_own(self, value: Any) -> bool:
        """Whether a class, a module or a function is the user's; a function that has variables of
        others inside counts, too."""
        if is_class(value):
            return self._is_own_class(value)
        if type(value) is types.ModuleType:
            return address_of(own_dict(value)) in self._globals
        if address_of(value.__globals__) in self._globals:
            return True
        return (
            value.__closure__ is not None
            and not f"{value.__globals__.get('__name__')}.".startswith(_OURS)
        )

    def _is_own_class(self, cls: Any) -> bool:
        """Whether it was defined in a cell, or in a module of the user's own."""
        module = module_of(cls)
        return module in self._modules or module == self._namespace.get("__name__", "__main__")

    @property
    def shared(self) -> list[tuple[str, Any]]:
        """Objects besides the namespace that code changes: modules of the user's own, and settings
        and figures of matplotlib."""
        known = (
            ("matplotlib", "rcParams", "matplotlib.rcParams"),
            ("matplotlib._pylab_helpers", "Gcf", "open figures"),
        )
        of_libraries = [(label, loaded(module, name)) for module, name, label in known]
        of_libraries = [
            (label, class_dict(value)["figs"] if is_class(value) else value)
            for label, value in of_libraries
            if value is not MISSING
        ]
        return [
            *((f"module {name}", module) for name, module in self._modules.items()),
            *of_libraries,
        ]

    def _parts_of(self, cls: type) -> tuple[tuple[Part, ...], bool, bool]:
        """Return the parts of a class's objects, whether these tell all of an object's state, and
        whether something happens when one ends."""
        fixed = self._fixed.parts(cls)
        if fixed is not None:
            return fixed, True, False
        kind = opaque_kind(cls)
        if kind is not None:
            return (progress_marker(cls, kind),), kind.tells, kind.ends
        bases, native = mro_of(cls), native_base(cls)
        found = [(base, part) for base, part in self._readers if descends(cls, base)]
        found = [(base, part) for base, part in found if base is found[0][0]]
        known = native is object or module_of(native).partition(".")[0] in _UNCHANGING
        known = known or (module_of(cls), name_of(cls)) == _CAPSULE
        known = known or any(_tells_of(base, native) for base, _ in found)
        parts = [part for _, part in found]
        if any("__dict__" in class_dict(base) for base in bases):
            parts.append(
                OF_PANDAS
                if any(module_of(base).startswith("pandas.") for base in bases)
                else ATTRIBUTES
            )
        if slot_descriptors(cls):
            parts.append(SLOTS)
        return tuple(parts), known, not known


def _has_pointers(cls: Any) -> bool:
    """Return whether objects of a class of ctypes point to memory that is not their own."""
    kind, fields = getattr(cls, "_type_", None), getattr(cls, "_fields_", ())
    if isinstance(kind, str):
        return kind in "PzZOX"
    inside = [kind, *(field[1] for field in fields)] if hasattr(cls, "_length_") or fields else []
    return not inside or any(_has_pointers(each) for each in inside if each is not None)


def _tells_of(base: type, native: type) -> bool:
    """Return whether the part that reads objects of `base` reads all that this class in C
    stores."""
    same_package = module_of(native).partition(".")[0] == module_of(base).partition(".")[0]
    return descends(base, native) or (descends(native, base) and same_package)
