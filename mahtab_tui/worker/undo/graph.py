"""The objects reachable from a namespace, their parts, and the state of each.

A checkpoint and the kernel walk the same objects, which have the same addresses in both, because
the checkpoint is a fork. An object whose state differs has been changed.
"""

from __future__ import annotations

import io
import marshal
import os
import sys
import sysconfig
import time
import types
import warnings
import weakref
from array import array
from collections.abc import Iterable
from typing import Any, Callable, ClassVar, NamedTuple

from ..objects import (
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
from ..stdlib import late_import
from .parts import (
    ATTRIBUTES,
    CLASS,
    CONTAINERS,
    PANDAS_ATTRIBUTES,
    SLOTS,
    opaque_kind,
    pairs,
    progress_marker,
    slot_descriptors,
)
from .reach import ATOMS, Part, Values, prepared
from .tables import SPECIAL, Block, find_block


def _match(value: Any) -> Values:
    return [value.re, value.string, *(offset for span in value.regs for offset in span)]


def _placement(value: Any) -> Values:
    rows = value.indexer
    return [rows.start, rows.stop, rows.step] if type(rows) is slice else [rows.tobytes()]


def _scalar(value: Any) -> Values:
    generic = get_if_loaded("numpy", "generic")
    return [generic.tobytes(value), generic.dtype.__get__(value).str]


_READERS: tuple[tuple[str, str, Callable[[Any], Values] | None], ...] = (
    ("pathlib", "PosixPath PurePosixPath PureWindowsPath", lambda value: [str(value)]),
    ("decimal", "Decimal", lambda value: [str(value)]),
    ("fractions", "Fraction", lambda value: [value.numerator, value.denominator]),
    (
        "datetime",
        "datetime date time timedelta timezone",
        lambda value: list(value.__reduce_ex__(4)[1]),
    ),
    ("uuid", "UUID", lambda value: [value.int]),
    ("re", "Pattern", lambda value: [value.pattern, value.flags]),
    ("re", "Match", _match),
    ("builtins", "range", lambda value: [value.start, value.stop, value.step]),
    ("pandas", "Timestamp", lambda value: [value._value, value.unit, value.tzinfo]),
    ("pandas", "Timedelta", lambda value: [value._value, value.unit]),
    ("pandas", "Period", lambda value: [value.ordinal, value.freqstr]),
    ("pandas._libs.internals", "BlockPlacement", _placement),
    ("pandas._libs.internals", "BlockValuesRefs", None),
    ("polars.dataframe.frame", "PyDataFrame", None),
    ("polars.series.series", "PySeries", None),
    ("polars.lazyframe.frame", "PyLazyFrame", None),
    ("polars.expr.expr", "PyExpr", None),
    ("numpy", "ufunc", None),
    (
        "types",
        "WrapperDescriptorType MethodWrapperType MethodDescriptorType ClassMethodDescriptorType GetSetDescriptorType MemberDescriptorType",
        None,
    ),
    ("types", "NotImplementedType GenericAlias UnionType CapsuleType", None),
    ("struct", "Struct", lambda value: [value.format]),
    ("zoneinfo", "ZoneInfo", lambda value: [value.key]),
    ("unicodedata", "UCD", None),
    ("_json", "make_scanner make_encoder", None),
    ("operator", "itemgetter attrgetter methodcaller", lambda value: list(value.__reduce__()[1])),
)
"""Module, classes, and a function that reads their objects; None if these never change, or if the
objects that contain them reveal their changes."""
_NEVER = (types.ModuleType, types.CodeType, types.BuiltinFunctionType, type(NotImplemented))
_HASHES = ("_hashlib", "_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3", "_blake2")
_hexdigest = Part(
    "value",
    lambda value: [
        value.name,
        value.copy().hexdigest(1) if value.digest_size == 0 else value.hexdigest(),
    ],
    None,
)
_SCALAR = Part("value", _scalar, None)
_DTYPE = Part("value", lambda value: [str(value)], None)


class ImmutableKinds:
    """Finds which classes have immutable objects, as far as their modules are loaded."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[Part, ...]] = {}
        for module, names, read in _READERS:
            parts = () if read is None else (Part("value", read, None),)
            self._parts.update(
                (address_of(get_if_loaded(module, name)), parts) for name in names.split()
            )
        self._parts.pop(address_of(MISSING), None)

    def parts(self, cls: type) -> tuple[Part, ...] | None:
        """Return the values that distinguish objects of such a class; None for other classes."""
        if is_subclass(cls, get_if_loaded("numpy", "generic")) and not is_subclass(
            cls, get_if_loaded("numpy", "void")
        ):
            return (_SCALAR,)
        if is_subclass(cls, get_if_loaded("numpy", "dtype")):
            return (_DTYPE,)
        if (
            class_module(cls) in _HASHES
            and not class_dict(cls).get("__slots__")
            and "hexdigest" in class_dict(cls)
        ):
            return (_hexdigest,)
        if "n_sequence_fields" in class_dict(cls) and is_subclass(cls, tuple):  # as os.stat_result
            return (Part("tuple", lambda value: list(tuple.__iter__(value)), None),)
        return (
            ()
            if any(is_subclass(cls, base) for base in _NEVER)
            else self._parts.get(address_of(cls))
        )


_UNCHANGING = ("pyarrow", "polars", "weakref", "torch")
"""Packages and modules of classes whose objects are only compared by identity."""
_CAPSULE = ("builtins", "PyCapsule")
"""The class of objects that keep a library's memory alive for an array, as in Arrow; the array
shows its contents."""
_PLAIN = ("numpy", "pandas", "polars", "pyarrow", "torch")
"""Packages whose objects contain only data."""
_BASE: Any = type.__dict__["__base__"].__get__
_FLAGS: Any = type.__dict__["__flags__"].__get__
_SIZE: Any = type.__dict__["__basicsize__"].__get__
_ITEM_SIZE: Any = type.__dict__["__itemsize__"].__get__
_MANAGED_WEAKREF, _MANAGED_DICT = 1 << 3, 1 << 4
_WORD = 8
_OURS = f"{__package__.rpartition('.')[0]}."
"""Prefix of the kernel's own modules, whose objects a fork changes and undo must not restore."""
_REDUCED = (("sklearn.tree._tree", "Tree"),)
"""C classes of libraries that are compared by their pickled state."""
_BY_VALUE = ATOMS | frozenset(
    map(address_of, (tuple, list, dict, set, frozenset, bytearray, range))
)


def _reduced(value: Any) -> Values:
    """Return the state of an object of a C class, as its own class pickles it. Objects in it of
    classes other than Python's own count by identity."""
    array = get_if_loaded("numpy", "ndarray")

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
        except Exception:  # its class may raise anything
            return []
    return [buffer.getvalue()]


def native_base(cls: type) -> type:
    """Return the C class that determines what objects store; `object` if everything is in
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
    names = own_dict(module)
    for name in list(names):
        if name not in wanted and not name.startswith("__"):
            del names[name]
    for name, value in wanted.items():
        if names.get(name, MISSING) is not value:
            names[name] = value


_MODULE = Part("module", _module, _put_module)


def _user_modules() -> dict[str, types.ModuleType]:
    """Return the user's own modules, by name: those that are neither in the standard library nor in
    installed packages, much of whose state must not be touched."""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    foreign = tuple(
        os.path.join(folder, "")
        for folder in {*folders, *map(os.path.realpath, folders), ours}
        if folder
    )
    return {
        name: module
        for name, module in list(sys.modules.items())
        if is_module(module) and _is_user_module(module, foreign)
    }


def _is_user_module(module: Any, foreign: tuple[str, ...]) -> bool:
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
    is_user_defined: bool = False
    """Whether the class is the user's own, and may be changed too."""
    has_memory: bool = False
    """Whether they may be arrays (see `tables.find_block`)."""
    known: bool = True
    """Whether the parts contain all of their state."""
    is_weak: bool = False
    """Whether they are weak references."""
    has_finalizer: bool = False
    """Whether the end of such an object has an effect: a file is closed, `__del__` runs."""
    referable: bool = False
    """Whether they can be weakly referenced, to learn when they end."""


_NO_PARTS = Kind(())
PER_OBJECT = Kind((CLASS,))
"""Stands for kinds whose objects have individual parts."""


class CurrentKinds:
    """The kinds of a namespace, created again after a module was loaded, because its classes may be
    the user's own."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._kinds: Kinds
        self._modules = 0

    def get(self) -> Kinds:
        if len(sys.modules) != self._modules:
            self._kinds, self._modules = Kinds(self._namespace), len(sys.modules)
        return self._kinds


class Kinds:
    """The parts of each known class. Created for one comparison, because classes come and go."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._modules = _user_modules()
        self._globals = {
            address_of(namespace),
            *(address_of(own_dict(module)) for module in self._modules.values()),
        }
        self._special = [
            (cls, part)
            for module, name, part in SPECIAL
            if (cls := get_if_loaded(module, name)) is not MISSING
        ]
        self._fixed = ImmutableKinds()
        reduced = [(get_if_loaded(module, name), REDUCED) for module, name in _REDUCED]
        self._readers = [
            *self._special,
            *CONTAINERS,
            *(row for row in reduced if row[0] is not MISSING),
        ]
        self._function = self._parts_of(types.FunctionType)[0]
        self._known: dict[int, Kind] = {}
        self._classes: dict[int, weakref.ref[type]] = {}
        """Used to forget a class when it ends, because another one could get its address."""

    def kind(self, value: Any) -> Kind:
        cls = type(value)
        known = self._known.get(address_of(cls))
        if known is None:
            if is_class(value) or cls is types.ModuleType or cls is types.FunctionType:
                return PER_OBJECT if self.is_user_defined(value) else _NO_PARTS
            known = self._kind_of(cls)
            self._known[address_of(cls)] = known
            self._classes[address_of(cls)] = weakref.ref(cls, self._forget)
        return _NO_PARTS if value is self._namespace else known

    def _forget(self, reference: weakref.ref[type]) -> None:
        for address in [address for address, known in self._classes.items() if known is reference]:
            del self._known[address], self._classes[address]

    def _kind_of(self, cls: type) -> Kind:
        if f"{class_module(cls)}.".startswith(_OURS):
            return _NO_PARTS
        parts, known, ends = self._parts_of(cls)
        of_ctypes = class_module(type(cls)) == "_ctypes"
        if of_ctypes and not _has_pointers(cls):
            known, ends = True, False
        has_memory = of_ctypes or any(part.name in ("array", "tensor") for part in parts)
        is_weak = is_subclass(cls, weakref.ref)
        bases = mro_of(cls)
        plain = is_weak or class_module(cls).partition(".")[0] in _PLAIN
        referable = not plain and any("__weakref__" in class_dict(base) for base in bases)
        ends = not plain and (ends or any("__del__" in class_dict(base) for base in bases))
        return Kind(parts, self._is_user_class(cls), has_memory, known, is_weak, ends, referable)

    def parts(self, value: Any) -> tuple[Part, ...]:
        """Return the parts of an object; empty if it is only compared by identity."""
        kind = self.kind(value)
        if kind is not PER_OBJECT:
            return kind.parts
        return (
            (_MODULE,)
            if type(value) is types.ModuleType
            else (CLASS,)
            if is_class(value)
            else self._function
        )

    def is_user_defined(self, value: Any) -> bool:
        """Return whether a class, a module or a function is the user's, including functions that
        contain variables of others."""
        if is_class(value):
            return self._is_user_class(value)
        if type(value) is types.ModuleType:
            return address_of(own_dict(value)) in self._globals
        if address_of(value.__globals__) in self._globals:
            return True
        return (
            value.__closure__ is not None
            and not f"{value.__globals__.get('__name__')}.".startswith(_OURS)
        )

    def _is_user_class(self, cls: Any) -> bool:
        """Return whether a class was defined in a cell, or in a module of the user's own."""
        module = class_module(cls)
        return module in self._modules or module == self._namespace.get("__name__", "__main__")

    @property
    def shared_objects(self) -> list[tuple[str, Any]]:
        """Return objects outside the namespace that code changes: the user's own modules, and
        settings and figures of matplotlib."""
        known = (
            ("matplotlib", "rcParams", "matplotlib.rcParams"),
            ("matplotlib._pylab_helpers", "Gcf", "open figures"),
        )
        of_libraries = [(label, get_if_loaded(module, name)) for module, name, label in known]
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
        """Return the parts of a class's objects, whether these contain all of an object's state,
        and whether the end of an object has an effect."""
        fixed = self._fixed.parts(cls)
        if fixed is not None:
            return fixed, True, False
        kind = opaque_kind(cls)
        if kind is not None:
            return (progress_marker(cls, kind),), kind.is_comparable, kind.has_finalizer
        bases, native = mro_of(cls), native_base(cls)
        found = [(base, part) for base, part in self._readers if is_subclass(cls, base)]
        found = [(base, part) for base, part in found if base is found[0][0]]
        known = native is object or class_module(native).partition(".")[0] in _UNCHANGING
        known = known or (class_module(cls), name_of(cls)) == _CAPSULE
        known = known or any(_has_reducer(base, native) for base, _ in found)
        parts = [part for _, part in found]
        if any("__dict__" in class_dict(base) for base in bases):
            parts.append(
                PANDAS_ATTRIBUTES
                if any(class_module(base).startswith("pandas.") for base in bases)
                else ATTRIBUTES
            )
        if slot_descriptors(cls):
            parts.append(SLOTS)
        return tuple(parts), known, not known


def _has_pointers(cls: Any) -> bool:
    """Return whether objects of a ctypes class point to memory that is not their own."""
    kind, fields = getattr(cls, "_type_", None), getattr(cls, "_fields_", ())
    if isinstance(kind, str):
        return kind in "PzZOX"
    inside = [kind, *(field[1] for field in fields)] if hasattr(cls, "_length_") or fields else []
    return not inside or any(_has_pointers(each) for each in inside if each is not None)


def _has_reducer(base: type, native: type) -> bool:
    """Return whether the part that reads objects of `base` reads everything that this C class
    stores."""
    same_package = class_module(native).partition(".")[0] == class_module(base).partition(".")[0]
    return is_subclass(base, native) or (is_subclass(native, base) and same_package)


class Node(NamedTuple):
    """One object."""

    value: Any
    fixed_state: int
    """The immutable part of its state, as a number."""
    mutable_state: int
    """The mutable part of its state, as a number."""
    children: tuple[int, ...]
    """The addresses of the objects it contains."""
    block: Block | None
    known: bool
    """Whether these numbers cover all of its state."""


class Limits(NamedTuple):
    """Limits of a walk that a cell waits for."""

    work: int
    """Number of objects to read in one go; that many values inside an object (see `VALUES`) count
    as one more."""
    size: int
    """Maximum number of values of an object. Larger objects are not read."""


_CLOCK_INTERVAL = 128
"""Work between two checks of the clock, which may cost as much as an object."""
VALUES = 16


class Graph:
    """The reached objects, by address. The graph keeps them alive."""

    def __init__(
        self, kinds: Kinds, states: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """states: whether to also compute the objects' states."""
        self._states = states
        self._clock = clock
        self._work = 0
        self.kinds = kinds
        self.nodes: dict[int, Node] = {}
        self._weak: list[int] = []
        """The addresses of weak references."""
        self._finalizable: list[int] = []
        """The addresses of objects whose end may have an effect."""

    def add(
        self, roots: Iterable[Any], until: float = float("inf"), limits: Limits | None = None
    ) -> bool:
        """Walk through everything reachable, nearest first; returns False if the time (on the
        clock) or the limit of work was not enough."""
        pending = [root for root in roots if address_of(type(root)) not in ATOMS]
        nodes = self.nodes
        most = float("inf") if limits is None else limits.size
        end = float("inf") if limits is None else self._work + limits.work
        look = self._work + _CLOCK_INTERVAL
        for value in pending:  # the list grows meanwhile
            if address_of(value) in nodes:
                continue
            self._work += 1
            if self._work > end:
                return False
            if self._work >= look:
                look = self._work + _CLOCK_INTERVAL
                if self._clock() > until:
                    return False
            nodes[address_of(value)] = self._node(value, pending, most)
        return True

    def forget_weak_references(self) -> None:
        """Drop weak references before the objects, so that their callbacks do not run for restored
        objects."""
        for address in self._weak:
            del self.nodes[address]
        self._weak = []

    def finalizable(self) -> set[int]:
        """Return the addresses of objects that must not be kept alive, because their end, or that
        of objects they contain, has an effect."""
        holders = self.holders()
        unseen = [child for child in holders if child not in self.nodes]
        return ancestors([*self._finalizable, *unseen], holders)

    def retained_objects(self) -> list[Any]:
        """Return the objects. Weak references come last, because a list drops its last items first
        (see `forget_weak_references`)."""
        references = set(self._weak)
        objects = [node.value for address, node in self.nodes.items() if address not in references]
        weak = [self.nodes[address].value for address in self._weak]
        return objects + [
            reference
            for reference in weak
            if address_of(weakref.ref.__call__(reference)) in self.nodes
        ]

    def holders(self) -> dict[int, list[int]]:
        """Return, for each object, the objects that contain it, by address."""
        found: dict[int, list[int]] = {}
        for address, node in self.nodes.items():
            for child in node.children:
                found.setdefault(child, []).append(address)
        return found

    def _node(self, value: Any, pending: Values, most: float) -> Node:
        """Read an object; add those inside it to `pending`."""
        kind = self.kinds.kind(value)
        children: list[int] = []
        fixed = loose = 0
        block = None
        known = kind.known
        ends = kind.has_finalizer or (kind.referable and weakref.getweakrefcount(value) > 0)
        try:
            for part in self.kinds.parts(value) if kind is PER_OBJECT else kind.parts:
                if not self._states and part.costly:
                    continue
                if part.size is not None:
                    size = part.size(value)
                    if size > most:
                        known, ends = False, True
                        continue
                    self._work += size // VALUES
                contents = part.read(value)
                if part is REDUCED:
                    self._work += 1
                    known = known and bool(contents)
                types = set(map(address_of, map(type, contents)))
                if self._states:
                    state = hash(_encode_values(part, contents, types))
                    if part.prepare is None:
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
                block = find_block(value)
        except Exception:  # `UncomparableError`, or a library's object in an unforeseen state; only its identity counts
            self._finalizable.append(address_of(value))
            return Node(value, 0, 0, (), None, known=False)
        if kind.is_user_defined:
            pending.append(type(value))
        if kind.is_weak:
            self._weak.append(address_of(value))
        if ends:
            self._finalizable.append(address_of(value))
        return Node(value, fixed, loose, tuple(children), block, known)


def _encode_values(part: Part, values: Values, types: set[int]) -> bytes:
    """Return values as bytes that are equal if plain values are equal and all others are the same
    objects. types: the addresses of their types."""
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


def to_rows(graph: Graph) -> array[int]:
    """Return a graph as numbers, six per object: address, address of the type, fixed state, mutable
    state, address and size of its memory."""
    rows: array[int] = array("q")
    for address, node in graph.nodes.items():
        rows.extend(
            (
                address,
                address_of(type(node.value)),
                node.fixed_state,
                node.mutable_state,
                *(node.block or (0, 0)),
            )
        )
    return rows


def ancestors(start: Iterable[int], holders: dict[int, list[int]]) -> set[int]:
    """Return the given objects, and all objects that contain one of them, directly or
    indirectly."""
    reached = set(start)
    pending = list(reached)
    while pending:
        for holder in holders.get(pending.pop(), ()):
            if holder not in reached:
                reached.add(holder)
                pending.append(holder)
    return reached
