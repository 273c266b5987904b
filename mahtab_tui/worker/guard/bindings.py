"""Finds the names on which a call depends: those that a function reads, those that the functions of
these names read, and so on. No user code runs."""

from __future__ import annotations

import builtins
import functools
import gc
import itertools
import opcode
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, Callable, TypedDict

from ..values.objects import (
    ATOMS,
    Classes,
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
_FLAGS: Callable[[type], int] = type.__dict__["__flags__"].__get__
_QUALIFIED_NAME: Callable[[type], str] = type.__dict__["__qualname__"].__get__
_HEAP_TYPE = 1 << 9
"""The flag of classes that code has made. Others are Python's own, and no code can change them."""
_WRAPPERS = Classes(
    *(CellType, property, staticmethod, classmethod, MethodType),
    *(functools.partial, functools.partialmethod, type(functools.lru_cache(len))),
)
"""Classes of objects that lead to the function that they wrap."""


class NamesReadReport(TypedDict):
    """The names on which a call depends."""

    names: list[str]
    is_complete: bool
    """Whether all objects were looked at, so that there are no other names."""
    last_cell_with_leftovers: int
    """The last cell without approval that has left code running; 0 if there is none."""


def names_read(
    namespace: dict[str, Any], name: str, last_cell_with_leftovers: int = 0
) -> NamesReadReport:
    """Return a name and those of the namespace that a call of it, or of its attributes, may read or
    reach. Names that code looks up by a string (`eval`, `globals`) are left out. Of modules, also
    of those in other modules that the user's functions name (`package.module`), only their own
    functions and classes are looked at, for what the user's code has put there.

    Args:
        last_cell_with_leftovers: For the report.
    """
    variables = {key: value for key, value in list(namespace.items()) if type(key) is str}
    # Not by tuples: Python shares empty ones, so that one may belong to anything.
    names_by_id = {
        id(value): key for key, value in variables.items() if type(value) not in (tuple, frozenset)
    }
    names: dict[str, None] = {}
    pending_names = [name]
    # Whoever reaches these would reach every name.
    walk = _NameWalk(namespace, map(id, (namespace, vars(builtins), sys.modules)))
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
    return {
        "names": list(names),
        "is_complete": walk.is_complete,
        "last_cell_with_leftovers": last_cell_with_leftovers,
    }


class _NameWalk:
    """Walks through objects, as far as its limits allow."""

    def __init__(self, namespace: dict[str, Any], skipped_ids: Iterable[int]) -> None:
        """
        Args:
            namespace: Functions that have it as globals are the user's.
            skipped_ids: Ids of objects to leave out.
        """
        self._namespace = namespace
        self._code_names: set[str] = set()
        """The names in the user's functions, also those of attributes and imported modules."""
        self._inner_modules: dict[str, list[Any]] = {}
        """The modules in modules, by the names that they have there."""
        self._visited = set(skipped_ids)
        self._library_ids: set[int] = set()
        """Ids of objects in which nothing of the user's was found."""
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
        """Return the objects in an object that it may call.

        Those of libraries are left out where nothing of the user's can be in them.
        """
        if is_module(value):
            members = own_dict(value)
            if id(members) in self._visited:
                return []
            parts = [
                member
                for member in list(members.values())
                if is_class(member) or self._has_users_part(member)
            ]
            return parts + self._note_inner_modules(members)
        if type(value) is FunctionType:
            # Without its globals.
            parts = [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
            if value.__globals__ is self._namespace:
                parts += self._note_names(value.__code__)
            return parts
        if is_class(value):
            return self._class_parts(value)
        for container in _CONTAINERS:
            if is_subclass(type(value), container):
                items = self._items(container, value)
                if type(value) is container:
                    return items
                return [type(value), own_dict(value), *items]
        if is_subclass(type(value), get_if_loaded("numpy", "ndarray")):
            return [type(value), own_dict(value), *self._array_items(value)]
        return [type(value), *gc.get_referents(value)]

    def _note_names(self, code: CodeType) -> list[Any]:
        """Note the names in code of the user's.

        Return the modules that it may reach by these names: imported ones, and those in modules
        that were looked at (`package.module`).
        """
        new_names = frozenset(_all_names(code)) - self._code_names
        self._code_names.update(new_names)
        modules = [sys.modules.get(name) for name in new_names]
        for name in new_names:
            modules += self._inner_modules.get(name, ())
        return modules

    def _note_inner_modules(self, members: dict[str, Any]) -> list[Any]:
        """Note the modules in a module.

        Return those that the user's code names.

        Args:
            members: What is in the module, by name.
        """
        named_modules = []
        for name, member in list(members.items()):
            if type(name) is str and is_module(member):
                self._inner_modules.setdefault(name, []).append(member)
                if name in self._code_names:
                    named_modules.append(member)
        return named_modules

    def _class_parts(self, cls: type) -> list[Any]:
        """Return the objects in a class.

        Of a library's class, they are those that the user's code has put there.
        """
        if not _FLAGS(cls) & _HEAP_TYPE:
            return []
        members = list(class_dict(cls).values())
        if _is_in_library(cls):
            members = [member for member in members if self._has_users_part(member)]
        return [type(cls), *mro_of(cls)[1:], *members]

    def _has_users_part(self, member: object) -> bool:
        """Return whether a member of a library's class or module is the user's, or wraps something
        of the user's."""
        pending = [member]
        while pending:
            value: Any = pending.pop()
            kind = type(value)
            if address_of(kind) in ATOMS or id(value) in self._library_ids:
                continue
            self._library_ids.add(id(value))
            self._remaining_items -= 1
            if self._remaining_items < 0:
                self.is_complete = False
                return False
            if kind is FunctionType:
                if value.__globals__ is self._namespace:
                    return True
                pending += value.__closure__ or ()
            elif kind in _WRAPPERS:
                pending += gc.get_referents(value)
            elif not is_class(value) and not is_module(value):
                if class_module(kind) == "__main__":
                    return True
                pending += list(own_dict(value).values())
        return False

    def _items(self, container: Any, value: Any) -> list[Any]:
        """Return the items of a container, and the values of a dict, without plain values.

        Args:
            container: The class of Python's own from which the value's class is derived. Its
                methods are used, because those of a derived class may be the user's code.
        """
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


def _is_in_library(cls: type) -> bool:
    """Return whether a class stands under its name in its module, and this is not the user's."""
    module_name = class_module(cls)
    module = sys.modules.get(module_name)
    if module_name == "__main__" or not is_module(module):
        return False
    names: Any = own_dict(module)
    place: Any = None
    for name in _QUALIFIED_NAME(cls).split("."):
        place = names.get(name)
        names = class_dict(place) if is_class(place) else {}
    return place is cls


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


def _all_names(code: CodeType) -> Iterator[str]:
    """Yield the names of the global variables, attributes and imported modules in code and the functions
    in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _all_names(constant)
