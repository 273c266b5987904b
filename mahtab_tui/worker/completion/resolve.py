"""Evaluates expressions as far as possible without running code."""

from __future__ import annotations

import ast
import builtins
import re
import sys
import types
import warnings
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Callable, NamedTuple

from ..objects import (
    BOUND,
    FUNCTIONS,
    MISSING,
    NUMBERS,
    SCALARS,
    SLOTS,
    Classes,
    attribute,
    class_dict,
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
    unwrap,
)
from .signatures import annotations_of, split_generic

_RESHAPING = frozenset(
    "T transpose pivot pivot_table melt stack unstack value_counts dot to_dict unpivot".split()
)
_GROUPED = {
    "SeriesGroupBy": "Series",
    **dict.fromkeys(
        "DataFrameGroupBy Resampler DatetimeIndexResampler Rolling Expanding "
        "ExponentialMovingWindow".split(),
        "DataFrame",
    ),
}

_KNOWN = {
    "str": "list[str]: split rsplit splitlines; tuple[str,str,str]: partition rpartition; bytes: encode; int: count *find *index;"
    " bool: is* startswith endswith; str: [a-z]*",
    "bytes": "str: decode hex; list[bytes]: split rsplit splitlines; int: count *find *index; bool: is* startswith endswith; bytes: [a-z]*",
    "list": "list: copy; int: count index",
    "dict": "dict: copy fromkeys; tuple: popitem",
    "builtins": "list: sorted dir; int: len id hash ord round; str: repr chr ascii bin hex oct format input; dict: vars globals locals;"
    " io.TextIOWrapper: open; bool: all any callable is* hasattr",
    "io.TextIOWrapper": "str: read readline; list[str]: readlines; io.TextIOWrapper: __enter__",
    "re": "re.Pattern: compile; re.Match: match search fullmatch; list[str]: findall split; str: sub escape",
    "re.Pattern": "re.Match: match search fullmatch; list[str]: findall split; str: sub",
    "re.Match": "str: group expand; tuple: groups span; dict: groupdict; int: start end",
    "json": "str: dumps",
    "os": "str: getcwd; list[str]: listdir",
    "posixpath": "str: join *path *name expanduser; bool: exists is*; int: getsize",
    "pathlib.Path": "str: read_text as_* name stem suffix; bytes: read_bytes; bool: exists is_*; pathlib.Path: absolute resolve expanduser"
    " joinpath with_* relative_to rename cwd home parent; io.TextIOWrapper: open; os.stat_result: stat; list[str]: suffixes; tuple[str]: parts",
    "datetime.datetime": "datetime.datetime: *now today from* strptime combine replace astimezone; datetime.date: date; datetime.time: time;"
    " str: strftime isoformat ctime; float: timestamp; int: *weekday year month day hour minute second",
    "datetime.date": "datetime.date: today from* replace; str: strftime isoformat ctime; int: *weekday year month day",
    "collections.Counter": "list[tuple]: most_common; collections.Counter: copy",
    "numpy": "bool: all* any* array_eq*; int: count_nonzero; numpy.ndarray: [a-z]*",
    "numpy.ndarray": "list: tolist; tuple[int]: shape; int: ndim size nbytes itemsize; numpy.dtype: dtype; bytes: tobytes; numpy.ndarray: T real"
    " imag reshape astype copy ravel flatten transpose round clip cum* repeat argsort swapaxes squeeze dot",
    "pandas.DataFrame": "pandas.Series: sum mean median std var min max count nunique dtypes all any; pandas.api.typing.Rolling: rolling;"
    " pandas.Index: index columns; str: to_string to_json to_html to_markdown to_csv; pandas.DataFrame: corr cov describe",
    "pandas.Series": "float: mean median std var sem skew kurt; pandas.Index: index; str: to_string to_json to_csv; list: tolist to_list;"
    " pandas.api.typing.Rolling: rolling; int: nunique count; numpy.ndarray: unique",
    "pandas.Index": "list: tolist to_list; pandas.Series: to_series",
    "pandas": "pandas.Series: to_datetime to_numeric to_timedelta cut qcut; pandas.DatetimeIndex: date_range",
    "pandas.core.strings.accessor.StringMethods": "pandas.DataFrame: get_dummies extractall; pandas.Series: [a-z]*",
}
"""Results of what is written in C or has no annotation: by class or module, each result with
patterns of names, of which the first that fits counts."""


_SEQUENCES = Classes(list, tuple)
_PLAIN = Classes(str, int, float, bool, bytes)
_OPERANDS = Classes(str, bytes, list, tuple, set, complex)
_SLICED = (("numpy", "ndarray"), ("pandas", "Series"), ("polars", "Series"), ("pandas", "Index"))
_WITH_OPERATORS = (
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("polars", "Expr"),
    ("polars", "Series"),
    ("numpy", "ndarray"),
    ("pathlib", "PosixPath"),
)
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
    items: tuple[Any, ...] = ()
    """The type of its items, as instances or `MISSING`."""


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
    if isinstance(node, ast.BinOp):
        return _require(_operation(_value(node.left, namespace), _value(node.right, namespace)))
    if isinstance(node, ast.Compare):
        left = _value(node.left, namespace)
        found = _operation(left, left)  # of a column, a column of booleans
        return Instance(bool) if found is MISSING or get_class(found) in _PLAIN else found
    if isinstance(node, ast.UnaryOp):
        return Instance(get_class(_value(node.operand, namespace)))
    if type(node) in _DISPLAYS:
        return Instance(_DISPLAYS[type(node)])
    raise _UnresolvedError


def _is_any(cls: type, classes: Iterable[tuple[str, str]]) -> bool:
    return any(cls is get_if_loaded(*each) for each in classes)


def _operation(left: Any, right: Any) -> Any:
    one, other = get_class(left), get_class(right)
    for value, cls in ((left, one), (right, other)):
        if _is_any(cls, _WITH_OPERATORS):
            return _with_columns(Instance(cls), value, "")
    if one in NUMBERS and other in NUMBERS:
        return Instance(float if float in (one, other) else int)
    return Instance(one) if one is other and one in _OPERANDS else MISSING


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
    if type(found) is get_if_loaded("functools", "cached_property"):
        return _require(_call_result(own_dict(found).get("func"), value))
    accessor: Any = own_dict(found).get("_accessor") if is_from(found, "pandas") else None
    if is_class(accessor):
        return Instance(accessor) if of_class else accessor
    has_getter = find_in_class(type(found), "__get__") is not MISSING
    if of_class and type(found) not in FUNCTIONS and has_getter:
        if name in ("index", "columns") and is_one_of(value, "pandas", "DataFrame", "Series"):
            return getattr(value, name)
        return _require(_known_result(value, name))
    return found


def _item(value: Any, key: ast.expr, namespace: Mapping[str, Any]) -> Any:
    constant, cls = _constant(key, namespace), get_class(value)
    if type(value) is dict:
        try:
            return _require(value.get(constant, MISSING))
        except Exception:  # unhashable, or raised by a key's `__eq__`
            raise _UnresolvedError from None
    if type(value) in _SEQUENCES and type(constant) is int:
        if not -len(value) <= constant < len(value):
            raise _UnresolvedError
        return value[constant]
    if _table_of(value) is not None or _is_frame(cls):
        return _table_item(value, cls, key, constant, namespace)
    sliced = isinstance(key, ast.Slice) and (cls in _SEQUENCES or _is_any(cls, _SLICED))
    items = value.items if type(value) is Instance else ()
    if cls in (str, bytes) or sliced:
        return Instance(cls, items=items)
    if items:
        index = int(is_subclass(cls, dict))  # of a dict, the second one is the type of its values
        if cls is tuple and type(constant) is int:
            index = constant
        return _require(items[index] if -len(items) <= index < len(items) else MISSING)
    raise _UnresolvedError


def _constant(key: ast.expr, namespace: Mapping[str, Any]) -> Any:
    if isinstance(key, ast.Name):
        found = namespace.get(key.id, MISSING)
        return found if type(found) in _PLAIN else MISSING
    try:
        return ast.literal_eval(key)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return MISSING


# Tables


def _is_frame(cls: type) -> bool:
    return _is_any(cls, (("pandas", "DataFrame"), ("polars", "DataFrame")))


def _table_of(value: Any) -> Any:
    if type(value) is Instance:
        return value.table
    return value if _is_frame(type(value)) else None


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


def _table_item(
    value: Any, cls: type, key: ast.expr, constant: Any, namespace: Mapping[str, Any]
) -> Any:
    if name_of(cls) in ("_LocIndexer", "_iLocIndexer"):
        parts = key.elts if isinstance(key, ast.Tuple) else [key]
        if any(type(_constant(part, namespace)) in _PLAIN for part in parts):
            return _library_instance("pandas", "Series")
        return _library_instance("pandas", "DataFrame", value.table)
    if type(constant) is not str:
        return Instance(cls, _table_of(value))
    with suppress(_UnresolvedError):
        return _column(value, constant)
    return _library_instance(class_module(cls).partition(".")[0], "Series")


def _with_columns(found: Any, receiver: Any, name: str) -> Any:
    """Give an instance its receiver's columns if its method keeps them."""
    table = _table_of(receiver)
    if (
        type(found) is not Instance
        or found.table is not None
        or table is None
        or name in _RESHAPING
    ):
        return found
    is_series = _is_any(found.cls, (("pandas", "Series"), ("polars", "Series")))
    of_library = class_module(found.cls).partition(".")[0] in ("pandas", "polars")
    return found._replace(table=table) if of_library and not is_series else found


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
    if type(function) is Instance or not (
        is_class(function) or type(function) in FUNCTIONS or _is_dispatcher(function)
    ):
        function = find_in_class(get_class(function), "__call__")
    return _require(_call_result(function, receiver))


def _call_result(function: Any, receiver: Any) -> Any:
    """Return a call's result; `MISSING` if unknown."""
    if is_class(function):
        return Instance(function)
    if type(function) is types.MethodType:
        function, receiver = function.__func__, function.__self__
    name, module = _name(function)
    found = MISSING
    if receiver is MISSING or is_module(receiver):
        found = _in_table(module, name)
    else:
        found = _known_result(receiver, name)
        grouped = _GROUPED.get(name_of(get_class(receiver)))
        if (
            found is MISSING
            and grouped is not None
            and type(function) is types.FunctionType
            and module.startswith("pandas.core")
            and annotations_of(function).get("return") in (None, "NDFrameT")
        ):
            found = _library_instance("pandas", grouped)
    plain = unwrap(function)
    if found is MISSING and plain is not None:
        annotation = annotations_of(plain).get("return")
        if annotation is not None:
            found = _annotated(annotation, plain.__globals__, receiver)
    return _with_columns(found, receiver, name)


def _known_result(receiver: Any, name: str) -> Any:
    cls = receiver if is_class(receiver) else get_class(receiver)
    for base in mro_of(cls):
        found = _in_table(_label(base), name)
        if found is not MISSING:
            inherited = found.cls is base and class_module(base) != "builtins"
            return Instance(cls) if inherited else found
        if name in class_dict(base):
            break
    return MISSING


def _label(cls: type) -> str:
    module, name = class_module(cls), name_of(cls)
    module = {"_io": "io", "pathlib._local": "pathlib"}.get(module, module)
    if get_if_loaded(module, name) is not cls:
        return ""
    return name if module == "builtins" else f"{module}.{name}"


def _in_table(owner: str, name: str) -> Any:
    for group in _KNOWN.get(owner, "").split(";"):
        written, _, patterns = group.partition(":")
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return _annotated(written.strip(), {}, MISSING)
    return MISSING


def _name(function: Any) -> tuple[str, str]:
    if type(function) in BOUND:
        function = function.__func__
    if _is_dispatcher(function):
        name, module = own_dict(function).get("__name__"), "numpy"
    elif type(function) in FUNCTIONS or type(function) in SLOTS:
        name, module = function.__name__, getattr(function, "__module__", "")
        if type(name) is str and builtins.__dict__.get(name) is function:
            module = "builtins"
    else:
        return "", ""
    return (name, module) if type(name) is str and type(module) is str else ("", "")


def _is_dispatcher(value: Any) -> bool:
    """Return whether a value is one of numpy's functions that other libraries can override."""
    return type(value) is not object and type(value) is type(get_if_loaded("numpy", "linspace"))


def _annotated(annotation: Any, names: dict[str, Any], receiver: Any) -> Any:
    """Return an `Instance` for an annotation, or `MISSING`. names: its function's globals."""
    if annotation is type(None):
        return MISSING

    def inside(part: Any) -> Any:
        return _annotated(part, names, receiver)

    if type(annotation) is str:
        try:
            return inside(ast.parse(annotation[:1_000].strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return MISSING
    if is_subclass(type(annotation), ast.expr):
        return _written(annotation, names, receiver, inside)
    if is_class(annotation) and type(annotation) is not types.GenericAlias:
        return Instance(annotation)
    if annotation is not MISSING and (
        type(annotation) is get_if_loaded("typing", "TypeVar")
        or get_if_loaded("typing", "Self") is annotation
    ):
        return _self(receiver)
    origin, arguments = split_generic(annotation)
    return _bracketed(origin, list(map(inside, arguments)))


def _written(node: Any, names: dict[str, Any], receiver: Any, inside: Callable[[Any], Any]) -> Any:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _bracketed(MISSING, [inside(node.left), inside(node.right)])
    if isinstance(node, ast.Subscript):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return _bracketed(_object(node.value, names), list(map(inside, items)))
    if isinstance(node, ast.Name) and node.id == "Self":
        return _self(receiver)
    if isinstance(node, ast.Constant):
        return inside(node.value) if type(node.value) is str else MISSING
    found = _object(node, names)
    return MISSING if type(found) is str else inside(found)


def _bracketed(origin: Any, items: list[Any]) -> Any:
    unions = (MISSING, get_if_loaded("typing", "Union"), get_if_loaded("typing", "Optional"))
    if any(origin is union for union in unions):
        return next((item for item in items if item is not MISSING), MISSING)
    return Instance(origin, items=tuple(items)) if is_class(origin) else MISSING


def _object(node: Any, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Attribute):
        name, owner = node.attr, _object(node.value, names)
        if is_module(owner):
            found = own_dict(owner).get(name, MISSING)
        else:
            found = get_if_loaded(ast.unparse(node.value), name)
    elif isinstance(node, ast.Name):
        name = node.id
        namespaces: tuple[Mapping[str, Any], ...] = (names, builtins.__dict__)
        found = next((each[name] for each in namespaces if name in each), MISSING)
        found = get_if_loaded("typing", name) if found is MISSING else found
    else:
        return MISSING
    return _type_checking_class(name, names) if found is MISSING else found


def _type_checking_class(name: str, names: dict[str, Any]) -> Any:
    """Find a class that a module imports only for type checkers."""
    module = names.get("__name__")
    package = module.partition(".")[0] if type(module) is str else ""
    if not package or package == "__main__":
        return MISSING
    for path in (package, *list(sys.modules)):
        if path == package or path.startswith(package + "."):
            found = get_if_loaded(path, name)
            if is_class(found) and (path == package or class_module(found) == path):
                return found
    return MISSING


def _self(receiver: Any) -> Any:
    if is_module(receiver):
        return MISSING
    if receiver is MISSING or type(receiver) is Instance:
        return receiver
    return Instance(receiver if is_class(receiver) else type(receiver))


# Lines above the cursor

_MOST_LINES = 200
_LONGEST_LINE = 500
_ASSIGNED = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::[^=]+)?=(?!=)\s*(\S.*)")
_OPENED = re.compile(r"(?:async\s+)?with\b(.*)\bas\s+(\w+)\s*:")
_EACH = re.compile(r"(?:async\s+)?for\s+(\w+)\s+in\b(.*):")
_IMPORTED = re.compile(r"import\s+([\w.]+)(?:\s+as\s+(\w+))?")


class Names(NamedTuple):
    """The namespace after the preceding lines."""

    values: Mapping[str, Any]
    modules: dict[str, str]


def names_at(namespace: dict[str, Any], before: str) -> Names:
    found: dict[str, Any] = {}
    names = Names(ChainMap(found, namespace), {})
    for line in before.rsplit("\n", _MOST_LINES + 1)[-_MOST_LINES - 1 : -1]:
        if len(line) > _LONGEST_LINE:
            continue
        for name, value in _bindings(line.strip(), names):
            if value is not MISSING:
                found[name] = value
                names.modules.pop(name, None)
    return names


def _bindings(line: str, names: Names) -> Iterator[tuple[str, Any]]:
    if imported := _IMPORTED.fullmatch(line):
        path, alias = imported.groups()
        name, module = (alias, path) if alias else (path.partition(".")[0],) * 2
        if module not in sys.modules:
            names.modules[name] = module
        yield name, sys.modules.get(module, MISSING)
    elif assigned := _ASSIGNED.fullmatch(line):
        targets = [target.strip() for target in assigned[1].split(",")]
        for index, target in enumerate(targets):
            item = f"({assigned[2]})[{index}]" if len(targets) > 1 else assigned[2]
            yield target, resolve(item, names.values)
    elif opened := _OPENED.fullmatch(line):
        yield opened[2], resolve(f"{opened[1].strip()}.__enter__()", names.values)
    elif each := _EACH.fullmatch(line):
        whole = resolve(each[2].strip(), names.values)
        if type(whole) in _SEQUENCES:
            yield each[1], Instance(type(whole[0])) if whole else MISSING
        elif type(whole) is Instance and whole.items:
            yield each[1], whole.items[0]
