"""Packs what is known of many files, so that it needs little memory until an undo asks for it."""

from __future__ import annotations

import ctypes
import gc
import io
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from typing import Any

from .copies import Copies, Copy
from .nodes import Node

_NUMBERS = "Q"
"""The type of arrays with numbers of files."""


class Archive:
    """Objects, each packed with all to which it refers; but for files and folders that others use.

    It has hardly any small objects: one of them can keep the system from getting a megabyte back."""

    def __init__(self, copies: Copies) -> None:
        """Pack nothing. copies: the folder of the copies of files that will be packed."""
        self._parts: list[bytes] = []
        """The packed objects."""
        self._numbers_of_parts: list[bytes] = []
        """The numbers of the files in each of them."""
        self._numbers = array(_NUMBERS)
        """All numbers in ascending order, perhaps with some that were unpacked."""
        self._outer_objects: list[Any] = [copies]
        """What is not packed."""

    @property
    def outer_nodes(self) -> Sequence[Node]:
        """The files and folders to which packed objects refer."""
        return self._outer_objects[1:]

    def has_number(self, number: int) -> bool:
        """Return whether a file with a number, on whatever device, may be packed."""
        index = bisect_left(self._numbers, number)
        return index < len(self._numbers) and self._numbers[index] == number

    def pack(self, parts: Iterable[tuple[object, Set[Node]]]) -> None:
        """Pack objects. parts: each with the files that are packed with it. Nothing else may refer to
        these files, or to their copies."""
        numbers = array(_NUMBERS)
        for value, own_nodes in parts:
            inodes = [node.inode for node in own_nodes if node.inode is not None]
            own_numbers = array(_NUMBERS, (number for _device, number in inodes))
            self._parts.append(self._pack(value, own_nodes))
            self._numbers_of_parts.append(own_numbers.tobytes())
            numbers += own_numbers
        self._numbers = array(_NUMBERS, sorted((*self._numbers, *numbers)))

    def _pack(self, value: object, own_nodes: Set[Node]) -> bytes:
        import zlib  # late, because few cells change many files
        from _pickle import Pickler

        packer = _Packer(own_nodes, self._outer_objects)
        file = io.BytesIO()
        pickler = Pickler(file, 4)
        pickler.persistent_id = packer.find_index  # type: ignore[method-assign]
        pickler.dump(value)
        for copy in packer.packed_copies:
            copy.serial = 0
        return zlib.compress(file.getbuffer(), 1)

    def unpack(self, number: int | None = None) -> Iterator[Any]:
        """Unpack objects, and yield them. number: that of a file, if only those with it are needed."""
        for index in reversed(range(len(self._parts))):
            if number is None or number in array(_NUMBERS, self._numbers_of_parts[index]):
                del self._numbers_of_parts[index]
                yield self._load(self._parts.pop(index))

    def _load(self, part: bytes) -> Any:
        import zlib
        from _pickle import Unpickler

        unpickler = Unpickler(io.BytesIO(zlib.decompress(part)))
        unpickler.persistent_load = self._outer_objects.__getitem__  # type: ignore[method-assign]
        return unpickler.load()


class _Packer:
    """Knows what is not packed."""

    def __init__(self, own_nodes: Set[Node], outer_objects: list[Any]) -> None:
        """outer_objects: gets the objects that are not packed."""
        self._own_nodes = own_nodes
        self._outer_objects = outer_objects
        self._indexes = {value: index for index, value in enumerate(outer_objects)}
        self.packed_copies: list[Copy] = []

    def find_index(self, value: Any) -> int | None:
        """Return the index of an object that is not packed; None for others."""
        cls = type(value)
        if cls is Copy:
            self.packed_copies.append(value)
        is_outer = cls is Copies or (cls is Node and value not in self._own_nodes)
        if not is_outer:
            return None
        if value not in self._indexes:
            self._indexes[value] = len(self._outer_objects)
            self._outer_objects.append(value)
        return self._indexes[value]


def release_memory() -> None:
    """Give the system the memory back that Python and the C library keep for later."""
    gc.collect()
    with suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
