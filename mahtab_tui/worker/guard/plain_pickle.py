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

_PLAIN_TYPES = frozenset(
    (int, float, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, type(None))
)
_CODECS_BY_NAME = {
    codec.name: codec for codec in (*STANDARD_CODECS.values(), *all_library_codecs())
}

_END_ID = "end"
"""The persistent id of an `_End`."""

MAX_OBJECTS = 5_000_000
"""Objects in all values together."""
MAX_BYTES = 2**30
"""Bytes of all values together."""


class TransferTooLargeError(Exception):
    """The message says, as a clause, what there is too much of."""


class Dumper:
    """Dumps the values of one cell, and stops where all of them together are too large."""

    def __init__(self) -> None:
        self._remaining_objects = MAX_OBJECTS
        self._remaining_bytes = MAX_BYTES

    def dump(self, value: object) -> bytes:
        """Return a value as bytes. Raises `NotTransferableError`, `TransferTooLargeError`, or what the code of the
        user's classes raises."""
        pickled = io.BytesIO()
        try:
            _Pickler(pickled, self).dump(value)
        except RecursionError:
            raise NotTransferableError("a value that is too deep") from None
        except MemoryError:
            raise _too_many_bytes() from None
        self.count_bytes(pickled.tell())
        self._remaining_bytes -= pickled.tell()
        return pickled.getvalue()

    def count_object(self, value: object) -> None:
        """Count an object of a value before it is dumped. Raises `TransferTooLargeError`."""
        self._remaining_objects -= 1
        if self._remaining_objects < 0:
            raise TransferTooLargeError(f"makes more than {MAX_OBJECTS:,} objects")

    def count_bytes(self, size: int) -> None:
        """Raises `TransferTooLargeError` if so many bytes cannot be dumped."""
        if size > self._remaining_bytes:
            raise _too_many_bytes()


def _too_many_bytes() -> TransferTooLargeError:
    return TransferTooLargeError(f"makes more than {MAX_BYTES // 2**30} GB of values")


def load(data: bytes) -> Any:
    """Load plain data. May raise any exception for data that `Dumper` does not write, and may take
    any time and memory."""
    unpickler = _Unpickler(io.BytesIO(data))
    try:
        return unpickler.load()
    finally:
        unpickler.restore_singletons()


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
        """Of these objects, those of which not all parts are written."""

    def persistent_id(self, value: Any) -> object:
        cls = type(value)
        if cls is _End:
            self._unfinished.remove(value.address)
            return _END_ID
        self._dumper.count_object(value)
        if cls in _PLAIN_TYPES:
            return None
        codec = STANDARD_CODECS.get(cls) or library_codec(cls)
        if codec is None:
            raise NotTransferableError(name_of(cls))
        if id(value) in self._unfinished:
            raise NotTransferableError("a value that contains itself")
        if id(value) in self._encoded:
            return self._encoded[id(value)][1]

        # Encoding copies an array.
        self._dumper.count_bytes(getattr(value, "nbytes", 0))
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
        self._singletons: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        """The attributes of objects that are not made for the pickle, and a copy of them from
        before the pickle could set any; by the name of the codec."""

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
        value = codec.decode(*parts)
        if codec.is_singleton and name not in self._singletons:
            self._singletons[name] = vars(value), dict(vars(value))
        return value

    def restore_singletons(self) -> None:
        """Take back what the pickle has set on objects that are not made for it."""
        for attributes, attributes_before in self._singletons.values():
            attributes.clear()
            attributes.update(attributes_before)
