"""Parts of Python's own objects: the values inside each kind of object, read and put back.

Opaque objects are only compared by how far they have got, and then named as not restored."""

from __future__ import annotations

import collections
import functools
import gc
import sys
import types
from functools import partial
from typing import Any, Callable, NamedTuple, TypeVar

from ..values.objects import (
    ATOMS,
    MISSING,
    address_of,
    class_dict,
    class_module,
    is_subclass,
    mro_of,
    name_of,
    own_dict,
)
from .registries import read_registered, write_registered

T = TypeVar("T")
Values = list[Any]
Read = Callable[[Any], Values]

_FRAME_TYPES = frozenset(map(address_of, (types.FrameType, types.CodeType, types.FunctionType)))

_CONNECTION_FIELDS = (
    *("total_changes", "in_transaction", "isolation_level"),
    *("row_factory", "text_factory"),
)

_FILES = frozenset("TextIOWrapper BufferedReader BufferedWriter BufferedRandom FileIO".split())

_FACTORY: Any = collections.defaultdict.__dict__["default_factory"]

_CACHES = frozenset({"_cache", "_item_cache", "_cacher", "_id"})
"""In these pandas caches results when a table is read."""

_FUNCTION_FIELDS = tuple(
    f"__{name}__" for name in "code defaults kwdefaults name qualname doc module".split()
)

_HAS_STORED_ANNOTATIONS = sys.version_info < (3, 14)
"""Whether annotations are stored. Python 3.14 and later run the user's code to read them."""

_OF_PYTHON = frozenset(
    f"__{name}__"
    for name in "dict weakref module qualname slots abstractmethods static_attributes firstlineno"
    " annotations_cache annotate_func annotate type_params parameters hash slotnames".split()
) | {"_abc_impl"}
_BASES: Any = type.__dict__["__bases__"]

_DEQUE = collections.deque


class ObjectPart(NamedTuple):
    read: Read
    write: Callable[[Any, Any], object] | None = None
    """Puts values back, without code of the user's classes; None if such an object never
    changes."""
    convert: Callable[[Values], Any] = lambda values: values
    """Makes of the values what `write` wants. May run the user's code, such as the hash of a
    key."""
    ordered: bool = True
    size: Callable[[Any], int] | None = None
    """Number of values; eight bytes count as one."""
    has_memory: bool = False

    def prepare(self, value: Any, values: Values) -> Callable[[], object]:
        assert self.write is not None
        return partial(self.write, value, self.convert(values))


def by_class(table: dict[str, T]) -> dict[tuple[str, str], T]:
    """Make a table by module and class of rows ``modules: classes``."""
    return {
        (module, name): value
        for row, value in table.items()
        for modules, _, names in (row.partition(":"),)
        for module in modules.split()
        for name in names.split() or ("",)
    }


class OpaqueKind(NamedTuple):
    """Objects that an undo leaves alone."""

    noun: str
    read_progress: Read | None = None
    """None if nobody knows how far one has got."""
    has_finalizer: bool = True


def _generator(value: Any) -> Values:
    for prefix in ("gi", "cr", "ag"):
        frame = getattr(value, f"{prefix}_frame", MISSING)
        if frame is not MISSING:
            if frame is None:
                return [-2]
            return [frame.f_lasti, *_inside_generator(value, frame)]
    return []


def _inside_generator(value: Any, frame: Any) -> Values:
    """Return local variables and, from Python 3.11 on, loops' iterators."""
    if sys.version_info < (3, 11):
        return [*frame.f_locals.values()]
    return [
        referent
        for referent in gc.get_referents(value)
        if address_of(type(referent)) not in _FRAME_TYPES and referent is not frame.f_globals
    ]


def _library_attribute(value: Any, name: str) -> Any:
    """Return an attribute as the library's class defines it."""
    for base in mro_of(type(value)):
        if name in class_dict(base) and class_module(base).partition(".")[0] in _PACKAGES:
            return class_dict(base)[name].__get__(value)
    raise AttributeError(name)


def _call(name: str) -> Read:
    return lambda value: [_library_attribute(value, name)()]


def _mapped(value: Any) -> Values:
    with memoryview(value) as view:
        if not view.readonly:
            raise ValueError("others may write to its memory")
    return [_library_attribute(value, "tell")()]


def _iterator(value: Any) -> Values:
    remaining = getattr(type(value), "__length_hint__", lambda value: 0)
    return [remaining(value), *gc.get_referents(value)]


def _read_rlock_progress(value: Any) -> Values:
    """Return how Python writes it: whether it is locked, its owner, how often it was acquired."""
    return [_library_attribute(value, "__repr__")()]


def _cached(value: Any) -> Values:
    return [*_library_attribute(value, "cache_info")(), *gc.get_referents(value)]


def _pipes_of_process(value: Any) -> Values:
    return [own_dict(value).get(name) for name in ("stdin", "stdout", "stderr")]


_OPAQUE = by_class(
    {
        "builtins: generator coroutine async_generator": OpaqueKind(
            "a generator or coroutine", _generator
        ),
        "builtins: list_iterator list_reverseiterator tuple_iterator str_iterator str_ascii_iterator"
        " bytes_iterator bytearray_iterator range_iterator longrange_iterator set_iterator"
        " dict_keyiterator dict_valueiterator dict_itemiterator dict_reversekeyiterator"
        " dict_reversevalueiterator dict_reverseitemiterator reversed enumerate zip map filter": OpaqueKind(
            "an iterator", _iterator, has_finalizer=False
        ),
        "_thread: lock LockType": OpaqueKind("a lock", _call("locked"), has_finalizer=False),
        "_thread: RLock": OpaqueKind("a lock", _read_rlock_progress, has_finalizer=False),
        "threading: Thread Timer _MainThread _DummyThread": OpaqueKind(
            "a thread", _call("is_alive")
        ),
        "threading: Event": OpaqueKind("a threading event", _call("is_set")),
        "threading _thread multiprocessing queue _queue:": OpaqueKind(
            "an object shared by threads or processes"
        ),
        "concurrent.futures: Future": OpaqueKind("a future", _call("done")),
        "concurrent.futures:": OpaqueKind("a pool of threads or processes", lambda value: []),
        "asyncio _asyncio: Task Future": OpaqueKind("a task", _call("done")),
        "asyncio _asyncio contextvars _contextvars:": OpaqueKind("a part of the event loop"),
        "subprocess: Popen": OpaqueKind("a process", _pipes_of_process),
        "weakref: finalize": OpaqueKind(
            "a finalizer", lambda value: [_library_attribute(value, "alive")], has_finalizer=False
        ),
        "socket _socket ssl _ssl sqlite3 _sqlite3 duckdb _duckdb:": OpaqueKind("a connection"),
        "sqlite3 _sqlite3: Connection": OpaqueKind(
            "a connection",
            lambda value: [_library_attribute(value, name) for name in _CONNECTION_FIELDS],
        ),
        "mmap: mmap": OpaqueKind("memory mapped to a file", _mapped),
        "io _io _pyio tempfile selectors mmap:": OpaqueKind("an open file"),
        "functools: _lru_cache_wrapper": OpaqueKind(
            "a cached function", _cached, has_finalizer=False
        ),
    }
)
"""A row without a class is about all other classes of these modules and their submodules."""
_PACKAGES = frozenset(module.partition(".")[0] for module, _ in _OPAQUE)


def file_class(cls: type) -> Any:
    """Return the class of `io` that a class of files is derived from."""
    for base in mro_of(cls):
        if name_of(base) in _FILES and class_module(base) == "_io":
            return base
    return None


def opaque_kind(cls: type) -> OpaqueKind | None:
    """Return the kind of a class that an undo does not touch, judged by its bases."""
    bases = mro_of(cls)[:-1]
    if is_subclass(cls, BaseException) or any(
        name_of(base) in ("StringIO", "BytesIO") and class_module(base) == "_io" for base in bases
    ):
        return None
    for base in bases:
        module = class_module(base)
        name = name_of(base)
        while module:
            kind = _OPAQUE.get((module, name)) or _OPAQUE.get((module, ""))
            if kind is not None:
                return kind
            module = module.rpartition(".")[0]
    return None


def progress_part(cls: type, kind: OpaqueKind) -> ObjectPart:
    """Tell how far an object has got; of derived classes also attributes."""
    is_derived = class_module(cls).partition(".")[0] not in _PACKAGES

    def read(value: Any) -> Values:
        if kind.read_progress is None:
            values = []
        else:
            values = [*kind.read_progress(value)]
        inside = _items(own_dict(value).copy())
        return values + [item for item in inside if is_derived or address_of(type(item)) in ATOMS]

    return ObjectPart(read)


def _items(mapping: Any) -> Values:
    return [value for pair in dict.items(mapping) for value in pair]


def pairs(values: Values) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2]))


def _put_dict(mapping: Any, content: Any) -> None:
    dict.clear(mapping)
    dict.update(mapping, content)


def _ordered_items(mapping: Any) -> Values:
    keys = collections.OrderedDict.__iter__(mapping)
    return [value for key in keys for value in (key, dict.__getitem__(mapping, key))]


def _put_ordered_dict(mapping: Any, content: Any) -> None:
    collections.OrderedDict.clear(mapping)
    for key, value in content.items():
        collections.OrderedDict.__setitem__(mapping, key, value)


def _put_default_dict(mapping: Any, content: Any) -> None:
    _FACTORY.__set__(mapping, content[0])
    _put_dict(mapping, content[1])


def _put_set(group: Any, content: Any) -> None:
    set.clear(group)
    set.update(group, content)


def _put_deque(items: Any, values: Values) -> None:
    _DEQUE.clear(items)
    _DEQUE.extend(items, values)


def _without_caches(value: Any) -> Values:
    named = dict.items(own_dict(value))
    return [part for pair in named if pair[0] not in _CACHES for part in pair]


def _put_without_caches(value: Any, content: Any) -> None:
    names = own_dict(value)
    _put_dict(names, {**content, **{name: names[name] for name in _CACHES if name in names}})


def slot_descriptors(cls: type) -> list[Any]:
    bases = [base for base in mro_of(cls) if "__slots__" in class_dict(base)]
    slots = [slot for base in bases for slot in class_dict(base).values()]
    return [slot for slot in slots if type(slot) is types.MemberDescriptorType]


def _get(slot: Any, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING


def _put_slots(value: Any, values: Values) -> None:
    for slot, slot_value in zip(slot_descriptors(type(value)), values):
        if slot_value is MISSING and _get(slot, value) is not MISSING:
            slot.__delete__(value)
        elif _get(slot, value) is not slot_value:
            slot.__set__(value, slot_value)


def put_attributes(*names: str) -> Callable[[Any, Values], None]:
    def put(value: Any, values: Values) -> None:
        for name, old_value in zip(names, values):
            setattr(value, name, old_value)

    return put


def _function(function: Any) -> Values:
    fields = [getattr(function, field) for field in _FUNCTION_FIELDS]
    return [*fields, *(function.__closure__ or ())]


def _annotations(function: Any) -> Values:
    if _HAS_STORED_ANNOTATIONS:
        return _items(function.__annotations__)
    return []


def _put_annotations(function: Any, annotations: dict[Any, Any]) -> None:
    if _HAS_STORED_ANNOTATIONS:
        _put_dict(function.__annotations__, annotations)


def read_cell_contents(cell: Any) -> Values:
    try:
        return [cell.cell_contents]
    except ValueError:
        return [MISSING]


def _put_cell(cell: Any, values: Values) -> None:
    if values[0] is not MISSING:
        cell.cell_contents = values[0]
    elif read_cell_contents(cell)[0] is not MISSING:
        del cell.cell_contents


def _is_class_attribute(name: Any) -> bool:
    """Return whether undo writes an attribute of a class; Python only writes those with a string."""
    return type(name) is str and name not in _OF_PYTHON


def _class(cls: Any) -> Values:
    """Return the bases, the number of registered classes, these classes, and the attributes."""
    named = class_dict(cls)
    names = [name for name in list(named) if _is_class_attribute(name)]
    registered = read_registered(cls)
    attributes = [part for name in names for part in (name, named[name])]
    return [_BASES.__get__(cls), len(registered), *registered, *attributes]


def _put_class(cls: Any, values: Values) -> None:
    if list(map(address_of, _BASES.__get__(cls))) != list(map(address_of, values[0])):
        _BASES.__set__(cls, values[0])
    registered_end = 2 + values[1]
    registered = values[2:registered_end]
    if list(map(address_of, registered)) != list(map(address_of, read_registered(cls))):
        write_registered(cls, registered)
    attributes = pairs(values[registered_end:])
    named = dict(class_dict(cls))
    for name in named:
        if _is_class_attribute(name) and name not in attributes:
            type.__delattr__(cls, name)
    for name, value in attributes.items():
        if named.get(name, MISSING) is not value:
            type.__setattr__(cls, name, value)


def _is_of_python(name: Any) -> bool:
    """Return whether a name in a module is one that Python sets, such as `__file__`."""
    return type(name) is str and name.startswith("__")


def _module(module: Any) -> Values:
    items = list(own_dict(module).items())
    return [part for pair in items if not _is_of_python(pair[0]) for part in pair]


def _put_module(module: Any, content: Any) -> None:
    names = own_dict(module)
    for name in list(names):
        if name not in content and not _is_of_python(name):
            del names[name]
    for name, value in content.items():
        if names.get(name, MISSING) is not value:
            names[name] = value


def _exact(cls: type, read: Callable[[Any], Any]) -> tuple[type, ObjectPart]:
    return cls, ObjectPart(lambda value: [read(value)])


def _own_fields(cls: type, *names: str) -> tuple[type, ObjectPart]:
    """Read fields as this class defines them."""
    slots = [class_dict(cls)[name] for name in names]
    return cls, ObjectPart(lambda value: [slot.__get__(value) for slot in slots])


def _sequence(cls: Any) -> Read:
    return lambda value: list(cls.__iter__(value))


ATTRIBUTES = ObjectPart(
    lambda value: _items(own_dict(value)),
    lambda value, wanted: _put_dict(own_dict(value), wanted),
    pairs,
)
PANDAS_ATTRIBUTES = ObjectPart(_without_caches, _put_without_caches, pairs)
SLOTS = ObjectPart(
    lambda value: [_get(slot, value) for slot in slot_descriptors(type(value))], _put_slots
)
CLASS = ObjectPart(_class, _put_class)
MODULE = ObjectPart(_module, _put_module, pairs)
FUNCTION = ObjectPart(_function, put_attributes(*_FUNCTION_FIELDS))
ANNOTATIONS = ObjectPart(_annotations, _put_annotations, pairs)

BUILTINS: tuple[tuple[type, ObjectPart], ...] = (
    (
        collections.OrderedDict,
        ObjectPart(_ordered_items, _put_ordered_dict, pairs, size=dict.__len__),
    ),
    (
        collections.defaultdict,
        ObjectPart(
            lambda value: [_FACTORY.__get__(value), *_items(value)],
            _put_default_dict,
            lambda values: (values[0], pairs(values[1:])),
            size=dict.__len__,
        ),
    ),
    (dict, ObjectPart(_items, _put_dict, pairs, size=dict.__len__)),
    (
        list,
        ObjectPart(
            list.copy,
            lambda items, values: list.__setitem__(items, slice(None), values),
            size=list.__len__,
        ),
    ),
    (tuple, ObjectPart(_sequence(tuple), size=tuple.__len__)),
    (set, ObjectPart(_sequence(set), _put_set, set, ordered=False, size=set.__len__)),
    (frozenset, ObjectPart(_sequence(frozenset), ordered=False, size=frozenset.__len__)),
    (_DEQUE, ObjectPart(_sequence(_DEQUE), _put_deque, size=_DEQUE.__len__)),
    (
        bytearray,
        ObjectPart(
            lambda value: [bytes(bytearray.copy(value))],
            lambda data, values: bytearray.__setitem__(data, slice(None), values[0]),
            size=lambda value: bytearray.__len__(value) // 8,
        ),
    ),
    (types.CellType, ObjectPart(read_cell_contents, _put_cell)),
    (types.MethodType, ObjectPart(lambda value: [value.__func__, value.__self__])),
    _own_fields(staticmethod, "__func__"),
    _own_fields(classmethod, "__func__"),
    _own_fields(property, "fget", "fset", "fdel"),
    _own_fields(functools.partial, "func", "args", "keywords"),
    _own_fields(slice, "start", "stop", "step"),
    (memoryview, ObjectPart(lambda value: [value.obj])),
    (types.MappingProxyType, ObjectPart(gc.get_referents)),
    _exact(int, int.__pos__),
    _exact(float, float.__pos__),
    _exact(complex, complex.__pos__),
    _exact(str, lambda value: str.__getitem__(value, slice(None))),
    _exact(bytes, lambda value: bytes.__getitem__(value, slice(None))),
)
