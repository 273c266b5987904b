"""Evaluates expressions as far as possible without running code.

What an expression would return is either known, as the value of a variable is, or only its class, as of
the result of a call; then it is an `Instance`. Completion, help and hints ask this module.
"""

from __future__ import annotations

import ast
import builtins
import types
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from ..values.objects import (
    FUNCTIONS,
    MISSING,
    NUMBERS,
    SCALARS,
    Classes,
    attribute,
    class_module,
    find_in_class,
    get_if_loaded,
    is_class,
    is_from,
    is_module,
    is_one_of,
    is_subclass,
    mro_of,
    name_of,
    own_dict,
)
from .instances import Instance, UnresolvedError, get_class, is_any_of, library_instance, require
from .results import call_result, is_dispatcher, listed_result
from .table_columns import column_instance, is_frame, table_of, with_columns

_MAX_KEYS = 100_000
"""Keys of a dict that are looked at."""
_SEQUENCES = Classes(list, tuple)
_PLAIN = Classes(str, int, float, bool, bytes)
"""The classes of values that may be keys, because comparing them runs no code."""
_OPERANDS = Classes(str, bytes, list, tuple, set, complex)
"""Types that an operator between two of them returns."""
_SLICED = (("numpy", "ndarray"), ("pandas", "Series"), ("polars", "Series"), ("pandas", "Index"))
"""A slice of these classes of libraries is of the same class."""
_WITH_OPERATORS = (
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("polars", "Expr"),
    ("polars", "Series"),
    ("numpy", "ndarray"),
    ("pathlib", "PosixPath"),
)
"""An operator with an object of these classes returns one of the same class."""
_DISPLAYS: dict[type, type] = {
    **dict.fromkeys((ast.List, ast.ListComp), list),
    **dict.fromkeys((ast.Dict, ast.DictComp), dict),
    **dict.fromkeys((ast.Set, ast.SetComp), set),
    ast.Tuple: tuple,
    ast.JoinedStr: str,
}
"""The types of literals, by their nodes."""


def resolve(expression: str, namespace: Mapping[str, object]) -> Any:
    """Return the value of an expression, an `Instance`, or `MISSING` if unknown."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(f"({expression}\n)", mode="eval")
        return _value(tree.body, namespace)
    except (UnresolvedError, SyntaxError, ValueError, RecursionError, MemoryError):
        return MISSING


def _value(node: ast.expr, namespace: Mapping[str, Any]) -> object:
    """Return the value of an expression, or an `Instance`. Raises `UnresolvedError`."""
    if isinstance(node, ast.Name):
        return _variable(node.id, namespace)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, namespace), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_value(node.value, namespace), node.slice, namespace)
    if isinstance(node, ast.Call):
        return _call(node, namespace)
    if isinstance(node, ast.BinOp):
        return require(_operation(_value(node.left, namespace), _value(node.right, namespace)))
    if isinstance(node, ast.Compare):
        return _comparison(_value(node.left, namespace))
    if isinstance(node, ast.UnaryOp):
        return Instance(get_class(_value(node.operand, namespace)))
    if type(node) in _DISPLAYS:
        return Instance(_DISPLAYS[type(node)])
    raise UnresolvedError


def _variable(name: str, namespace: Mapping[str, Any]) -> object:
    """Return the value of a variable or a builtin. Raises `UnresolvedError`."""
    value = namespace.get(name, MISSING)
    if value is MISSING:
        value = builtins.__dict__.get(name, MISSING)
    return require(value)


def _comparison(operand: object) -> object:
    """Return an `Instance` for the result of a comparison with a value: of a column, a column of
    booleans."""
    result = _operation(operand, operand)
    if result is MISSING or get_class(result) in _PLAIN:
        return Instance(bool)
    return result


def _operation(left: object, right: object) -> object:
    """Return an `Instance` for the result of an operator; `MISSING` if unknown."""
    left_class = get_class(left)
    right_class = get_class(right)
    for value, cls in ((left, left_class), (right, right_class)):
        if is_any_of(cls, _WITH_OPERATORS):
            return with_columns(Instance(cls), value, "")
    if left_class in NUMBERS and right_class in NUMBERS:
        return Instance(float if float in (left_class, right_class) else int)
    if left_class is right_class and left_class in _OPERANDS:
        return Instance(left_class)
    return MISSING


class _Member(NamedTuple):
    """What is found under the name of an attribute."""

    value: Any
    """`MISSING` if there is no such attribute."""
    is_of_class: bool
    """Whether it is in the class of the object, so that Python binds it."""


def _attribute(value: object, name: str) -> object:
    """Return an attribute, or an `Instance`; a method is bound as by Python.

    Raises `UnresolvedError`.
    """
    member = _find_member(value, name)
    if member.value is MISSING:
        return column_instance(value, name)
    kind = type(member.value)
    if kind is staticmethod:
        return member.value.__func__
    if kind is classmethod:
        return types.MethodType(member.value.__func__, value)
    if kind is types.FunctionType and member.is_of_class:
        return types.MethodType(member.value, value)
    getter = _property_getter(member.value)
    if getter is not MISSING:
        return require(call_result(getter, value))
    accessor = _pandas_accessor(member.value)
    if accessor is not None:
        return Instance(accessor) if member.is_of_class else accessor
    if member.is_of_class and _is_other_descriptor(member.value):
        return _descriptor_value(value, name)
    return member.value


def _find_member(value: object, name: str) -> _Member:
    if type(value) is Instance:
        return _Member(attribute(value.cls, name), is_of_class=True)
    is_class_or_module = is_class(value) or is_module(value)
    is_of_class = not is_class_or_module and name not in own_dict(value)
    return _Member(attribute(value, name), is_of_class)


def _pandas_accessor(member: object) -> type | None:
    """Return the class of what pandas registers as an accessor, such as `.str`; None for others."""
    if not is_from(member, "pandas"):
        return None
    accessor: Any = own_dict(member).get("_accessor")
    return accessor if is_class(accessor) else None


def _property_getter(member: Any) -> object:
    """Return the function that computes a property; `MISSING` for other members of a class."""
    if type(member) is property:
        return member.fget
    if type(member) is get_if_loaded("functools", "cached_property"):
        return own_dict(member).get("func")
    return MISSING


def _is_other_descriptor(member: object) -> bool:
    """Return whether Python would call a member that is not a function to get its value."""
    return type(member) not in FUNCTIONS and find_in_class(type(member), "__get__") is not MISSING


def _descriptor_value(value: Any, name: str) -> object:
    """Return the value of a descriptor, which is not called, because that may run code.

    Raises `UnresolvedError`.
    """
    # Reading these two runs no code but that of pandas.
    if name in ("index", "columns") and is_one_of(value, "pandas", "DataFrame", "Series"):
        return getattr(value, name)
    return require(listed_result(value, name))


def _item(value: Any, key: ast.expr, namespace: Mapping[str, object]) -> object:
    """Return an item, or an `Instance`. Raises `UnresolvedError`."""
    constant = _constant(key, namespace)
    cls = get_class(value)
    if type(value) is dict:
        try:
            return require(value.get(constant, MISSING))
        except Exception:  # unhashable, or raised by a key's `__eq__`
            raise UnresolvedError from None
    if type(value) in _SEQUENCES and type(constant) is int:
        return _item_at(value, constant)
    if table_of(value) is not None or is_frame(cls):
        return _table_item(value, cls, key, constant, namespace)

    is_slice = isinstance(key, ast.Slice) and (cls in _SEQUENCES or is_any_of(cls, _SLICED))
    item_types = value.items if type(value) is Instance else ()
    if cls in (str, bytes) or is_slice:
        return Instance(cls, items=item_types)
    index = 0
    if is_subclass(cls, dict):
        index = 1  # the type of the values comes after that of the keys
    elif cls is tuple and type(constant) is int:
        index = constant
    return require(_item_at(item_types, index))


def _item_at(items: Sequence[Any], index: int) -> object:
    """Return an item of a list or tuple. Raises `UnresolvedError` if there is none."""
    if -len(items) <= index < len(items):
        return items[index]
    raise UnresolvedError


def _constant(key: ast.expr, namespace: Mapping[str, object]) -> object:
    """Return the value of a key that is a literal or a variable with a plain value; otherwise
    `MISSING`."""
    if isinstance(key, ast.Name):
        value = namespace.get(key.id, MISSING)
        if type(value) in _PLAIN:
            return value
        return MISSING
    try:
        return ast.literal_eval(key)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return MISSING


def _table_item(
    value: Any, cls: type, key: ast.expr, constant: object, namespace: Mapping[str, object]
) -> object:
    """Return an `Instance` for an item of a table, or of its `loc` or `iloc`."""
    if name_of(cls) in ("_LocIndexer", "_iLocIndexer"):
        keys = key.elts if isinstance(key, ast.Tuple) else [key]
        if any(type(_constant(item_key, namespace)) in _PLAIN for item_key in keys):
            return library_instance("pandas", "Series")
        return library_instance("pandas", "DataFrame", value.table)
    if type(constant) is not str:
        return Instance(cls, table_of(value))
    with suppress(UnresolvedError):
        return column_instance(value, constant)
    return library_instance(class_module(cls).partition(".")[0], "Series")


def list_keys(value: object) -> list[tuple[Any, Any]]:
    """Return the items of a dict whose keys are plain; empty for anything else."""
    if dict not in mro_of(type(value)):
        return []
    items: list[tuple[Any, Any]] = list(islice(dict.items(value), _MAX_KEYS))  # type: ignore[arg-type]
    return [(key, item) for key, item in items if type(key) in SCALARS]


def _call(node: ast.Call, namespace: Mapping[str, object]) -> object:
    """Return an `Instance` for a call's result. Raises `UnresolvedError`."""
    receiver = MISSING
    if isinstance(node.func, ast.Attribute):
        receiver = _value(node.func.value, namespace)
        function = _attribute(receiver, node.func.attr)
    else:
        function = _value(node.func, namespace)
    is_function = is_class(function) or type(function) in FUNCTIONS or is_dispatcher(function)
    if type(function) is Instance or not is_function:
        function = find_in_class(get_class(function), "__call__")
    return require(call_result(function, receiver))
