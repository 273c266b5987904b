"""Evaluates an expression as far as possible without running code."""

from __future__ import annotations

import ast
import builtins
import types
import warnings
from typing import Any, NamedTuple

from ..statics import MISSING, SLOTS, Classes, attribute, is_class, is_module, loaded, own_dict
from .signatures import annotations_of
from .subscripts import columns_of

_SEQUENCES = Classes(list, tuple)


class _UnresolvedError(Exception):
    """The value of the expression is unknown."""


class Instance(NamedTuple):
    """Stands for an object of which only the class is known."""

    cls: type


_DISPLAYS: dict[type, type] = {
    **dict.fromkeys((ast.List, ast.ListComp), list),
    **dict.fromkeys((ast.Dict, ast.DictComp), dict),
    **dict.fromkeys((ast.Set, ast.SetComp), set),
    ast.Tuple: tuple,
    ast.JoinedStr: str,
}


def resolve(expression: str, namespace: dict[str, Any]) -> Any:
    """Return the value of an expression, an `Instance`, or `MISSING` if it is unknown."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(f"({expression}\n)", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return MISSING
    try:
        return _value(tree.body, namespace)
    except (_UnresolvedError, RecursionError):
        return MISSING


def _value(node: ast.expr, namespace: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        found = namespace.get(node.id, builtins.__dict__.get(node.id, MISSING))
        return _known(found)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, namespace), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_value(node.value, namespace), node.slice)
    if isinstance(node, ast.Call):
        return _result(_value(node.func, namespace))
    if type(node) in _DISPLAYS:
        return Instance(_DISPLAYS[type(node)])
    raise _UnresolvedError


def _attribute(value: Any, name: str) -> Any:
    if type(value) is Instance:
        found, of_class = attribute(value.cls, name), True
    else:
        found, of_class = attribute(value, name), not is_class(value) and not is_module(value) and name not in own_dict(value)
    if found is MISSING and type(value) is loaded("pandas", "DataFrame") and name in columns_of(value):
        return Instance(_known(loaded("pandas", "Series")))
    if type(found) is staticmethod:
        return found.__func__
    if type(found) is classmethod:
        return types.MethodType(found.__func__, value)
    if type(found) is types.FunctionType and of_class:
        return types.MethodType(found, value)
    if type(found) is property:
        return _result(found.fget)
    if type(found) in SLOTS:
        raise _UnresolvedError
    return _known(found)


def _item(value: Any, key: ast.expr) -> Any:
    if type(value) is Instance or not isinstance(key, ast.Constant):
        raise _UnresolvedError
    if type(value) is dict:
        try:
            return _known(value.get(key.value, MISSING))
        except Exception:  # raised by the `__eq__` of a key
            raise _UnresolvedError from None
    if type(value) in _SEQUENCES and type(key.value) is int:
        try:
            return value[key.value]
        except IndexError:
            raise _UnresolvedError from None
    if type(value) is loaded("pandas", "DataFrame") and type(key.value) is str:
        return Instance(_known(loaded("pandas", "Series")))
    raise _UnresolvedError


def _result(value: Any) -> Any:
    """Return the result of a call, known from its class or annotation."""
    if is_class(value):
        return Instance(value)
    if type(value) is types.MethodType:
        value = value.__func__
    if type(value) is not types.FunctionType:
        raise _UnresolvedError
    annotation = annotations_of(value).get("return")
    if type(annotation) is str:
        annotation = value.__globals__.get(annotation, builtins.__dict__.get(annotation))
    if annotation is None or not is_class(annotation):
        raise _UnresolvedError
    return Instance(annotation)


def _known(found: Any) -> Any:
    if found is MISSING:
        raise _UnresolvedError
    return found
