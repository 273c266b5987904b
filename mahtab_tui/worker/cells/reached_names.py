"""Finds which names code mentions, also in the functions and methods that it may call."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from ..values.objects import (
    ATOMS,
    Classes,
    address_of,
    class_dict,
    class_module,
    is_class,
    is_module,
    mro_of,
    own_dict,
)

_TEXT_RUNNERS = frozenset(("exec", "eval", "compile", "run_line_magic", "run_cell_magic"))

_FUNCTION_WRAPPERS = Classes(MethodType, staticmethod, classmethod)
_MAX_PARTS = 100
"""The number of functions, and of what they refer to, that are looked at of a value."""

_METHOD_HOLDERS = (
    functools.cached_property,
    functools.partialmethod,
    functools.singledispatchmethod,
)
"""Classes of the attributes of a class that have its method as their `func`."""

_MAX_TEXT_CHARS = 10_000
"""Characters that are read of a text that may be code."""

_MAX_DOTTED_NAME_CHARS = 200
"""Longer texts are not taken for the name of something in a module."""

_WORD = re.compile(r"[^\W\d]\w*")

_NO_MODULES: Mapping[str, ModuleType] = {}

_Methods = dict[str, list[Any]]


class _UserCode(NamedTuple):
    """Where functions and classes of the user's stand."""

    scopes: dict[int, dict[str, Any]]
    """Namespaces in which functions are looked for, by their addresses."""
    modules: frozenset[str]
    """The names of the modules with these namespaces."""

    def defines(self, cls: type) -> bool:
        """Return whether a class is of one of these modules."""
        return class_module(cls) in self.modules


def names_in(
    codes: Sequence[CodeType],
    namespace: dict[str, object],
    user_modules: Mapping[str, ModuleType] = _NO_MODULES,
) -> tuple[str, ...]:
    """Return the names in code, those in functions and methods of these names, and so on.

    Args:
        codes: The code.
        namespace: The variables of the module in which it runs.
        user_modules: The user's own modules, by their names. The functions of one count if the
            namespace has this module, or something that it defines.
    """
    user_code = _find_user_code(namespace, user_modules)
    methods = _find_methods(user_code)
    reached_names: dict[str, None] = {}
    pending = [name for code in codes for name in iter_names(code)]
    runs_text = not _TEXT_RUNNERS.isdisjoint(pending)
    pending += [name for code in codes for name in _quoted_names(code, runs_text=runs_text)]
    while pending:
        name = pending.pop()
        if name in reached_names:
            continue
        reached_names[name] = None
        for scope in user_code.scopes.values():
            if name in scope:
                pending += _find_called_names(scope[name], user_code)
        for method in methods.get(name, ()):
            pending += _find_called_names(method, user_code)
    return tuple(reached_names)


def iter_names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in code, and in the functions that it defines."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from iter_names(constant)


def _find_called_names(value: object, user_code: _UserCode) -> Iterator[str]:
    """Yield the names in the user's functions that a value may call, and the modules that these refer
    to."""
    if is_module(value):
        return
    pending: list[Any] = [value]
    for part in islice(pending, _MAX_PARTS):  # the list grows meanwhile
        if is_module(part):
            yield str(own_dict(part).get("__name__"))
            continue
        if type(part) is FunctionType and address_of(part.__globals__) in user_code.scopes:
            yield from iter_names(part.__code__)
        inner_parts = filter(_may_call, _find_parts(part, user_code))
        pending += islice(inner_parts, _MAX_PARTS)


def _may_call(value: object) -> bool:
    """Return whether a value is anything but a plain one, such as a number."""
    return address_of(type(value)) not in ATOMS


def _find_parts(value: Any, user_code: _UserCode) -> Iterator[Any]:
    """Yield what a value may call: of a function, also what its decorators and its default arguments
    refer to; of a class or another object, what Python calls by itself."""
    attributes = own_dict(value)
    yield attributes.get("__wrapped__")
    if type(value) is FunctionType:
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        yield from _read_closure(value)
    elif type(value) in _FUNCTION_WRAPPERS:
        yield value.__func__
    elif type(value) is property:
        yield from (value.fget, value.fset, value.fdel)
    elif type(value) is functools.partial:
        yield value.func
        yield from value.args
        yield from value.keywords.values()
    elif type(value) in _METHOD_HOLDERS:
        yield attributes.get("func")
    elif is_class(value):
        yield from _special_methods(value, user_code)
    if user_code.defines(type(value)):
        yield from _special_methods(type(value), user_code)


def _special_methods(cls: type, user_code: _UserCode) -> Iterator[Any]:
    """Yield the methods that Python calls by itself, also those of the user's base classes."""
    for name, member in _iter_members(cls, user_code):
        if name.startswith("__"):
            yield member


def _iter_members(cls: type, user_code: _UserCode) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of what a class and the user's base classes define."""
    for base in mro_of(cls):
        if base is cls or user_code.defines(base):
            for name, member in list(class_dict(base).items()):
                if type(name) is str:
                    yield name, member


def _quoted_names(code: CodeType, *, runs_text: bool) -> Iterator[str]:
    """Yield the names of loaded modules that are texts in code, as in `sys.modules["json"]`, and of
    what is in them, as in `mock.patch("json.dumps")`; if it runs texts as code, all words in its
    texts."""
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _quoted_names(constant, runs_text=runs_text)
        elif type(constant) is str and constant in sys.modules:
            yield constant
        elif type(constant) is str and runs_text:
            yield from _WORD.findall(constant[:_MAX_TEXT_CHARS])
        elif type(constant) is str and len(constant) <= _MAX_DOTTED_NAME_CHARS:
            yield from _names_in_module(constant)


def _names_in_module(text: str) -> Iterator[str]:
    """Yield the parts of a dotted name that begins with that of a loaded module, and this module."""
    module, _, name = text.rpartition(".")
    while module and module not in sys.modules:
        module, _, inner_name = module.rpartition(".")
        name = f"{inner_name}.{name}"
    parts = name.split(".")
    if module and all(map(str.isidentifier, parts)):
        yield module
        yield from parts


def _read_closure(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents


def _find_user_code(
    namespace: dict[str, object], user_modules: Mapping[str, ModuleType]
) -> _UserCode:
    scopes: dict[int, dict[str, Any]] = {address_of(namespace): namespace}
    if user_modules:
        for value in list(namespace.values()):
            module = user_modules.get(_defining_module(value))
            if module is not None:
                names = own_dict(module)
                scopes[address_of(names)] = names
    modules = [scope.get("__name__") for scope in scopes.values()]
    return _UserCode(scopes, frozenset(name for name in modules if type(name) is str))


def _defining_module(value: Any) -> str:
    """Return the name of a module, or of the module that defines a function, a class, or the class of
    another object."""
    cls = type(value)
    if cls is ModuleType or cls is FunctionType:
        names = own_dict(value) if cls is ModuleType else value.__globals__
        name = names.get("__name__")
        return name if type(name) is str else ""
    return class_module(value if is_class(value) else cls)


def _find_methods(user_code: _UserCode) -> _Methods:
    """Return the methods and properties of the classes in these namespaces, and of the user's classes
    of which there are objects, by their names."""
    methods: _Methods = {}
    read_addresses: set[int] = set()
    for cls in _find_classes(user_code):
        for name, member in _iter_members(cls, user_code):
            # Classes share what their bases define.
            if name.startswith("__") or address_of(member) in read_addresses:
                continue
            if _may_call(member):
                read_addresses.add(address_of(member))
                methods.setdefault(name, []).append(member)
    return methods


def _find_classes(user_code: _UserCode) -> Iterable[type]:
    """Return the classes in the namespaces, and the user's classes of which there are objects."""
    classes: dict[int, type] = {}
    seen_types: set[int] = set()
    for scope in user_code.scopes.values():
        for value in list(scope.values()):
            if is_class(value):
                classes[address_of(value)] = value
            cls = type(value)
            if address_of(cls) in seen_types:
                continue
            seen_types.add(address_of(cls))
            if user_code.defines(cls):
                classes[address_of(cls)] = cls
    return classes.values()
