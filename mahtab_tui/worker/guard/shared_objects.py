"""Finds the new values of a locked fork that share mutable objects with others.

The kernel gets copies of a fork's new values, each by itself, so afterwards a change of one would not
show in the other any more. The user is told their names.
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
_MUTABLE = (list, set, bytearray, *_MAPPINGS)
_MUTABLE_LIBRARY_CLASSES = ("ndarray", "DataFrame", "Series")
"""Library classes of objects that change. Indexes do not: tables share them because nobody changes
them."""

MAX_EARLIER_OBJECTS = 300_000
"""At most this many objects of earlier values are looked at for objects that the garbage collector
does not know."""


def note_earlier_objects() -> None:
    """Let objects that are made from now on be told from earlier ones."""
    # `gc.get_objects` leaves out objects that were frozen.
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
    first_names: dict[int, str] = {}
    shared_names: set[str] = set()
    names_of_objects: dict[int, set[str]] = {}
    tracked_addresses: set[int] = set()
    for name, value in new_values.items():
        for mutable in _mutable_objects(value):
            address = address_of(mutable)
            if address in names_by_address or first_names.setdefault(address, name) != name:
                shared_names.add(name)
            names_of_objects.setdefault(address, set()).add(name)
            if gc.is_tracked(mutable):
                tracked_addresses.add(address)

    for address in _earlier_addresses(names_of_objects.keys(), tracked_addresses, earlier):
        shared_names |= names_of_objects[address]
    return [name for name in new_values if name in shared_names]


def _earlier_addresses(
    addresses: Iterable[int], tracked_addresses: set[int], earlier: Iterable[Any]
) -> set[int]:
    """Return the addresses of the objects that are not new.

    Args:
        addresses: The addresses of all objects.
        tracked_addresses: The addresses of the objects that the garbage collector knows.
        earlier: Earlier values, which may contain others.
    """
    old_addresses = set(tracked_addresses)
    if tracked_addresses:
        # The objects that `note_earlier_objects` has frozen are not among these: they are old.
        old_addresses.difference_update(map(address_of, gc.get_objects()))
    untracked_addresses = set(addresses) - tracked_addresses
    if untracked_addresses:
        old_addresses |= untracked_addresses.intersection(_walk(earlier))
    return old_addresses


def _mutable_objects(value: Any) -> Iterator[Any]:
    """Yield the mutable objects in a value, each once, and the arrays whose memory others show."""
    visited: set[int] = set()
    pending = [value]
    while pending:
        item = pending.pop()
        cls = type(item)
        if address_of(cls) in ATOMS or address_of(item) in visited:
            continue
        visited.add(address_of(item))
        if cls in _MUTABLE or _is_mutable_of_library(cls):
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
