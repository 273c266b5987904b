"""Parts of objects: the values inside each kind of object, read and put back without running code
of the user's classes.

A *part* of an object is a list of values. Two states of an object are equal where its parts are:
plain values by value, all others by identity.

kind of object                      parts
list, deque, tuple, set, dict       its items
instances of classes                `__dict__` and slots
functions, cells, classes           code, defaults, contents, attributes
arrays and tables                   see `tables`
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import types
from typing import Any, Callable

from ..statics import MISSING, address_of, class_dict, module_of, mro_of, own_dict
from .part import Apply, Part, Values, later, prepared, put_fields


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


@later
def _put_deque(items: Any, values: Values) -> None:
    collections.deque.clear(items)
    collections.deque.extend(items, values)


_CACHES = frozenset({"_cache", "_item_cache", "_cacher", "_id"})
"""Attributes in which pandas notes what it has computed: reading a table changes them."""


def _without_caches(value: Any) -> Values:
    return [
        part
        for name, held in dict.items(own_dict(value))
        if name not in _CACHES
        for part in (name, held)
    ]


def _put_without_caches(value: Any, values: Values) -> Apply:
    held = own_dict(value)
    return _put_dict(
        held, [*values, *(part for name in _CACHES if name in held for part in (name, held[name]))]
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


def _of_descriptors(name: str, find: Callable[[type], list[Any]]) -> Part:
    """Make the part whose values are read by descriptors. find: returns those of a class."""

    @later
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


def contents_of(cell: Any) -> Values:
    try:
        return [cell.cell_contents]
    except ValueError:
        return [MISSING]


@later
def _put_cell(cell: Any, values: Values) -> None:
    if values[0] is not MISSING:
        cell.cell_contents = values[0]
    elif contents_of(cell)[0] is not MISSING:
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


@later
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
    """Return the fields of an exception that classes in C define; the attributes are not among
    them."""
    in_c = [base for base in mro_of(cls) if module_of(base) == "builtins" and base is not object]
    named = [
        (name, slot)
        for base in in_c
        for name, slot in class_dict(base).items()
        if type(slot) in _BY_DESCRIPTOR
    ]
    return [slot for name, slot in named if name not in ("__dict__", "characters_written")]


def _iterator_reader(cls: Any) -> Callable[[Any], Values]:
    """Read where an iterator is: what it goes through, and how far it got."""

    def read(value: Any) -> Values:
        make, inside, *state = cls.__reduce__(value)
        if make is not iter:
            return [make.__name__, *inside, *state]
        (inside,) = inside
        if type(inside) is range:
            return [inside.start, inside.stop, inside.step, *state]
        return (
            [inside, *state] if state else [type(inside).__name__, *inside]
        )  # an exhausted one has a new list

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
OF_PANDAS = Part("attributes", _without_caches, _put_without_caches)
SLOTS = _of_descriptors("slots", slot_descriptors)
CLASS = Part("class", _class, _put_class)


def _own_fields(cls: type, *names: str) -> Callable[[Any], Values]:
    """Read fields as this class defines them, whatever a derived class says."""
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
            later(lambda items, values: list.__setitem__(items, slice(None), values)),
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
    (types.FunctionType, Part("function", _function, put_fields(*_FUNCTION_FIELDS))),
    (types.CellType, Part("cell", contents_of, _put_cell)),
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
    (BaseException, _of_descriptors("exception", _exception_slots)),
    *(_iterator(cls) for cls in dict.fromkeys(type(iter(empty)) for empty in _EMPTY)),
    *map(_iterator, _ITERATORS),
    _exact(int, int.__pos__),
    _exact(float, float.__pos__),
    _exact(complex, complex.__pos__),
    _exact(str, lambda value: str.__getitem__(value, slice(None))),
    _exact(bytes, lambda value: bytes.__getitem__(value, slice(None))),
)
