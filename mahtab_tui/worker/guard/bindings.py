"""Finds the names on which a call depends: those that a function reads, those that the functions of
these names read, and so on. No user code runs."""

from __future__ import annotations

import builtins
import gc
import itertools
import opcode
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any, TypedDict

from ..values.objects import (
    ATOMS,
    address_of,
    class_dict,
    class_module,
    get_if_loaded,
    is_class,
    is_module,
    is_subclass,
    mro_of,
    own_dict,
)

MAX_OBJECTS = 20_000
"""Objects that may lead to others; names that only later ones lead to are not found."""
MAX_ITEMS = 2_000_000
"""Items of all containers together, also plain values."""
_FIRST_VERSION_WITH_FLAG = (3, 11)
"""Since then, the lowest bit in the argument of LOAD_GLOBAL is a flag."""
_LOAD_GLOBAL = opcode.opmap["LOAD_GLOBAL"]
_LOADS = frozenset(
    opcode.opmap[name]
    for name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
    if name in opcode.opmap
)
"""Instructions that read a global variable."""
_MAX_ARGUMENT = 0xFFFF_FFFF
"""An instruction's argument has 32 bits at the most."""
_CONTAINERS = (list, tuple, set, frozenset, dict)


class NamesReadReport(TypedDict):
    """The names on which a call depends."""

    names: list[str]
    is_complete: bool
    """Whether all objects were looked at, so that there are no other names."""


def names_read(namespace: dict[str, Any], name: str) -> NamesReadReport:
    """Return a name and those of the namespace that a call of it, or of its attributes, may read or
    reach. Names that code looks up by a string (`eval`, `globals`) and those of modules are left
    out."""
    variables = {key: value for key, value in list(namespace.items()) if type(key) is str}
    # Not by tuples: Python shares empty ones, so that one may belong to anything.
    names_by_id = {
        id(value): key for key, value in variables.items() if type(value) not in (tuple, frozenset)
    }
    names: dict[str, None] = {}
    pending_names = [name]
    # Whoever reaches these would reach every name.
    walk = _NameWalk(map(id, (namespace, vars(builtins), sys.modules)))
    while pending_names:
        current_name = pending_names.pop()
        if current_name in names:
            continue
        names[current_name] = None
        for value in walk.reachable(variables.get(current_name)):
            if id(value) in names_by_id:
                pending_names.append(names_by_id[id(value)])
            if type(value) is FunctionType and value.__globals__ is namespace:
                pending_names += _global_names(value.__code__)
    return {"names": list(names), "is_complete": walk.is_complete}


class _NameWalk:
    """Walks through objects, as far as its limits allow."""

    def __init__(self, skipped_ids: Iterable[int]) -> None:
        """skipped_ids: ids of objects to leave out."""
        self._visited = set(skipped_ids)
        self._remaining_objects = MAX_OBJECTS
        self._remaining_items = MAX_ITEMS
        self.is_complete = True
        """Whether nothing was left out because of the limits."""

    def reachable(self, root: object) -> Iterator[Any]:
        """Yield an object and those in it, nearest first, without plain values and those that were
        yielded before."""
        pending = deque([root])
        while pending:
            value = pending.popleft()
            if address_of(type(value)) in ATOMS or id(value) in self._visited:
                continue
            if self._remaining_objects <= 0:
                self.is_complete = False
                return
            parts = self._parts(value)
            # Containers of plain values lead nowhere, so that there may be many.
            if parts or type(value) not in _CONTAINERS:
                self._visited.add(id(value))
                self._remaining_objects -= 1
            yield value
            pending.extend(parts)

    def _parts(self, value: Any) -> list[Any]:
        """Return the objects in an object that it may call. Those of libraries are left out where
        nothing of the user's can be in them."""
        if is_module(value):
            return []
        if type(value) is FunctionType:
            # Without its globals.
            return [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
        if is_class(value):
            if class_module(value) != "__main__":
                return []
            return [type(value), *mro_of(value)[1:], *class_dict(value).values()]
        for container in _CONTAINERS:
            if is_subclass(type(value), container):
                items = self._items(container, value)
                if type(value) is container:
                    return items
                return [type(value), own_dict(value), *items]
        if is_subclass(type(value), get_if_loaded("numpy", "ndarray")):
            return [type(value), own_dict(value), *self._array_items(value)]
        return [type(value), *gc.get_referents(value)]

    def _items(self, container: Any, value: Any) -> list[Any]:
        """Return the items of a container, and the values of a dict, without plain values.

        container: the class of Python's own from which the value's class is derived. Its methods are
        used, because those of a derived class may be the user's code."""
        try:
            items = self._without_atoms(container.__len__(value), container.__iter__(value))
            if container is dict:
                items += self._without_atoms(dict.__len__(value), dict.values(value))
        except RuntimeError:  # another thread changes it
            self.is_complete = False
            return []
        return items

    def _array_items(self, value: Any) -> list[Any]:
        """Return the objects in an array. The methods of `ndarray` are used, as in `_items`."""
        array_class: Any = get_if_loaded("numpy", "ndarray")
        dtype = array_class.dtype.__get__(value)
        if not dtype.hasobject:
            return []
        if dtype.names is not None or dtype.subdtype is not None:
            self.is_complete = False
            return []
        return self._without_atoms(array_class.size.__get__(value), array_class.flat.__get__(value))

    def _without_atoms(self, count: int, items: Iterable[Any]) -> list[Any]:
        """Return those of some items that are not plain values; none if there are too many to look
        at."""
        self._remaining_items -= count
        if self._remaining_items < 0:
            self.is_complete = False
            return []
        return [item for item in items if address_of(type(item)) not in ATOMS]


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the names of the global variables that code and the functions in it read."""
    instructions = code.co_code
    argument = 0
    for operation, low_byte in zip(instructions[::2], instructions[1::2]):
        # EXTENDED_ARG carries the higher bytes of the next instruction's argument.
        argument = (argument << 8 | low_byte) & _MAX_ARGUMENT
        if operation == opcode.EXTENDED_ARG:
            continue
        if operation in _LOADS:
            has_flag = operation == _LOAD_GLOBAL and sys.version_info >= _FIRST_VERSION_WITH_FLAG
            index = argument >> 1 if has_flag else argument
            # A slice, because hand-made code may have an index without a name.
            yield from itertools.islice(code.co_names, index, index + 1)
        argument = 0

    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _global_names(constant)
