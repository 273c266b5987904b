"""Reads objects without running their code, or with a time limit."""

from __future__ import annotations

import _thread
import ctypes
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, Callable


class Classes:
    """A set of classes, compared by identity, so that no metaclass runs."""

    def __init__(self, *classes: type) -> None:
        self._classes = classes
        self._ids = frozenset(map(id, classes))

    def __contains__(self, cls: object) -> bool:
        return id(cls) in self._ids


SCALARS = Classes(bool, int, float, complex, str, bytes, type(None))
NUMBERS = Classes(int, float, bool)
FUNCTIONS = Classes(
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
)
SLOTS = Classes(types.GetSetDescriptorType, types.MemberDescriptorType)
BOUND = Classes(staticmethod, classmethod)

MISSING: Any = object()
"""Stands for a value that does not exist or is unknown."""

address_of: Callable[[object], int] = object.__hash__
"""Identifies an object like `id`, which is slow because of its audit event."""

ATOMS = frozenset(
    map(address_of, (int, float, complex, bool, str, bytes, type(None), type(Ellipsis)))
)
"""Addresses of the types whose objects are compared by value."""

mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__

name_of: Callable[[type], str] = type.__dict__["__name__"].__get__

class_dict: Callable[[type], Mapping[Any, Any]] = type.__dict__["__dict__"].__get__

_MODULE: Callable[[type], Any] = type.__dict__["__module__"].__get__
_MOST_DECORATORS = 20
_DICTS = Classes(dict, types.MappingProxyType)


def is_subclass(cls: type, base: object) -> bool:
    for one in mro_of(cls):  # noqa: SIM110 - three times as fast as `any`, and called hundreds of times for each cell
        if one is base:
            return True
    return False


def class_module(cls: type) -> str:
    try:
        found = _MODULE(cls)
    except AttributeError:  # it was deleted
        return ""
    return found if type(found) is str else ""


def is_class(value: object) -> bool:
    return is_subclass(type(value), type)


def is_module(value: object) -> bool:
    return type(value) is types.ModuleType or is_subclass(type(value), types.ModuleType)


def own_dict(value: object) -> dict[Any, Any]:
    """Return an object's own attributes; empty if there are none."""
    for base in mro_of(type(value)):
        slot = class_dict(base).get("__dict__")
        if slot is None:
            continue
        found = slot.__get__(value) if type(slot) in SLOTS else None
        return found if type(found) is dict else {}
    return {}


def unwrap(function: Any) -> types.FunctionType | None:
    """Return the Python function inside its decorators; None for anything else."""
    if type(function) is not types.FunctionType:
        return None
    found: types.FunctionType = function
    for _ in range(_MOST_DECORATORS):
        inner = found.__dict__.get("__wrapped__")
        if type(inner) is not types.FunctionType:
            break
        found = inner
    return found


def parameter_names(function: types.FunctionType) -> list[str]:
    code = function.__code__
    names = code.co_varnames
    positional, end = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    found, has_rest = list(names[:positional]), bool(code.co_flags & 0x04)  # CO_VARARGS
    if has_rest:
        found.append("*" + names[end])
    elif code.co_kwonlyargcount:
        found.append("*")
    found += names[positional:end]
    if code.co_flags & 0x08:  # CO_VARKEYWORDS
        found.append("**" + names[end + has_rest])
    return found


def find_in_class(cls: type, name: str) -> Any:
    """Look a name up in a class and its bases; `MISSING` if undefined."""
    for base in mro_of(cls):
        found = class_dict(base).get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def attributes(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(mro_of(value if is_class(value) else type(value))):
        found.update(copy_text_keys(class_dict(base)))
    if not is_class(value):
        found.update(copy_text_keys(own_dict(value)))
    return found


def attribute(value: Any, name: str) -> Any:
    """Return an attribute as stored, reading slots; `MISSING` if that would run code."""
    if is_class(value):
        return find_in_class(value, name)
    found = find_in_class(type(value), name)
    if type(found) is property:
        return found
    if type(found) is types.MemberDescriptorType:
        try:
            return found.__get__(value)
        except (AttributeError, TypeError):
            return MISSING
    return own_dict(value).get(name, found)


def get_if_loaded(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    if found is None or not is_module(found):
        return MISSING
    return own_dict(found).get(name, MISSING)


def is_one_of(value: object, module: str, *names: str) -> bool:
    cls = type(value)
    return any(cls is get_if_loaded(module, name) for name in names)


def copy_text_keys(names: Any) -> dict[str, Any]:
    """In one step, because other threads may change them."""
    if type(names) not in _DICTS:
        return {}
    return {name: item for name, item in list(names.items()) if type(name) is str}


_INDEXES = (
    *("Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex"),
    *("PeriodIndex", "IntervalIndex", "CategoricalIndex"),
)


def as_library_type(value: Any) -> Any:
    """Return an array, tensor, or table as the library's own class; other objects unchanged.
    Numbers of a masked array would not show which are missing; subclasses of Arrow tables crash
    the process."""
    cls = type(value)
    array = get_if_loaded("numpy", "ndarray")
    if is_subclass(cls, array):
        masked = is_subclass(cls, get_if_loaded("numpy.ma", "MaskedArray"))
        return value if cls is array or masked else array.view(value, array)
    tensor = get_if_loaded("torch", "Tensor")
    if is_subclass(cls, tensor):
        # A wrapper of tensors would run code for an alias.
        own, plain = (find_in_class(each, "__torch_dispatch__") for each in (cls, tensor))
        return value if cls is tensor or own is not plain else tensor.as_subclass(value, tensor)
    for name in ("DataFrame", "Series"):
        base = get_if_loaded("pandas", name)
        if cls is not base and is_subclass(cls, base):
            return _as_pandas_type(value, base)
    return value


def _as_pandas_type(value: Any, base: Any) -> Any:
    """Return a plain table with the same data, if pandas stores it as from 2.1 on."""
    fields = own_dict(value)
    manager: Any = fields.get("_mgr")
    managers = ("BlockManager", "SingleBlockManager")
    is_known = is_one_of(manager, "pandas.core.internals.managers", *managers)
    if not is_known or not hasattr(base, "_from_mgr"):
        return value
    made = base._from_mgr(manager, axes=manager.axes)
    if made.ndim == 1:
        object.__setattr__(made, "_name", fields.get("_name"))
    return made


def is_index(value: Any) -> bool:
    return is_one_of(value, "pandas", *_INDEXES)


def has_own_indexes(value: Any) -> bool:
    """Others would run code even for their length."""
    return all(map(is_index, value.axes))


def is_own_index(value: Any) -> bool:
    """Return whether an index is pandas' own, with labels in arrays of numpy or pandas."""
    if not is_index(value):
        return False
    names = own_dict(value)
    if "_levels" in names:
        return all(map(is_own_index, names["_levels"]))
    is_range = is_one_of(value, "pandas", "RangeIndex")
    return is_range or is_from(names.get("_data"), "numpy", "pandas")


def is_own_type(dtype: Any) -> bool:
    return is_subclass(type(dtype), get_if_loaded("numpy", "dtype")) or is_from(dtype, "pandas")


def is_own_column(series: Any) -> bool:
    """Return whether a Series has an array of numpy or pandas; the dtype of others runs code."""
    return is_from(series._values, "numpy", "pandas") and is_own_type(series.dtype)


def is_from(value: Any, *packages: str) -> bool:
    """Return whether a class is the one that its module, in these packages, has under its name."""
    cls = type(value)
    module = class_module(cls)
    return module.partition(".")[0] in packages and get_if_loaded(module, name_of(cls)) is cls


_TABLES = (
    ("numpy", "ndarray"),
    ("torch", "Tensor"),
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("polars", "DataFrame"),
    ("polars", "Series"),
)


def is_table(value: Any) -> bool:
    return any(is_subclass(type(value), get_if_loaded(module, name)) for module, name in _TABLES)


GRACE = 0.2
"""Seconds that a thread may take to stop."""
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}
_DEPTH = 50


class TimeLimitError(Exception):
    pass


class _Stop(BaseException):
    pass


def run_with_timeout(seconds: float, work: Callable[[], Any]) -> Any:
    """Return the result of `work`. Raises its exception, or `TimeLimitError`; code that does not
    stop is abandoned."""
    results: list[Any] = []
    failures: list[BaseException] = []
    running = _thread.allocate_lock()
    running.acquire()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # the outermost frame, around an object of the user's
            failures.append(error)
        finally:
            running.release()

    # A `Thread` depends on functions that a cell may have replaced.
    thread = _thread.start_new_thread(run, ())
    running.acquire(timeout=seconds)
    if not results and not failures:
        ident = ctypes.c_ulong(thread)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(_Stop))
        running.acquire(timeout=GRACE)
        raise TimeLimitError
    if failures:
        raise failures[0]
    return results[0]


def limited_repr(
    value: Any, limit: int, write_object: Callable[[Any], str] | None = None
) -> tuple[str, bool]:
    """Return the repr up to `limit` characters, and whether it was truncated."""
    pieces, left = [], limit
    for piece in _pieces(value, limit, write_object or _repr, ()):
        pieces.append(piece[:left])
        left -= len(piece)
        if left < 0:
            return "".join(pieces), True
    return "".join(pieces), False


def _repr(value: Any) -> str:
    return str.__str__(repr(value))


def _pieces(
    value: Any, limit: int, write_object: Callable[[Any], str], above: tuple[Any, ...]
) -> Iterator[str]:
    cls = type(value)
    if cls in (str, bytes, bytearray) and len(value) > limit:
        # Before it is copied.
        yield repr(value[: limit + 1])
    elif cls not in _BRACKETS or not value or len(above) > _DEPTH:
        yield write_object(value)
    elif any(each is value for each in above):
        yield "…"
    else:
        above = (*above, value)
        opening, closing = _BRACKETS[cls]
        yield opening
        for index, item in enumerate(value.items() if cls is dict else value):
            if index:
                yield ", "
            if cls is dict:
                yield from _pieces(item[0], limit, write_object, above)
                yield ": "
                item = item[1]
            yield from _pieces(item, limit, write_object, above)
        yield ("," if cls is tuple and len(value) == 1 else "") + closing
