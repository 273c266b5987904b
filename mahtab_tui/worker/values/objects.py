"""Reads objects without running their code, or with a time limit."""

from __future__ import annotations

import _thread
import ctypes
import sys
import types
import weakref
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
"""Decorators that are looked through."""

# Flags of code
_HAS_REST_ARGUMENTS = 0x04
_HAS_REST_KEYWORDS = 0x08

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

"""Modules and names of classes of tables and arrays."""

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
"""Containers in each other that are written item by item."""


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
"""Returns a class and its bases, in the order in which names are looked up."""
name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
class_dict: Callable[[type], Mapping[Any, Any]] = type.__dict__["__dict__"].__get__
"""Returns what a class itself defines, without its bases."""

_SEQUENCES = Classes(tuple, list)
_DICTS = Classes(dict, types.MappingProxyType)


class OwnReference(weakref.ref):  # type: ignore[type-arg]
    """A weak reference of the kernel's own, without an effect when its object ends.

    Code gets it from `weakref.getweakrefs` only. A plain `weakref.ref` of the kernel's would be shared
    with code, because Python makes only one for each object.
    """

    __slots__ = ()


def is_subclass(cls: type, base: object) -> bool:
    """Return whether a class is derived from a base, or is it; False if `base` is not a class."""
    # Three times as fast as `any`, and called hundreds of times for each cell.
    for ancestor in mro_of(cls):  # noqa: SIM110
        if ancestor is base:
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
    """Return the name of the module that defines a class; empty if it is unknown."""
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
    """Return the names of parameters in order, with stars as they are written."""
    code = function.__code__
    names = code.co_varnames
    positional_end = code.co_argcount
    end = code.co_argcount + code.co_kwonlyargcount
    has_rest = bool(code.co_flags & _HAS_REST_ARGUMENTS)
    ordered_names = list(names[:positional_end])
    if has_rest:
        ordered_names.append("*" + names[end])
    elif code.co_kwonlyargcount:
        ordered_names.append("*")
    ordered_names += names[positional_end:end]
    if code.co_flags & _HAS_REST_KEYWORDS:
        ordered_names.append("**" + names[end + has_rest])
    return ordered_names


def find_in_class(cls: type, name: str) -> Any:
    """Look a name up in a class and its bases; `MISSING` if undefined."""
    for base in mro_of(cls):
        member = class_dict(base).get(name, MISSING)
        if member is not MISSING:
            return member
    return MISSING


def attributes(value: Any) -> dict[str, Any]:
    """Return what an object and its class define, by name; of a class, what it and its bases
    define."""
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
    """Return what a module has under a name; `MISSING` if it has nothing, or is not loaded."""
    present_module = sys.modules.get(module)
    if present_module is None or not is_module(present_module):
        return MISSING
    return own_dict(present_module).get(name, MISSING)


def is_lazy(module: object) -> bool:
    """Return whether reading an attribute of a module may run code: that of
    `importlib.util.LazyLoader` is loaded by this."""
    bases = mro_of(type(module))
    return any(
        "__getattribute__" in class_dict(base)
        for base in bases
        if base is not types.ModuleType and base is not object
    )


def loaded_module(name: str) -> Any:
    """Return a module. Raises `KeyError` if it is not loaded, or only when it is used."""
    module = sys.modules[name]
    if is_lazy(module):
        raise KeyError(name)
    return module


def is_one_of(value: object, module: str, *names: str) -> bool:
    """Return whether a value's own class is one of these of a module; not one derived from it."""
    cls = type(value)
    return any(cls is get_if_loaded(module, name) for name in names)


def copy_text_keys(names: Any) -> dict[str, object]:
    """Return the entries of a dict whose keys are text; empty for other objects."""
    if type(names) not in _DICTS:
        return {}
    # Listed in one step, because other threads may change them.
    return {name: item for name, item in list(names.items()) if type(name) is str}


def as_library_type(value: object) -> Any:
    """Return an array, tensor, or table as the library's own class; other objects unchanged."""
    cls = type(value)
    array_class = get_if_loaded("numpy", "ndarray")
    if is_subclass(cls, array_class):
        # The numbers of a masked array would not show which are missing.
        is_masked = is_subclass(cls, get_if_loaded("numpy.ma", "MaskedArray"))
        if cls is array_class or is_masked:
            return value
        return array_class.view(value, array_class)
    tensor_class = get_if_loaded("torch", "Tensor")
    if is_subclass(cls, tensor_class):
        return _as_plain_tensor(value, tensor_class)
    # Derived classes of Arrow's tables crash the process.
    for name in ("DataFrame", "Series"):
        base = get_if_loaded("pandas", name)
        if cls is not base and is_subclass(cls, base):
            return _as_pandas_type(value, base)
    return value


def _as_plain_tensor(tensor: object, tensor_class: Any) -> object:
    """Return a tensor as torch's own class; one that wraps others unchanged.

    Args:
        tensor: The tensor, perhaps of a derived class.
        tensor_class: Torch's own class.
    """
    cls = type(tensor)
    own_dispatch = find_in_class(cls, "__torch_dispatch__")
    # A wrapper of tensors would run code for an alias.
    is_wrapper = own_dispatch is not find_in_class(tensor_class, "__torch_dispatch__")
    if cls is tensor_class or is_wrapper:
        return tensor
    return tensor_class.as_subclass(tensor, tensor_class)


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
    """Return whether a value is an index of pandas, of one of its own classes."""
    return is_one_of(value, "pandas", *_INDEXES)


def has_own_indexes(value: Any) -> bool:
    """Return whether the indexes of a table are of pandas' own classes: others would run code even
    for their length."""
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
    """Return whether the type of a column is one of numpy or pandas."""
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
    """Return whether a value is a table or an array, also of a derived class."""
    return any(is_subclass(type(value), get_if_loaded(module, name)) for module, name in _TABLES)


class TimeLimitError(Exception):
    """Code has not ended in time."""


class _Stop(BaseException):
    """Raised in the thread of code that has not ended in time."""


def forget_dummy_thread() -> None:
    """Take this thread, which `_thread` has started, out of the threads that `threading` lists.

    Whoever asks there for the current thread adds it to them, perhaps for an audit event. Before Python
    3.12 it would stay there for ever, and pass for a thread of the user's.
    """
    active_threads: Any = get_if_loaded("threading", "_active")
    if type(active_threads) is dict:
        active_threads.pop(_thread.get_ident(), None)


def run_with_timeout(seconds: float, work: Callable[[], object]) -> Any:
    """Run code on a thread of its own.

    Args:
        seconds: Time limit. Code that does not stop then is abandoned.
        work: Runs the code.

    Returns:
        What `work` returns.

    Raises:
        TimeLimitError: It did not end in time.
        BaseException: What `work` raises.
    """
    results: list[Any] = []
    errors: list[BaseException] = []
    is_running = _thread.allocate_lock()
    is_running.acquire()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # the outermost frame, around an object of the user's
            errors.append(error)
        finally:
            forget_dummy_thread()
            is_running.release()

    # A `Thread` depends on functions that a cell may have replaced.
    thread_id = _thread.start_new_thread(run, ())
    is_running.acquire(timeout=seconds)
    if not results and not errors:
        stop = ctypes.py_object(_Stop)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), stop)
        is_running.acquire(timeout=THREAD_GRACE_S)
        raise TimeLimitError
    if errors:
        raise errors[0]
    return results[0]


def limited_repr(
    value: object, limit: int, write_object: Callable[[Any], str] | None = None
) -> tuple[str, bool]:
    """Write an object as `repr` does, as far as it is not too long.

    Args:
        value: The object.
        limit: Maximum characters.
        write_object: Writes what is not a container; by default as `repr`.

    Returns:
        The text, and whether it was truncated.
    """
    pieces = []
    remaining_chars = limit
    for piece in _repr_pieces(value, limit, write_object or _repr, ()):
        pieces.append(piece[:remaining_chars])
        remaining_chars -= len(piece)
        if remaining_chars < 0:
            return "".join(pieces), True
    return "".join(pieces), False


def _repr(value: object) -> str:
    # A `__repr__` may return an object of a derived class.
    return str.__str__(repr(value))


def _repr_pieces(
    value: Any, limit: int, write_object: Callable[[Any], str], above: tuple[object, ...]
) -> Iterator[str]:
    """Yield the repr of an object piece by piece.

    Args:
        value: The object.
        limit: Characters of a text that are needed.
        write_object: Writes what is not a container.
        above: The containers that it is in.
    """
    cls = type(value)
    if cls in (str, bytes, bytearray) and len(value) > limit:
        # Cut before it is copied.
        yield repr(value[: limit + 1])
        return
    if cls not in BRACKETS_BY_CLASS or not value or len(above) > _MAX_REPR_DEPTH:
        yield write_object(value)
        return
    if any(container is value for container in above):
        yield "…"
        return

    above = (*above, value)
    opening, closing = BRACKETS_BY_CLASS[cls]
    yield opening
    for index, item in enumerate(value.items() if cls is dict else value):
        if index:
            yield ", "
        if cls is dict:
            key, item = item
            yield from _repr_pieces(key, limit, write_object, above)
            yield ": "
        yield from _repr_pieces(item, limit, write_object, above)
    is_single = cls is tuple and len(value) == 1
    yield f",{closing}" if is_single else closing


def is_instance_if_loaded(value: object, module: str, name: str) -> bool:
    """Return whether a value is an instance of a class of a module, if that is loaded. May run the
    code of the value's `__class__`."""
    cls = get_if_loaded(module, name)
    return cls is not MISSING and isinstance(value, cls)
