"""Transfers plain data from an untrusted process. A pickle names no class and no function: any
object but a builtin is a persistent id, a tuple of a codec's name and of the parts from which the
codec recreates it."""

from __future__ import annotations

import io
import pickle
from typing import Any, NamedTuple, NoReturn

from ..values.objects import name_of
from .library_codecs import all_library_codecs, library_codec
from .plain_codecs import STANDARD_CODECS, NotTransferableError

PLAIN_TYPES = frozenset(
    (int, float, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, type(None))
)
_CODECS_BY_NAME = {
    codec.name: codec for codec in (*STANDARD_CODECS.values(), *all_library_codecs())
}

_ARGUMENT_SIZES = {
    **dict.fromkeys(b"(N]ae)t}su01Q\x85\x86\x87\x88\x89\x8f\x90\x91\x94", 0),
    **dict.fromkeys(b"Khq\x80", 1),
    **dict.fromkeys(b"M", 2),
    **dict.fromkeys(b"Jjr", 4),
    **dict.fromkeys(b"G\x95", 8),
}
"""Bytes that follow an opcode of plain data."""
_STEPS = [1 + _ARGUMENT_SIZES[opcode] if opcode in _ARGUMENT_SIZES else 0 for opcode in range(256)]
"""Bytes from each such opcode to the next."""
_SIZE_BYTES = {
    **dict.fromkeys(b"C\x8a\x8c", 1),
    **dict.fromkeys(b"BX\x8b", 4),
    **dict.fromkeys(b"\x8d\x8e\x96", 8),
}
"""Bytes with the size of a text or another value, which follows them, after an opcode of plain
data."""
_STOP = pickle.STOP[0]

_END_ID = "end"
"""The persistent id of an `_End`."""

MAX_OBJECTS = 5_000_000
"""Objects in all values together."""
MAX_BYTES = 2**30
"""Bytes of all values together."""


class TransferTooLargeError(Exception):
    """A value is too large to be sent. The message is a clause that says what is too large."""


class Dumper:
    """Dumps the values of one cell, and stops where all of them together are too large."""

    def __init__(self) -> None:
        self._remaining_objects = MAX_OBJECTS
        self._remaining_bytes = MAX_BYTES
        self._reserved_bytes = 0
        """Bytes of the arrays in the value that is being dumped."""

    def dump(self, value: object) -> bytes:
        """Return a value as bytes.

        Raises `NotTransferableError`, `TransferTooLargeError`, or what the code of the user's
        classes raises.
        """
        pickled = io.BytesIO()
        self._reserved_bytes = 0
        try:
            _Pickler(pickled, self).dump(value)
        except RecursionError:
            raise NotTransferableError("a value that is too deep") from None
        except MemoryError:
            raise _too_many_bytes() from None
        self._remaining_bytes -= pickled.tell()
        if self._remaining_bytes < 0:
            raise _too_many_bytes()
        return pickled.getvalue()

    def limit(self, max_bytes: int, max_objects: int) -> None:
        """Allow the values no more bytes and objects than this."""
        self._remaining_bytes = max_bytes
        self._remaining_objects = max_objects

    def count_object(self, value: object) -> None:
        """Count an object of a value before it is dumped. Raises `TransferTooLargeError`."""
        self._remaining_objects -= 1
        if self._remaining_objects < 0:
            raise TransferTooLargeError(f"makes more than {MAX_OBJECTS:,} objects")

    def reserve_bytes(self, size: int) -> None:
        """Note bytes of the value that is being dumped before they are written.

        Raises `TransferTooLargeError` if it has too many with them.
        """
        self._reserved_bytes += size
        if self._reserved_bytes > self._remaining_bytes:
            raise _too_many_bytes()


def _too_many_bytes() -> TransferTooLargeError:
    return TransferTooLargeError(f"makes more than {MAX_BYTES // 2**30} GB of values")


def load(data: bytes) -> Any:
    """Load plain data.

    May raise any exception for data that `Dumper` does not write, and may take any time and memory.
    """
    _check_opcodes(data)
    return _Unpickler(io.BytesIO(data)).load()


def _check_opcodes(data: bytes) -> None:
    """Raise `UnpicklingError` for opcodes that plain data does not need: some set attributes of
    objects that others use too (BUILD), or get objects from Python's own table (EXT1)."""
    # Written for speed: there may be millions of opcodes.
    steps = _STEPS
    size_bytes = _SIZE_BYTES
    position = 0
    data_size = len(data)
    while position < data_size:
        opcode = data[position]
        if step := steps[opcode]:
            position += step
        elif opcode in size_bytes:
            start = position + 1
            end = start + size_bytes[opcode]
            position = end + int.from_bytes(data[start:end], "little")
        elif opcode == _STOP:
            return
        else:
            raise pickle.UnpicklingError(f"opcode {opcode:#x} is not plain data")


class _End(NamedTuple):
    """The last part of a mutable object: when it is written, all parts are."""

    address: int
    """The object's `id`."""


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, dumper: Dumper) -> None:
        super().__init__(file, 5)
        self._dumper = dumper
        self._encoded: dict[int, tuple[Any, tuple[Any, ...]]] = {}
        """Mutable objects and what is written for them, by `id`. A second reference is written as
        the same tuple, which the receiver recognises."""
        self._unfinished: set[int] = set()
        """The ids of the objects whose parts are being written."""

    def persistent_id(self, value: Any) -> object:
        cls = type(value)
        if cls is _End:
            self._unfinished.remove(value.address)
            return _END_ID
        self._dumper.count_object(value)
        if cls in PLAIN_TYPES:
            return None
        codec = STANDARD_CODECS.get(cls) or library_codec(cls)
        if codec is None:
            raise NotTransferableError(name_of(cls))
        if id(value) in self._unfinished:
            raise NotTransferableError("a value that contains itself")
        if id(value) in self._encoded:
            return self._encoded[id(value)][1]

        if name_of(cls) == "ndarray":
            # Encoding copies it.
            self._dumper.reserve_bytes(value.nbytes)
        parts = codec.encode(value)
        if parts is None:
            raise NotTransferableError(name_of(cls))
        if not codec.is_mutable:
            return codec.name, *parts
        encoded = (codec.name, *parts, _End(id(value)))
        self._encoded[id(value)] = value, encoded
        self._unfinished.add(id(value))
        return encoded


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._decoded: dict[int, tuple[Any, Any]] = {}
        """What was read for a mutable object, and the object, by the `id` of the former."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is not plain data")

    def persistent_load(self, encoded: Any) -> object:
        if type(encoded) is str:  # an end
            return None
        if id(encoded) in self._decoded:
            return self._decoded[id(encoded)][1]
        name, *parts = encoded
        codec = _CODECS_BY_NAME[name]
        if codec.is_mutable:
            value = codec.decode(*parts[:-1])  # without the end
            self._decoded[id(encoded)] = encoded, value
            return value
        return codec.decode(*parts)
