"""Variables as bytes, and back: classes and functions of cells by value, memory of arrays beside
the pickle."""

from __future__ import annotations

import functools
import io
import linecache
import sys
import types
from typing import Any, Callable, NamedTuple

from ..statics import MISSING, address_of, loaded, module_of, own_dict
from ..stdlib import late_import, load_package
from ..undo.in_fork import NotWrittenError
from ..undo.opaque import opaque_kind
from ..undo.part import ATOMS
from ..undo.reducing import reduced
from .pulse import Pulse

_CLOUDPICKLE = "mahtab_cloudpickle"
"""The name of our copy of cloudpickle in the kernel, which is not the user's."""
_NAMESPACE, _MEMORY, _MISSING = "namespace", "memory", "missing"
"""Placeholders for them in a pickle."""
_CACHED = functools._lru_cache_wrapper

Fill = Callable[[int, memoryview], None]
"""Reads the block of a number into memory of its size. Raises `OSError`."""


class TooLargeError(Exception):
    """The variables are larger than allowed."""


class Pickled(NamedTuple):
    """Some variables as bytes."""

    stream: bytearray
    blocks: list[memoryview]
    """The memory of arrays, and of other objects that hand theirs to a pickle."""
    packages: dict[str, str]
    """Name and version of the packages that their classes are from."""


def load_cloudpickle(folder: str, kernel: str = "") -> Any:
    """Load cloudpickle. folder: that of the package. kernel: names this kernel where something is
    to be written; a class has the same id in each pickle then, so that equal variables have equal
    pickles, and that a class in two pickles is one class again."""
    package = load_package(_CLOUDPICKLE, folder)
    if kernel:
        known = (
            package.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS
        )  # the classes that came from a pickle
        package.cloudpickle._get_or_create_tracker_id = lambda cls: (
            known.get(cls) or f"{kernel}-{id(cls):x}"
        )
    return package


def pickled(
    variables: dict[str, Any], namespace: dict[str, Any], cloudpickle: Any, most: int, pulse: Pulse
) -> Pickled:
    """Pickle some variables together. most: bytes. pulse: beats with each object. Raises
    `TooLargeError`, `NotWrittenError`, and whatever an object raises."""
    blocks: list[memoryview] = []
    of_pickle: list[int] = []
    classes: dict[int, type] = {}
    files: set[str] = set()
    out = _Limited(most)

    def put_aside(memory: memoryview) -> int:
        out.count(memory.nbytes)
        blocks.append(memory)
        return len(blocks) - 1

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, thing: Any) -> str | None:
            pulse.beat()
            cls = type(thing)
            if address_of(cls) in ATOMS:
                return None
            if thing is namespace:
                return _NAMESPACE
            if thing is blocks:
                return _MEMORY
            if thing is MISSING:
                return _MISSING
            if cls is types.CodeType:
                files.add(thing.co_filename)
            elif id(cls) not in classes:
                _refuse(cls)
                classes[id(cls)] = cls
            return None

        def reducer_override(self, thing: Any) -> Any:
            if type(thing) is memoryview:  # cloudpickle makes it bytes
                raise NotWrittenError("a memoryview cannot be saved")
            found = reduced(thing, namespace)
            if found is not NotImplemented:
                return found
            if type(thing) is _CACHED and thing.__module__ == namespace["__name__"]:
                return _cached, (thing.__wrapped__, *thing.cache_parameters().values())
            if type(thing) is loaded("numpy", "ndarray") and _is_plain(thing):
                number = put_aside(_memory_of(thing))
                return _array, (
                    blocks,
                    number,
                    thing.shape,
                    thing.dtype,
                    thing.flags.c_contiguous,
                    thing.flags.writeable,
                )
            return super().reducer_override(thing)

    Pickler(out, 5, buffer_callback=lambda buffer: of_pickle.append(put_aside(buffer.raw()))).dump(
        variables
    )
    sources = {
        name: "".join(linecache.getlines(name)) for name in sorted(files) if _is_of_a_cell(name)
    }
    head = late_import("pickle").dumps((sources, of_pickle), 5)
    return Pickled(
        bytearray(head) + out.data, blocks, dict(sorted(_versions(list(classes.values())).items()))
    )


def unpickled(
    stream: bytearray, sizes: list[int], fill: Fill, namespace: dict[str, Any]
) -> dict[str, Any]:
    """The variables again, by name, after `load_cloudpickle`. sizes: of the blocks, in bytes.
    Raises whatever making an object raises."""
    pickle = late_import("pickle")
    data = io.BytesIO(stream)
    sources, of_pickle = pickle.load(data)

    def block(number: int) -> bytearray:
        memory = bytearray(sizes[number])
        fill(number, memoryview(memory))
        return memory

    class Unpickler(pickle.Unpickler):  # type: ignore[name-defined, misc]
        def persistent_load(self, name: str) -> Any:
            return {_NAMESPACE: namespace, _MEMORY: fill, _MISSING: MISSING}[name]

    variables: dict[str, Any] = Unpickler(data, buffers=map(block, of_pickle)).load()
    for name, source in sources.items():
        linecache.cache.setdefault(
            name, (len(source), None, source.splitlines(keepends=True), name)
        )
    return variables


class _Limited:
    """Collects what is written, up to a limit."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._left = most

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            self.count(view.nbytes)
            self.data += view
            return view.nbytes

    def count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLargeError


def _is_of_a_cell(name: str) -> bool:
    """Whether a file's name is that of a cell, whose lines are nowhere but in memory."""
    known: Any = linecache.cache.get(name)
    return known is not None and len(known) == 4 and known[1] is None


def _refuse(cls: type) -> None:
    kind = opaque_kind(cls)
    if kind is not None and cls is not _CACHED:
        raise NotWrittenError(f"{kind.what} cannot be saved")


def _versions(classes: list[type]) -> dict[str, str]:
    packages = {module_of(cls).partition(".")[0] for cls in classes}
    versions = {
        package: own_dict(sys.modules.get(package)).get("__version__") for package in packages
    }
    return {package: version for package, version in versions.items() if type(version) is str}


def _is_plain(array: Any) -> bool:
    """Whether the array's own memory is all of it."""
    return (
        bool(array.size)
        and not array.dtype.hasobject
        and (array.flags.c_contiguous or array.flags.f_contiguous)
    )


def _memory_of(array: Any) -> memoryview:
    return memoryview(array.reshape(-1, order="A").view("u1"))


# What pickles call to make objects again.


def _cached(function: Any, maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


def _array(
    fill: Fill, number: int, shape: Any, dtype: Any, c_contiguous: bool, writeable: bool
) -> Any:
    made = sys.modules["numpy"].empty(shape, dtype, "C" if c_contiguous else "F")
    fill(number, _memory_of(made))
    made.flags.writeable = writeable
    return made
