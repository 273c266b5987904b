"""Finds the names on which a call depends: those that a function reads, those that the functions of
these names read, and so on. No user code runs."""

from __future__ import annotations

import builtins
import gc
import itertools
import opcode
import sys
from collections import deque
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from ..values.objects import (
    ATOMS,
    address_of,
    class_dict,
    class_module,
    is_class,
    is_module,
    is_subclass,
    mro_of,
    own_dict,
)

MAX_OBJECTS = 20_000
"""Objects that are looked at; names that only later ones lead to are not found."""
MAX_ITEMS = 1_000
"""Items of a container that may hold functions; a longer one holds data."""
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


def names_read(namespace: dict[str, Any], name: str) -> list[str]:
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
    visited = set(map(id, (namespace, vars(builtins), sys.modules)))
    while pending_names:
        current_name = pending_names.pop()
        if current_name in names:
            continue
        names[current_name] = None
        for value in _reachable(variables.get(current_name), visited):
            if id(value) in names_by_id:
                pending_names.append(names_by_id[id(value)])
            if type(value) is FunctionType and value.__globals__ is namespace:
                pending_names += _global_names(value.__code__)
    return list(names)


def _reachable(root: Any, visited: set[int]) -> Iterator[Any]:
    """Yield an object and those in it, nearest first, without plain values. visited: ids of objects
    to leave out; those that are yielded are added."""
    pending = deque([root])
    while pending and len(visited) < MAX_OBJECTS:
        value = pending.popleft()
        if address_of(type(value)) in ATOMS or id(value) in visited:
            continue
        visited.add(id(value))
        yield value
        pending.extend(_parts(value))


def _parts(value: Any) -> list[Any]:
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
            return [type(value), own_dict(value), *_items(container, value)]
    return [type(value), *gc.get_referents(value)]


def _items(container: Any, value: Any) -> list[Any]:
    """Return the items of a container, and the values of a dict; none if there are too many.

    container: the class of Python's own from which the value's class is derived. Its methods are
    used, because those of a derived class may be the user's code."""
    if container.__len__(value) > MAX_ITEMS:
        return []
    try:
        items = list(container.__iter__(value))
        if container is dict:
            items += dict.values(value)
        return items
    except RuntimeError:  # another thread changes it
        return []


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
