"""The parts of arrays and tables, for the libraries that are loaded."""

from __future__ import annotations

import marshal
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..statics import MISSING, descends, loaded
from .parts import Apply, Part, Values


class Block(NamedTuple):
    """Memory that an object owns: its address and its size in bytes."""

    address: int
    size: int


def block_of(value: Any) -> Block | None:
    """The memory of an array that holds plain data and owns them, or borrows them from something that is no array."""
    array = loaded("numpy", "ndarray")
    if array is MISSING or not descends(type(value), array):
        return None
    base = array.base.__get__(value)
    if descends(type(base), array) or type(base) is bytes:
        return None
    plain = _plain(value)
    return Block(*_extent(plain)) if plain.size and not plain.dtype.hasobject else None


def _plain(value: Any) -> Any:
    """An array of a derived class as a plain one over the same memory, by no code of the class."""
    array = loaded("numpy", "ndarray")
    return value if type(value) is array else array.view(value, array)


def _extent(array: Any) -> tuple[int, int]:
    """The bytes from the first to the last."""
    first = last = int(array.__array_interface__["data"][0])
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            first += stride * (length - 1)
        else:
            last += stride * (length - 1)
    return first, last + array.itemsize - first


def _array(array: Any) -> Values:
    numpy_array = loaded("numpy", "ndarray")
    base, plain = numpy_array.base.__get__(array), _plain(array)
    layout = marshal.dumps((plain.shape, plain.strides), 2)
    values = [layout, plain.__array_interface__["data"][0], plain.dtype, plain.flags.writeable, base]
    if plain.dtype.hasobject and plain.dtype.names is None and not descends(type(base), numpy_array):
        values += plain.ravel(order="K").tolist()
    return values


def _put_array(array: Any, values: Values) -> Apply:
    numpy_array = loaded("numpy", "ndarray")
    (shape, strides), dtype, writeable, items = marshal.loads(values[0]), values[2], values[3], values[5:]

    def apply() -> None:
        plain = _plain(array)
        if plain.dtype != dtype:
            numpy_array.dtype.__set__(array, dtype)
        if plain.shape != shape:
            if plain.size == math.prod(shape):
                numpy_array.shape.__set__(array, shape)
            else:
                numpy_array.flags.__get__(array).writeable = True
                numpy_array.resize(array, shape, refcheck=False)
            plain = _plain(array)
        if plain.strides != strides:
            numpy_array.strides.__set__(array, strides)
        if items:
            plain.flags.writeable = True
            flat = plain.ravel(order="K")
            for place, item in enumerate(items):
                flat[place] = item
        if plain.flags.writeable != writeable:
            numpy_array.flags.__get__(array).writeable = writeable

    return apply


_MANAGER = ("axes", "blocks")
_MANAGER_CACHES = ("_blknos", "_blklocs", "_interleaved_dtype", "_dtypes_cache")
_BLOCK = ("values", "refs", "_mgr_locs")


def _fields(names: tuple[str, ...]) -> Any:
    return lambda value: [getattr(value, name, None) for name in names]


def _put_manager(manager: Any, values: Values) -> Apply:
    def apply() -> None:
        for name, wanted in zip(_MANAGER, values):
            setattr(manager, name, wanted)
        for name in _MANAGER_CACHES:
            if hasattr(manager, name):
                setattr(manager, name, None)
        manager._known_consolidated = manager._is_consolidated = False

    return apply


def _put_block(block: Any, values: Values) -> Apply:
    def apply() -> None:
        for name, wanted in zip(_BLOCK, values):
            setattr(block, name, wanted)

    return apply


def _put_single_manager(manager: Any, values: Values) -> Apply:
    def apply() -> None:
        for name, wanted in zip(_MANAGER, values):
            setattr(manager, name, wanted)

    return apply


def _put_backed(value: Any, values: Values) -> Apply:
    return lambda: loaded("pandas._libs.arrays", "NDArrayBacked").__init__(value, *values)


def special_parts() -> Iterator[tuple[type, Part]]:
    """The classes of loaded libraries that are more than they seem to Python, and their parts."""
    known = (
        ("numpy", "ndarray", Part("array", _array, _put_array)),
        ("pandas.core.internals.managers", "SingleBlockManager", Part("manager", _fields(_MANAGER), _put_single_manager)),
        ("pandas.core.internals.managers", "BlockManager", Part("manager", _fields(_MANAGER), _put_manager)),
        ("pandas._libs.internals", "Block", Part("block", _fields(_BLOCK), _put_block)),
        ("pandas._libs.arrays", "NDArrayBacked", Part("backed", _fields(("_ndarray", "_dtype")), _put_backed)),
    )
    for module, name, part in known:
        cls = loaded(module, name)
        if cls is not MISSING:
            yield cls, part
