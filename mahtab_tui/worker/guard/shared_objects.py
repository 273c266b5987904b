"""Finds the new values of a locked fork that share mutable objects with others.

The kernel gets a copy of each new value by itself. If `a` and `b` were the same list in the fork, a
change of `a` would not show in `b` any more. So the user is told the names of such values.
"""

from __future__ import annotations

import collections
import gc
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..values.objects import ATOMS, address_of, get_if_loaded, is_class, name_of
from .library_codecs import library_codec

_CONTAINERS = (list, tuple, set, frozenset)
_MAPPINGS = (dict, collections.Counter, collections.defaultdict)
_MUTABLE_TYPES = (list, set, bytearray, *_MAPPINGS)
_MUTABLE_LIBRARY_CLASSES = ("ndarray", "DataFrame", "Series")
"""Library classes of objects that change. Indexes do not: tables share them because nobody changes
them."""

MAX_EARLIER_OBJECTS = 300_000
"""At most this many objects of earlier values are looked at for objects that the garbage collector
does not know."""


def note_earlier_objects() -> None:
    """Mark all objects that exist as earlier ones. Call in the fork, before its code runs."""
    # `gc.get_objects` leaves out objects that were frozen: afterwards it lists only new ones.
    gc.freeze()


def find_shared(
    new_values: Mapping[str, Any], names_by_address: Mapping[int, str], earlier: Iterable[Any]
) -> list[str]:
    """Return the names of values that contain a mutable object of another value.

    Args:
        new_values: The values that become copies, by name. Of two that share an object, the second
            is named.
        names_by_address: The names of earlier values.
        earlier: Earlier values, which may contain others.
    """
    holder_names: dict[int, list[str]] = {}
    """The names of the new values that contain an object, by its address."""
    tracked_addresses: set[int] = set()
    for name, value in new_values.items():
        for mutable in _mutable_objects(value):
            holder_names.setdefault(address_of(mutable), []).append(name)
            if gc.is_tracked(mutable):
                tracked_addresses.add(address_of(mutable))

    untracked_addresses = holder_names.keys() - tracked_addresses
    earlier_addresses = _earlier_tracked(tracked_addresses)
    earlier_addresses |= _earlier_untracked(untracked_addresses, earlier)
    earlier_addresses |= holder_names.keys() & names_by_address.keys()
    shared_names: set[str] = set()
    for address, names in holder_names.items():
        shared_names.update(names if address in earlier_addresses else names[1:])
    return [name for name in new_values if name in shared_names]


def _earlier_tracked(addresses: set[int]) -> set[int]:
    """Return the addresses of earlier objects, of objects that the garbage collector tracks."""
    if not addresses:
        return set()
    # It does not list the objects that `note_earlier_objects` has frozen.
    return addresses.difference(map(address_of, gc.get_objects()))


def _earlier_untracked(addresses: set[int], earlier: Iterable[Any]) -> set[int]:
    """Return the addresses of earlier objects, of objects that the garbage collector does not track,
    such as arrays of numbers: those to which earlier values lead."""
    if not addresses:
        return set()
    return addresses.intersection(_walk(earlier))


def _mutable_objects(value: Any) -> Iterator[Any]:
    """Yield the mutable objects in a value, each once. Of an array that is a view, the one whose memory
    it shows is also in it."""
    visited: set[int] = set()
    pending = [value]
    while pending:
        item = pending.pop()
        cls = type(item)
        if address_of(cls) in ATOMS or address_of(item) in visited:
            continue
        visited.add(address_of(item))
        if cls in _MUTABLE_TYPES or _is_mutable_of_library(cls):
            yield item
        if cls in _CONTAINERS:
            pending += item
        elif cls in _MAPPINGS:
            pending += item
            pending += item.values()
        elif cls is get_if_loaded("numpy", "ndarray"):
            if item.base is not None and type(item.base) is cls:
                pending.append(item.base)
            if item.dtype.kind == "O":
                pending += item.ravel().tolist()


def _is_mutable_of_library(cls: type) -> bool:
    # A class of the user's may have the same name; only the library's own has a codec.
    return name_of(cls) in _MUTABLE_LIBRARY_CLASSES and library_codec(cls) is not None


def _walk(values: Iterable[Any]) -> Iterator[int]:
    """Yield the addresses of values and of the objects in them, nearest first."""
    visited: set[int] = set()
    pending = deque(values)
    while pending and len(visited) < MAX_EARLIER_OBJECTS:
        value = pending.popleft()
        if address_of(type(value)) in ATOMS or address_of(value) in visited:
            continue
        visited.add(address_of(value))
        yield address_of(value)
        if type(value) is get_if_loaded("numpy", "ndarray"):
            pending += [value.base]
            if value.dtype.kind == "O":
                pending += value.ravel().tolist()
        elif not is_class(value) and name_of(type(value)) not in ("module", "function"):
            pending.extend(gc.get_referents(value))
