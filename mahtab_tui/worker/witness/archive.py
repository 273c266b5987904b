"""Packs what is known of many files, so that it needs little memory until an undo asks for it."""

from __future__ import annotations

import ctypes
import gc
import io
import zlib
from _pickle import Pickler, Unpickler
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from typing import Any, NamedTuple

from .copies import Copies, Copy
from .nodes import Node

_NUMBER_TYPECODE = "Q"
"""The type of arrays with the numbers by which the system knows files."""
_PICKLE_PROTOCOL = 4
_COMPRESSION_LEVEL = 1
"""The level of zlib: a low one, because a cell's end waits for it."""


class _Part(NamedTuple):
    """An object that is packed, with everything that is packed with it."""

    data: bytes
    """Two pickles, compressed: the object, and pairs of a copy of a file and its serial number."""
    numbers: bytes
    """The numbers of the files that are packed with it, as an array's bytes."""

    def has_number(self, number: int) -> bool:
        """Return whether a file with a number is packed with it."""
        return number in array(_NUMBER_TYPECODE, self.numbers)


class Archive:
    """Packed objects. Each is packed with everything it refers to, except files and folders that other
    steps use.

    It keeps few small objects, because one of them can keep the system from getting a megabyte back."""

    def __init__(self, copies: Copies) -> None:
        """Pack nothing.

        Args:
            copies: The folder of the copies of files that will be packed.
        """
        self._parts: list[_Part] = []
        self._numbers = array(_NUMBER_TYPECODE)
        """The numbers of all packed files in ascending order."""
        self._outer_objects: list[Any] = [copies]
        """What packed objects refer to and is not packed: all copies, and then files and folders. A
        pickle has the index of one in its place."""

    @property
    def outer_nodes(self) -> Sequence[Node]:
        """The files and folders to which packed objects refer."""
        return self._outer_objects[1:]

    @property
    def part_count(self) -> int:
        """How many objects are packed."""
        return len(self._parts)

    def has_number(self, number: int) -> bool:
        """Return whether a file with a number, on whatever device, is packed."""
        index = bisect_left(self._numbers, number)
        return index < len(self._numbers) and self._numbers[index] == number

    def pack(self, value: object, own_nodes: Set[Node]) -> None:
        """Pack an object. If this fails, nothing has changed.

        Args:
            value: The object.
            own_nodes: The files that are packed with it. Nothing else may refer to them, or to their
                copies.
        """
        inodes = [node.inode for node in own_nodes if node.inode is not None]
        numbers = array(_NUMBER_TYPECODE, (number for _device, number in inodes))
        outer_objects = list(self._outer_objects)
        data, packed_copies = _pack(value, own_nodes, outer_objects)
        all_numbers = array(_NUMBER_TYPECODE, sorted((*self._numbers, *numbers)))
        self._parts.append(_Part(data, numbers.tobytes()))
        # From here on nothing can fail.
        self._numbers = all_numbers
        self._outer_objects = outer_objects
        for copy in packed_copies:
            copy.serial = 0  # so that its file stays when it goes

    def unpack(self, number: int | None = None) -> Iterator[Any]:
        """Unpack objects, and yield them. Each stays packed, and its copies remain, if whoever gets it
        does not ask for more.

        Args:
            number: That of a file, if only those with it are needed.
        """
        for part in reversed(self._parts):
            if number is not None and not part.has_number(number):
                continue
            other_parts = [other for other in self._parts if other is not part]
            other_numbers = _sorted_numbers(other_parts)
            unpacker = _Unpacker(io.BytesIO(zlib.decompress(part.data)), self._outer_objects)
            value = unpacker.load()
            serials_of_copies = unpacker.load()
            yield value
            # From here on nothing can fail.
            self._parts = other_parts
            self._numbers = other_numbers
            # Only now, because a copy with a number removes its file when it goes.
            for copy, serial in serials_of_copies:
                copy.serial = serial


def _sorted_numbers(parts: Sequence[_Part]) -> array[int]:
    """Return the numbers of the files that are packed in some parts, in ascending order."""
    numbers = array(_NUMBER_TYPECODE, b"".join(part.numbers for part in parts))
    return array(_NUMBER_TYPECODE, sorted(numbers))


def _pack(
    value: object, own_nodes: Set[Node], outer_objects: list[Any]
) -> tuple[bytes, list[Copy]]:
    """Return a packed object, and the copies of files that are packed with it.

    Args:
        value: The object.
        own_nodes: The files that are packed with it.
        outer_objects: Gets the objects to which it refers and that are not packed.
    """
    file = io.BytesIO()
    packer = _Packer(file, own_nodes, outer_objects)
    packer.dump(value)
    copies = list(dict.fromkeys(packer.packed_copies))
    packer.dump([(copy, copy.serial) for copy in copies])
    return zlib.compress(file.getbuffer(), _COMPRESSION_LEVEL), copies


class _Packer(Pickler):
    """Knows what is not packed."""

    def __init__(self, file: io.BytesIO, own_nodes: Set[Node], outer_objects: list[Any]) -> None:
        """Begin with nothing packed.

        Args:
            file: Gets the pickles.
            own_nodes: The files and folders that are packed; no others are.
            outer_objects: Gets the objects that are not packed.
        """
        super().__init__(file, _PICKLE_PROTOCOL)
        self._own_nodes = own_nodes
        self._outer_objects = outer_objects
        self._indexes = {value: index for index, value in enumerate(outer_objects)}
        self.packed_copies: list[Copy] = []

    def persistent_id(self, value: Any) -> int | None:
        """Return the index of an object that is not packed; None for others. The pickler calls this for
        each object."""
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


class _Unpacker(Unpickler):
    """Puts the objects that were not packed in the places of their indexes."""

    def __init__(self, file: io.BytesIO, outer_objects: Sequence[Any]) -> None:
        super().__init__(file)
        self._outer_objects = outer_objects

    def persistent_load(self, index: Any) -> Any:
        """Return the object that was not packed, by its index."""
        return self._outer_objects[index]


def release_memory() -> None:
    """Give the system the memory back that Python and the C library keep for later."""
    gc.collect()
    with suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
