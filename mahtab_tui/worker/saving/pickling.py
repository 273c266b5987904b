"""Converts variables to bytes, and back."""

from __future__ import annotations

import functools
import io
import linecache
import pickle
import sys
import types
from typing import Any, Callable, NamedTuple

from ..former_names import present_name
from ..undo.fork_writer import UnpicklableError
from ..undo.opaque import opaque_kind
from ..undo.reduction import reduce_object
from ..values.objects import ATOMS, MISSING, address_of, get_if_loaded
from .progress import ProgressCounter

_PICKLE_PROTOCOL = 5
_CACHED_FUNCTION = functools._lru_cache_wrapper

# Persistent ids
_NAMESPACE_ID = "namespace"
_MEMORY_ID = "memory"
"""Stands for what reads the memory of arrays."""
_MISSING_ID = "missing"

Fill = Callable[[int, memoryview], None]
"""Reads a block by its number into memory. Raises `OSError`."""


class TooLargeError(Exception):
    """The variables are larger than allowed."""


class Pickled(NamedTuple):
    """Variables as bytes."""

    stream: bytearray
    """Two pickles: the sources of cells and the blocks of buffers, and then the variables."""
    blocks: list[memoryview]
    """The memory of arrays, which is not copied into the stream."""


def pickle_variables(
    variables: dict[str, object],
    namespace: dict[str, object],
    cloudpickle: Any,
    max_bytes: int,
    pulse: ProgressCounter,
) -> Pickled:
    """Pickle some variables together.

    Args:
        variables: The variables by name.
        namespace: The user's, to which functions refer.
        cloudpickle: Its package, as `load_cloudpickle` returns it.
        max_bytes: Bytes of all.
        pulse: Counts the objects.

    Raises:
        TooLargeError: They are larger.
        UnpicklableError: An object cannot be saved.
        BaseException: What an object raises.
    """
    output = _Output(max_bytes)
    files: set[str] = set()
    harmless_classes: dict[int, type] = {}
    """Classes by `id`, kept alive so that no other class gets the id of one."""

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> str | None:
            pulse.beat()
            cls = type(value)
            if address_of(cls) in ATOMS:
                return None
            if value is namespace:
                return _NAMESPACE_ID
            if value is output.blocks:
                return _MEMORY_ID
            if value is MISSING:
                return _MISSING_ID
            if cls is types.CodeType:
                files.add(value.co_filename)
            elif id(cls) not in harmless_classes:
                kind = opaque_kind(cls)
                if kind is not None and cls is not _CACHED_FUNCTION:
                    raise UnpicklableError(f"{kind.noun} cannot be saved")
                harmless_classes[id(cls)] = cls
            return None

        def reducer_override(self, value: Any) -> Any:
            if type(value) is memoryview:  # cloudpickle converts it to bytes
                raise UnpicklableError("a memoryview cannot be saved")
            reduced = reduce_object(value, namespace)
            if reduced is not NotImplemented:
                return reduced
            if type(value) is _CACHED_FUNCTION and value.__module__ == namespace["__name__"]:
                return _cached, (value.__wrapped__, *value.cache_parameters().values())
            if type(value) is get_if_loaded("numpy", "ndarray") and _has_plain_memory(value):
                return _reduce_array(value, output)
            return super().reducer_override(value)

    Pickler(output, _PICKLE_PROTOCOL, buffer_callback=output.add_buffer).dump(variables)
    sources = {
        name: "".join(linecache.getlines(name)) for name in sorted(files) if _is_cell_file(name)
    }
    head = pickle.dumps((sources, output.buffer_blocks), _PICKLE_PROTOCOL)
    return Pickled(bytearray(head) + output.stream, output.blocks)


def unpickle_variables(
    stream: bytearray, sizes: list[int], fill: Fill, namespace: dict[str, object]
) -> dict[str, object]:
    """Restore variables after `load_cloudpickle`. May raise anything.

    Args:
        stream: The stream of a `Pickled`.
        sizes: The sizes of its blocks, in bytes.
        fill: Reads a block.
        namespace: The user's namespace, to which functions will refer.
    """
    data = io.BytesIO(stream)
    sources, buffer_blocks = pickle.load(data)

    def read_block(number: int) -> bytearray:
        memory = bytearray(sizes[number])
        fill(number, memoryview(memory))
        return memory

    objects_by_id = {_NAMESPACE_ID: namespace, _MEMORY_ID: fill, _MISSING_ID: MISSING}

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            return super().find_class(present_name(module), name)

        def persistent_load(self, persistent_id: str) -> object:
            return objects_by_id[persistent_id]

    variables: dict[str, object] = Unpickler(data, buffers=map(read_block, buffer_blocks)).load()
    for name, source in sources.items():
        entry = (len(source), None, source.splitlines(keepends=True), name)
        linecache.cache.setdefault(name, entry)
    return variables


class _Output:
    """Collects the bytes of a pickle, and the memory that it leaves out. Raises `TooLargeError` for
    more than allowed."""

    def __init__(self, max_bytes: int) -> None:
        self.stream = bytearray()
        self.blocks: list[memoryview] = []
        self.buffer_blocks: list[int] = []
        """The numbers of the blocks that `pickle` itself has left out."""
        self._remaining_bytes = max_bytes

    def write(self, data: Any) -> int:
        """Append bytes of the pickle."""
        with memoryview(data) as view:
            self._count(view.nbytes)
            self.stream += view
            return view.nbytes

    def add_block(self, memory: memoryview) -> int:
        """Leave memory out of the pickle; return its number."""
        self._count(memory.nbytes)
        self.blocks.append(memory)
        return len(self.blocks) - 1

    def add_buffer(self, buffer: Any) -> None:
        """Leave out a `pickle.PickleBuffer`."""
        self.buffer_blocks.append(self.add_block(buffer.raw()))

    def _count(self, size: int) -> None:
        self._remaining_bytes -= size
        if self._remaining_bytes < 0:
            raise TooLargeError


def _is_cell_file(name: str) -> bool:
    """Return whether `linecache` has the source of a file only because it was a cell."""
    entry: Any = linecache.cache.get(name)
    return entry is not None and len(entry) == 4 and entry[1] is None


def _has_plain_memory(array: Any) -> bool:
    """Return whether an array is a block of memory without objects."""
    is_block = array.flags.c_contiguous or array.flags.f_contiguous
    return bool(array.size) and not array.dtype.hasobject and is_block


def _reduce_array(array: Any, output: _Output) -> tuple[object, ...]:
    """Leave out the memory of an array; return how the pickle recreates it."""
    number = output.add_block(_array_memory(array))
    flags = (array.flags.c_contiguous, array.flags.writeable)
    return _array, (output.blocks, number, array.shape, array.dtype, *flags)


def _array_memory(array: Any) -> memoryview:
    return memoryview(array.reshape(-1, order="A").view("u1"))


# Functions that pickles call to recreate objects, and that must keep their names and parameters


def _cached(function: Any, maxsize: int | None, typed: bool) -> object:
    return functools.lru_cache(maxsize, typed)(function)


def _array(
    fill: Fill, number: int, shape: Any, dtype: Any, c_contiguous: bool, writeable: bool
) -> object:
    array = sys.modules["numpy"].empty(shape, dtype, "C" if c_contiguous else "F")
    fill(number, _array_memory(array))
    array.flags.writeable = writeable
    return array
