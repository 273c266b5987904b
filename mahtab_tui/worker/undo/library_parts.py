"""Parts of the objects of libraries: arrays, tables, random generators and others."""

from __future__ import annotations

import io
import marshal
import pickle
import warnings
from array import array
from itertools import accumulate
from operator import mul
from typing import Any

from ..values.objects import as_library_type, get_if_loaded, is_subclass, loaded_module
from .memory import MemorySpan, plain_array, tensor_memory
from .parts import PROPERTY, ClassName, ObjectPart, Read, Values, for_each_class, writes_fields

# Attributes of pandas' objects
_MANAGER_FIELDS = ("axes", "blocks")
_MANAGER_CACHES = ("_blknos", "_blklocs", "_interleaved_dtype", "_dtypes_cache")
_BLOCK_FIELDS = ("values", "refs", "_mgr_locs")

_MAX_TEXTS = 50_000
"""An array of more objects is not looked through for whether all are short texts."""
_MAX_TEXT_CHARS = 1_000_000
"""Characters of texts in an array that are compared quickly."""
_TEXTS_PER_VALUE = 10
"""So many short texts cost as much time as a value of another kind, which may hold more values."""
_TEXT_TYPES = frozenset({str, type(None), float})
"""What pandas has in a column of texts; a missing one is None or NaN."""
_FOREIGN_TENSOR_VALUES = 2
"""Values that are read of a tensor outside the kernel's own memory."""
_PICKLE_PROTOCOL = 4


# Arrays


def _read_identity(array: object) -> Values:
    """Tell an array from one that now lies at the address of an earlier one."""
    base = get_if_loaded("numpy", "ndarray").base.__get__(array)
    plain = plain_array(array)
    return [plain.__array_interface__["data"][0], plain.size, plain.dtype, base]


def _read_array(array: object) -> Values:
    """Return the layout of an array, whether it is writeable, and its objects.

    Raises `ValueError` for one that a fork does not keep.
    """
    numpy_array = get_if_loaded("numpy", "ndarray")
    base = numpy_array.base.__get__(array)
    plain = plain_array(array)
    values = [marshal.dumps((plain.shape, plain.strides), 2), plain.flags.writeable]
    if is_subclass(type(base), numpy_array):
        return values
    if plain.flags.writeable and is_mapped(base):
        raise ValueError("others may write to its memory")
    if plain.dtype.hasobject:
        if plain.dtype.names is not None:
            raise ValueError("undo does not handle records of objects")
        values += plain.ravel().tolist()
    return values


def is_mapped(base: object) -> bool:
    """Return whether others may write to the memory, which a fork would see."""
    while type(base) is memoryview:
        base = base.obj
    return is_subclass(type(base), get_if_loaded("mmap", "mmap"))


def _count_objects(array: object) -> int:
    """Return how many objects are read of an array, where several short texts count as one; its
    plain data are compared as memory."""
    plain = plain_array(array)
    if not plain.dtype.hasobject:
        return 0
    count = int(plain.size)
    if count > _MAX_TEXTS:
        return count
    items = plain.ravel().tolist()
    if not _TEXT_TYPES.issuperset(map(type, items)):
        return count
    char_count = sum(len(item) for item in items if type(item) is str)
    return count // _TEXTS_PER_VALUE if char_count <= _MAX_TEXT_CHARS else count


def _write_array(array: object, values: Values) -> None:
    layout, is_writeable, *items = values
    shape, strides = marshal.loads(layout)
    plain = plain_array(array)
    if (plain.shape, plain.strides) != (shape, strides):
        _write_layout(array, shape, strides)
    if items:
        _set_writeable(array, True)
        plain = plain_array(array)
        for index, item in zip(loaded_module("numpy").ndindex(plain.shape), items):
            plain[index] = item
    _set_writeable(array, is_writeable)


def _write_layout(array: object, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Give an array another shape and other strides, over the same memory."""
    numpy_array = get_if_loaded("numpy", "ndarray")
    plain = plain_array(array)
    # With the first strides, any shape fits. NumPy checks strides against the memory of the base,
    # or, without one, of the array as it is now.
    is_view = is_subclass(type(numpy_array.base.__get__(array)), numpy_array)
    neutral_strides = (0,) * plain.ndim if is_view else _contiguous_strides(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of NumPy deprecate this
        numpy_array.strides.__set__(array, neutral_strides)
        numpy_array.shape.__set__(array, shape)
        numpy_array.strides.__set__(array, strides)


def _contiguous_strides(array: Any) -> tuple[int, ...]:
    """Return the strides of an array of this shape whose items lie one after the other."""
    inner_lengths = array.shape[:0:-1]
    strides = list(accumulate(inner_lengths, mul, initial=array.itemsize))
    return tuple(reversed(strides[: array.ndim]))


def _set_writeable(array: object, is_writeable: bool) -> None:
    """Make an array writeable or not. A base that is not writeable becomes so meanwhile."""
    numpy_array = get_if_loaded("numpy", "ndarray")
    flags = numpy_array.flags.__get__(array)
    if flags.writeable == is_writeable:
        return
    base = numpy_array.base.__get__(array)
    is_view = is_subclass(type(base), numpy_array)
    unlocks_base = is_writeable and is_view and not numpy_array.flags.__get__(base).writeable
    if unlocks_base:
        _set_writeable(base, True)
    flags.writeable = is_writeable
    if unlocks_base:
        _set_writeable(base, False)


# Tables


def _reads_fields(*names: str) -> Read:
    """Return a reader of these attributes."""
    return lambda value: [getattr(value, name) for name in names]


def _read_block(value: object) -> Values:
    return [
        getattr(value, name, None) for name in _BLOCK_FIELDS
    ]  # some versions of pandas lack `refs`


def _write_manager(manager: Any, values: Values) -> None:
    axes, blocks = values
    manager.axes = axes
    manager.blocks = blocks
    for name in _MANAGER_CACHES:
        if hasattr(manager, name):
            setattr(manager, name, None)
    manager._known_consolidated = False
    manager._is_consolidated = False


def _write_backed(value: object, values: Values) -> None:
    get_if_loaded("pandas._libs.arrays", "NDArrayBacked").__init__(value, *values)


# Tensors


def _read_tensor(tensor: Any) -> Values:
    """Return how a tensor refers to its memory; of a tensor that is elsewhere, only what changes when
    it is written."""
    plain = as_library_type(tensor)
    memory = tensor_memory(tensor)
    if memory is None:
        return [str(plain.device), plain._version]
    layout = marshal.dumps((tuple(plain.shape), plain.stride(), plain.storage_offset()), 2)
    return [layout, str(plain.dtype), *memory, plain.requires_grad, tensor.grad]


def _check_tensor(values: Values) -> Values:
    if len(values) == _FOREIGN_TENSOR_VALUES:
        raise ValueError("tensors outside the kernel's own memory cannot be restored")
    return values


def _write_tensor(tensor: Any, values: Values) -> None:
    layout, dtype_name, start, end, requires_grad, grad = values
    torch = loaded_module("torch")
    shape, stride, offset = marshal.loads(layout)
    dtype = getattr(torch, dtype_name.partition(".")[2])
    has_same_memory = tensor_memory(tensor) == MemorySpan(start, end) and tensor.dtype == dtype
    present_layout = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    if not has_same_memory:
        # The numbers are copied to it later.
        memory = torch.empty((end - start) // dtype.itemsize, dtype=dtype)
        tensor.data = memory.as_strided(shape, stride, offset)
    elif present_layout != (shape, stride, offset):
        tensor.data = tensor.data.as_strided(shape, stride, offset)
    if tensor.requires_grad != requires_grad:
        tensor.requires_grad_(requires_grad)
    if tensor.grad is not grad:
        tensor.grad = grad


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
    if cls is io.BytesIO:
        data, position = state
        with io.BytesIO.getbuffer(file) as memory:  # type: ignore[arg-type]
            has_same_size = memory.nbytes == len(data)
            if has_same_size:  # others may refer to this memory
                memory[:] = data
        if has_same_size:
            io.BytesIO.seek(file, position)  # type: ignore[arg-type]
            return
    cls.__setstate__(file, (*state, None))


def _memory_file_size(file: object) -> int:
    """Return the size of the data of a file, wherever its position is."""
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
        ObjectPart(_read_identity),
        ObjectPart(_read_array, _write_array, size=_count_objects, has_memory=True),
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
    ("torch", "Tensor"): (ObjectPart(_read_tensor, _write_tensor, _check_tensor, has_memory=True),),
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
