"""Finds which names code mentions, also in the functions and methods that it may call."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..values.objects import (
    address_of,
    class_dict,
    class_module,
    is_class,
    is_module,
    name_of,
    own_dict,
)

_TEXT_RUNNERS = frozenset(("exec", "eval", "compile", "run_line_magic", "run_cell_magic"))

_MAX_PARTS = 30
"""Functions and what they refer to that are looked at of a value."""

_MAX_TEXT_CHARS = 10_000
"""Of a text that may be code."""

_WORD = re.compile(r"[^\W\d]\w*")

_NO_MODULES: Mapping[str, ModuleType] = {}

_Scopes = dict[int, dict[str, Any]]
"""Namespaces in which functions are looked for, by their addresses."""

_Methods = dict[str, list[FunctionType]]


def names_in(
    codes: Sequence[CodeType],
    namespace: dict[str, object],
    user_modules: Mapping[str, ModuleType] = _NO_MODULES,
) -> tuple[str, ...]:
    """Return the names in code, those in functions and methods of these names, and so on.

    Args:
        codes: The code.
        namespace: In which it runs.
        user_modules: By their names. The functions of one count if the namespace has this module, or
            something that it defines.
    """
    scopes = _find_scopes(namespace, user_modules)
    methods = _find_methods(scopes)
    reached_names: dict[str, None] = {}
    pending = [name for code in codes for name in iter_names(code)]
    runs_text = not _TEXT_RUNNERS.isdisjoint(pending)
    pending += [name for code in codes for name in _quoted_names(code, runs_text=runs_text)]
    while pending:
        name = pending.pop()
        if name in reached_names:
            continue
        reached_names[name] = None
        for scope in scopes.values():
            if name in scope:
                pending += _find_called_names(scope[name], scopes)
        class_name = name_of(type(namespace.get(name)))
        for method in (*methods.get(name, ()), *methods.get(class_name, ())):
            pending += iter_names(method.__code__)
    return tuple(reached_names)


def iter_names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in code, and in the functions that it defines."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from iter_names(constant)


def _find_called_names(value: object, scopes: _Scopes) -> Iterator[str]:
    """Yield the names in the user's functions that a value may call, and the modules that these refer
    to: a function, also in a decorator, a method, or a partial one."""
    if is_module(value):
        return
    pending: list[Any] = [value]
    for part in pending:  # which grows meanwhile
        if len(pending) > _MAX_PARTS:
            return
        if is_module(part):
            yield str(own_dict(part).get("__name__"))
            continue
        wrapped = own_dict(part).get("__wrapped__")
        if wrapped is not None:
            pending.append(wrapped)
        if type(part) is FunctionType:
            if address_of(part.__globals__) in scopes:
                yield from iter_names(part.__code__)
            pending += part.__defaults__ or ()
            pending += _read_closure(part)
        elif type(part) is MethodType:
            pending.append(part.__func__)
        elif type(part) is functools.partial:
            pending += (part.func, *part.args, *part.keywords.values())


def _quoted_names(code: CodeType, *, runs_text: bool) -> Iterator[str]:
    """Yield the names of loaded modules that are texts in code, as in `sys.modules["json"]`; if it
    runs texts as code, all words in its texts."""
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _quoted_names(constant, runs_text=runs_text)
        elif type(constant) is str and constant in sys.modules:
            yield constant
        elif type(constant) is str and runs_text:
            yield from _WORD.findall(constant[:_MAX_TEXT_CHARS])


def _read_closure(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents


def _find_scopes(namespace: dict[str, object], user_modules: Mapping[str, ModuleType]) -> _Scopes:
    scopes: _Scopes = {address_of(namespace): namespace}
    if not user_modules:
        return scopes
    for value in list(namespace.values()):
        module = user_modules.get(_defining_module(value))
        if module is not None:
            names = own_dict(module)
            scopes[address_of(names)] = names
    return scopes


def _defining_module(value: Any) -> str:
    """Return the name of a module, or of the module that defines a function, a class, or the class of
    another object."""
    cls = type(value)
    if cls is ModuleType or cls is FunctionType:
        names = own_dict(value) if cls is ModuleType else value.__globals__
        name = names.get("__name__")
        return name if type(name) is str else ""
    return class_module(value if is_class(value) else cls)


def _find_methods(scopes: _Scopes) -> _Methods:
    """Return the methods of the classes in these namespaces by their names; those that Python calls
    by itself by the names of their classes."""
    methods: _Methods = {}
    values = [value for scope in scopes.values() for value in list(scope.values())]
    for cls in filter(is_class, values):
        for name, member in list(class_dict(cls).items()):
            method = _unwrap_method(member)
            if method is None or address_of(method.__globals__) not in scopes:
                continue
            is_special = type(name) is str and name.startswith("__")
            methods.setdefault(name_of(cls) if is_special else name, []).append(method)
    return methods


def _unwrap_method(member: Any) -> FunctionType | None:
    """Return the function of a method or a property; None for other attributes of a class."""
    if type(member) in (staticmethod, classmethod):
        member = member.__func__
    elif type(member) is property:
        member = member.fget
    return member if type(member) is FunctionType else None
