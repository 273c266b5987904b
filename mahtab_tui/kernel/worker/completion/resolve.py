"""Evaluates an expression as far as possible without running code."""

from __future__ import annotations

import ast
import builtins
import types
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..library_types import comes_from
from ..statics import (
    MISSING,
    Classes,
    attribute,
    descends,
    in_class,
    is_class,
    is_module,
    is_one_of,
    loaded,
    module_of,
    name_of,
    own_dict,
)
from .results import (
    Instance,
    class_of,
    is_dispatcher,
    is_frame,
    known,
    operation,
    result_of,
    table_of,
)
from .subscripts import columns_of

_SEQUENCES = Classes(list, tuple)
_PLAIN = Classes(str, int, float, bool, bytes)
_SLICED = (("numpy", "ndarray"), ("pandas", "Series"), ("polars", "Series"), ("pandas", "Index"))
_FUNCTIONS = Classes(
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
)


class _UnresolvedError(Exception):
    """The value of the expression is unknown."""


_DISPLAYS: dict[type, type] = {
    **dict.fromkeys((ast.List, ast.ListComp), list),
    **dict.fromkeys((ast.Dict, ast.DictComp), dict),
    **dict.fromkeys((ast.Set, ast.SetComp), set),
    ast.Tuple: tuple,
    ast.JoinedStr: str,
}


def resolve(expression: str, namespace: Mapping[str, Any]) -> Any:
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


def _value(node: ast.expr, namespace: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        found = namespace.get(node.id, MISSING)
        return _known(builtins.__dict__.get(node.id, MISSING) if found is MISSING else found)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, namespace), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_value(node.value, namespace), node.slice, namespace)
    if isinstance(node, ast.Call):
        return _call(node, namespace)
    if isinstance(node, ast.BinOp):
        return _known(operation(_value(node.left, namespace), _value(node.right, namespace)))
    if isinstance(node, ast.Compare):
        return _compared(_value(node.left, namespace))
    if isinstance(node, ast.UnaryOp):
        return Instance(class_of(_value(node.operand, namespace)))
    if type(node) in _DISPLAYS:
        return Instance(_DISPLAYS[type(node)])
    raise _UnresolvedError


def _call(node: ast.Call, namespace: Mapping[str, Any]) -> Any:
    receiver = MISSING
    if isinstance(node.func, ast.Attribute):
        receiver = _value(node.func.value, namespace)
        function = _attribute(receiver, node.func.attr)
    else:
        function = _value(node.func, namespace)
    if type(function) is Instance or not (
        is_class(function) or type(function) in _FUNCTIONS or is_dispatcher(function)
    ):
        function = in_class(class_of(function), "__call__")
    return _known(result_of(function, receiver))


def _compared(left: Any) -> Any:
    """Return the class of a comparison's result: of a column, a column of truth values."""
    found = operation(left, left)
    return found if found is not MISSING and class_of(found) not in _PLAIN else Instance(bool)


def _attribute(value: Any, name: str) -> Any:
    if type(value) is Instance:
        found, of_class = attribute(value.cls, name), True
    else:
        found, of_class = (
            attribute(value, name),
            not is_class(value) and not is_module(value) and name not in own_dict(value),
        )
    if found is MISSING:
        return _column(value, name)
    if type(found) is staticmethod:
        return found.__func__
    if type(found) is classmethod:
        return types.MethodType(found.__func__, value)
    if type(found) is types.FunctionType and of_class:
        return types.MethodType(found, value)
    if type(found) is property:
        return _known(result_of(found.fget, value))
    if type(found) is loaded("functools", "cached_property"):
        return _known(result_of(own_dict(found).get("func"), value))
    if comes_from(found, "pandas") and is_class(own_dict(found).get("_accessor")):
        return Instance(own_dict(found)["_accessor"]) if of_class else own_dict(found)["_accessor"]
    if (
        of_class
        and type(found) not in _FUNCTIONS
        and in_class(type(found), "__get__") is not MISSING
    ):
        if name in ("index", "columns") and is_one_of(value, "pandas", "DataFrame", "Series"):
            return getattr(value, name)
        return _known(known(value, name))
    return found


def _column(value: Any, name: str) -> Any:
    """Return the column that an attribute or a subscript of a table or of its groups names."""
    table = table_of(value)
    if table is None or name not in columns_of(table):
        raise _UnresolvedError
    module = "polars" if type(table) is loaded("polars", "DataFrame") else "pandas"
    if name_of(class_of(value)) == "DataFrameGroupBy":
        return Instance(_known(loaded("pandas.api.typing", "SeriesGroupBy")))
    return Instance(_known(loaded(module, "Series")))


def _item(value: Any, key: ast.expr, namespace: Mapping[str, Any]) -> Any:
    constant = _constant(key, namespace)
    if type(value) is dict:
        try:
            return _known(value.get(constant, MISSING))
        except Exception:  # unhashable, or raised by the `__eq__` of a key
            raise _UnresolvedError from None
    if type(value) in _SEQUENCES and type(constant) is int:
        try:
            return value[constant]
        except IndexError:
            raise _UnresolvedError from None
    cls = class_of(value)
    if table_of(value) is not None or is_frame(cls):
        return _of_table(value, cls, key, constant, namespace)
    if cls in (str, bytes) or (
        isinstance(key, ast.Slice)
        and (cls in _SEQUENCES or any(cls is loaded(*each) for each in _SLICED))
    ):
        return Instance(cls, items=value.items) if type(value) is Instance else Instance(cls)
    if type(value) is Instance and value.items:
        place = (
            constant
            if cls is tuple and type(constant) is int
            else (1 if descends(cls, dict) else 0)
        )
        return _known(
            value.items[place] if -len(value.items) <= place < len(value.items) else MISSING
        )
    raise _UnresolvedError


def _of_table(
    value: Any, cls: type, key: ast.expr, constant: Any, namespace: Mapping[str, Any]
) -> Any:
    """Return what a subscript of a table, of its groups or of its `loc` and `iloc` selects."""
    if name_of(cls) in ("_LocIndexer", "_iLocIndexer"):
        parts = key.elts if isinstance(key, ast.Tuple) else [key]
        single = any(type(_constant(part, namespace)) in _PLAIN for part in parts)
        return (
            Instance(_known(loaded("pandas", "Series")))
            if single
            else Instance(_known(loaded("pandas", "DataFrame")), value.table)
        )
    if type(constant) is str:
        if type(value) is not Instance or value.table is not None:
            with suppress(_UnresolvedError):
                return _column(value, constant)
        module = module_of(cls).partition(".")[0]
        return Instance(_known(loaded(module, "Series")))
    return Instance(cls, table_of(value))


def _constant(key: ast.expr, namespace: Mapping[str, Any]) -> Any:
    """Return the value of a subscript if it is a literal, or a name of a plain value; otherwise
    `MISSING`."""
    if isinstance(key, ast.Name):
        found = namespace.get(key.id, MISSING)
        return found if type(found) in _PLAIN else MISSING
    try:
        return ast.literal_eval(key)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return MISSING


def _known(found: Any) -> Any:
    if found is MISSING:
        raise _UnresolvedError
    return found
