"""Fingerprints of values, by which kernels that share no memory can tell whether theirs are equal."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Iterable, Mapping

from ..values.objects import name_of
from .library_codecs import library_codec
from .plain_codecs import STANDARD_CODECS, NotTransferableError
from .plain_pickle import PLAIN_TYPES, Dumper, TransferTooLargeError

_DIGEST_BYTES = 20


def take_fingerprints(
    namespace: Mapping[str, object], names: Iterable[str]
) -> dict[str, tuple[str, str]]:
    """Return a digest of each variable that exists, or else why it has none, as a clause."""
    return {name: _take(namespace[name]) for name in names if name in namespace}


def _take(value: object) -> tuple[str, str]:
    try:
        digest = hashlib.blake2b(_dump(value, Dumper()), digest_size=_DIGEST_BYTES)
    except NotTransferableError as error:
        return "", f"it contains {error}" if str(error) != name_of(
            type(value)
        ) else f"it is {error}"
    except TransferTooLargeError as error:
        return "", f"it {error}"
    except (RecursionError, ValueError):
        return "", "it contains itself, or is too deep"
    except MemoryError:
        return "", "it is too large"
    except Exception as error:  # raised by a class of the user's
        return "", f"reading it failed ({type(error).__name__})"
    return digest.hexdigest(), ""


def _dump(value: object, dumper: Dumper) -> bytes:
    """Return bytes that are the same for equal values of the same types. Raises what `Dumper.dump`
    raises, and `ValueError` for a value that contains itself."""
    pickled = io.BytesIO()
    _Pickler(pickled, dumper).dump(value)
    return pickled.getvalue()


class _Pickler(pickle.Pickler):
    """Writes values by what they are, not by which objects they share."""

    def __init__(self, file: io.BytesIO, dumper: Dumper) -> None:
        super().__init__(file, 5)
        self.fast = True  # no references to objects that were written before
        self._dumper = dumper

    def persistent_id(self, value: object) -> object:
        cls = type(value)
        self._dumper.count_object(value)
        if cls in (set, frozenset):
            # The order of a set is another one in each process.
            items = sorted(_dump(item, self._dumper) for item in value)  # type: ignore[attr-defined]
            return cls.__name__, items
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
        return codec.name, *parts
