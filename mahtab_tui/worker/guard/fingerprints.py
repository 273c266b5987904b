"""Fingerprints of values, by which kernels that share no memory can tell whether theirs are
equal."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ..values.objects import name_of
from .library_codecs import library_codec
from .plain_codecs import STANDARD_CODECS, NotTransferableError
from .plain_pickle import MAX_BYTES, PLAIN_TYPES, Dumper, TransferTooLargeError

_DIGEST_BYTES = 20
_NUMBERS = frozenset((int, float, bool, type(None)))
_TEXTS = frozenset((str, bytes))
_MAX_SMALL_CHARS = 1000
"""Longer texts are not copied to be hashed."""


def take_fingerprints(
    namespace: Mapping[str, object], names: Iterable[str]
) -> dict[str, tuple[str, str]]:
    """Return a digest of each variable that exists, or else why it has none, as a clause."""
    return {name: _take(namespace[name]) for name in names if name in namespace}


def digest_within(
    value: object,
    max_bytes: int,
    max_objects: int,
    can_read: Callable[[object], bool],
    describe_layout: Callable[[object], bytes],
) -> bytes:
    """Return a digest of a value; equal values have the same one.

    Args:
        value: Any object.
        max_bytes: Bytes of all that is in it.
        max_objects: Objects in it.
        can_read: Tells whether an object may be read, apart from those in it.
        describe_layout: Returns what else must be the same of an array or a table in it.

    Returns:
        The digest; nothing if the value is too large, or has an object that cannot be compared.
    """
    hasher = _Hasher(can_read, describe_layout)
    hasher.limit(max_bytes, max_objects)
    try:
        return hasher.digest(value)
    except Exception:  # also what is raised by a library's object in an inconsistent state
        return b""


def _take(value: object) -> tuple[str, str]:
    try:
        return _Hasher().digest(value).hex(), ""
    except NotTransferableError as error:
        incomparable_type = str(error)
        if incomparable_type == name_of(type(value)):
            return "", f"values of the type {incomparable_type} cannot be compared"
        return "", f"it contains {incomparable_type}, which cannot be compared"
    except TransferTooLargeError as error:
        return "", f"it {error}"
    except (RecursionError, ValueError):
        return "", "it contains itself, or is too deep"
    except MemoryError:
        return "", "it is too large"
    except Exception as error:  # raised by a class of the user's
        return "", f"reading it failed ({type(error).__name__})"


class _Hasher:
    """Digests one value. Nothing of it is kept, because a list may hold a large text many times."""

    def __init__(
        self,
        can_read: Callable[[object], bool] = lambda value: True,
        describe_layout: Callable[[object], bytes] = lambda value: b"",
    ) -> None:
        """The parameters are those of `digest_within`."""
        self.can_read = can_read
        self.describe_layout = describe_layout
        self.dumper = Dumper()
        self._remaining_bytes = MAX_BYTES

    def limit(self, max_bytes: int, max_objects: int) -> None:
        """Allow the value no more bytes and objects than this."""
        self._remaining_bytes = max_bytes
        self.dumper.limit(max_bytes, max_objects)

    def digest(self, value: object) -> bytes:
        """Return what is the same for equal values of the same types, with dicts in the same order.

        Raises what `Dumper.dump` raises, and `ValueError` for a value that contains itself.
        """
        if _is_small(value):  # as items of large sets, for which a pickler takes too long
            return self._digest_small(value)
        output = _HashedOutput(self)
        _FingerprintPickler(output, self).dump(value)
        return output.hash.digest()

    def _digest_small(self, value: object) -> bytes:
        self.dumper.count_object(value)
        data = pickle.dumps(value, 5)
        self.count_bytes(len(data))
        return _hash(data).digest()

    def count_bytes(self, count: int) -> None:
        """Count the bytes of a part of the value.

        Raises `TransferTooLargeError` if all parts together have too many.
        """
        self._remaining_bytes -= count
        if self._remaining_bytes < 0:
            raise TransferTooLargeError(f"has more than {MAX_BYTES // 2**30} GB")


class _HashedOutput:
    """A file that keeps only the hash of what is written."""

    def __init__(self, hasher: _Hasher) -> None:
        self._hasher = hasher
        self.hash = _hash()

    def write(self, data: bytes) -> int:
        self._hasher.count_bytes(len(data))
        self.hash.update(data)
        return len(data)


def _is_small(value: Any) -> bool:
    cls = type(value)
    return cls in _NUMBERS or (cls in _TEXTS and len(value) <= _MAX_SMALL_CHARS)


def _hash(data: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES)


class _FingerprintPickler(pickle.Pickler):
    """Writes values by what they are, not by which objects they share."""

    def __init__(self, output: _HashedOutput, hasher: _Hasher) -> None:
        super().__init__(output, 5)
        self.fast = True  # no references to objects that were written before
        self._hasher = hasher
        self._dumper = hasher.dumper

    def persistent_id(self, value: object) -> object:
        cls = type(value)
        # First, because a class may run code where it is compared.
        if not self._hasher.can_read(value):
            raise NotTransferableError(name_of(cls))
        self._dumper.count_object(value)
        if cls in (set, frozenset):
            # The order of a set is another one in each process.
            items = sorted(self._hasher.digest(item) for item in value)  # type: ignore[attr-defined]
            return cls.__name__, b"".join(items)
        if cls in PLAIN_TYPES:
            return None
        codec = STANDARD_CODECS.get(cls) or library_codec(cls)
        if codec is None:
            raise NotTransferableError(name_of(cls))
        if name_of(cls) == "ndarray":
            self._dumper.reserve_bytes(value.nbytes)  # type: ignore[attr-defined]
        parts = codec.encode(value)
        if parts is None:
            raise NotTransferableError(name_of(cls))
        layout = self._hasher.describe_layout(value)
        return (codec.name, *parts, layout) if layout else (codec.name, *parts)
