"""Reads objects without running their code, or with a time limit."""

from __future__ import annotations

import _thread
import ctypes
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, Callable

address_of: Callable[[object], int] = object.__hash__
"""Identifies an object like `id`, which is slow because of its audit event."""

MISSING: Any = object()
"""Stands for a value that does not exist or is unknown."""

ATOMS = frozenset(
    map(address_of, (int, float, complex, bool, str, bytes, type(None), type(Ellipsis)))
)
"""Addresses of the types whose objects are compared by value."""

# They bypass the attributes of a class, which its metaclass may compute.
_MODULE: Callable[[type], object] = type.__dict__["__module__"].__get__
_WEAKREF_OFFSET: Callable[[type], int] = type.__dict__["__weakrefoffset__"].__get__
_MAX_DECORATORS = 20

_INDEXES = (
    *("Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex"),
    *("PeriodIndex", "IntervalIndex", "CategoricalIndex"),
)

_TABLES = (
    ("numpy", "ndarray"),
    ("torch", "Tensor"),
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("polars", "DataFrame"),
    ("polars", "Series"),
)

THREAD_GRACE_S = 0.2
"""Seconds that a thread may take to stop."""
BRACKETS_BY_CLASS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}
"""Around the items of a container, as Python writes it."""
_MAX_REPR_DEPTH = 50


class Classes:
    """A set of classes, compared by identity, so that no metaclass runs."""

    def __init__(self, *classes: type) -> None:
        self._classes = classes
        self._ids = frozenset(map(address_of, classes))

    def __contains__(self, cls: object) -> bool:
        return address_of(cls) in self._ids


SCALARS = Classes(bool, int, float, complex, str, bytes, type(None))
NUMBERS = Classes(int, float, bool)
FUNCTIONS = Classes(
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
)
SLOTS = Classes(types.GetSetDescriptorType, types.MemberDescriptorType)
BOUND = Classes(staticmethod, classmethod)


mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__

name_of: Callable[[type], str] = type.__dict__["__name__"].__get__

class_dict: Callable[[type], Mapping[Any, Any]] = type.__dict__["__dict__"].__get__

_SEQUENCES = Classes(tuple, list)
_DICTS = Classes(dict, types.MappingProxyType)


def is_subclass(cls: type, base: object) -> bool:
    for one in mro_of(cls):  # noqa: SIM110 - three times as fast as `any`, and called hundreds of times for each cell
        if one is base:
            return True
    return False


def slot_names(cls: type) -> list[str]:
    """Return the names of the slots of a class, those of its bases first, each in the order of its
    ``__slots__``: the class itself has them sorted."""
    names: list[str] = []
    for base in reversed(mro_of(cls)):
        members = class_dict(base)
        if "__slots__" not in members:
            continue
        slots = [
            name
            for name, member in copy_text_keys(members).items()
            if type(member) is types.MemberDescriptorType
        ]
        declared = members["__slots__"]
        if type(declared) in _SEQUENCES:
            names += [name for name in declared if type(name) is str and name in slots]
        names += [name for name in slots if name not in names]
    return names


def has_weak_references(cls: type) -> bool:
    """Return whether the objects of a class can have weak references."""
    return _WEAKREF_OFFSET(cls) != 0


def class_module(cls: type) -> str:
    try:
        module_name = _MODULE(cls)
    except AttributeError:  # it was deleted
        return ""
    if type(module_name) is str:
        return module_name
    return ""


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
        namespace = None
        if type(slot) in SLOTS:
            namespace = slot.__get__(value)
        if type(namespace) is dict:
            return namespace
        return {}
    return {}


def unwrap(function: object) -> types.FunctionType | None:
    """Return the Python function inside its decorators; None for anything else."""
    if type(function) is not types.FunctionType:
        return None
    plain_function: types.FunctionType = function
    for _ in range(_MAX_DECORATORS):
        inner = plain_function.__dict__.get("__wrapped__")
        if type(inner) is not types.FunctionType:
            break
        plain_function = inner
    return plain_function


def parameter_names(function: types.FunctionType) -> list[str]:
    code = function.__code__
    names = code.co_varnames
    positional = code.co_argcount
    end = code.co_argcount + code.co_kwonlyargcount
    names_in_order = list(names[:positional])
    has_rest = bool(code.co_flags & 0x04)  # CO_VARARGS
    if has_rest:
        names_in_order.append("*" + names[end])
    elif code.co_kwonlyargcount:
        names_in_order.append("*")
    names_in_order += names[positional:end]
    if code.co_flags & 0x08:  # CO_VARKEYWORDS
        names_in_order.append("**" + names[end + has_rest])
    return names_in_order


def find_in_class(cls: type, name: str) -> Any:
    """Look a name up in a class and its bases; `MISSING` if undefined."""
    for base in mro_of(cls):
        member = class_dict(base).get(name, MISSING)
        if member is not MISSING:
            return member
    return MISSING


def attributes(value: Any) -> dict[str, Any]:
    members: dict[str, object] = {}
    for base in reversed(mro_of(value if is_class(value) else type(value))):
        members.update(copy_text_keys(class_dict(base)))
    if not is_class(value):
        members.update(copy_text_keys(own_dict(value)))
    return members


def attribute(value: Any, name: str) -> Any:
    """Return an attribute as stored, reading slots; `MISSING` if that would run code."""
    if is_class(value):
        return find_in_class(value, name)
    member = find_in_class(type(value), name)
    if type(member) is property:
        return member
    if type(member) is types.MemberDescriptorType:
        try:
            return member.__get__(value)
        except (AttributeError, TypeError):
            return MISSING
    return own_dict(value).get(name, member)


def get_if_loaded(module: str, name: str) -> Any:
    loaded_module = sys.modules.get(module)
    if loaded_module is None or not is_module(loaded_module):
        return MISSING
    return own_dict(loaded_module).get(name, MISSING)


def is_one_of(value: object, module: str, *names: str) -> bool:
    cls = type(value)
    return any(cls is get_if_loaded(module, name) for name in names)


def copy_text_keys(names: Any) -> dict[str, object]:
    """In one step, because other threads may change them."""
    if type(names) not in _DICTS:
        return {}
    return {name: item for name, item in list(names.items()) if type(name) is str}


def as_library_type(value: object) -> Any:
    """Return an array, tensor, or table as the library's own class; other objects unchanged.
    Numbers of a masked array would not show which are missing; subclasses of Arrow tables crash
    the process."""
    cls = type(value)
    array = get_if_loaded("numpy", "ndarray")
    if is_subclass(cls, array):
        masked = is_subclass(cls, get_if_loaded("numpy.ma", "MaskedArray"))
        if cls is array or masked:
            return value
        return array.view(value, array)
    tensor = get_if_loaded("torch", "Tensor")
    if is_subclass(cls, tensor):
        # A wrapper of tensors would run code for an alias.
        own_dispatch, plain_dispatch = (
            find_in_class(tensor_class, "__torch_dispatch__") for tensor_class in (cls, tensor)
        )
        if cls is tensor or own_dispatch is not plain_dispatch:
            return value
        return tensor.as_subclass(value, tensor)
    for name in ("DataFrame", "Series"):
        base = get_if_loaded("pandas", name)
        if cls is not base and is_subclass(cls, base):
            return _as_pandas_type(value, base)
    return value


def _as_pandas_type(value: object, base: object) -> object:
    """Return a plain table with the same data, if pandas stores it as from 2.1 on."""
    fields = own_dict(value)
    manager: Any = fields.get("_mgr")
    managers = ("BlockManager", "SingleBlockManager")
    is_known = is_one_of(manager, "pandas.core.internals.managers", *managers)
    if not is_known or not hasattr(base, "_from_mgr"):
        return value
    table = base._from_mgr(manager, axes=manager.axes)
    if table.ndim == 1:
        object.__setattr__(table, "_name", fields.get("_name"))
    return table


def is_index(value: object) -> bool:
    return is_one_of(value, "pandas", *_INDEXES)


def has_own_indexes(value: Any) -> bool:
    """Others would run code even for their length."""
    return all(map(is_index, value.axes))


def is_own_index(value: object) -> bool:
    """Return whether an index is pandas' own, with labels in arrays of numpy or pandas."""
    if not is_index(value):
        return False
    names = own_dict(value)
    if "_levels" in names:
        return all(map(is_own_index, names["_levels"]))
    is_range = is_one_of(value, "pandas", "RangeIndex")
    return is_range or is_from(names.get("_data"), "numpy", "pandas")


def is_own_type(dtype: object) -> bool:
    return is_subclass(type(dtype), get_if_loaded("numpy", "dtype")) or is_from(dtype, "pandas")


def is_own_column(series: Any) -> bool:
    """Return whether a Series has an array of numpy or pandas; the dtype of others runs code."""
    return is_from(series._values, "numpy", "pandas") and is_own_type(series.dtype)


def is_from(value: object, *packages: str) -> bool:
    """Return whether a class is the one that its module, in these packages, has under its name."""
    cls = type(value)
    module = class_module(cls)
    return module.partition(".")[0] in packages and get_if_loaded(module, name_of(cls)) is cls


def is_table(value: object) -> bool:
    return any(is_subclass(type(value), get_if_loaded(module, name)) for module, name in _TABLES)


class TimeLimitError(Exception):
    pass


class _Stop(BaseException):
    pass


def run_with_timeout(seconds: float, work: Callable[[], object]) -> Any:
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
        running.acquire(timeout=THREAD_GRACE_S)
        raise TimeLimitError
    if failures:
        raise failures[0]
    return results[0]


def limited_repr(
    value: object, limit: int, write_object: Callable[[Any], str] | None = None
) -> tuple[str, bool]:
    """Return the repr up to `limit` characters, and whether it was truncated."""
    pieces = []
    remaining_chars = limit
    for piece in _pieces(value, limit, write_object or _repr, ()):
        pieces.append(piece[:remaining_chars])
        remaining_chars -= len(piece)
        if remaining_chars < 0:
            return "".join(pieces), True
    return "".join(pieces), False


def _repr(value: object) -> str:
    return str.__str__(repr(value))


def _pieces(
    value: Any, limit: int, write_object: Callable[[Any], str], above: tuple[object, ...]
) -> Iterator[str]:
    cls = type(value)
    if cls in (str, bytes, bytearray) and len(value) > limit:
        # Before it is copied.
        yield repr(value[: limit + 1])
    elif cls not in BRACKETS_BY_CLASS or not value or len(above) > _MAX_REPR_DEPTH:
        yield write_object(value)
    elif any(container is value for container in above):
        yield "…"
    else:
        above = (*above, value)
        opening, closing = BRACKETS_BY_CLASS[cls]
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


def is_instance_if_loaded(value: object, module: str, name: str) -> bool:
    """Return whether a value is an instance of a class of a module, if that is loaded. May run the
    code of the value's `__class__`."""
    cls = get_if_loaded(module, name)
    return cls is not MISSING and isinstance(value, cls)
