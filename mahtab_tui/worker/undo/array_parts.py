"""Parts of arrays of NumPy and tensors of PyTorch: how they refer to their memory.

The numbers in it are compared and copied as bytes (`memory`). All is read and written as the libraries
define it, whatever a derived class of the user's defines.
"""

from __future__ import annotations

import marshal
import warnings
from itertools import accumulate
from operator import mul
from typing import Any

from ..values.objects import as_library_type, get_if_loaded, is_subclass, loaded_module
from .memory import MemorySpan, plain_array, tensor_memory
from .parts import Values

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


# Arrays


def read_array_identity(array: object) -> Values:
    """Return what tells an array from another one that now lies at its address."""
    base = get_if_loaded("numpy", "ndarray").base.__get__(array)
    plain = plain_array(array)
    return [plain.__array_interface__["data"][0], plain.size, plain.dtype, base]


def read_array(array: object) -> Values:
    """Return the layout of an array, whether it is writeable, and its objects.

    Its numbers are not among them: they are compared and copied as memory.

    Raises:
        ValueError: Undo cannot restore the array.
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
    """Return whether the memory is mapped, such as that of a file. Others may write to it, and a write
    by this process changes a checkpoint, too."""
    while type(base) is memoryview:
        base = base.obj
    return is_subclass(type(base), get_if_loaded("mmap", "mmap"))


def count_array_objects(array: object) -> int:
    """Return what reading the objects of an array costs, in values of `ObjectPart.size`."""
    plain = plain_array(array)
    if not plain.dtype.hasobject:
        return 0
    object_count = int(plain.size)
    if _has_only_short_texts(plain):
        return object_count // _TEXTS_PER_VALUE
    return object_count


def _has_only_short_texts(plain: Any) -> bool:
    """Return whether an array of objects has only texts, all of which are compared quickly."""
    if plain.size > _MAX_TEXTS:
        return False
    items = plain.ravel().tolist()
    if not _TEXT_TYPES.issuperset(map(type, items)):
        return False
    return sum(len(item) for item in items if type(item) is str) <= _MAX_TEXT_CHARS


def write_array(array: object, values: Values) -> None:
    """Write what `read_array` returned."""
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
    # NumPy refuses a shape that does not fit the strides, and strides that do not fit the shape. So
    # the array first gets strides with which any shape fits. NumPy checks strides against the memory
    # of the base, or, without one, of the array as it is now.
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
    """Make an array writeable or not."""
    numpy_array = get_if_loaded("numpy", "ndarray")
    flags = numpy_array.flags.__get__(array)
    if flags.writeable == is_writeable:
        return
    # A view becomes writeable only if its base is, at that moment.
    base = numpy_array.base.__get__(array)
    is_view = is_subclass(type(base), numpy_array)
    unlocks_base = is_writeable and is_view and not numpy_array.flags.__get__(base).writeable
    if unlocks_base:
        _set_writeable(base, True)
    flags.writeable = is_writeable
    if unlocks_base:
        _set_writeable(base, False)


# Tensors


def read_tensor(tensor: Any) -> Values:
    """Return how a tensor refers to its memory; of a tensor that is elsewhere, such as on a GPU, only
    what changes when it is written."""
    plain = as_library_type(tensor)
    memory = tensor_memory(tensor)
    if memory is None:
        return [str(plain.device), plain._version]
    layout = marshal.dumps((tuple(plain.shape), plain.stride(), plain.storage_offset()), 2)
    return [layout, str(plain.dtype), *memory, plain.requires_grad, tensor.grad]


def check_tensor(values: Values) -> Values:
    """Return what `read_tensor` returned.

    Raises:
        ValueError: Undo cannot restore the tensor.
    """
    if len(values) == _FOREIGN_TENSOR_VALUES:
        raise ValueError("tensors outside the kernel's own memory cannot be restored")
    return values


def write_tensor(tensor: Any, values: Values) -> None:
    """Write what `read_tensor` returned of a tensor in the kernel's own memory."""
    layout, dtype_name, start, end, requires_grad, grad = values
    torch = loaded_module("torch")
    shape, stride, offset = marshal.loads(layout)
    dtype = getattr(torch, dtype_name.partition(".")[2])
    has_same_memory = tensor_memory(tensor) == MemorySpan(start, end) and tensor.dtype == dtype
    present_layout = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    if not has_same_memory:
        # Whoever restores the memory copies the numbers to it later.
        memory = torch.empty((end - start) // dtype.itemsize, dtype=dtype)
        tensor.data = memory.as_strided(shape, stride, offset)
    elif present_layout != (shape, stride, offset):
        tensor.data = tensor.data.as_strided(shape, stride, offset)
    if tensor.requires_grad != requires_grad:
        tensor.requires_grad_(requires_grad)
    if tensor.grad is not grad:
        tensor.grad = grad
