"""Where the numbers of arrays and tensors are in memory.

Undo compares and copies them as bytes: `written_pages` tells which parts were written, and
`checkpoint_memory` reads those of a checkpoint.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..values.objects import MISSING, as_library_type, get_if_loaded, is_subclass

CHUNK_BYTES = 256 * 1024
"""Memory is read in pieces of this size, which fit into a processor's cache."""


class MemorySpan(NamedTuple):
    """A part of the memory, by its addresses."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def chunks(self) -> Iterator[MemorySpan]:
        """Yield the span in pieces of at most `CHUNK_BYTES`."""
        for start in range(self.start, self.end, CHUNK_BYTES):
            yield MemorySpan(start, min(start + CHUNK_BYTES, self.end))

    def digest(self) -> int:
        """Return a hash of the bytes, in this process."""
        chunk_hashes = []
        for chunk in self.chunks():
            data = (ctypes.c_char * chunk.size).from_address(chunk.start)
            chunk_hashes.append(hash(data.raw))
        return hash(tuple(chunk_hashes))


def find_memory(value: object) -> MemorySpan | None:
    """Return the memory of an array of plain data that is not a view of another array."""
    if is_subclass(type(value), get_if_loaded("torch", "Tensor")):
        return tensor_memory(value)
    array_class = get_if_loaded("numpy", "ndarray")
    if array_class is MISSING or not is_subclass(type(value), array_class):
        return None

    base = array_class.base.__get__(value)
    is_view = is_subclass(type(base), array_class) or type(base) is bytes
    array = plain_array(value)
    if is_view or not array.size or array.dtype.hasobject:
        return None

    # With a negative stride, the first item is not the one at the lowest address.
    first_item = int(array.__array_interface__["data"][0])
    start = first_item
    end = first_item
    for length, stride in zip(array.shape, array.strides):
        start += min(0, stride) * (length - 1)
        end += max(0, stride) * (length - 1)
    return MemorySpan(start, end + array.itemsize)


def plain_array(value: object) -> Any:
    """View an array as numpy's own class, without code of a derived class."""
    array = get_if_loaded("numpy", "ndarray")
    if type(value) is array:
        return value
    return array.view(value, array)


def tensor_memory(tensor: object) -> MemorySpan | None:
    """Return the memory of a tensor; None if it is not the kernel's own."""
    plain = as_library_type(tensor)
    if str(plain.layout) != "torch.strided" or plain.device.type != "cpu":
        return None
    storage = plain.untyped_storage()
    start = storage.data_ptr()
    size = storage.nbytes()
    if size:
        return MemorySpan(start, start + size)
    return None
