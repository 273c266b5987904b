"""Finds which names code mentions, also in the functions and methods that it may call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..values.objects import address_of, class_dict, class_module, is_class, name_of, own_dict

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
    pending = [name for code in codes for name in _names(code)]
    while pending:
        name = pending.pop()
        if name in reached_names:
            continue
        reached_names[name] = None
        for scope in scopes.values():
            value = scope.get(name)
            if type(value) is FunctionType and address_of(value.__globals__) in scopes:
                pending += _names(value.__code__)
        class_name = name_of(type(namespace.get(name)))
        for method in (*methods.get(name, ()), *methods.get(class_name, ())):
            pending += _names(method.__code__)
    return tuple(reached_names)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in code, and in the functions that it defines."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names(constant)


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
