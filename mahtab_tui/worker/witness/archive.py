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

_NUMBERS = "Q"
"""The type of arrays with numbers of files."""


class _Part(NamedTuple):
    """Objects that are packed together."""

    data: bytes
    numbers: bytes
    """The numbers of the files that are packed with them, as an array's bytes."""


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
        self._numbers = array(_NUMBERS)
        """The numbers of all packed files in ascending order."""
        self._outer_objects: list[Any] = [copies]
        """What is not packed."""

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
        numbers = array(_NUMBERS, (number for _device, number in inodes))
        outer_objects = list(self._outer_objects)
        data, copies = _pack(value, own_nodes, outer_objects)
        all_numbers = array(_NUMBERS, sorted((*self._numbers, *numbers)))
        self._parts.append(_Part(data, numbers.tobytes()))
        # From here on nothing can fail.
        self._numbers = all_numbers
        self._outer_objects = outer_objects
        for copy in copies:
            copy.serial = 0

    def unpack(self, number: int | None = None) -> Iterator[Any]:
        """Unpack objects, and yield them. Each stays packed, and its copies remain, if whoever gets it
        does not ask for more.

        Args:
            number: That of a file, if only those with it are needed.
        """
        for index in reversed(range(len(self._parts))):
            part = self._parts[index]
            if number is None or number in array(_NUMBERS, part.numbers):
                other_parts = [*self._parts[:index], *self._parts[index + 1 :]]
                numbers = array(_NUMBERS, b"".join(part.numbers for part in other_parts))
                numbers = array(_NUMBERS, sorted(numbers))
                unpacker = _Unpacker(io.BytesIO(zlib.decompress(part.data)), self._outer_objects)
                value = unpacker.load()
                serials_of_copies = unpacker.load()
                yield value
                # From here on nothing can fail.
                self._parts = other_parts
                self._numbers = numbers
                # A copy with a number removes its file when it goes.
                for copy, serial in serials_of_copies:
                    copy.serial = serial


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
    return zlib.compress(file.getbuffer(), 1), copies


class _Packer(Pickler):
    """Knows what is not packed."""

    def __init__(self, file: io.BytesIO, own_nodes: Set[Node], outer_objects: list[Any]) -> None:
        """
        Args:
            outer_objects: Gets the objects that are not packed.
        """
        super().__init__(file, 4)
        self._own_nodes = own_nodes
        self._outer_objects = outer_objects
        self._indexes = {value: index for index, value in enumerate(outer_objects)}
        self.packed_copies: list[Copy] = []

    def persistent_id(self, value: Any) -> int | None:
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


class _Unpacker(Unpickler):
    """Returns what is not packed, too."""

    def __init__(self, file: io.BytesIO, outer_objects: Sequence[Any]) -> None:
        super().__init__(file)
        self._outer_objects = outer_objects

    def persistent_load(self, index: Any) -> Any:
        """Return an object that is not packed."""
        return self._outer_objects[index]


def release_memory() -> None:
    """Give the system the memory back that Python and the C library keep for later."""
    gc.collect()
    with suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
