"""What calls and attributes give, by their annotations or by a table."""

from __future__ import annotations

import builtins
import types
from fnmatch import fnmatchcase
from typing import Any

from ..values.objects import (
    BOUND,
    FUNCTIONS,
    MISSING,
    SLOTS,
    class_dict,
    class_module,
    get_if_loaded,
    is_class,
    is_module,
    mro_of,
    name_of,
    own_dict,
    unwrap,
)
from .annotation_texts import annotations_of
from .annotations import annotation_instance, result_instance
from .instances import Instance, get_class, library_instance
from .table_columns import with_columns

_RESULTS_OF_GROUPS = {
    "SeriesGroupBy": "Series",
    **dict.fromkeys(
        "DataFrameGroupBy Resampler DatetimeIndexResampler Rolling Expanding "
        "ExponentialMovingWindow".split(),
        "DataFrame",
    ),
}
"""What methods of pandas' groups and windows return, by the class of the group or window."""
_RESULTS = {
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
"""Results of functions that are written in C or have no annotation.

By class or module: "result: patterns; result: patterns". A pattern stands for names of functions
and attributes; the first one that fits a name counts."""


def call_result(function: Any, receiver: object) -> object:
    """Return an `Instance` for a call's result; `MISSING` if unknown.

    Args:
        receiver: The object whose attribute the function is; `MISSING` if it is not an attribute.
    """
    if is_class(function):
        return Instance(function)
    if type(function) is types.MethodType:
        receiver = function.__self__
        function = function.__func__
    name, module = _name_and_module(function)
    result = MISSING
    if receiver is MISSING or is_module(receiver):
        result = _result_in_list(module, name)
    else:
        result = listed_result(receiver, name)
        if result is MISSING and module.startswith("pandas.core"):
            result = _group_result(function, receiver)

    plain_function = unwrap(function)
    if result is MISSING and plain_function is not None:
        result = result_instance(plain_function, receiver)
    return with_columns(result, receiver, name)


def _group_result(function: object, receiver: object) -> object:
    """Return what a method of pandas' groups and windows returns, if it is not annotated; otherwise
    `MISSING`."""
    class_name = _RESULTS_OF_GROUPS.get(name_of(get_class(receiver)))
    if class_name is None or type(function) is not types.FunctionType:
        return MISSING
    if annotations_of(function).get("return") not in (None, "NDFrameT"):
        return MISSING
    return library_instance("pandas", class_name)


def listed_result(receiver: Any, name: str) -> object:
    """Return the result in `_RESULTS` for a method or an attribute; `MISSING` if there is none, or
    if a derived class has its own."""
    cls = receiver if is_class(receiver) else get_class(receiver)
    for base in mro_of(cls):
        result = _result_in_list(_class_path(base), name)
        if result is not MISSING:
            # A method that returns an object of its own class does so in derived classes, too.
            if result.cls is base and class_module(base) != "builtins":
                return Instance(cls)
            return result
        if name in class_dict(base):
            break
    return MISSING


def _class_path(cls: type) -> str:
    """Return the name of a class in `_RESULTS`; empty for a class that cannot be there."""
    module = class_module(cls)
    name = name_of(cls)
    module = {"_io": "io", "pathlib._local": "pathlib"}.get(module, module)
    if get_if_loaded(module, name) is not cls:
        return ""
    if module == "builtins":
        return name
    return f"{module}.{name}"


def _result_in_list(owner: str, name: str) -> Any:
    """Return the result that `_RESULTS` has for a name of a class or module; `MISSING` if none."""
    for group in _RESULTS.get(owner, "").split(";"):
        result, _, patterns = group.partition(":")
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return annotation_instance(result.strip())
    return MISSING


def _name_and_module(function: Any) -> tuple[str, str]:
    """Return a function's name and its module's; two empty strings if they are unknown."""
    if type(function) in BOUND:
        function = function.__func__
    if is_dispatcher(function):
        name = own_dict(function).get("__name__")
        module = "numpy"
    elif type(function) in FUNCTIONS or type(function) in SLOTS:
        name = function.__name__
        module = getattr(function, "__module__", "")
        if type(name) is str and builtins.__dict__.get(name) is function:
            module = "builtins"
    else:
        return "", ""
    if type(name) is not str or type(module) is not str:
        return "", ""
    return name, module


def is_dispatcher(value: object) -> bool:
    """Return whether a value is one of numpy's functions that other libraries can override."""
    return type(value) is not object and type(value) is type(get_if_loaded("numpy", "linspace"))
