"""Converts variables to bytes, and back.

The bytes are those of cloudpickle, except for what an undo also needs to recreate
(`undo.reduction.reduce_object`), for cached functions of cells, and for arrays: their memory is left
out of the pickle and written beside it, so that it is not copied. `writer` and `loader` keep both in
files.

Saved pickles name the functions `_cached` and `_array`, which must keep their names and parameters.
"""

from __future__ import annotations

import functools
import io
import linecache
import pickle
import sys
import types
from collections.abc import Iterable
from typing import Any, Callable, NamedTuple

from ..former_names import present_name
from ..undo.fork_writer import UnpicklableError
from ..undo.opaque import opaque_kind
from ..undo.reduction import reduce_object
from ..values.objects import ATOMS, MISSING, address_of, get_if_loaded
from .progress import ProgressCounter

_PICKLE_PROTOCOL = 5
_CACHED_FUNCTION = functools._lru_cache_wrapper

# Persistent ids: what a pickle has in place of objects that are not saved.
_NAMESPACE_ID = "namespace"
"""Stands for the user's namespace, to which functions refer."""
_MEMORY_ID = "memory"
"""Stands for a list of blocks when saving, and for a `ReadBlock` when loading."""
_MISSING_ID = "missing"
"""Stands for `MISSING`."""

ReadBlock = Callable[[int, memoryview], None]
"""Reads the block with a number into memory of its size. Raises `OSError`."""


class TooLargeError(Exception):
    """The variables are larger than allowed."""


class Pickled(NamedTuple):
    """Variables as bytes."""

    stream: bytearray
    """Two pickles: a pair of what `_cell_sources` and `_Output.buffer_blocks` return, and then the
    variables."""
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
        namespace: The user's namespace, to which functions refer.
        cloudpickle: Its package, as `load_cloudpickle` returns it.
        max_bytes: Bytes of the pickle and the blocks together.
        pulse: Counts the objects.

    Raises:
        TooLargeError: They are larger.
        UnpicklableError: An object cannot be saved.
        BaseException: What an object raises.
    """

    # cloudpickle is loaded when it is first needed, so no class of a module can derive from its own.
    class Pickler(_VariableRules, cloudpickle.Pickler):  # type: ignore[misc]
        pass

    output = _Output(max_bytes)
    pickler = Pickler(output, _PICKLE_PROTOCOL, buffer_callback=output.add_buffer)
    pickler.set_rules(namespace, output, pulse)
    pickler.dump(variables)
    head = pickle.dumps((_cell_sources(pickler.code_files), output.buffer_blocks), _PICKLE_PROTOCOL)
    return Pickled(bytearray(head) + output.stream, output.blocks)


def unpickle_variables(
    stream: bytearray, sizes: list[int], read_block: ReadBlock, namespace: dict[str, object]
) -> dict[str, object]:
    """Restore variables after `load_cloudpickle`. May raise anything.

    Args:
        stream: The stream of a `Pickled`.
        sizes: The sizes of its blocks, in bytes.
        read_block: Reads a block.
        namespace: The user's namespace, to which functions will refer.
    """

    def load_buffer(number: int) -> bytearray:
        memory = bytearray(sizes[number])
        read_block(number, memoryview(memory))
        return memory

    data = io.BytesIO(stream)
    cell_sources, buffer_blocks = pickle.load(data)
    unpickler = _VariableUnpickler(data, buffers=map(load_buffer, buffer_blocks))
    unpickler.objects_by_id = {
        _NAMESPACE_ID: namespace,
        _MEMORY_ID: read_block,
        _MISSING_ID: MISSING,
    }
    variables: dict[str, object] = unpickler.load()

    # With the source of their cells, functions have readable tracebacks and `inspect.getsource`.
    for file_name, source in cell_sources.items():
        entry = (len(source), None, source.splitlines(keepends=True), file_name)
        linecache.cache.setdefault(file_name, entry)
    return variables


class _VariableRules:
    """What a pickler of variables does in another way than cloudpickle.

    It is combined with cloudpickle's pickler, the second base of the derived class.
    """

    def set_rules(
        self, namespace: dict[str, object], output: _Output, pulse: ProgressCounter
    ) -> None:
        """Set what the rules need, because cloudpickle's constructor has other parameters.

        Args:
            namespace: The user's namespace.
            output: Gets the memory of arrays.
            pulse: Counts the objects.
        """
        self.code_files: set[str] = set()
        """The files from which the pickled code is, among them cells."""
        self._namespace = namespace
        self._output = output
        self._pulse = pulse
        self._harmless_classes: dict[int, type] = {}
        """Classes by `id`, kept alive so that no other class gets the id of one."""

    def persistent_id(self, value: Any) -> str | None:
        """Return what stands for an object in the pickle; None for objects that are pickled.

        Pickle calls this for each object first. Raises `UnpicklableError` for one that must not be
        pickled, such as a lock.
        """
        self._pulse.beat()
        cls = type(value)
        if address_of(cls) in ATOMS:
            return None
        if value is self._namespace:
            return _NAMESPACE_ID
        if value is self._output.blocks:
            return _MEMORY_ID
        if value is MISSING:
            return _MISSING_ID
        if cls is types.CodeType:
            self.code_files.add(value.co_filename)
        elif id(cls) not in self._harmless_classes:
            kind = opaque_kind(cls)
            if kind is not None and cls is not _CACHED_FUNCTION:
                raise UnpicklableError(f"{kind.noun} cannot be saved")
            self._harmless_classes[id(cls)] = cls
        return None

    def reducer_override(self, value: Any) -> Any:
        """Return how the pickle recreates an object; `NotImplemented` leaves it to pickle."""
        if type(value) is memoryview:  # cloudpickle converts it to bytes
            raise UnpicklableError("a memoryview cannot be saved")
        reduced = reduce_object(value, self._namespace)
        if reduced is not NotImplemented:
            return reduced
        if type(value) is _CACHED_FUNCTION and value.__module__ == self._namespace["__name__"]:
            return _cached, (value.__wrapped__, *value.cache_parameters().values())
        if type(value) is get_if_loaded("numpy", "ndarray") and _has_plain_memory(value):
            return _reduce_array(value, self._output)
        return super().reducer_override(value)  # type: ignore[misc]


class _VariableUnpickler(pickle.Unpickler):
    """Loads pickles, also those of earlier versions of this program."""

    objects_by_id: dict[str, object]
    """What the persistent ids stand for."""

    def find_class(self, module: str, name: str) -> object:
        return super().find_class(present_name(module), name)

    def persistent_load(self, persistent_id: str) -> object:
        return self.objects_by_id[persistent_id]


class _Output:
    """Collects the bytes of a pickle, and the memory that it leaves out.

    All methods raise `TooLargeError` when there is more than allowed.
    """

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
        """Leave memory out of the pickle, and return the number of its block."""
        self._count(memory.nbytes)
        self.blocks.append(memory)
        return len(self.blocks) - 1

    def add_buffer(self, buffer: Any) -> None:
        """Leave out a `pickle.PickleBuffer`."""
        self.buffer_blocks.append(self.add_block(buffer.raw()))

    def _count(self, size_bytes: int) -> None:
        self._remaining_bytes -= size_bytes
        if self._remaining_bytes < 0:
            raise TooLargeError


# Source code of cells


def _cell_sources(file_names: Iterable[str]) -> dict[str, str]:
    """Return the source of each cell among some files, which are on no disk."""
    return {
        name: "".join(linecache.getlines(name))
        for name in sorted(file_names)
        if _is_cell_file(name)
    }


def _is_cell_file(name: str) -> bool:
    """Return whether `linecache` has the source of a file only because it was a cell."""
    # An entry is (size, time of change, lines, path). A cell has no time, so it is never read again.
    entry: Any = linecache.cache.get(name)
    return entry is not None and len(entry) == 4 and entry[1] is None


# Arrays of NumPy


def _has_plain_memory(array: Any) -> bool:
    """Return whether an array is a block of memory without objects."""
    is_block = array.flags.c_contiguous or array.flags.f_contiguous
    return bool(array.size) and not array.dtype.hasobject and is_block


def _reduce_array(array: Any, output: _Output) -> tuple[object, ...]:
    """Leave out the memory of an array; return how the pickle recreates it."""
    number = output.add_block(_array_memory(array))
    flags = (array.flags.c_contiguous, array.flags.writeable)
    # When the pickle is loaded, a `ReadBlock` stands in place of the blocks (`_MEMORY_ID`).
    return _array, (output.blocks, number, array.shape, array.dtype, *flags)


def _array_memory(array: Any) -> memoryview:
    """Return the bytes of an array, in the order in which they are in memory."""
    return memoryview(array.reshape(-1, order="A").view("u1"))


# Functions that pickles call to recreate objects, and that must keep their names and parameters


def _cached(function: Any, maxsize: int | None, typed: bool) -> object:
    """Recreate a function that `functools.lru_cache` has decorated, with an empty cache."""
    return functools.lru_cache(maxsize, typed)(function)


def _array(
    fill: ReadBlock, number: int, shape: Any, dtype: Any, c_contiguous: bool, writeable: bool
) -> object:
    """Recreate an array, and read the block with a number into its memory."""
    array = sys.modules["numpy"].empty(shape, dtype, "C" if c_contiguous else "F")
    fill(number, _array_memory(array))
    array.flags.writeable = writeable
    return array
