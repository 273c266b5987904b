"""Parts of Python's own objects: the values inside each kind of object, read and written back.

Values are read into one flat list, so that two states can be compared without running code of the
user's classes. A dict is read as key, value, key, value and so on.

All functions are those of the classes of Python (`dict.clear(mapping)`, not `mapping.clear()`), because
a class of the user's may define its own. Each kind of object has a `_read_…` and a `_write_…` function;
the tables at the end say which belong together.
"""

from __future__ import annotations

import collections
import functools
import gc
import sys
import types
from collections.abc import Iterable
from functools import partial
from typing import Any, Callable, NamedTuple, TypeVar

from ..values.objects import MISSING, address_of, class_dict, mro_of, own_dict
from .registries import read_registered, write_registered

T = TypeVar("T")
Values = list[Any]
Read = Callable[[Any], Values]
ClassName = tuple[str, str]
"""The names of a module and of a class in it."""

_PANDAS_CACHES = frozenset({"_cache", "_item_cache", "_cacher", "_id"})
"""Attributes in which pandas caches results when a table is read."""

_FUNCTION_FIELDS = (
    "__code__ __defaults__ __kwdefaults__ __name__ __qualname__ __doc__ __module__".split()
)

_HAS_STORED_ANNOTATIONS = sys.version_info < (3, 14)
"""Whether annotations are stored. Python 3.14 and later run the user's code to read them."""

_PYTHON_CLASS_ATTRIBUTES = frozenset(
    "__dict__ __weakref__ __annotations_cache__ __annotate_func__ __annotate__ __slotnames__"
    " _abc_impl".split()
)
"""Attributes of a class in which Python keeps what it makes of others, and an undo leaves alone."""

_PYTHON_MODULE_NAMES = frozenset(
    "__builtins__ __cached__ __loader__ __spec__ __warningregistry__ __annotate__"
    " __conditional_annotations__".split()
)
"""Names in a module that Python sets itself, and an undo leaves alone."""

# As `type` and `defaultdict` define them, whatever a derived class defines.
_BASES: Any = type.__dict__["__bases__"]
_NAME: Any = type.__dict__["__name__"]
_QUALIFIED_NAME: Any = type.__dict__["__qualname__"]
_DEFAULT_FACTORY: Any = collections.defaultdict.__dict__["default_factory"]


_PROPERTY_FIELDS: tuple[Any, ...] = tuple(
    class_dict(property)[name] for name in ("__doc__", "__name__") if name in class_dict(property)
)
"""What can be set of a property: its documentation, and since Python 3.13 its name."""


class ObjectPart(NamedTuple):
    """How an undo reads, compares and writes a part of an object, such as its attributes."""

    read: Read
    """Returns the values in it."""
    write: Callable[[Any, Any], object] | None = None
    """Writes what `convert` returned, without code of the user's classes; None if such an object
    never changes."""
    convert: Callable[[Values], object] = lambda values: values
    """Makes of the values what `write` takes. May run the user's code, such as the hash of a
    key."""
    ordered: bool = True
    """Whether the order of the values counts, unlike that of a set."""
    size: Callable[[Any], int] | None = None
    """Returns the number of values; eight bytes count as one."""
    has_memory: bool = False
    """Whether the object also has memory that is compared and copied as bytes, such as an array."""

    def prepare(self, value: object, values: Values) -> Callable[[], object]:
        """Return what writes the values into an object.

        May run the user's code, unlike the result.
        """
        assert self.write is not None
        return partial(self.write, value, self.convert(values))


def for_each_class(module: str, class_names: str, value: T) -> dict[ClassName, T]:
    """Make rows of a table by class that have the same value.

    Args:
        module: The module of the classes.
        class_names: Separated by spaces.
        value: The value of each row.
    """
    return {(module, class_name): value for class_name in class_names.split()}


def _are_same_objects(first: Iterable[object], second: Iterable[object]) -> bool:
    """Return whether two collections have the same objects in the same order."""
    return list(map(address_of, first)) == list(map(address_of, second))


# Containers


def _flatten(pairs: Iterable[tuple[object, object]]) -> Values:
    """Return the first and the second of each pair by turns."""
    return [item for pair in pairs for item in pair]


def read_items(mapping: Any) -> Values:
    """Return a dict's keys and values by turns."""
    return _flatten(dict.items(mapping))


def _to_dict(values: Values) -> dict[Any, Any]:
    """Make a dict of keys and values by turns."""
    return dict(zip(values[::2], values[1::2]))


def _write_dict(mapping: Any, content: dict[Any, Any]) -> None:
    dict.clear(mapping)
    dict.update(mapping, content)


def _read_ordered_dict(mapping: Any) -> Values:
    keys = collections.OrderedDict.__iter__(mapping)
    return _flatten((key, dict.__getitem__(mapping, key)) for key in keys)


def _write_ordered_dict(mapping: Any, content: dict[Any, Any]) -> None:
    collections.OrderedDict.clear(mapping)
    for key, value in content.items():
        collections.OrderedDict.__setitem__(mapping, key, value)


class _DefaultDictState(NamedTuple):
    """A `defaultdict`."""

    factory: Any
    content: dict[Any, Any]


def _read_default_dict(mapping: object) -> Values:
    return [_DEFAULT_FACTORY.__get__(mapping), *read_items(mapping)]


def _to_default_dict_state(values: Values) -> _DefaultDictState:
    factory, *items = values
    return _DefaultDictState(factory, _to_dict(items))


def _write_default_dict(mapping: object, state: _DefaultDictState) -> None:
    _DEFAULT_FACTORY.__set__(mapping, state.factory)
    _write_dict(mapping, state.content)


def _reads_items_of(cls: Any) -> Read:
    """Return a reader that iterates as this class does, whatever a derived class does."""
    return lambda value: list(cls.__iter__(value))


def _write_list(items: Any, values: Values) -> None:
    list.__setitem__(items, slice(None), values)


def _write_set(items: Any, content: set[Any]) -> None:
    set.clear(items)
    set.update(items, content)


def _write_deque(items: Any, values: Values) -> None:
    collections.deque.clear(items)
    collections.deque.extend(items, values)


def _read_bytearray(data: Any) -> Values:
    return [bytes(bytearray.copy(data))]


def _write_bytearray(data: Any, values: Values) -> None:
    [content] = values
    bytearray.__setitem__(data, slice(None), content)


def _bytearray_size(data: Any) -> int:
    return bytearray.__len__(data) // 8


# Attributes and slots


def _read_attributes(value: object) -> Values:
    return read_items(own_dict(value))


def _write_attributes(value: object, attributes: dict[Any, Any]) -> None:
    _write_dict(own_dict(value), attributes)


def _read_pandas_attributes(value: object) -> Values:
    attributes = dict.items(own_dict(value))
    return _flatten(item for item in attributes if item[0] not in _PANDAS_CACHES)


def _write_pandas_attributes(value: object, attributes: dict[Any, Any]) -> None:
    """Write attributes, and leave the caches as they are."""
    present = own_dict(value)
    caches = {name: present[name] for name in _PANDAS_CACHES if name in present}
    _write_dict(present, {**attributes, **caches})


def slot_descriptors(cls: type) -> list[Any]:
    """Return what `__slots__` of a class and of its bases define."""
    bases = [base for base in mro_of(cls) if "__slots__" in class_dict(base)]
    slots = [slot for base in bases for slot in class_dict(base).values()]
    return [slot for slot in slots if type(slot) is types.MemberDescriptorType]


def _read_slot(slot: Any, value: Any) -> object:
    """Return what an object has in a slot; `MISSING` if the slot is empty."""
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING


def _read_slots(value: object) -> Values:
    return [_read_slot(slot, value) for slot in slot_descriptors(type(value))]


def _write_slots(value: object, values: Values) -> None:
    for slot, earlier in zip(slot_descriptors(type(value)), values):
        present = _read_slot(slot, value)
        if earlier is MISSING and present is not MISSING:
            slot.__delete__(value)
        elif earlier is not present:
            slot.__set__(value, earlier)


def writes_fields(*names: str) -> Callable[[Any, Values], None]:
    """Return a writer that sets these attributes to the first values."""

    def write(value: object, values: Values) -> None:
        for name, earlier in zip(names, values):
            setattr(value, name, earlier)

    return write


# Functions, classes and modules


def _read_function(function: Any) -> Values:
    """Return the fields, and then the closure's cells, which a function always keeps."""
    fields = [getattr(function, name) for name in _FUNCTION_FIELDS]
    return [*fields, *(function.__closure__ or ())]


def _read_annotations(function: object) -> Values:
    if _HAS_STORED_ANNOTATIONS:
        return read_items(function.__annotations__)
    return []


def _write_annotations(function: object, annotations: dict[Any, Any]) -> None:
    if _HAS_STORED_ANNOTATIONS:
        _write_dict(function.__annotations__, annotations)


def read_cell_contents(cell: Any) -> Values:
    """Return the only value in the cell of a closure; `MISSING` if it is empty."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return [MISSING]


def _write_cell_contents(cell: Any, values: Values) -> None:
    [earlier] = values
    [present] = read_cell_contents(cell)
    if earlier is not MISSING:
        cell.cell_contents = earlier
    elif present is not MISSING:
        del cell.cell_contents


class _ClassState(NamedTuple):
    """What an undo restores of a class."""

    bases: tuple[type, ...]
    name: str
    qualified_name: str
    registered: list[type]
    """Classes that were registered with an abstract base class."""
    attributes: dict[str, Any]

    @classmethod
    def from_values(cls, values: Values) -> _ClassState:
        """Return the state of which `to_values` returned the values."""
        bases, name, qualified_name, registered_count, *others = values
        registered = others[:registered_count]
        attributes = _to_dict(others[registered_count:])
        return cls(bases, name, qualified_name, registered, attributes)

    def to_values(self) -> Values:
        """Return the state as one flat list. The number of the registered classes comes before them, so
        that the attributes after them can be told from them."""
        attributes = read_items(self.attributes)
        names = (self.name, self.qualified_name)
        return [self.bases, *names, len(self.registered), *self.registered, *attributes]


def _read_class_state(cls: Any) -> _ClassState:
    all_attributes = list(class_dict(cls).items())
    attributes = {name: value for name, value in all_attributes if _is_class_attribute(name)}
    names = (_NAME.__get__(cls), _QUALIFIED_NAME.__get__(cls))
    return _ClassState(_BASES.__get__(cls), *names, read_registered(cls), attributes)


def _is_class_attribute(name: object) -> bool:
    """Return whether undo writes an attribute of a class; Python only writes those with a string."""
    return type(name) is str and name not in _PYTHON_CLASS_ATTRIBUTES


def _read_class(cls: object) -> Values:
    return _read_class_state(cls).to_values()


def _write_class(cls: Any, earlier: _ClassState) -> None:
    """Write only what is different, because Python drops its caches of a class at each change."""
    if not _are_same_objects(_BASES.__get__(cls), earlier.bases):
        _BASES.__set__(cls, earlier.bases)
    _NAME.__set__(cls, earlier.name)
    _QUALIFIED_NAME.__set__(cls, earlier.qualified_name)

    present = _read_class_state(cls)
    if not _are_same_objects(present.registered, earlier.registered):
        write_registered(cls, earlier.registered)

    for name in present.attributes:
        if name not in earlier.attributes:
            type.__delattr__(cls, name)
    for name, value in earlier.attributes.items():
        if present.attributes.get(name, MISSING) is not value:
            type.__setattr__(cls, name, value)


def _read_module(module: object) -> Values:
    names = list(own_dict(module).items())
    return _flatten(item for item in names if not _is_set_by_python(item[0]))


def _is_set_by_python(name: object) -> bool:
    """Return whether undo leaves a name of a module alone."""
    return type(name) is str and name in _PYTHON_MODULE_NAMES


def _write_module(module: object, earlier: dict[Any, Any]) -> None:
    present = own_dict(module)
    for name in list(present):
        if name not in earlier and not _is_set_by_python(name):
            del present[name]
    for name, value in earlier.items():
        if present.get(name, MISSING) is not value:
            present[name] = value


# Other objects


def _fields_part(cls: type, *names: str) -> ObjectPart:
    """Read fields as this class defines them, whatever a derived class defines."""
    fields = [class_dict(cls)[name] for name in names]
    return ObjectPart(lambda value: [field.__get__(value) for field in fields])


def _plain_value_part(to_plain: Callable[[Any], object]) -> ObjectPart:
    """Compare an object of a derived class, such as of `int`, by its value in the plain class."""
    return ObjectPart(lambda value: [to_plain(value)])


def _read_property(value: Any) -> Values:
    return [_read_slot(field, value) for field in _PROPERTY_FIELDS]


def _write_property(value: Any, values: Values) -> None:
    for field, earlier in zip(_PROPERTY_FIELDS, values):
        if earlier is not MISSING and _read_slot(field, value) is not earlier:
            field.__set__(value, earlier)


ATTRIBUTES = ObjectPart(_read_attributes, _write_attributes, _to_dict)
PANDAS_ATTRIBUTES = ObjectPart(_read_pandas_attributes, _write_pandas_attributes, _to_dict)
SLOTS = ObjectPart(_read_slots, _write_slots)
CLASS = ObjectPart(_read_class, _write_class, _ClassState.from_values)
MODULE = ObjectPart(_read_module, _write_module, _to_dict)
FUNCTION = ObjectPart(_read_function, writes_fields(*_FUNCTION_FIELDS))
ANNOTATIONS = ObjectPart(_read_annotations, _write_annotations, _to_dict)

PROPERTY = (
    _fields_part(property, "fget", "fset", "fdel"),
    ObjectPart(_read_property, _write_property),
)

_ORDERED_DICT = ObjectPart(_read_ordered_dict, _write_ordered_dict, _to_dict, size=dict.__len__)
_DEFAULT_DICT = ObjectPart(
    _read_default_dict, _write_default_dict, _to_default_dict_state, size=dict.__len__
)
_DICT = ObjectPart(read_items, _write_dict, _to_dict, size=dict.__len__)
_LIST = ObjectPart(list.copy, _write_list, size=list.__len__)
_TUPLE = ObjectPart(_reads_items_of(tuple), size=tuple.__len__)
_SET = ObjectPart(_reads_items_of(set), _write_set, set, ordered=False, size=set.__len__)
_FROZENSET = ObjectPart(_reads_items_of(frozenset), ordered=False, size=frozenset.__len__)
_DEQUE = ObjectPart(
    _reads_items_of(collections.deque), _write_deque, size=collections.deque.__len__
)
_BYTEARRAY = ObjectPart(_read_bytearray, _write_bytearray, size=_bytearray_size)

BUILTINS: tuple[tuple[type, ObjectPart], ...] = (
    (collections.OrderedDict, _ORDERED_DICT),
    (collections.defaultdict, _DEFAULT_DICT),
    (dict, _DICT),
    (list, _LIST),
    (tuple, _TUPLE),
    (set, _SET),
    (frozenset, _FROZENSET),
    (collections.deque, _DEQUE),
    (bytearray, _BYTEARRAY),
    (types.CellType, ObjectPart(read_cell_contents, _write_cell_contents)),
    (types.MethodType, ObjectPart(lambda method: [method.__func__, method.__self__])),
    (staticmethod, _fields_part(staticmethod, "__func__")),
    (classmethod, _fields_part(classmethod, "__func__")),
    (functools.partial, _fields_part(functools.partial, "func", "args", "keywords")),
    (slice, _fields_part(slice, "start", "stop", "step")),
    (memoryview, ObjectPart(lambda view: [view.obj])),
    (types.MappingProxyType, ObjectPart(gc.get_referents)),
    (int, _plain_value_part(int.__pos__)),
    (float, _plain_value_part(float.__pos__)),
    (complex, _plain_value_part(complex.__pos__)),
    (str, _plain_value_part(lambda text: str.__getitem__(text, slice(None)))),
    (bytes, _plain_value_part(lambda data: bytes.__getitem__(data, slice(None)))),
)
"""Classes whose objects have these parts. The first row whose class is a base counts."""
