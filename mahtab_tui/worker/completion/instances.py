"""What stands for objects that do not exist before code runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..values.objects import MISSING, get_if_loaded


class Instance(NamedTuple):
    """Stands for an object whose type is known, but which does not exist before code runs."""

    cls: type
    table: Any = None
    """A table whose columns it probably has."""
    items: tuple[Any, ...] = ()
    """The types of its items, as instances or `MISSING`: for a dict, those of keys and values; for a
    tuple, one for each item; for others, one for all."""


class UnresolvedError(Exception):
    """Nothing is known about an expression."""


def require(value: object) -> Any:
    """Return a value. Raises `UnresolvedError` if it is `MISSING`."""
    if value is MISSING:
        raise UnresolvedError
    return value


def get_class(value: object) -> type:
    """Return the class of an object, or of what an `Instance` stands for."""
    if type(value) is Instance:
        return value.cls
    return type(value)


def is_any_of(cls: type, classes: Iterable[tuple[str, str]]) -> bool:
    """Return whether a class is one of those with these modules and names."""
    return any(cls is get_if_loaded(*class_path) for class_path in classes)


def library_instance(module: str, name: str, table: object = None) -> Instance:
    """Return an instance of a library's class. Raises `UnresolvedError` if it is not loaded."""
    return Instance(require(get_if_loaded(module, name)), table)
