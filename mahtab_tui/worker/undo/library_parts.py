"""Tables of the parts of objects, by their classes: those of libraries, and those of the standard
library that are not always loaded.

A part says what an undo reads, compares and writes (`parts.ObjectPart`). The functions for arrays and
tensors are in `array_parts`.
"""

from __future__ import annotations

import io
import pickle
from array import array
from typing import Any

from ..values.objects import get_if_loaded, is_subclass
from .array_parts import (
    check_tensor,
    count_array_objects,
    read_array,
    read_array_identity,
    read_tensor,
    write_array,
    write_tensor,
)
from .parts import PROPERTY, ClassName, ObjectPart, Read, Values, for_each_class, writes_fields

# Attributes of pandas' objects
_MANAGER_FIELDS = ("axes", "blocks")
_MANAGER_CACHES = ("_blknos", "_blklocs", "_interleaved_dtype", "_dtypes_cache")
_BLOCK_FIELDS = ("values", "refs", "_mgr_locs")

_PICKLE_PROTOCOL = 4


# Tables


def _reads_fields(*names: str) -> Read:
    """Return a reader of these attributes."""
    return lambda value: [getattr(value, name) for name in names]


def _read_block(value: object) -> Values:
    # Some versions of pandas have no `refs`.
    return [getattr(value, name, None) for name in _BLOCK_FIELDS]


def _write_manager(manager: Any, values: Values) -> None:
    axes, blocks = values
    manager.axes = axes
    manager.blocks = blocks
    # What pandas has computed from the blocks. Which of these attributes there are depends on its
    # version.
    for name in _MANAGER_CACHES:
        if hasattr(manager, name):
            setattr(manager, name, None)
    manager._known_consolidated = False
    manager._is_consolidated = False


def _write_backed(value: object, values: Values) -> None:
    get_if_loaded("pandas._libs.arrays", "NDArrayBacked").__init__(value, *values)


# Random generators


def dump_plain(value: object) -> bytes:
    """Return a state of plain values as bytes, which are quick to compare."""
    return pickle.dumps(value, _PICKLE_PROTOCOL)


def load_plain(data: bytes) -> Any:
    """Return what `dump_plain` was given."""
    return pickle.loads(data)


def _load_only_value(values: Values) -> object:
    [data] = values
    return load_plain(data)


def _read_generator(value: Any) -> Values:
    bit_generator = getattr(value, "bit_generator", value)
    if hasattr(bit_generator, "state"):
        return [dump_plain(bit_generator.state)]
    return [dump_plain(value.get_state(legacy=False))]


def _write_generator(value: Any, state: object) -> None:
    bit_generator = getattr(value, "bit_generator", value)
    if hasattr(bit_generator, "state"):
        bit_generator.state = state
    else:
        value.set_state(state)


def _read_python_generator(value: object) -> Values:
    return [dump_plain(get_if_loaded("random", "Random").getstate(value))]


def _write_python_generator(value: object, state: object) -> None:
    get_if_loaded("random", "Random").setstate(value, state)


def _read_tree(tree: Any) -> Values:
    return [dump_plain(tree.__getstate__())]


# Text and data in memory


def _read_closed(file: object) -> Values:
    """Tell an open file in memory from a closed one, which cannot be opened again."""
    return [_memory_file_class(file).closed.__get__(file)]


def _read_memory_file(file: object) -> Values:
    """Return the arguments of `__setstate__`, without the attributes; nothing of a closed one."""
    cls = _memory_file_class(file)
    if cls.closed.__get__(file):
        return []
    *state, _ = cls.__getstate__(file)
    return list(state)


def _write_memory_file(file: object, state: Values) -> None:
    cls = _memory_file_class(file)
    if cls is not io.BytesIO or not _overwrite_bytes(file, state):
        cls.__setstate__(file, (*state, None))


def _overwrite_bytes(file: Any, state: Values) -> bool:
    """Write the data of a `BytesIO` into its present memory, to which others may refer. Return False
    if the memory has another size."""
    data, position = state
    with io.BytesIO.getbuffer(file) as memory:
        if memory.nbytes != len(data):
            return False
        memory[:] = data
    io.BytesIO.seek(file, position)
    return True


def _memory_file_size(file: object) -> int:
    """Return the size of the data of a file in values of eight bytes, as `ObjectPart.size` counts."""
    cls = _memory_file_class(file)
    if cls.closed.__get__(file):
        return 0
    # Both calls are made by `map`, so neither a signal nor a thread comes between them, and the
    # position stays. `getbuffer` would copy data that the file shares with a `bytes` object.
    offsets = (0, cls.tell(file))
    length, _ = map(cls.seek, (file, file), offsets, (io.SEEK_END, io.SEEK_SET))
    return int(length) // 8


def _memory_file_class(file: object) -> Any:
    """Return the class of `io` that a file in memory is an object of, or derived from."""
    return io.StringIO if is_subclass(type(file), io.StringIO) else io.BytesIO


def _read_typecode(numbers: object) -> Values:
    return [array.typecode.__get__(numbers)]


def _read_numbers(numbers: Any) -> Values:
    return [array.tobytes(numbers)]


def _write_numbers(numbers: Any, values: Values) -> None:
    [data] = values
    earlier: array[Any] = array(array.typecode.__get__(numbers))
    earlier.frombytes(data)
    array.__setitem__(numbers, slice(None), earlier)


def _numbers_size(numbers: Any) -> int:
    return array.__len__(numbers)


# Objects that never change


def _read_match(value: Any) -> Values:
    return [value.re, value.string, *(offset for span in value.regs for offset in span)]


def _read_placement(value: Any) -> Values:
    rows = value.indexer
    if type(rows) is slice:
        return [rows.start, rows.stop, rows.step]
    return [rows.tobytes()]


def _read_scalar(value: object) -> Values:
    generic = get_if_loaded("numpy", "generic")
    return [generic.tobytes(value), generic.dtype.__get__(value).str]


def _read_text(value: object) -> Values:
    return [str(value)]


def _read_reconstruction_arguments(value: object) -> Values:
    return list(value.__reduce_ex__(4)[1])


BY_BASE: dict[ClassName, tuple[ObjectPart, ...]] = {
    ("builtins", "property"): PROPERTY,
    ("numpy", "ndarray"): (
        ObjectPart(read_array_identity),
        ObjectPart(read_array, write_array, size=count_array_objects, has_memory=True),
    ),
    **for_each_class(
        "io",
        "StringIO BytesIO",
        (
            ObjectPart(_read_closed),
            ObjectPart(_read_memory_file, _write_memory_file, size=_memory_file_size),
        ),
    ),
    ("array", "array"): (
        ObjectPart(_read_typecode),
        ObjectPart(_read_numbers, _write_numbers, size=_numbers_size),
    ),
    ("torch", "Tensor"): (ObjectPart(read_tensor, write_tensor, check_tensor, has_memory=True),),
    **for_each_class(
        "numpy.random",
        "Generator RandomState BitGenerator",
        (ObjectPart(_read_generator, _write_generator, _load_only_value),),
    ),
    ("random", "Random"): (
        ObjectPart(_read_python_generator, _write_python_generator, _load_only_value),
    ),
    ("sklearn.tree._tree", "Tree"): (ObjectPart(_read_tree),),
    ("pandas.core.internals.managers", "SingleBlockManager"): (
        ObjectPart(_reads_fields(*_MANAGER_FIELDS), writes_fields(*_MANAGER_FIELDS)),
    ),
    ("pandas.core.internals.managers", "BlockManager"): (
        ObjectPart(_reads_fields(*_MANAGER_FIELDS), _write_manager),
    ),
    ("pandas._libs.internals", "Block"): (ObjectPart(_read_block, writes_fields(*_BLOCK_FIELDS)),),
    ("pandas._libs.arrays", "NDArrayBacked"): (
        ObjectPart(_reads_fields("_ndarray", "_dtype"), _write_backed),
    ),
}
"""The parts of objects, by module and name of a base of their class. The first row counts."""

IMMUTABLE: dict[ClassName, Read | None] = {
    **for_each_class("pathlib", "PosixPath PurePosixPath PureWindowsPath", _read_text),
    ("decimal", "Decimal"): _read_text,
    ("fractions", "Fraction"): _reads_fields("numerator", "denominator"),
    **for_each_class(
        "datetime", "datetime date time timedelta timezone", _read_reconstruction_arguments
    ),
    **for_each_class(
        "operator", "itemgetter attrgetter methodcaller", _read_reconstruction_arguments
    ),
    ("uuid", "UUID"): _reads_fields("int"),
    ("re", "Pattern"): _reads_fields("pattern", "flags"),
    ("re", "Match"): _read_match,
    ("builtins", "range"): _reads_fields("start", "stop", "step"),
    ("pandas", "Timestamp"): _reads_fields("_value", "unit", "tzinfo"),
    ("pandas", "Timedelta"): _reads_fields("_value", "unit"),
    ("pandas", "Period"): _reads_fields("ordinal", "freqstr"),
    ("pandas._libs.internals", "BlockPlacement"): _read_placement,
    ("zoneinfo", "ZoneInfo"): _reads_fields("key"),
    ("pandas._libs.internals", "BlockValuesRefs"): None,
    ("polars.dataframe.frame", "PyDataFrame"): None,
    ("polars.series.series", "PySeries"): None,
    ("polars.lazyframe.frame", "PyLazyFrame"): None,
    ("polars.expr.expr", "PyExpr"): None,
    ("numpy", "ufunc"): None,
    **for_each_class(
        "types",
        "WrapperDescriptorType MethodWrapperType MethodDescriptorType GetSetDescriptorType"
        " ClassMethodDescriptorType MemberDescriptorType NotImplementedType GenericAlias UnionType"
        " CapsuleType",
        None,
    ),
}
"""Readers of objects that never change; None where their holders show their changes."""
SCALAR = ObjectPart(_read_scalar)
"""The value of a scalar of NumPy."""
DTYPE = ObjectPart(_read_text)
"""The name of a type of NumPy."""
