"""The objects reachable from a namespace, their parts, and the state of each.

A checkpoint is a fork, so both processes have the same objects at the same addresses."""

from __future__ import annotations

import marshal
import os
import sys
import sysconfig
import time
import types
import weakref
from array import array
from collections.abc import Iterable
from typing import Any, Callable, NamedTuple

from ..stdlib import belongs_to_worker
from ..values.objects import (
    ATOMS,
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
from .memory import MemorySpan, find_memory
from .opaque import opaque_kind, progress_part
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
    Values,
    slot_descriptors,
)

_NEVER = (types.ModuleType, types.CodeType, types.BuiltinFunctionType, type(NotImplemented))
_UNCHANGING = ("pyarrow", "polars", "weakref", "torch")
"""Packages and modules whose objects are only compared by identity."""
_CAPSULE = ("builtins", "PyCapsule")
"""Keeps memory alive for an array, which shows its contents."""
_PLAIN = ("numpy", "pandas", "polars", "pyarrow", "torch")
"""Packages whose objects contain only data."""
_BASE: Any = type.__dict__["__base__"].__get__
_FLAGS: Any = type.__dict__["__flags__"].__get__
_SIZE: Any = type.__dict__["__basicsize__"].__get__
_ITEM_SIZE: Any = type.__dict__["__itemsize__"].__get__
_MANAGED_WEAKREF = 1 << 3
_MANAGED_DICT = 1 << 4
_WORD_BYTES = 8

_CLOCK_INTERVAL_OBJECTS = 128
VALUES = 16


def _native_base(cls: type) -> type:
    """Return the C class that determines what objects store; `object` if all is in attributes and
    slots."""
    while cls is not object:
        base = _BASE(cls)
        names = class_dict(cls)
        flags = _FLAGS(cls)
        fields = ("__dict__" in names and not flags & _MANAGED_DICT) + (
            "__weakref__" in names and not flags & _MANAGED_WEAKREF
        )
        if "__slots__" in names:
            fields += sum(type(slot) is types.MemberDescriptorType for slot in names.values())
        if _SIZE(cls) - _SIZE(base) > fields * _WORD_BYTES or _ITEM_SIZE(cls) != _ITEM_SIZE(base):
            return cls
        cls = base
    return cls


def _user_modules() -> dict[str, types.ModuleType]:
    """Return the modules that are neither in the standard library nor in installed packages."""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    foreign = tuple(
        os.path.join(folder, "") for folder in {*folders, *map(os.path.realpath, folders), ours}
    )
    user_modules = {}
    for name, module in list(sys.modules.items()):
        names = own_dict(module) if is_module(module) else {}
        file = names.get("__file__")
        if (
            type(file) is str
            and file.endswith(".py")
            and names.get("__name__") != "__main__"
            and not os.path.abspath(file).startswith(foreign)
            and "site-packages" not in file
            and "dist-packages" not in file
        ):
            user_modules[name] = module
    return user_modules


class Kind(NamedTuple):
    parts: tuple[ObjectPart, ...]
    is_user_defined: bool = False
    has_memory: bool = False
    known: bool = True
    """Whether the parts contain all of their state."""
    is_weak: bool = False
    has_finalizer: bool = False
    """Whether its end has an effect: a file is closed, `__del__` runs."""
    referable: bool = False

    @property
    def can_change(self) -> bool:
        return any(part.write is not None for part in self.parts)


_NO_PARTS = Kind(())
_USER_CLASS = Kind((CLASS,))
_OF_USER = {
    address_of(types.ModuleType): Kind((MODULE,)),
    address_of(types.FunctionType): Kind((FUNCTION, ANNOTATIONS, ATTRIBUTES)),
}
"""Modules and functions of the user; those of libraries have no parts."""


class Kinds:
    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._modules_loaded = len(sys.modules)
        self._modules = _user_modules()
        self._globals = {
            address_of(namespace),
            *(address_of(own_dict(module)) for module in self._modules.values()),
        }
        self._immutable = {
            address_of(get_if_loaded(*name)): () if read is None else (ObjectPart(read),)
            for name, read in IMMUTABLE.items()
        }
        self._immutable.pop(address_of(MISSING), None)
        self._bases: list[tuple[Any, tuple[ObjectPart, ...]]] = [
            *((get_if_loaded(*name), parts) for name, parts in BY_BASE.items()),
            *((cls, (part,)) for cls, part in BUILTINS),
        ]
        self._known: dict[int, Kind] = {}
        self._classes: dict[int, weakref.ref[type]] = {}
        """To forget a class when it ends, because another one could get its address."""

    def current(self) -> Kinds:
        """Return new kinds if a module was loaded since: a class of it may be the user's own."""
        if len(sys.modules) == self._modules_loaded:
            return self
        return Kinds(self._namespace)

    def kind(self, value: Any) -> Kind:
        cls = type(value)
        kind_of_class = self._known.get(address_of(cls))
        if kind_of_class is None:
            of_user: Kind | None = _USER_CLASS
            if not is_class(value):
                of_user = _OF_USER.get(address_of(cls))
            if of_user is not None:
                if self.is_user_defined(value):
                    return of_user
                return _NO_PARTS
            kind_of_class = self._kind_of(cls)
            self._known[address_of(cls)] = kind_of_class
            self._classes[address_of(cls)] = weakref.ref(cls, self._forget)
        if value is self._namespace:
            return _NO_PARTS
        return kind_of_class

    def is_fixed(self, address: int, holder: object) -> bool:
        """Return whether an object cannot be replaced in its holder."""
        fixed = [part.read(holder) for part in self.kind(holder).parts if part.write is None]
        return any(address_of(value) == address for values in fixed for value in values)

    def _forget(self, reference: weakref.ref[type]) -> None:
        for address in [
            address
            for address, kind_of_class in self._classes.items()
            if kind_of_class is reference
        ]:
            del self._known[address], self._classes[address]

    def _kind_of(self, cls: type) -> Kind:
        # A fork changes the kernel's own objects, which must not come back.
        if belongs_to_worker(class_module(cls)):
            return _NO_PARTS
        immutable = self._immutable_parts(cls)
        opaque = opaque_kind(cls)
        if immutable is not None:
            parts = immutable
            is_known = True
            ends = False
        elif opaque is not None:
            parts = (progress_part(cls, opaque),)
            is_known = opaque.read_progress is not None
            ends = opaque.has_finalizer
        else:
            parts, is_known = self._mutable_parts(cls)
            ends = not is_known
        bases = mro_of(cls)
        is_weak = is_subclass(cls, weakref.ref)
        plain = is_weak or class_module(cls).partition(".")[0] in _PLAIN
        return Kind(
            parts,
            self._is_user_class(cls),
            any(part.has_memory for part in parts),
            is_known,
            is_weak,
            not plain and (ends or any("__del__" in class_dict(base) for base in bases)),
            not plain and any("__weakref__" in class_dict(base) for base in bases),
        )

    def _immutable_parts(self, cls: type) -> tuple[ObjectPart, ...] | None:
        """Return what distinguishes objects that never change; None for other classes."""
        if is_subclass(cls, get_if_loaded("numpy", "generic")) and not is_subclass(
            cls, get_if_loaded("numpy", "void")
        ):
            return (SCALAR,)
        if is_subclass(cls, get_if_loaded("numpy", "dtype")):
            return (DTYPE,)
        if "n_sequence_fields" in class_dict(cls) and is_subclass(cls, tuple):
            return (ObjectPart(lambda value: list(tuple.__iter__(value))),)
        if any(is_subclass(cls, base) for base in _NEVER):
            return ()
        return self._immutable.get(address_of(cls))

    def _mutable_parts(self, cls: type) -> tuple[tuple[ObjectPart, ...], bool]:
        """Return the parts of a class's objects, and whether these are all of their state."""
        bases = mro_of(cls)
        native = _native_base(cls)
        empty: tuple[Any, tuple[ObjectPart, ...]] = (None, ())
        base, parts = next((row for row in self._bases if is_subclass(cls, row[0])), empty)
        package = class_module(native).partition(".")[0]
        is_known = (
            native is object
            or package in _UNCHANGING
            or (class_module(cls), name_of(cls)) == _CAPSULE
            or (base is not None and is_subclass(base, native))
            or (is_subclass(native, base) and class_module(base).partition(".")[0] == package)
        )
        if any("__dict__" in class_dict(base) for base in bases):
            of_pandas = any(class_module(base).startswith("pandas.") for base in bases)
            parts += (PANDAS_ATTRIBUTES if of_pandas else ATTRIBUTES,)
        if slot_descriptors(cls):
            parts += (SLOTS,)
        return parts, is_known

    def is_user_defined(self, value: Any) -> bool:
        """Return whether a class, module or function is the user's; a closure of theirs, too."""
        if is_class(value):
            return self._is_user_class(value)
        if is_module(value):
            return address_of(own_dict(value)) in self._globals
        if address_of(value.__globals__) in self._globals:
            return True
        return value.__closure__ is not None and not belongs_to_worker(
            value.__globals__.get("__name__")
        )

    def _is_user_class(self, cls: Any) -> bool:
        module = class_module(cls)
        return module in self._modules or module == self._namespace.get("__name__", "__main__")

    @property
    def shared_objects(self) -> list[tuple[str, Any]]:
        """Modules of the user's, and matplotlib's settings and figures."""
        figures = get_if_loaded("matplotlib._pylab_helpers", "Gcf")
        of_matplotlib = (
            ("matplotlib.rcParams", get_if_loaded("matplotlib", "rcParams")),
            ("open figures", class_dict(figures)["figs"] if is_class(figures) else figures),
        )
        return [
            *((f"module {name}", module) for name, module in self._modules.items()),
            *((label, value) for label, value in of_matplotlib if value is not MISSING),
        ]


class Node(NamedTuple):
    value: Any
    fixed_state: int
    mutable_state: int
    children: tuple[int, ...]
    memory: MemorySpan | None
    known: bool
    """Whether these numbers cover all of its state."""

    @property
    def state(self) -> tuple[int, int, int, int, int]:
        start, end = self.memory or (0, 0)
        return address_of(type(self.value)), self.fixed_state, self.mutable_state, start, end


class Limits(NamedTuple):
    work: int
    """Number of objects to read in one go; `VALUES` values inside an object count as one more."""
    size: int


class Graph:
    def __init__(
        self, kinds: Kinds, states: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._states = states
        self._clock = clock
        self._work = 0
        self.kinds = kinds
        self.nodes: dict[int, Node] = {}
        self._holders: dict[int, list[int]] | None = None
        self._weak: list[int] = []
        self._finalizable: list[int] = []

    def add(
        self, roots: Iterable[object], until: float = float("inf"), limits: Limits | None = None
    ) -> bool:
        """Walk through everything reachable, nearest first; return False if time or limits ended
        it."""
        pending = [root for root in roots if address_of(type(root)) not in ATOMS]
        nodes = self.nodes
        self._holders = None
        max_size = float("inf") if limits is None else limits.size
        if limits is None:
            end = float("inf")
        else:
            end = self._work + limits.work
        look = self._work + _CLOCK_INTERVAL_OBJECTS
        for value in pending:
            if address_of(value) in nodes:
                continue
            self._work += 1
            if self._work > end:
                return False
            if self._work >= look:
                look = self._work + _CLOCK_INTERVAL_OBJECTS
                if self._clock() > until:
                    return False
            nodes[address_of(value)] = self._node(value, pending, max_size)
        return True

    def __del__(self) -> None:
        """Drop weak references first, so that their callbacks do not run on what was restored."""
        for address in self._weak:
            self.nodes.pop(address, None)

    def finalizable(self) -> set[int]:
        """Return the addresses of objects whose end has an effect, and of their holders."""
        unseen = [child for child in self.find_holders() if child not in self.nodes]
        return self.ancestors([*self._finalizable, *unseen])

    def retained_objects(self) -> list[Any]:
        """Return the objects, weak references last, because a list drops its last items first (see
        `__del__`)."""
        references = set(self._weak)
        objects = [node.value for address, node in self.nodes.items() if address not in references]
        weak = [self.nodes[address].value for address in self._weak]
        return objects + [
            reference
            for reference in weak
            if address_of(weakref.ref.__call__(reference)) in self.nodes
        ]

    def ancestors(self, start: Iterable[int]) -> set[int]:
        start = set(start)
        if start:
            return ancestors(start, self.find_holders())
        return start

    def find_holders(self) -> dict[int, list[int]]:
        if self._holders is None:
            self._holders = {}
            for address, node in self.nodes.items():
                for child in node.children:
                    self._holders.setdefault(child, []).append(address)
        return self._holders

    def _node(self, value: object, pending: Values, max_size: float) -> Node:
        kind = self.kinds.kind(value)
        children: list[int] = []
        fixed = loose = 0
        memory = None
        is_known = kind.known
        ends = kind.has_finalizer or (kind.referable and weakref.getweakrefcount(value) > 0)
        try:
            for part in kind.parts:
                if part.size is not None:
                    size = part.size(value)
                    if size > max_size:
                        is_known = False
                        ends = True
                        continue
                    self._work += size // VALUES
                contents = part.read(value)
                types = set(map(address_of, map(type, contents)))
                if self._states:
                    state = hash(_encode_values(part, contents, types))
                    if part.write is None:
                        fixed = hash((fixed, state))
                    else:
                        loose = hash((loose, state))
                if not types <= ATOMS:
                    inside = [
                        item
                        for item in contents
                        if address_of(type(item)) not in ATOMS and item is not MISSING
                    ]
                    children += map(address_of, inside)
                    pending += inside
            if kind.has_memory:
                memory = find_memory(value)
        except Exception:  # its state cannot be read: only which object it is counts
            self._finalizable.append(address_of(value))
            return Node(value, 0, 0, (), None, known=False)
        if kind.is_user_defined:
            pending.append(type(value))
        if kind.is_weak:
            self._weak.append(address_of(value))
        if ends:
            self._finalizable.append(address_of(value))
        return Node(value, fixed, loose, tuple(children), memory, is_known)


def _encode_values(part: ObjectPart, values: Values, types: set[int]) -> bytes:
    """Return bytes that are equal if plain values are equal and all others are the same objects."""
    if part.ordered and types.isdisjoint(ATOMS):
        return b"objects" + array("q", map(address_of, values)).tobytes()
    if not types <= ATOMS:
        values = [
            value if address_of(type(value)) in ATOMS else (address_of(value),) for value in values
        ]
    # From version 1 on, marshal records whether a string is interned, which may change.
    version = 0 if address_of(str) in types else 2
    if part.ordered:
        return marshal.dumps(values, version)
    return b"".join(sorted([marshal.dumps(value, version) for value in values]))


def ancestors(start: Iterable[int], holders: dict[int, list[int]]) -> set[int]:
    reached = set(start)
    pending = list(reached)
    while pending:
        for holder in holders.get(pending.pop(), ()):
            if holder not in reached:
                reached.add(holder)
                pending.append(holder)
    return reached
