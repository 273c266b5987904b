"""Snapshots of the lists, dicts and sets of libraries' modules, classes and objects, to which code adds by
their functions: registered formats, types, namespaces.

`libraries` takes them together with the attributes. All is read and written as the classes of Python do,
whatever a derived class defines.
"""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ..values.objects import (
    ATOMS,
    MISSING,
    Classes,
    OwnReference,
    address_of,
    get_if_loaded,
    is_class,
    is_subclass,
)

MAX_CONTAINERS = 3_000
"""Containers of one holder that are compared."""
MAX_ITEMS = 5_000
"""Containers with more are not compared."""
_MAX_DEPTH = 3
"""Levels of containers in each other that are looked at."""

_SEQUENCES = Classes(tuple, frozenset, list)
"""Containers that are values themselves, if they have only such values."""
_CONTAINER_ATTRIBUTES = frozenset(("__annotations__", "__defaults__", "__kwdefaults__"))
"""Attributes of Python's own that are looked at."""

Entry = tuple[Any, ...]
"""A key and its value, or an item of a list or a set."""

_FLAGS: Callable[[type], int] = type.__dict__["__flags__"].__get__
"""Returns the flags of a class, bypassing its metaclass."""
_DICT_SUBCLASS = 1 << 29
"""The flag of dict and classes derived from it."""

_PLAIN_TYPES = ATOMS.union(
    map(address_of, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)),
    map(address_of, (types.MethodDescriptorType, types.WrapperDescriptorType)),
)
"""Addresses of types whose objects end without an effect."""


class ContentChange(NamedTuple):
    """How a container differs, and how to restore it."""

    label: str
    """Names the container."""
    apply: Callable[[], object] | None
    """Restores the earlier content; None if a part of it has ended."""
    revert: Callable[[], object]


class ContainerSnapshot:
    """The content of a list, dict or set. Keeps no object alive that may have to end."""

    def __init__(self, label: str, container: object) -> None:
        """Note what is in a container.

        Args:
            label: Names the container.
            container: A list, a dict or a set.
        """
        self.label = label
        self._container = container
        self._entries = [tuple(map(_Item, entry)) for entry in _read_entries(container)]

    def find_change(self) -> ContentChange | None:
        """Return how the content differs now; None if it is the same."""
        present_entries = _read_entries(self._container)
        if self._is_same(present_entries):
            return None
        present_values = {address_of(value): value for entry in present_entries for value in entry}
        earlier_entries = [
            tuple(item.find_value(present_values) for item in entry) for entry in self._entries
        ]
        has_ended = any(value is MISSING for entry in earlier_entries for value in entry)
        write = partial(_write_entries, self._container)
        apply = None if has_ended else partial(write, earlier_entries)
        return ContentChange(self.label, apply, revert=partial(write, present_entries))

    def _is_same(self, present_entries: list[Entry]) -> bool:
        """Return whether the same entries are there, in the same order."""
        if len(present_entries) != len(self._entries):
            return False
        return all(
            item.is_same(value)
            for entry, present_entry in zip(self._entries, present_entries)
            for item, value in zip(entry, present_entry)
        )


class _Item:
    """A key or a value, which is only kept alive if nothing happens when it ends."""

    def __init__(self, value: object) -> None:
        """Note a key or a value."""
        self._address = address_of(value)
        self._plain = MISSING
        """The value, if it is kept alive."""
        self._reference: weakref.ref[object] | None = None
        """Leads to the value, if it is not kept alive, and can have weak references."""
        if _is_plain(value):
            self._plain = value
        else:
            with suppress(TypeError):  # it has no weak references
                self._reference = OwnReference(value)

    def is_same(self, value: object) -> bool:
        """Return whether a key or value is still this one; plain values are compared by value."""
        if self._plain is not MISSING:
            if self._plain is value:
                return True
            is_atom = address_of(type(value)) in ATOMS and type(value) is type(self._plain)
            return is_atom and bool(self._plain == value)
        if self._reference is not None:
            return self._reference() is value
        return address_of(value) == self._address

    def find_value(self, present_values: Mapping[int, object]) -> object:
        """Return the key or value; `MISSING` if it has ended.

        Args:
            present_values: Those that are there now, by address.
        """
        if self._plain is not MISSING:
            return self._plain
        if self._reference is None:
            return present_values.get(self._address, MISSING)
        value = self._reference()
        return MISSING if value is None else value


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether nothing happens when a value ends.

    Args:
        value: The value.
        depth: How many containers it is in.
    """
    if type(value) in _SEQUENCES and depth < _MAX_DEPTH:
        return len(value) <= MAX_ITEMS and all(_is_plain(item, depth + 1) for item in value)
    if address_of(type(value)) in _PLAIN_TYPES or is_class(value):
        return True
    return is_subclass(type(value), get_if_loaded("enum", "Enum"))


def _read_entries(container: Any) -> list[Entry]:
    """Return what is in a container; of a set, in a fixed order."""
    if is_subclass(type(container), dict):
        return list(dict.items(container))
    if type(container) is list:
        return [(item,) for item in list.__iter__(container)]
    items = sorted(set.__iter__(container), key=address_of)
    return [(item,) for item in items]


def _write_entries(container: Any, entries: list[Entry]) -> None:
    """Replace what is in a container."""
    if is_subclass(type(container), dict):
        dict.clear(container)
        dict.update(container, entries)
    elif type(container) is list:
        container[:] = [item for (item,) in entries]
    else:
        container.clear()
        container.update(item for (item,) in entries)


def _is_container(value: Any) -> bool:
    """Return whether a value is a list, a dict or a set that is compared."""
    cls = type(value)
    if cls is dict or cls is list or cls is set:
        return len(value) <= MAX_ITEMS
    if not is_subclass(cls, dict):
        return False
    # These have a state of their own, or are compared as variables.
    others = (OrderedDict, get_if_loaded("matplotlib", "RcParams"))
    is_other = any(is_subclass(cls, other) for other in others)
    return not is_other and dict.__len__(value) <= MAX_ITEMS


def may_contain(value: object) -> bool:
    """Return quickly whether a value may be a container, or a tuple of containers."""
    cls = type(value)
    return cls is list or cls is set or cls is tuple or bool(_FLAGS(cls) & _DICT_SUBCLASS)


def take_content_snapshots(
    label: str, attributes: Mapping[str, object]
) -> tuple[ContainerSnapshot, ...]:
    """Note the content of the containers among attributes.

    Args:
        label: Names the holder of the attributes.
        attributes: The attributes by name.
    """
    snapshots: dict[int, ContainerSnapshot] = {}
    for name, value in attributes.items():
        if type(name) is not str or "cache" in name:
            continue
        if name.startswith("__") and name not in _CONTAINER_ATTRIBUTES:
            continue
        for container in _find_containers(value):
            if len(snapshots) >= MAX_CONTAINERS:
                return tuple(snapshots.values())
            address = address_of(container)
            # If several attributes lead to a container, the first one names it.
            if address not in snapshots:
                snapshots[address] = ContainerSnapshot(f"{label}.{name}", container)
    return tuple(snapshots.values())


def _find_containers(value: Any, depth: int = 0) -> Iterator[object]:
    """Yield a container and those in it.

    Args:
        value: The container, or a tuple of some.
        depth: How many containers it is in.
    """
    is_container = _is_container(value)
    if is_container:
        yield value
    if depth >= _MAX_DEPTH or not (is_container or type(value) is tuple):
        return
    items = dict.values(value) if is_subclass(type(value), dict) else value
    for item in list(items):
        yield from _find_containers(item, depth + 1)
