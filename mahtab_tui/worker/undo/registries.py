"""State that code adds to or registers: modules, classes, environment variables, contexts, caches.

For each kind there is a function that reads it, and one that writes back what the first has returned.
`settings` and `process_state` decide when they are called.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from itertools import count, takewhile
from typing import Any

from ..cells.tracebacks import CELL
from ..values.objects import (
    MISSING,
    address_of,
    class_dict,
    class_module,
    is_module,
    loaded_module,
    mro_of,
    own_dict,
)

try:
    import _abc  # type: ignore[import-not-found]
except ImportError:  # not CPython
    _abc = None

_SIZE_VARIABLES = ("COLUMNS", "LINES")
"""The program sets these when the screen's size changes."""
_SIZE_ROW_PREFIXES = tuple(f"{name}=".encode() for name in _SIZE_VARIABLES)
_C_ENVIRONMENT = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
"""The variables as child processes get them, as rows ``NAME=text``: `os.putenv` changes only these."""

_LOOP_SETTINGS = ("_debug", "_exception_handler", "_task_factory", "slow_callback_duration")
"""The settings of an event loop of asyncio."""

_ACCESSOR_CLASSES = ("DataFrame", "Series", "Index")
"""The classes of pandas that get accessors, such as `table.geo`."""

_DECIMAL_CONTEXTS = ("DefaultContext", "BasicContext", "ExtendedContext")
"""The contexts of `decimal` that are variables of the module."""
_CONTEXT_FIELDS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "flags", "traps")

_DIALECT_FIELDS = (
    *("delimiter", "doublequote", "escapechar", "lineterminator", "quotechar", "quoting"),
    *("skipinitialspace", "strict"),
)


# Environment variables


def read_environment() -> tuple[dict[str, str], list[bytes]]:
    """Return the variables as Python has them, and the rows of the C library."""
    variables = {name: text for name, text in os.environ.items() if name not in _SIZE_VARIABLES}
    return variables, _read_c_environment()


def _read_c_environment() -> list[bytes]:
    """Return rows ``NAME=text``."""
    if not ctypes.cast(_C_ENVIRONMENT, ctypes.c_void_p).value:  # after `clearenv`
        return []
    # The array ends with a null pointer.
    all_rows = takewhile(lambda row: row is not None, map(_C_ENVIRONMENT.__getitem__, count()))
    return [row for row in all_rows if not row.startswith(_SIZE_ROW_PREFIXES)]


def write_environment(environment: tuple[dict[str, str], list[bytes]]) -> None:
    """Set and remove variables until they are those that `read_environment` returned."""
    variables, c_rows = environment
    time_zone = os.environ.get("TZ")
    added_names = os.environ.keys() - variables.keys()
    for name in added_names.difference(_SIZE_VARIABLES):
        del os.environ[name]
    for name, text in variables.items():
        if os.environ.get(name) != text:
            os.environ[name] = text
    _write_c_environment(c_rows)
    if os.environ.get("TZ") != time_zone:
        time.tzset()


def _write_c_environment(c_rows: list[bytes]) -> None:
    """Set and remove what still differs: it was set with `os.putenv` or by native code."""
    present_c_rows = _read_c_environment()
    wanted_c_names = {row.partition(b"=")[0] for row in c_rows}
    for row in set(present_c_rows).difference(c_rows):
        c_name = row.partition(b"=")[0]
        if c_name not in wanted_c_names:
            os.unsetenv(c_name)
    for row in set(c_rows).difference(present_c_rows):
        c_name, _, c_text = row.partition(b"=")
        os.putenv(c_name, c_text)


# Modules


class ModuleTable:
    """The entries of `sys.modules` at one time. Keeps no module alive."""

    def __init__(self) -> None:
        self._references: dict[str, Callable[[], Any]] = {
            name: weakref.ref(module) if is_module(module) else _constant(module)
            for name, module in list(sys.modules.items())
        }
        """What returns each entry; None for a module that has ended."""

    def find_changes(self) -> dict[str, object]:
        """Return the entries to put back, `MISSING` for those to remove.

        Modules that were loaded since stay: loading them again would make other classes.
        """
        present_entries = dict(sys.modules)
        changes: dict[str, Any] = {}
        for name, reference in self._references.items():
            module = reference()
            has_ended = module is None and isinstance(reference, weakref.ref)
            if not has_ended and present_entries.get(name, MISSING) is not module:
                changes[name] = module

        old_addresses = {address_of(reference()) for reference in self._references.values()}
        for name in present_entries.keys() - self._references.keys():
            module = present_entries[name]
            is_second_name = address_of(module) in old_addresses
            # An import sets `__spec__`. What has none was put there by code.
            is_loaded = is_module(module) and own_dict(module).get("__spec__") is not None
            if is_second_name or not is_loaded:
                changes[name] = MISSING
        return changes


def _constant(value: object) -> Callable[[], object]:
    return lambda: value


def write_modules(changes: dict[str, Any]) -> None:
    """Put back what `ModuleTable.find_changes` returned."""
    for name, module in changes.items():
        if module is MISSING:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module


# Classes that are registered with others


def read_registered(cls: type) -> list[type]:
    """Return the classes that were registered with an abstract class, in a fixed order."""
    if _abc is None or "_abc_impl" not in class_dict(cls):
        return []
    references: Iterable[weakref.ref[type]] = _abc._get_dump(cls)[0]
    classes = [reference() for reference in references]
    return sorted((registered for registered in classes if registered is not None), key=address_of)


def write_registered(cls: type, classes: Iterable[type]) -> None:
    """Register these classes with an abstract class, and no others."""
    _abc._reset_registry(cls)
    for base in mro_of(cls):
        if "_abc_impl" in class_dict(base):
            _abc._reset_caches(base)
    for registered in classes:
        _abc._abc_register(cls, registered)


def read_extension_types() -> list[type]:
    """Return the types of columns that were registered with pandas."""
    return list(loaded_module("pandas.core.dtypes.base")._registry.dtypes)


def write_extension_types(types: list[type]) -> None:
    loaded_module("pandas.core.dtypes.base")._registry.dtypes[:] = types


def read_accessors() -> list[dict[str, Any]]:
    """Return what was registered with `register_dataframe_accessor` and the like, by name, for each
    class of pandas."""
    pandas = loaded_module("pandas")
    classes = [getattr(pandas, name) for name in _ACCESSOR_CLASSES]
    return [{name: class_dict(cls).get(name) for name in cls._accessors} for cls in classes]


def write_accessors(old_accessors: list[dict[str, Any]]) -> None:
    for class_name, accessors in zip(_ACCESSOR_CLASSES, old_accessors):
        cls = getattr(loaded_module("pandas"), class_name)
        for name in cls._accessors - accessors.keys():
            cls._accessors.discard(name)
            delattr(cls, name)
        for name, accessor in accessors.items():
            if accessor is not None and class_dict(cls).get(name) is not accessor:
                setattr(cls, name, accessor)
            cls._accessors.add(name)


# State of modules of the standard library


def read_dialects() -> dict[str, dict[str, Any]]:
    """Return the arguments of `register_dialect` by the names of dialects."""
    csv = loaded_module("csv")
    return {
        name: {field: getattr(csv.get_dialect(name), field) for field in _DIALECT_FIELDS}
        for name in csv.list_dialects()
    }


def write_dialects(old_dialects: dict[str, dict[str, Any]]) -> None:
    csv = loaded_module("csv")
    for name in csv.list_dialects():
        csv.unregister_dialect(name)
    for name, fields in old_dialects.items():
        csv.register_dialect(name, **fields)


def write_faulthandler(is_enabled: bool) -> None:
    faulthandler = loaded_module("faulthandler")
    if is_enabled:
        faulthandler.enable(sys.__stderr__)
    else:
        faulthandler.disable()


def write_tracemalloc(is_tracing: bool) -> None:
    tracemalloc = loaded_module("tracemalloc")
    if is_tracing:
        tracemalloc.start()
    else:
        tracemalloc.stop()


def read_source_cache() -> dict[str, object]:
    """Return the sources in `linecache` that code has put there, and those that it reads later: not
    those of files, cells and generated code."""
    cache: dict[str, Any] = loaded_module("linecache").cache
    return {
        name: entry
        for name, entry in list(cache.items())
        if not name.startswith((CELL, "<")) and _is_no_file(name, entry)
    }


def _is_no_file(name: str, entry: tuple[Any, ...]) -> bool:
    """Return whether a source of `linecache` is not that of a file."""
    if len(entry) > 1:
        return entry[1] is None
    # What is read later comes from the file if there is one. Each traceback adds such entries, in
    # asyncio's debug mode also those of the kernel.
    return not os.path.exists(name)


def write_source_cache(old_cache: dict[str, object]) -> None:
    cache: dict[str, Any] = loaded_module("linecache").cache
    for name in read_source_cache().keys() - old_cache.keys():
        del cache[name]
    cache.update(old_cache)


def read_decimal_contexts() -> list[Any]:
    """Return the arguments that make the contexts with which threads and new contexts start."""
    decimal = loaded_module("decimal")
    return [getattr(decimal, name).__reduce__()[1] for name in _DECIMAL_CONTEXTS]


def write_decimal_contexts(contexts: list[Any]) -> None:
    decimal = loaded_module("decimal")
    for name, arguments in zip(_DECIMAL_CONTEXTS, contexts):
        context = getattr(decimal, name)
        earlier_context = decimal.Context(*arguments)
        for field in _CONTEXT_FIELDS:
            setattr(context, field, getattr(earlier_context, field))


def read_event_loop() -> tuple[Any, ...]:
    """Return the settings of the event loop of cells.

    Raises `AttributeError` if there is none yet, or if it is not one of Python's own.
    """
    asyncio = loaded_module("asyncio")
    loop = asyncio.events._event_loop_policy._local._loop
    if class_module(type(loop)) != "asyncio.unix_events":
        raise AttributeError("no loop of Python's own")
    return tuple(getattr(loop, name) for name in _LOOP_SETTINGS)


def write_event_loop(values: tuple[Any, ...]) -> None:
    loop = loaded_module("asyncio").events._event_loop_policy._local._loop
    for name, value in zip(_LOOP_SETTINGS, values):
        setattr(loop, name, value)
