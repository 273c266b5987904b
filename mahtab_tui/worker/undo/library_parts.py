"""Parts of the objects of libraries: arrays, tables, random generators and others."""

from __future__ import annotations

import marshal
import pickle
import sys
import warnings
from itertools import accumulate
from operator import mul
from typing import Any

from ..values.objects import as_library_type, get_if_loaded, is_subclass
from .memory import MemorySpan, plain_array, tensor_memory
from .parts import ClassName, ObjectPart, Read, Values, for_each_class, writes_fields

_MANAGER = ("axes", "blocks")
_MANAGER_CACHES = ("_blknos", "_blklocs", "_interleaved_dtype", "_dtypes_cache")
_BLOCK = ("values", "refs", "_mgr_locs")


def _read_identity(array: object) -> Values:
    """Tell an array from one that now lies at the address of an earlier one."""
    base = get_if_loaded("numpy", "ndarray").base.__get__(array)
    plain = plain_array(array)
    return [plain.__array_interface__["data"][0], plain.size, plain.dtype, base]


def _read_array(array: object) -> Values:
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
    plain = plain_array(array)
    if plain.dtype.hasobject:
        return int(plain.size)
    return 0


def _write_array(array: object, values: Values) -> None:
    numpy = sys.modules["numpy"]
    layout, writeable, *items = values
    shape, strides = marshal.loads(layout)
    plain = plain_array(array)
    if (plain.shape, plain.strides) != (shape, strides):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions of NumPy deprecate this
            # With these any shape fits. NumPy checks strides against the memory of the base, or,
            # without one, of the array as it is now.
            is_view = is_subclass(type(numpy.ndarray.base.__get__(array)), numpy.ndarray)
            sizes = accumulate((*plain.shape[:0:-1],), mul, initial=plain.itemsize)
            if is_view:
                neutral = (0,) * plain.ndim
            else:
                neutral = tuple(sizes)[: plain.ndim][::-1]
            numpy.ndarray.strides.__set__(array, neutral)
            numpy.ndarray.shape.__set__(array, shape)
            numpy.ndarray.strides.__set__(array, strides)
    if items:
        _set_writeable(array, True)
        plain = plain_array(array)
        for index, item in zip(numpy.ndindex(plain.shape), items):
            plain[index] = item
    _set_writeable(array, writeable)


def _set_writeable(array: object, writeable: bool) -> None:
    """Make the base writeable meanwhile if it is locked."""
    numpy_array = get_if_loaded("numpy", "ndarray")
    flags = numpy_array.flags.__get__(array)
    base = numpy_array.base.__get__(array)
    if flags.writeable == writeable:
        return
    locked = (
        writeable
        and is_subclass(type(base), numpy_array)
        and not numpy_array.flags.__get__(base).writeable
    )
    if locked:
        _set_writeable(base, True)
    flags.writeable = writeable
    if locked:
        _set_writeable(base, False)


def _reads_fields(*names: str) -> Read:
    return lambda value: [getattr(value, name) for name in names]


def _read_block(value: object) -> Values:
    return [getattr(value, name, None) for name in _BLOCK]  # some versions of pandas lack `refs`


def _write_manager(manager: Any, values: Values) -> None:
    manager.axes, manager.blocks = values
    for name in _MANAGER_CACHES:
        if hasattr(manager, name):
            setattr(manager, name, None)
    manager._known_consolidated = manager._is_consolidated = False


def _write_backed(value: object, values: Values) -> None:
    get_if_loaded("pandas._libs.arrays", "NDArrayBacked").__init__(value, *values)


def _read_tensor(tensor: Any) -> Values:
    plain = as_library_type(tensor)
    memory = tensor_memory(tensor)
    if memory is None:
        return [str(plain.device), plain._version]
    layout = marshal.dumps((tuple(plain.shape), plain.stride(), plain.storage_offset()), 2)
    return [layout, str(plain.dtype), *memory, plain.requires_grad, tensor.grad]


def _check_tensor(values: Values) -> Values:
    if len(values) == 2:
        raise ValueError("tensors outside the kernel's own memory cannot be restored")
    return values


def _write_tensor(tensor: Any, values: Values) -> None:
    layout, dtype_name, start, end, requires_grad, grad = values
    torch = sys.modules["torch"]
    shape, stride, offset = marshal.loads(layout)
    dtype = getattr(torch, dtype_name.partition(".")[2])
    if tensor_memory(tensor) != MemorySpan(start, end) or tensor.dtype != dtype:
        base = torch.empty((end - start) // dtype.itemsize, dtype=dtype)
        tensor.data = base.as_strided(shape, stride, offset)
    elif (tuple(tensor.shape), tensor.stride(), tensor.storage_offset()) != (shape, stride, offset):
        tensor.data = tensor.data.as_strided(shape, stride, offset)
    if tensor.requires_grad != requires_grad:
        tensor.requires_grad_(requires_grad)
    if tensor.grad is not grad:
        tensor.grad = grad


def dump_plain(value: object) -> bytes:
    return pickle.dumps(value, 4)


def load_plain(data: bytes) -> object:
    return pickle.loads(data)


def _read_generator(value: Any) -> Values:
    bits = getattr(value, "bit_generator", value)
    return [dump_plain(bits.state if hasattr(bits, "state") else value.get_state(legacy=False))]


def _write_generator(value: Any, state: Any) -> None:
    bits = getattr(value, "bit_generator", value)
    if hasattr(bits, "state"):
        bits.state = state
    else:
        value.set_state(state)


BY_BASE: dict[ClassName, tuple[ObjectPart, ...]] = {
    ("numpy", "ndarray"): (
        ObjectPart(_read_identity),
        ObjectPart(_read_array, _write_array, size=_count_objects, has_memory=True),
    ),
    ("torch", "Tensor"): (ObjectPart(_read_tensor, _write_tensor, _check_tensor, has_memory=True),),
    **for_each_class(
        "numpy.random",
        "Generator RandomState BitGenerator",
        (ObjectPart(_read_generator, _write_generator, lambda values: load_plain(values[0])),),
    ),
    ("random", "Random"): (
        ObjectPart(
            lambda value: [dump_plain(get_if_loaded("random", "Random").getstate(value))],
            lambda value, state: get_if_loaded("random", "Random").setstate(value, state),
            lambda values: load_plain(values[0]),
        ),
    ),
    ("sklearn.tree._tree", "Tree"): (ObjectPart(lambda tree: [dump_plain(tree.__getstate__())]),),
    ("pandas.core.internals.managers", "SingleBlockManager"): (
        ObjectPart(_reads_fields(*_MANAGER), writes_fields(*_MANAGER)),
    ),
    ("pandas.core.internals.managers", "BlockManager"): (
        ObjectPart(_reads_fields(*_MANAGER), _write_manager),
    ),
    ("pandas._libs.internals", "Block"): (ObjectPart(_read_block, writes_fields(*_BLOCK)),),
    ("pandas._libs.arrays", "NDArrayBacked"): (
        ObjectPart(_reads_fields("_ndarray", "_dtype"), _write_backed),
    ),
}


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


IMMUTABLE: dict[ClassName, Read | None] = {
    **for_each_class("pathlib", "PosixPath PurePosixPath PureWindowsPath", _read_text),
    ("decimal", "Decimal"): _read_text,
    ("fractions", "Fraction"): _reads_fields("numerator", "denominator"),
    **for_each_class(
        "datetime", "datetime date time timedelta timezone", _read_reconstruction_arguments
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
DTYPE = ObjectPart(_read_text)
