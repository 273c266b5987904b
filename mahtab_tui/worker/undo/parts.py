"""Parts of objects: the values inside each kind of object, and how to read and restore them.

A *part* of an object is a list of values. Two states of an object are equal if its parts are equal:
plain values are compared by value, all others by identity.

    kind of object                      parts
    list, deque, tuple, set, dict       its items
    instances of classes                `__dict__` and slots
    functions, cells, classes           code, defaults, contents, attributes
    arrays and tables                   see `tables`

An undo does not change objects of some kinds (`OpaqueKind`), such as files, or look inside them. It
only compares a marker of their progress; if that differs, they are named as not restored."""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import sys
import types
from typing import Any, Callable, NamedTuple

from ..objects import (
    MISSING,
    address_of,
    class_dict,
    class_module,
    is_subclass,
    mro_of,
    name_of,
    own_dict,
)
from .reach import ATOMS, Apply, Part, UncomparableError, Values, deferred, prepared, set_attributes


class OpaqueKind(NamedTuple):
    """A kind of object that an undo does not touch."""

    modules: tuple[str, ...]
    """The modules and packages that define its classes."""
    names: tuple[str, ...]
    """The names of the classes; empty for all classes of these modules."""
    noun: str
    """What such an object is called in sentences."""
    read_progress: Callable[[Any], Values]
    reason: str
    """Why an undo does not touch it."""

    @property
    def is_comparable(self) -> bool:
        """Whether there is a marker of its objects' progress."""
        return self.read_progress is not _no_progress

    @property
    def has_finalizer(self) -> bool:
        """Whether the end of one of its objects has an effect."""
        return self.noun not in ("a lock", "a cached function", "an iterator")


_FRAME_TYPES = frozenset(map(address_of, (types.FrameType, types.CodeType, types.FunctionType)))


def _generator(value: Any) -> Values:
    for prefix in ("gi", "cr", "ag"):
        frame = getattr(value, f"{prefix}_frame", MISSING)
        if frame is not MISSING:
            return [-2] if frame is None else [frame.f_lasti, *_inside_generator(value, frame)]
    return []


def _inside_generator(value: Any, frame: Any) -> Values:
    """Return the local variables and, from Python 3.11 on, internal values of loops, such as their
    iterators."""
    if sys.version_info < (3, 11):
        return [*frame.f_locals.values()]
    return [
        referent
        for referent in gc.get_referents(value)
        if address_of(type(referent)) not in _FRAME_TYPES and referent is not frame.f_globals
    ]


def _library_attribute(value: Any, name: str) -> Any:
    """Return an attribute as defined by the library's class, whatever a derived class of the user's
    defines."""
    for base in mro_of(type(value)):
        if name in class_dict(base) and class_module(base).partition(".")[0] in _LIBRARIES:
            return class_dict(base)[name].__get__(value)
    raise AttributeError(name)


def _called(name: str) -> Callable[[Any], Values]:
    return lambda value: [_library_attribute(value, name)()]


def _fields(*names: str) -> Callable[[Any], Values]:
    return lambda value: [
        own_dict(value)[name] if name in own_dict(value) else _library_attribute(value, name)
        for name in names
    ]


def _mapped(value: Any) -> Values:
    with memoryview(value) as view:
        if not view.readonly:
            raise UncomparableError
    return [_library_attribute(value, "tell")()]


def _rest(value: Any) -> Values:
    """Return the rest of an iterator over keys or items."""
    cls: Any = type(value)
    return list(cls.__reduce__(value)[1][0])


def _no_progress(value: Any) -> Values:
    return []


def _cached(value: Any) -> Values:
    return [*_library_attribute(value, "cache_info")(), *gc.get_referents(value)]


ADVANCED = "it has advanced and cannot be restored"
_ROWS: tuple[tuple[str, str, str, Callable[[Any], Values], str], ...] = (
    (
        "builtins",
        "generator coroutine async_generator",
        "a generator or coroutine",
        _generator,
        ADVANCED,
    ),
    (
        "builtins",
        "dict_keyiterator dict_valueiterator dict_itemiterator dict_reversekeyiterator dict_reversevalueiterator dict_reverseitemiterator"
        " set_iterator",
        "an iterator",
        _rest,
        ADVANCED,
    ),
    ("_thread", "lock LockType", "a lock", _called("locked"), "it was acquired or released"),
    (
        "_thread",
        "RLock",
        "a lock",
        lambda value: [_library_attribute(value, "__repr__")().partition(" object")[0]],
        "it was acquired or released",
    ),
    (
        "threading",
        "Thread Timer _MainThread _DummyThread",
        "a thread",
        _called("is_alive"),
        "a thread that was started or has ended cannot be restored",
    ),
    ("threading", "Event", "a threading event", _called("is_set"), "it was set or cleared"),
    (
        "threading _thread multiprocessing queue _queue",
        "",
        "an object shared by threads or processes",
        _no_progress,
        "it is shared with other threads or processes",
    ),
    ("concurrent.futures", "Future", "a future", _called("done"), ADVANCED),
    (
        "concurrent.futures",
        "",
        "a pool of threads or processes",
        _fields("_shutdown"),
        "it was shut down",
    ),
    ("asyncio _asyncio", "Task Future", "a task", _called("done"), ADVANCED),
    (
        "asyncio _asyncio contextvars _contextvars",
        "",
        "a part of the event loop",
        _no_progress,
        "it belongs to the event loop",
    ),
    ("subprocess", "Popen", "a process", _fields("returncode"), "the process has ended"),
    (
        "socket _socket ssl _ssl",
        "",
        "a connection",
        _no_progress,
        "a connection cannot be restored",
    ),
    (
        "sqlite3 _sqlite3",
        "Connection",
        "a connection",
        _fields("total_changes", "in_transaction"),
        "what was written to the database stays",
    ),
    (
        "sqlite3 _sqlite3 duckdb _duckdb",
        "",
        "a connection",
        _no_progress,
        "a connection cannot be restored",
    ),
    (
        "mmap",
        "mmap",
        "memory mapped to a file",
        _mapped,
        "it shares its memory with a file or with other processes",
    ),
    (
        "io _io _pyio tempfile selectors mmap",
        "",
        "an open file",
        _no_progress,
        "what was written to a file stays",
    ),
    ("functools", "_lru_cache_wrapper", "a cached function", _cached, "its cache stays"),
    (
        "builtins",
        "traceback",
        "a traceback",
        lambda value: [value.tb_lineno, value.tb_lasti, value.tb_next],
        "it cannot be restored",
    ),
    ("builtins", "frame", "a frame", _no_progress, "it cannot be restored"),
)
"""Modules, names, noun, progress marker and reason of each kind."""
_GUARDED = [
    OpaqueKind(tuple(modules.split()), tuple(names.split()), what, sign, reason)
    for modules, names, what, sign, reason in _ROWS
]
_LIBRARIES = frozenset(module.partition(".")[0] for kind in _GUARDED for module in kind.modules)
_IN_MEMORY = frozenset(("StringIO", "BytesIO"))
"""Classes of `io` that are not files."""
_FILES = frozenset("TextIOWrapper BufferedReader BufferedWriter BufferedRandom FileIO".split())


def is_file(cls: type) -> bool:
    """Return whether the position of such an object is recorded (see `SideState`)."""
    return any(name_of(base) in _FILES and class_module(base) == "_io" for base in mro_of(cls))


def opaque_kind(cls: type) -> OpaqueKind | None:
    """Return the kind of a class that an undo does not touch, judged by its bases; None for other
    classes."""
    bases = mro_of(cls)[:-1]
    if is_subclass(cls, BaseException) or any(
        name_of(base) in _IN_MEMORY and class_module(base) == "_io" for base in bases
    ):
        return None
    for base in bases:
        module, name = class_module(base), name_of(base)
        for kind in _GUARDED:
            if (not kind.names or name in kind.names) and any(
                module == each or module.startswith(each + ".") for each in kind.modules
            ):
                return kind
    return None


def _plain_attributes(value: Any) -> Values:
    return [
        part
        for pair in list(own_dict(value).items())
        for part in pair
        if address_of(type(part)) in ATOMS
    ]


def progress_marker(cls: type, kind: OpaqueKind) -> Part:
    """Return the marker of an object's progress, as a part that never changes in place; for derived
    classes, with their attributes."""
    if any(class_module(cls).partition(".")[0] == each.partition(".")[0] for each in kind.modules):
        return Part(
            "sign", lambda value: [*kind.read_progress(value), *_plain_attributes(value)], None
        )
    return Part(
        "sign",
        lambda value: [
            *kind.read_progress(value),
            *(part for pair in list(own_dict(value).items()) for part in pair),
        ],
        None,
    )


def _items(mapping: Any) -> Values:
    return [value for pair in dict.items(mapping) for value in pair]


def pairs(values: Values) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2]))


@prepared(pairs)
def _put_dict(mapping: Any, wanted: Any) -> None:
    dict.clear(mapping)
    dict.update(mapping, wanted)


def _ordered_items(mapping: Any) -> Values:
    return [
        value
        for key in collections.OrderedDict.__iter__(mapping)
        for value in (key, dict.__getitem__(mapping, key))
    ]


@prepared(pairs)
def _put_ordered_dict(mapping: Any, wanted: Any) -> None:
    collections.OrderedDict.clear(mapping)
    for key, value in wanted.items():
        collections.OrderedDict.__setitem__(mapping, key, value)


_FACTORY: Any = collections.defaultdict.__dict__["default_factory"]


@prepared(lambda values: (values[0], pairs(values[1:])))
def _put_default_dict(mapping: Any, wanted: Any) -> None:
    _FACTORY.__set__(mapping, wanted[0])
    dict.clear(mapping)
    dict.update(mapping, wanted[1])


@prepared(set)
def _put_set(group: Any, wanted: Any) -> None:
    set.clear(group)
    set.update(group, wanted)


@deferred
def _put_deque(items: Any, values: Values) -> None:
    collections.deque.clear(items)
    collections.deque.extend(items, values)


_CACHES = frozenset({"_cache", "_item_cache", "_cacher", "_id"})
"""Attributes in which pandas caches results; reading a table changes them."""


def _without_caches(value: Any) -> Values:
    return [
        part
        for name, item in dict.items(own_dict(value))
        if name not in _CACHES
        for part in (name, item)
    ]


def _put_without_caches(value: Any, values: Values) -> Apply:
    names = own_dict(value)
    return _put_dict(
        names,
        [*values, *(part for name in _CACHES if name in names for part in (name, names[name]))],
    )


def slot_descriptors(cls: type) -> list[Any]:
    bases = [base for base in mro_of(cls) if "__slots__" in class_dict(base)]
    return [
        slot
        for base in bases
        for slot in class_dict(base).values()
        if type(slot) is types.MemberDescriptorType
    ]


def _get(slot: Any, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING


def _put_bytes(data: Any, values: Values) -> Apply:
    return lambda: bytearray.__setitem__(data, slice(None), values[0])


def _descriptor_part(name: str, find: Callable[[type], list[Any]]) -> Part:
    """Create the part whose values are read by descriptors. find: returns those of a class."""

    @deferred
    def put(value: Any, values: Values) -> None:
        for slot, wanted in zip(find(type(value)), values):
            if wanted is MISSING and _get(slot, value) is not MISSING:
                slot.__delete__(value)
            elif _get(slot, value) is not wanted:
                slot.__set__(value, wanted)

    return Part(name, lambda value: [_get(slot, value) for slot in find(type(value))], put)


_FUNCTION_FIELDS = (
    "__code__",
    "__defaults__",
    "__kwdefaults__",
    "__name__",
    "__qualname__",
    "__doc__",
    "__module__",
)


def _function(function: Any) -> Values:
    return [
        *(getattr(function, field) for field in _FUNCTION_FIELDS),
        *(function.__closure__ or ()),
    ]


def read_cell_contents(cell: Any) -> Values:
    try:
        return [cell.cell_contents]
    except ValueError:
        return [MISSING]


@deferred
def _put_cell(cell: Any, values: Values) -> None:
    if values[0] is not MISSING:
        cell.cell_contents = values[0]
    elif read_cell_contents(cell)[0] is not MISSING:
        del cell.cell_contents


_OF_PYTHON = frozenset(
    "__dict__ __weakref__ __module__ __qualname__ __slots__ __abstractmethods__ _abc_impl __static_attributes__ __firstlineno__"
    " __annotations_cache__ __annotate_func__ __annotate__ __type_params__ __parameters__ __hash__".split()
)
_BASES: Any = type.__dict__["__bases__"]


def _class(cls: Any) -> Values:
    named = class_dict(cls)
    return [
        _BASES.__get__(cls),
        *(
            part
            for name in list(named)
            if type(name) is str and name not in _OF_PYTHON
            for part in (name, named[name])
        ),
    ]


@deferred
def _put_class(cls: Any, values: Values) -> None:
    if list(map(address_of, _BASES.__get__(cls))) != list(map(address_of, values[0])):
        _BASES.__set__(cls, values[0])
    wanted, named = pairs(values[1:]), dict(class_dict(cls))
    for name in named:
        if name not in wanted and name not in _OF_PYTHON:
            type.__delattr__(cls, name)
    for name, value in wanted.items():
        if named.get(name, MISSING) is not value:
            type.__setattr__(cls, name, value)


_BY_DESCRIPTOR = (types.GetSetDescriptorType, types.MemberDescriptorType)


def _exception_slots(cls: type) -> list[Any]:
    """Return the fields of an exception defined by C classes, without its attributes."""
    in_c = [base for base in mro_of(cls) if class_module(base) == "builtins" and base is not object]
    named = [
        (name, slot)
        for base in in_c
        for name, slot in class_dict(base).items()
        if type(slot) in _BY_DESCRIPTOR
    ]
    return [slot for name, slot in named if name not in ("__dict__", "characters_written")]


def _iterator_reader(cls: Any) -> Callable[[Any], Values]:
    """Return a function that reads an iterator's state: what it iterates over, and its position."""

    def read(value: Any) -> Values:
        make, inside, *state = cls.__reduce__(value)
        if make is not iter:
            return [make.__name__, *inside, *state]
        (inside,) = inside
        if type(inside) is range:
            return [inside.start, inside.stop, inside.step, *state]
        # An exhausted iterator has a new list.
        return [inside, *state] if state else [type(inside).__name__, *inside]

    return read


def _iterator(cls: type) -> tuple[type, Part]:
    return cls, Part("iterator", _iterator_reader(cls), None)


def _exact(cls: type, read: Callable[[Any], Any]) -> tuple[type, Part]:
    return cls, Part("value", lambda value: [read(value)], None)


_EMPTY: tuple[Any, ...] = ([], (), "", "\u0100", b"", bytearray(), range(0), range(2**70))

_ITERATORS: tuple[Any, ...] = (
    type(reversed([])),
    reversed,
    enumerate,
    zip,
    map,
    filter,
    itertools.count,
    itertools.repeat,
)

ATTRIBUTES = Part(
    "attributes",
    lambda value: _items(own_dict(value)),
    lambda value, values: _put_dict(own_dict(value), values),
)
PANDAS_ATTRIBUTES = Part("attributes", _without_caches, _put_without_caches)
SLOTS = _descriptor_part("slots", slot_descriptors)
CLASS = Part("class", _class, _put_class)


def _own_fields(cls: type, *names: str) -> Callable[[Any], Values]:
    """Return a function that reads fields as defined by this class, whatever a derived class
    defines."""
    slots = [class_dict(cls)[name] for name in names]
    return lambda value: [slot.__get__(value) for slot in slots]


CONTAINERS: tuple[tuple[type, Part], ...] = (
    (
        collections.OrderedDict,
        Part("ordered dict", _ordered_items, _put_ordered_dict, size=dict.__len__),
    ),
    (
        collections.defaultdict,
        Part(
            "default dict",
            lambda value: [_FACTORY.__get__(value), *_items(value)],
            _put_default_dict,
            size=dict.__len__,
        ),
    ),
    (dict, Part("dict", _items, _put_dict, size=dict.__len__)),
    (
        list,
        Part(
            "list",
            list.copy,
            deferred(lambda items, values: list.__setitem__(items, slice(None), values)),
            size=list.__len__,
        ),
    ),
    (tuple, Part("tuple", lambda value: list(tuple.__iter__(value)), None, size=tuple.__len__)),
    (
        set,
        Part(
            "set",
            lambda value: list(set.__iter__(value)),
            _put_set,
            ordered=False,
            size=set.__len__,
        ),
    ),
    (
        frozenset,
        Part(
            "frozenset",
            lambda value: list(frozenset.__iter__(value)),
            None,
            ordered=False,
            size=frozenset.__len__,
        ),
    ),
    (
        collections.deque,
        Part(
            "deque",
            lambda value: list(collections.deque.__iter__(value)),
            _put_deque,
            size=collections.deque.__len__,
        ),
    ),
    (
        bytearray,
        Part(
            "bytearray",
            lambda value: [bytes(bytearray.copy(value))],
            _put_bytes,
            size=lambda value: bytearray.__len__(value) // 8,
        ),
    ),
    (types.FunctionType, Part("function", _function, set_attributes(*_FUNCTION_FIELDS))),
    (types.CellType, Part("cell", read_cell_contents, _put_cell)),
    (types.MethodType, Part("method", lambda value: [value.__func__, value.__self__], None)),
    (staticmethod, Part("method", _own_fields(staticmethod, "__func__"), None)),
    (classmethod, Part("method", _own_fields(classmethod, "__func__"), None)),
    (property, Part("property", _own_fields(property, "fget", "fset", "fdel"), None)),
    (
        functools.partial,
        Part("partial", _own_fields(functools.partial, "func", "args", "keywords"), None),
    ),
    (memoryview, Part("view", lambda value: [value.obj], None)),
    (types.MappingProxyType, Part("proxy", gc.get_referents, None)),
    (slice, Part("slice", lambda value: [value.start, value.stop, value.step], None)),
    (BaseException, _descriptor_part("exception", _exception_slots)),
    *(_iterator(cls) for cls in dict.fromkeys(type(iter(empty)) for empty in _EMPTY)),
    *map(_iterator, _ITERATORS),
    _exact(int, int.__pos__),
    _exact(float, float.__pos__),
    _exact(complex, complex.__pos__),
    _exact(str, lambda value: str.__getitem__(value, slice(None))),
    _exact(bytes, lambda value: bytes.__getitem__(value, slice(None))),
)
