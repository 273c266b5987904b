"""Evaluates expressions as far as possible without running code."""

from __future__ import annotations

import ast
import builtins
import re
import sys
import types
import warnings
from collections import ChainMap
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from ..objects import (
    FUNCTIONS,
    MISSING,
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
    mro_of,
    name_of,
    own_dict,
    unwrap,
)
from .signatures import annotations_of

_RESHAPING = frozenset(
    "T transpose pivot pivot_table melt stack unstack value_counts dot to_dict unpivot".split()
)
_GROUPED = {"SeriesGroupBy": "Series", "DataFrameGroupBy": "DataFrame"}
_SEQUENCES = Classes(list, tuple)
_PLAIN = Classes(str, int, float, bool, bytes)
_DISPLAYS: dict[type, type] = {
    **dict.fromkeys((ast.List, ast.ListComp), list),
    **dict.fromkeys((ast.Dict, ast.DictComp), dict),
    **dict.fromkeys((ast.Set, ast.SetComp), set),
    ast.Tuple: tuple,
    ast.JoinedStr: str,
}


class Instance(NamedTuple):
    cls: type
    table: Any = None
    """A table whose columns it probably has."""


class _UnresolvedError(Exception):
    pass


def _require(found: Any) -> Any:
    if found is MISSING:
        raise _UnresolvedError
    return found


def get_class(value: Any) -> type:
    return value.cls if type(value) is Instance else type(value)


def resolve(expression: str, namespace: Mapping[str, Any]) -> Any:
    """Return the value of an expression, an `Instance`, or `MISSING` if unknown."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(f"({expression}\n)", mode="eval")
        return _value(tree.body, namespace)
    except (_UnresolvedError, SyntaxError, ValueError, RecursionError, MemoryError):
        return MISSING


def _value(node: ast.expr, namespace: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        found = namespace.get(node.id, MISSING)
        return _require(builtins.__dict__.get(node.id, MISSING) if found is MISSING else found)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, namespace), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_value(node.value, namespace), node.slice, namespace)
    if isinstance(node, ast.Call):
        return _call(node, namespace)
    if type(node) in _DISPLAYS:
        return Instance(_DISPLAYS[type(node)])
    raise _UnresolvedError


def _attribute(value: Any, name: str) -> Any:
    if type(value) is Instance:
        found, of_class = attribute(value.cls, name), True
    else:
        found = attribute(value, name)
        of_class = not is_class(value) and not is_module(value) and name not in own_dict(value)
    if found is MISSING:
        return _column(value, name)
    if type(found) is staticmethod:
        return found.__func__
    if type(found) is classmethod:
        return types.MethodType(found.__func__, value)
    if type(found) is types.FunctionType and of_class:
        return types.MethodType(found, value)
    if type(found) is property:
        return _require(_call_result(found.fget, value))
    accessor: Any = own_dict(found).get("_accessor") if is_from(found, "pandas") else None
    if is_class(accessor):
        return Instance(accessor) if of_class else accessor
    has_getter = find_in_class(type(found), "__get__") is not MISSING
    if of_class and type(found) not in FUNCTIONS and has_getter:
        if name in ("index", "columns") and is_one_of(value, "pandas", "DataFrame", "Series"):
            return getattr(value, name)
        raise _UnresolvedError
    return found


def _item(value: Any, key: ast.expr, namespace: Mapping[str, Any]) -> Any:
    constant, cls = _constant(key, namespace), get_class(value)
    if type(value) is dict:
        try:
            return _require(value.get(constant, MISSING))
        except Exception:  # unhashable, or raised by a key's `__eq__`
            raise _UnresolvedError from None
    if type(value) in _SEQUENCES and type(constant) is int and -len(value) <= constant < len(value):
        return value[constant]
    if _table_of(value) is None:
        raise _UnresolvedError
    if type(constant) is not str:
        return Instance(cls, _table_of(value))
    with suppress(_UnresolvedError):
        return _column(value, constant)
    return _library_instance(class_module(cls).partition(".")[0], "Series")


def _constant(key: ast.expr, namespace: Mapping[str, Any]) -> Any:
    if isinstance(key, ast.Name):
        found = namespace.get(key.id, MISSING)
        return found if type(found) in _PLAIN else MISSING
    try:
        return ast.literal_eval(key)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return MISSING


# Tables


def _table_of(value: Any) -> Any:
    if type(value) is Instance:
        return value.table
    is_frame = any(is_one_of(value, module, "DataFrame") for module in ("pandas", "polars"))
    return value if is_frame else None


def _library_instance(module: str, name: str, table: Any = None) -> Instance:
    return Instance(_require(get_if_loaded(module, name)), table)


def _column(value: Any, name: str) -> Any:
    table = _table_of(value)
    if table is None or name not in list_columns(table):
        raise _UnresolvedError
    if name_of(get_class(value)) == "DataFrameGroupBy":
        return _library_instance("pandas.api.typing", "SeriesGroupBy")
    is_polars = is_one_of(table, "polars", "DataFrame")
    return _library_instance("polars" if is_polars else "pandas", "Series")


_MOST_KEYS = 100_000


def list_columns(value: object) -> list[str]:
    value = value.table if type(value) is Instance else value
    try:
        return [name for name in _columns(value) if type(name) is str]
    except Exception:  # a library's object in an inconsistent state
        return []


def _columns(value: Any) -> list[Any]:
    if is_one_of(value, "pandas", "Series"):
        return list(islice(value.index, 1_000))
    if is_one_of(value, "pandas", "DataFrame") or is_one_of(value, "polars", "DataFrame"):
        return list(islice(value.columns, _MOST_KEYS))
    if is_one_of(value, "pyarrow", "Table"):
        return list(value.column_names)
    return list(value.dtype.names or ()) if is_one_of(value, "numpy", "ndarray") else []


def list_keys(value: object) -> list[tuple[Any, Any]]:
    if dict not in mro_of(type(value)):
        return []
    items: list[tuple[Any, Any]] = list(islice(dict.items(value), _MOST_KEYS))  # type: ignore[arg-type]
    return [(key, item) for key, item in items if type(key) in SCALARS]


# Calls


def _call(node: ast.Call, namespace: Mapping[str, Any]) -> Any:
    receiver = MISSING
    if isinstance(node.func, ast.Attribute):
        receiver = _value(node.func.value, namespace)
        function = _attribute(receiver, node.func.attr)
    else:
        function = _value(node.func, namespace)
    if type(function) is Instance or not (is_class(function) or type(function) in FUNCTIONS):
        function = find_in_class(get_class(function), "__call__")
    return _require(_call_result(function, receiver))


def _call_result(function: Any, receiver: Any) -> Any:
    """Return what a call's annotation says; `MISSING` if unknown."""
    if is_class(function):
        return Instance(function)
    if type(function) is types.MethodType:
        function, receiver = function.__func__, function.__self__
    plain = unwrap(function)
    if plain is None:
        return MISSING
    annotation = annotations_of(plain).get("return")
    found = _annotated(annotation, plain.__globals__, receiver)
    grouped = _GROUPED.get(name_of(get_class(receiver)))
    if found is MISSING and grouped is not None and annotation in (None, "NDFrameT"):
        found = _library_instance("pandas", grouped)
    table = _table_of(receiver)
    if found is MISSING or table is None or plain.__name__ in _RESHAPING:
        return found
    is_series = any(found.cls is get_if_loaded(each, "Series") for each in ("pandas", "polars"))
    of_library = class_module(found.cls).partition(".")[0] in ("pandas", "polars")
    return found._replace(table=table) if of_library and not is_series else found


def _annotated(annotation: Any, names: dict[str, Any], receiver: Any) -> Any:
    """Return an `Instance` for an annotation, or `MISSING`. names: its function's globals."""
    if type(annotation) is types.GenericAlias:
        annotation = annotation.__origin__
    if is_class(annotation):
        return Instance(annotation)
    if type(annotation) is not str:
        return MISSING
    for part in annotation[:1_000].split("|"):
        name = part.partition("[")[0].strip(" '\"").rpartition(".")[2]
        if name == "Self" and receiver is not MISSING and not is_module(receiver):
            return Instance(receiver if is_class(receiver) else get_class(receiver))
        if (found := _find_class(name, names)) is not MISSING:
            return Instance(found)
    return MISSING


def _find_class(name: str, names: dict[str, Any]) -> Any:
    """Find a class also if its module imports it only for type checkers."""
    found = names.get(name, builtins.__dict__.get(name, MISSING))
    if is_class(found):
        return found
    module = names.get("__name__")
    package = module.partition(".")[0] if type(module) is str else ""
    for path in [*sys.modules] if package not in ("", "__main__") else []:
        if f"{path}.".startswith(f"{package}."):
            found = get_if_loaded(path, name)
            if is_class(found) and class_module(found) == path:
                return found
    return MISSING


# Lines above the cursor

_MOST_LINES = 200
_LONGEST_LINE = 500
_ASSIGNED = re.compile(r"(\w+)\s*(?::[^=]+)?=(?!=)\s*(\S.*)")
_IMPORTED = re.compile(r"import\s+([\w.]+)(?:\s+as\s+(\w+))?")


class Names(NamedTuple):
    """The namespace after the preceding lines."""

    values: Mapping[str, Any]
    modules: dict[str, str]


def names_at(namespace: dict[str, Any], before: str) -> Names:
    found: dict[str, Any] = {}
    names = Names(ChainMap(found, namespace), {})
    for line in before.rsplit("\n", _MOST_LINES + 1)[-_MOST_LINES - 1 : -1]:
        line, value = line.strip()[: _LONGEST_LINE + 1], MISSING
        if len(line) > _LONGEST_LINE:
            continue
        if imported := _IMPORTED.fullmatch(line):
            path, alias = imported.groups()
            name, module = (alias, path) if alias else (path.partition(".")[0],) * 2
            value = sys.modules.get(module, MISSING)
            if value is MISSING:
                names.modules[name] = module
        elif assigned := _ASSIGNED.fullmatch(line):
            name, value = assigned[1], resolve(assigned[2], names.values)
        if value is not MISSING:
            found[name] = value
            names.modules.pop(name, None)
    return names
