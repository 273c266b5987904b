"""The parts of arrays and tables, for the libraries that are loaded."""

from __future__ import annotations

import marshal
import math
import sys
from typing import Any, Callable, NamedTuple

from ..objects import MISSING, as_library_type, class_module, get_if_loaded, is_subclass
from ..stdlib import late_import
from .reach import Apply, Part, UncomparableError, Values, deferred, prepared, set_attributes


class Block(NamedTuple):
    """Memory that an object owns: its address and its size in bytes."""

    address: int
    size: int


def find_block(value: Any) -> Block | None:
    """Return the memory of an array with plain data that it owns, or borrows from something that is
    not an array."""
    tensor = get_if_loaded("torch", "Tensor")
    if tensor is not MISSING and is_subclass(type(value), tensor):
        return _storage(value)
    if class_module(type(type(value))) == "_ctypes":
        ctypes = sys.modules["ctypes"]
        return (
            Block(ctypes.addressof(value), ctypes.sizeof(value)) if ctypes.sizeof(value) else None
        )
    array = get_if_loaded("numpy", "ndarray")
    if array is MISSING or not is_subclass(type(value), array):
        return None
    base = array.base.__get__(value)
    if is_subclass(type(base), array) or type(base) is bytes:
        return None
    plain = _plain(value)
    return Block(*_extent(plain)) if plain.size and not plain.dtype.hasobject else None


def _plain(value: Any) -> Any:
    """Return an array of a derived class as a plain one over the same memory, without running code
    of the class."""
    array = get_if_loaded("numpy", "ndarray")
    return value if type(value) is array else array.view(value, array)


def _extent(array: Any) -> tuple[int, int]:
    """Return the first and the last byte."""
    first = last = int(array.__array_interface__["data"][0])
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            first += stride * (length - 1)
        else:
            last += stride * (length - 1)
    return first, last + array.itemsize - first


def _array(array: Any) -> Values:
    numpy_array = get_if_loaded("numpy", "ndarray")
    base, plain = numpy_array.base.__get__(array), _plain(array)
    layout = marshal.dumps((plain.shape, plain.strides), 2)
    values = [
        layout,
        plain.__array_interface__["data"][0],
        plain.dtype,
        plain.flags.writeable,
        base,
    ]
    if is_subclass(type(base), numpy_array):
        return values
    if plain.flags.writeable and _is_mapped(base):
        raise UncomparableError
    if plain.dtype.hasobject:
        for leaf in _leaves(plain):
            values += leaf.ravel().tolist() if leaf.dtype.hasobject else [leaf.tobytes()]
    return values


def _is_mapped(base: Any) -> bool:
    """Return whether memory belongs to a file or is shared with other processes, so that a fork
    sees what is written there."""
    while type(base) is memoryview:
        base = base.obj
    return is_subclass(type(base), get_if_loaded("mmap", "mmap"))


def _leaves(plain: Any) -> list[Any]:
    """Return views of the fields of an array of records; any other array is a single field."""
    names = plain.dtype.names
    return [plain] if names is None else [leaf for name in names for leaf in _leaves(plain[name])]


def _objects_in(array: Any) -> int:
    plain = _plain(array)
    return int(plain.size) if plain.dtype.hasobject else 0


@deferred
def _put_array(array: Any, values: Values) -> None:
    numpy_array = get_if_loaded("numpy", "ndarray")
    (shape, strides), dtype, writeable, items = (
        marshal.loads(values[0]),
        values[2],
        values[3],
        values[5:],
    )
    plain = _plain(array)
    if plain.dtype != dtype:
        numpy_array.dtype.__set__(array, dtype)
    if plain.shape != shape:
        if plain.size == math.prod(shape):
            numpy_array.shape.__set__(array, shape)
        else:
            _set_writeable(array, True)
            numpy_array.resize(array, shape, refcheck=False)
        plain = _plain(array)
    if plain.strides != strides:
        numpy_array.strides.__set__(array, strides)
    if items:
        _set_writeable(array, True)
        for leaf in _leaves(_plain(array)):
            _put_items(leaf, items)
    _set_writeable(array, writeable)


def _put_items(leaf: Any, items: Values) -> None:
    """Restore items in a field, and remove them from the list."""
    numpy = sys.modules["numpy"]
    if not leaf.dtype.hasobject:
        leaf[...] = numpy.frombuffer(items.pop(0), leaf.dtype).reshape(leaf.shape)
        return
    for index, item in zip(numpy.ndindex(leaf.shape), items):
        leaf[index] = item
    del items[: leaf.size]


def _set_writeable(array: Any, writeable: bool) -> None:
    """Set whether an array is writeable. A view of a read-only array is made writeable only while
    its base may be."""
    numpy_array = get_if_loaded("numpy", "ndarray")
    flags, base = numpy_array.flags.__get__(array), numpy_array.base.__get__(array)
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


_MANAGER = ("axes", "blocks")
_MANAGER_CACHES = ("_blknos", "_blklocs", "_interleaved_dtype", "_dtypes_cache")
_BLOCK = ("values", "refs", "_mgr_locs")


def _fields(names: tuple[str, ...]) -> Any:
    return lambda value: [getattr(value, name, None) for name in names]


@deferred
def _put_manager(manager: Any, values: Values) -> None:
    for name, wanted in zip(_MANAGER, values):
        setattr(manager, name, wanted)
    for name in _MANAGER_CACHES:
        if hasattr(manager, name):
            setattr(manager, name, None)
    manager._known_consolidated = manager._is_consolidated = False


def _put_backed(value: Any, values: Values) -> Apply:
    return lambda: get_if_loaded("pandas._libs.arrays", "NDArrayBacked").__init__(value, *values)


def _storage(tensor: Any) -> Block | None:
    plain = as_library_type(tensor)
    if str(plain.layout) != "torch.strided" or plain.device.type != "cpu":
        return None
    storage = plain.untyped_storage()
    return Block(storage.data_ptr(), storage.nbytes()) if storage.nbytes() else None


def _tensor(tensor: Any) -> Values:
    plain = as_library_type(tensor)
    block = _storage(tensor)
    if block is None:
        return [str(plain.device), plain._version]
    layout = marshal.dumps((tuple(plain.shape), plain.stride(), plain.storage_offset()), 2)
    return [layout, str(plain.dtype), block.address, block.size, plain.requires_grad, tensor.grad]


def _put_tensor(tensor: Any, values: Values) -> Apply:
    if len(values) == 2:
        raise ValueError("tensors outside the kernel's own memory cannot be restored")
    torch = sys.modules["torch"]
    (shape, stride, offset), _, address, size, requires_grad, grad = (
        marshal.loads(values[0]),
        *values[1:],
    )
    dtype = getattr(torch, values[1].partition(".")[2])

    def apply() -> None:
        block = _storage(tensor)
        if block != Block(address, size) or tensor.dtype != dtype:
            base = torch.empty(size // dtype.itemsize, dtype=dtype)
            tensor.data = base.as_strided(shape, stride, offset)
        elif (tuple(tensor.shape), tensor.stride(), tensor.storage_offset()) != (
            shape,
            stride,
            offset,
        ):
            tensor.data = tensor.data.as_strided(shape, stride, offset)
        if tensor.requires_grad != requires_grad:
            tensor.requires_grad_(requires_grad)
        if tensor.grad is not grad:
            tensor.grad = grad

    return apply


def _stream(value: Any) -> Values:
    cls = next(
        cls
        for cls in (get_if_loaded("_io", "StringIO"), get_if_loaded("_io", "BytesIO"))
        if is_subclass(type(value), cls)
    )
    return [None] if cls.closed.__get__(value) else [cls.getvalue(value), cls.tell(value)]


def _closed(value: Any) -> Values:
    return [_stream(value) == [None]]


@deferred
def _put_stream(value: Any, values: Values) -> None:
    if values == [None]:
        return
    value.seek(0)
    value.truncate()
    value.write(values[0])
    value.seek(values[1])


def _array_of_module(value: Any) -> Values:
    cls = get_if_loaded("array", "array")
    return [cls.typecode.__get__(value), cls.tobytes(value)]


def _words(module: str, name: str) -> Callable[[Any], int]:
    """Return a function for the size of such an object, in multiples of eight bytes."""
    return lambda value: int(get_if_loaded(module, name).__sizeof__(value)) // 8


@deferred
def _put_array_of_module(value: Any, values: Values) -> None:
    del value[:]
    value.frombytes(values[1])


_with_state = prepared(lambda values: late_import("pickle").loads(values[0]))
"""Decorates a function that restores a pickled state."""


def _state_of_generator(value: Any) -> Values:
    state = (
        value.bit_generator.state
        if hasattr(value, "bit_generator")
        else value.get_state(legacy=False)
    )
    return [_pickle_of(state)]


@_with_state
def _put_state_of_generator(value: Any, state: Any) -> None:
    if hasattr(value, "bit_generator"):
        value.bit_generator.state = state
    else:
        value.set_state(state)


@_with_state
def _put_state_of_bits(value: Any, state: Any) -> None:
    value.state = state


def _element(value: Any) -> Values:
    return [value.tag, value.text, value.tail, value.attrib, *value]


@_with_state
def _put_random(value: Any, state: Any) -> None:
    get_if_loaded("random", "Random").setstate(value, state)


DECIMAL_FIELDS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _context(value: Any) -> Values:
    """Return the settings of a context of the module decimal."""
    signals = [
        [signal.__name__ for signal, on in found.items() if on]
        for found in (value.flags, value.traps)
    ]
    return [*(getattr(value, name) for name in DECIMAL_FIELDS), *map(_pickle_of, signals)]


@deferred
def _put_context(value: Any, values: Values) -> None:
    for name, wanted in zip(DECIMAL_FIELDS, values):
        setattr(value, name, wanted)
    for found, names in zip((value.flags, value.traps), values[len(DECIMAL_FIELDS) :]):
        on = late_import("pickle").loads(names)
        for signal in found:
            found[signal] = signal.__name__ in on


@deferred
def _put_element(value: Any, values: Values) -> None:
    value.tag, value.text, value.tail, value.attrib = values[:4]
    value[:] = values[4:]


def _pickle_of(value: Any) -> bytes:
    """Return a library's own value as bytes."""
    return bytes(late_import("pickle").dumps(value, 4))


SPECIAL: tuple[tuple[str, str, Part], ...] = (
    ("numpy", "ndarray", Part("array", _array, _put_array, size=_objects_in)),
    ("torch", "Tensor", Part("tensor", _tensor, _put_tensor)),
    ("numpy.random", "Generator", Part("random", _state_of_generator, _put_state_of_generator)),
    ("numpy.random", "RandomState", Part("random", _state_of_generator, _put_state_of_generator)),
    (
        "numpy.random",
        "BitGenerator",
        Part("random", lambda value: [_pickle_of(value.state)], _put_state_of_bits),
    ),
    ("decimal", "Context", Part("context", _context, _put_context)),
    ("xml.etree.ElementTree", "Element", Part("element", _element, _put_element)),
    (
        "random",
        "Random",
        Part(
            "random",
            lambda value: [_pickle_of(get_if_loaded("random", "Random").getstate(value))],
            _put_random,
        ),
    ),
    (
        "array",
        "array",
        Part("array", _array_of_module, _put_array_of_module, size=_words("array", "array")),
    ),
    ("_io", "StringIO", Part("closed", _closed, None)),
    ("_io", "BytesIO", Part("closed", _closed, None)),
    ("_io", "StringIO", Part("stream", _stream, _put_stream, size=_words("_io", "StringIO"))),
    ("_io", "BytesIO", Part("stream", _stream, _put_stream, size=_words("_io", "BytesIO"))),
    (
        "pandas.core.internals.managers",
        "SingleBlockManager",
        Part("manager", _fields(_MANAGER), set_attributes(*_MANAGER)),
    ),
    (
        "pandas.core.internals.managers",
        "BlockManager",
        Part("manager", _fields(_MANAGER), _put_manager),
    ),
    ("pandas._libs.internals", "Block", Part("block", _fields(_BLOCK), set_attributes(*_BLOCK))),
    (
        "pandas._libs.arrays",
        "NDArrayBacked",
        Part("backed", _fields(("_ndarray", "_dtype")), _put_backed),
    ),
)
"""Classes of libraries that have more state than Python sees, and their parts."""
