"""A short digest of an object's contents, by which a change in place is seen. No code of the user's classes runs.

kind of object                       what counts
numbers, texts, other immutables     their value, or which object it is
lists, dicts, sets, deques           their items, to any depth
objects of classes in Python         their attributes and slots
arrays, columns of pandas            shape, type, every byte
tensors                              the version that torch counts
files, generators, objects of C      unknown: only which object it is
"""

from __future__ import annotations

import sys
import types
from typing import Any, Callable, NamedTuple

from .own import as_own, is_own_type
from .statics import MISSING, class_dict, descends, is_class, loaded, mro_of, own_dict

BYTES = 64 * 2**20
"""Bytes of arrays and texts that are read of one object; of more, samples."""
ITEMS = 10_000
"""Items that are looked at one by one in one object."""
ATOMS = 100_000
"""Items of one list that are hashed at once, where all are numbers, texts and the like."""
DEPTH = 50
_SAMPLES, _SAMPLE = 64, 4096
_CHUNK = 2**18

_ATOMS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), range)))
_NUMBERS = frozenset(map(id, (int, float, bool)))
_FIXED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    types.MappingProxyType,
    types.CodeType,
    slice,
    property,
)
_FIXED_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "pathlib": ("PosixPath", "PurePosixPath", "PureWindowsPath"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "datetime": ("datetime", "date", "time", "timedelta", "timezone"),
    "uuid": ("UUID",),
    "re": ("Pattern", "Match"),
    "pandas": ("Timestamp", "Timedelta", "Period", "Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex"),
    "pandas.core.indexes.category": ("CategoricalIndex",),
    "pandas.core.indexes.interval": ("IntervalIndex",),
    "pyarrow": ("Table", "ChunkedArray", "Array", "Schema", "RecordBatch"),
}
"""Classes whose objects never change, by module."""


class Fingerprint(NamedTuple):
    """What an object holds, as a number."""

    digest: int
    """Different where the contents are; equal for equal contents, but for one chance in very many."""
    complete: bool
    """Whether all of the contents count. If not, an equal digest says nothing."""


def fingerprint(value: object) -> Fingerprint:
    """The fingerprint of an object; takes about 30 ms at most."""
    reader = _Reader()
    try:
        digest = reader.digest(value, 0)
    except Exception:  # a library's object in a state that nobody foresaw
        return Fingerprint(0, complete=False)
    return Fingerprint(digest, reader.complete)


class _Reader:
    """One walk through an object."""

    def __init__(self) -> None:
        self.complete = True
        self._bytes = BYTES
        self._items = ITEMS
        elsewhere = [loaded(module, name) for module, names in _FIXED_ELSEWHERE.items() if module in sys.modules for name in names]
        self._fixed = frozenset(map(id, (*_FIXED, *elsewhere)))
        self._inside: dict[int, int] = {}
        """The objects that the walk is in or has been in, by identity, in the order in which it met them."""

    def digest(self, value: Any, depth: int) -> int:
        cls = type(value)
        if id(cls) in _ATOMS:
            return self._atom(value, cls)
        if id(cls) in self._fixed or is_class(value):
            return id(value)
        if (met := self._inside.get(id(value))) is not None:
            return met
        self._inside[id(value)] = len(self._inside)
        self._items -= 1
        if depth > DEPTH or self._items < 0:
            return self._unknown(value)
        return hash((id(cls), self._contents(value, cls, depth + 1)))

    def _atom(self, value: Any, cls: type) -> int:
        # hash(-1) is hash(-2), for numbers of every type.
        return hash((id(cls), value, value + 0.5 if cls is float else ~value if cls is int else 0))

    def _contents(self, value: Any, cls: type, depth: int) -> object:
        for base, read in _CONTAINERS:
            if cls is base:
                return read(self, value, depth)
            if descends(cls, base):
                return read(self, value, depth), self._attributes(value, cls, depth)
        if cls is bytearray or cls is loaded("array", "array"):
            return self._buffer(memoryview(value).cast("B"))
        if cls is loaded("collections", "deque"):
            return self._sequence(list(value), depth)
        if descends(cls, loaded("numpy", "ndarray")):
            return self._array(as_own(value), depth)
        if descends(cls, loaded("torch", "Tensor")):
            value = as_own(value)
            return value.data_ptr(), tuple(value.shape), value._version
        if any(descends(cls, loaded("pandas", name)) for name in ("DataFrame", "Series")):
            return self._pandas(as_own(value), depth)
        if cls is loaded("polars", "DataFrame") or cls is loaded("polars", "Series"):
            return self._polars(value)
        return self._attributes(value, cls, depth)

    def _unknown(self, value: object) -> int:
        self.complete = False
        return id(value)

    def _sequence(self, items: list[Any], depth: int) -> int:
        if len(items) > 8:
            kinds = set(map(id, map(type, items[:ATOMS])))
            if kinds <= _ATOMS:
                return self._atoms(items, kinds)
        parts = []
        for item in items:
            if self._items < 0:
                self.complete = False
                break
            self._items -= 1
            parts.append(self.digest(item, depth))
        return hash((len(items), tuple(parts)))

    def _atoms(self, items: list[Any], kinds: set[int]) -> int:
        length = len(items)
        if length > ATOMS:
            self.complete = False
            items = items[:ATOMS]
        # Lists that differ in -1 and -2 alone have one hash: their sums tell them apart.
        total = sum(items) if kinds <= _NUMBERS else 0
        return hash((length, frozenset(kinds), hash(tuple(items)), self._atom(total, type(total))))

    def _unordered(self, items: set[Any] | frozenset[Any], depth: int) -> int:
        return hash(frozenset([self.digest(item, depth) for item in items])) if len(items) <= self._items else self._unknown(items)

    def _buffer(self, data: memoryview) -> int:
        """Every byte of a flat buffer, or samples of one that is too large."""
        if len(data) <= self._bytes:
            self._bytes -= len(data)
            return hash(tuple([hash(bytes(data[start : start + _CHUNK])) for start in range(0, len(data), _CHUNK)]))
        self.complete = False
        step = max(_SAMPLE, len(data) // _SAMPLES)
        return hash(tuple(bytes(data[start : start + _SAMPLE]) for start in range(0, len(data), step)))

    def _array(self, array: Any, depth: int) -> object:
        about = (array.shape, array.dtype.str, array.strides)
        if array.dtype.hasobject:
            return about, self._sequence(array.ravel().tolist(), depth) if array.dtype.names is None else self._unknown(array)
        if not array.flags.c_contiguous:
            if array.flags.f_contiguous:
                array = array.T
            elif array.nbytes > self._bytes:
                self.complete = False
                array = array[(slice(None, None, max(1, array.shape[0] // _SAMPLES)),)].copy()
            else:
                array = array.copy()
        return about, self._buffer(memoryview(array.reshape(-1).view("u1")) if array.size else memoryview(b""))

    def _pandas(self, table: Any, depth: int) -> object:
        """Column by column: looking at a table may join its blocks, and that changes nothing for who uses it."""
        manager = table._mgr
        columns: dict[int, object] = {}
        for block in manager.blocks:
            places = block.mgr_locs.as_array.tolist()
            values = block.values
            if type(values) is not loaded("numpy", "ndarray"):
                columns[places[0]] = (len(places), self._extension(values, depth))
            elif values.ndim == 1:
                columns[places[0]] = self._array(values, depth)[1:]  # type: ignore[index]
            elif len(places) > ITEMS or (len(places) > 1 and not values.flags.c_contiguous and values.nbytes > self._bytes):
                columns[places[0]] = (tuple(places), self._array(values, depth))
            else:
                for row, place in enumerate(places):
                    column = self._array(values[row], depth)
                    columns[place] = (column[0][1], column[1])  # type: ignore[index]
        axes = [(id(axis), str(own_dict(axis).get("_name")), str(own_dict(axis).get("_names"))) for axis in manager.axes]
        name = own_dict(table).get("_name")
        return tuple(axes), tuple(sorted(columns.items())), self.digest(name, depth), self.digest(own_dict(table).get("_attrs"), depth)

    def _extension(self, values: Any, depth: int) -> object:
        """A column that is no plain array: by the arrays that pandas keeps it in."""
        if not is_own_type(values.dtype):
            return self._unknown(values)
        arrow = own_dict(values).get("_pa_array", MISSING)
        if arrow is not MISSING:  # Arrow's data never change: another value is another array
            return id(arrow)
        parts = [getattr(values, name, None) for name in ("_ndarray", "_data", "_mask")]
        arrays = [part for part in parts if type(part) is loaded("numpy", "ndarray")]
        if not arrays:
            return self._unknown(values)
        return id(values.dtype), tuple([self._array(array, depth) for array in arrays])

    def _polars(self, table: Any) -> object:
        frame = table.to_frame() if len(table.shape) == 1 else table
        about = (tuple(frame.shape), str(frame.schema))
        if frame.shape[0] * frame.shape[1] > ATOMS:
            self.complete = False
            return about
        return about, hash(tuple(frame.hash_rows(1).to_list()))

    def _attributes(self, value: Any, cls: type, depth: int) -> object:
        if not all(id(base) in _TRANSPARENT or _written_in_python(base) for base in mro_of(cls)):
            self.complete = False
        held = own_dict(value)
        slots = []
        for base in mro_of(cls):
            for descriptor in class_dict(base).values():
                if type(descriptor) is types.MemberDescriptorType:
                    try:
                        slots.append(descriptor.__get__(value))
                    except (AttributeError, TypeError):
                        slots.append(MISSING)
        return self._sequence(list(held), depth), self._sequence(list(held.values()), depth), self._sequence(slots, depth)

    def _dict(self, value: Any, depth: int) -> object:
        return self._sequence(list(dict.keys(value)), depth), self._sequence(list(dict.values(value)), depth)


_CONTAINERS: tuple[tuple[type, Callable[[_Reader, Any, int], object]], ...] = (
    (dict, _Reader._dict),
    (list, lambda reader, value, depth: reader._sequence(list.copy(value), depth)),
    (tuple, lambda reader, value, depth: reader._sequence(list(tuple.__iter__(value)), depth)),
    (set, lambda reader, value, depth: reader._unordered(set.copy(value), depth)),
    (frozenset, lambda reader, value, depth: reader._unordered(frozenset.copy(value), depth)),
)
_TRANSPARENT = frozenset(map(id, (object, *(base for base, _ in _CONTAINERS))))


def _written_in_python(cls: type) -> bool:
    """Whether a class has no state of its own in C: it was defined in a cell, or in a file of Python."""
    name = class_dict(cls).get("__module__")
    names = own_dict(sys.modules.get(name)) if type(name) is str else {}
    file = names.get("__file__")
    return name == "__main__" or (type(file) is str and file.endswith(".py"))
