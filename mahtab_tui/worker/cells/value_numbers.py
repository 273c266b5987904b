"""Gives the values of variables numbers, which equal values share.

Only digests of the values are kept, so a variable can be known to have an earlier value again although
that object is gone. No user code runs.
"""

from __future__ import annotations

import itertools
import marshal
import os
import time
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..stdlib import own_module
from ..values.objects import (
    ATOMS,
    OwnReference,
    address_of,
    class_module,
    is_from,
    is_one_of,
    is_own_index,
    is_own_type,
)

_TIMEOUT_S = 0.1
"""Seconds of processor time after which no further value of a cell is compared."""
_MAX_TEXT_LENGTH = 1_000_000
"""Characters of a string, or bytes of a bytes object, that is compared."""
_MAX_BYTES = 16 * 2**20
"""Bytes of an array or a table that is compared."""
_MAX_OBJECTS = 50_000
"""Objects in a container, and values of columns that NumPy does not store as numbers."""
_MAX_VALUES = 20
"""Values that are remembered of each variable, the newest."""

# The numbers of a kernel begin at a random multiple of a power of two, so that those of two kernels
# hardly ever overlap. They stay below 2**53, so that JSON can hold them.
_RANDOM_START_BYTES = 5
_COUNTER_BITS = 12

# A short atom's digest is its marshalled form, which begins with one of marshal's type codes. None of
# them is one of these prefixes, so an atom and a container cannot have the same digest. Those of
# `fingerprints` are cryptographic hashes, which equal none of these in practice.
_MAX_UNHASHED_BYTES = 24
"""Bytes of a marshalled number or text that are kept instead of their hash."""
_HASHED_ATOM_PREFIX = b"#"
_CONTAINER_PREFIX = b"="
_HASH_BYTES = 8
"""Bytes of what `hash` returns."""

_ATOM_AND_CONTAINER_TYPES = ATOMS | set(
    map(address_of, (bytearray, list, tuple, dict, set, frozenset))
)
"""Addresses of the builtin types whose objects are compared by value, or by the objects in them."""
_COMPARABLE_BUILTINS = _ATOM_AND_CONTAINER_TYPES | {address_of(range)}
"""Addresses of the builtin types whose objects can be compared; a function or a module cannot."""
_INCOMPARABLE_COLUMN_TYPES = ("ArrowDtype", "SparseDtype", "IntervalDtype")
"""Types of columns that are not compared: they contain types that may be the user's."""
_NUMBER_KINDS = "biufcmM"
"""Kinds of NumPy's types whose values are stored as numbers, including datetimes and timedeltas."""
_LIBRARIES = frozenset(
    {"builtins", "numpy", "pandas", "datetime", "decimal", "fractions", "pathlib"}
)
"""Packages with types whose values can be compared, or contain values that can."""


class ValueNumber(NamedTuple):
    """What is known about a value of a variable."""

    number: int | None
    """A number that equal values share; None if the value could not be compared."""
    is_equal: bool = False
    """Whether the value that the variable had before is equal."""


UNKNOWN_VALUE = ValueNumber(None)


class ValueNumbers:
    """Remembers digests of the values that variables have had."""

    def __init__(self) -> None:
        random_start = int.from_bytes(os.urandom(_RANDOM_START_BYTES), "little") << _COUNTER_BITS
        self._next_number = itertools.count(random_start)
        self._numbers: dict[str, dict[bytes, int]] = {}
        """The numbers of each variable's values, by their digests."""
        self._current: dict[str, int] = {}
        """The numbers of the values that variables have now."""
        self._objects: dict[str, weakref.ref[Any]] = {}
        """The objects that variables have now whose values cannot be compared."""
        self._deadline = 0.0

    def start_cell(self, *, can_compare: bool) -> None:
        """Start the time limit for the values of a cell.

        Args:
            can_compare: Whether the cell's values are to be compared at all.
        """
        self._deadline = time.thread_time() + _TIMEOUT_S if can_compare else 0.0

    def assign_number(self, name: str, value: object, *, is_unchanged: bool = False) -> ValueNumber:
        """Return the number of a variable's new value, and remember it as the variable's.

        Args:
            name: The variable.
            value: Its new value.
            is_unchanged: Whether the object that the variable had before, if it still exists, has
                not been changed in place since.
        """
        digest = b""
        if time.thread_time() < self._deadline:
            digest = _digest(value)
        old_number = self._current.pop(name, None)
        old_object = self._objects.pop(name, None)
        if not digest:
            is_same = is_unchanged and old_object is not None and old_object() is value
            return self._number_object(name, value, old_number if is_same else None)

        numbers = self._numbers.setdefault(name, {})
        number = numbers.pop(digest, None)
        if number is None:
            number = next(self._next_number)
        numbers[digest] = number
        if len(numbers) > _MAX_VALUES:
            del numbers[next(iter(numbers))]
        self._current[name] = number
        return ValueNumber(number, number == old_number)

    def _number_object(self, name: str, value: object, old_number: int | None) -> ValueNumber:
        """Return the number of a value that cannot be compared with others.

        Args:
            name: The variable.
            value: Its value.
            old_number: Its number if the variable had the same object before; None for another one.
        """
        try:
            reference = OwnReference(value)
        except TypeError:
            return UNKNOWN_VALUE
        number = next(self._next_number) if old_number is None else old_number
        self._objects[name] = reference
        self._current[name] = number
        return ValueNumber(number, number == old_number)

    def forget_current(self, name: str) -> None:
        """Note that a variable is gone, or that its value may have changed."""
        self._current.pop(name, None)
        self._objects.pop(name, None)


def _digest(value: Any) -> bytes:
    """Return a digest of a value; values with the same digest are equal, and of the same types.

    Equal values may have different digests, such as dicts in another order, or arrays that lie
    otherwise in memory. Which objects are shared does not count: `[x, x]` and a list of two equal
    objects have the same digest, although a change of one item can be seen in the other item of the
    first list only.

    Returns:
        The digest; empty if the value is too large, or of a type that cannot be compared.
    """
    cls = type(value)
    if address_of(cls) in ATOMS:
        return _digest_atom(value)
    module = class_module(cls).partition(".")[0]
    if module not in _LIBRARIES:
        return b""
    if module == "builtins" and address_of(cls) not in _COMPARABLE_BUILTINS:
        return b""
    container_hash: int | None = own_module("undo.mutations").digest_plain_value(value)
    if container_hash is not None:
        return _CONTAINER_PREFIX + _hash_bytes(container_hash)
    fingerprints = own_module("guard.fingerprints")
    return bytes(
        fingerprints.digest_within(
            value, _MAX_BYTES, _MAX_OBJECTS, _is_comparable, _describe_layout
        )
    )


def _digest_atom(value: Any) -> bytes:
    """Return a digest of an object of one of the types in `ATOMS`; empty if it is too large."""
    if type(value) in (str, bytes) and len(value) > _MAX_TEXT_LENGTH:
        return b""
    try:
        # Later formats record whether a text is interned, which may change.
        data = marshal.dumps(value, 0)
    except ValueError:
        return b""
    if len(data) <= _MAX_UNHASHED_BYTES:
        return data
    return _HASHED_ATOM_PREFIX + _hash_bytes(hash(data))


def _hash_bytes(number: int) -> bytes:
    """Return the bytes of what `hash` has returned."""
    return number.to_bytes(_HASH_BYTES, "little", signed=True)


def _is_comparable(value: Any) -> bool:
    """Return whether an object, apart from those in it, can be compared without running code of the
    user's classes. An array or a table must not have too many values that are not stored as
    numbers. May raise anything for a library's object in an inconsistent state."""
    cls = type(value)
    if address_of(cls) in _ATOM_AND_CONTAINER_TYPES:
        return True
    if type(cls) is not type:
        return False
    if is_one_of(value, "numpy", "ndarray"):
        return _are_arrays_comparable([value])
    if is_own_index(value):
        return _is_index_comparable(value)
    if is_one_of(value, "pandas", "Series"):
        return _is_index_comparable(value.index) and _are_arrays_comparable([value._values])
    if is_one_of(value, "pandas", "DataFrame"):
        blocks = [block.values for block in value._mgr.blocks]
        return all(map(_is_index_comparable, value.axes)) and _are_arrays_comparable(blocks)
    return True


def _describe_layout(value: Any) -> bytes:
    """Return what code can see of an array or a table, apart from its values and labels: whether it can be
    written, how it lies in memory, and whether its labels may repeat."""
    if is_one_of(value, "numpy", "ndarray"):
        return b"%d %a" % (value.flags.num, value.strides)
    if is_one_of(value, "pandas", "Series", "DataFrame"):
        return b"%d" % value.flags.allows_duplicate_labels
    return b""


def _is_index_comparable(index: Any) -> bool:
    """Return whether an index of a table can be compared; see `_is_comparable`."""
    if not is_own_index(index):
        return False
    if is_one_of(index, "pandas", "MultiIndex"):
        return all(map(_is_index_comparable, index.levels))
    frequency = getattr(index, "freq", None)
    has_own_frequency = frequency is None or is_from(frequency, "pandas")
    return has_own_frequency and _are_arrays_comparable([index._values])


def _are_arrays_comparable(arrays: Sequence[Any]) -> bool:
    """Return whether the arrays of a table can be compared; see `_is_comparable`."""
    has_foreign_zone = own_module("inspection.library_columns").has_foreign_zone
    object_count = 0
    for array in arrays:
        if not is_from(array, "numpy", "pandas") or not is_own_type(array.dtype):
            return False
        if is_one_of(array.dtype, "pandas", *_INCOMPARABLE_COLUMN_TYPES):
            return False
        if has_foreign_zone(array.dtype):
            return False
        if getattr(array.dtype, "kind", "O") not in _NUMBER_KINDS:
            object_count += array.size
    if sum(array.nbytes for array in arrays) > _MAX_BYTES:
        return False
    return object_count <= _MAX_OBJECTS
