"""Describes objects in a few words each. No user code runs: objects of unknown types have no
summary, and types are known by identity, so that user classes are neither hashed nor compared."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Callable

from .objects import (
    FUNCTIONS,
    Classes,
    address_of,
    as_library_type,
    class_module,
    get_if_loaded,
    is_own_column,
    is_own_index,
    is_subclass,
    mro_of,
    name_of,
    own_dict,
    parameter_names,
    unwrap,
)

SUMMARY_CHARS = 60
"""Maximum characters of a summary."""

PLAIN = Classes(
    *(bool, int, float, complex, str, bytes, bytearray, type(None)),
    *(list, tuple, set, frozenset, dict),
)
"""Built-in classes whose `repr` only contains the objects inside them."""

_TYPE_NAME_CHARS = 40
_MAX_SHOWN_BYTES = 20
"""A longer bytes object is only counted."""
_BIG_NUMBER = 1 << 200
"""A larger whole number is not written."""
_BUILTIN_BASES: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes)
_LENGTHS: dict[int, Callable[[Any], int]] = {
    address_of(base): base.__len__ for base in _BUILTIN_BASES
}
"""The functions that return the length of an object, by the address of its built-in class."""
_KNOWN_ZONE_MODULES = ("builtins", "datetime", "zoneinfo")
"""Modules of time zones that do not run code of the user's; the class of None is in "builtins"."""


def summary(value: object) -> str:
    """Describe an object in one line; empty if nothing can be read safely."""
    cls = type(value)
    summarize = _BUILTIN_SUMMARIES.get(address_of(cls))
    if summarize is not None:
        return summarize(value)
    kind = variable_kind(value)
    if kind == "module":
        return module_version(own_dict(value))
    if kind != "data":
        return ""
    try:
        library_summary = _summarize_library_object(as_library_type(value))
    except Exception:  # a library's object in an inconsistent state
        return ""
    if library_summary is not None:
        return library_summary
    size = safe_length(value)
    if size is None:
        return ""
    return format_count(size, "chars" if is_subclass(cls, str) else "items")


def variable_kind(value: object) -> str:
    """Return ``module``, ``function``, ``class`` or ``data``."""
    cls = type(value)
    if cls in PLAIN:
        return "data"
    if is_subclass(cls, types.ModuleType):
        return "module"
    if cls in FUNCTIONS or name_of(cls) == "ufunc":
        return "function"
    if is_subclass(cls, type):
        return "class"
    return "data"


def type_name(value: object) -> str:
    """Return the name of a value's class in one line."""
    return one_line(name_of(type(value)), _TYPE_NAME_CHARS)


def module_version(names: Mapping[str, object]) -> str:
    """Return the version among a module's names; empty if it has none.

    No method of torch's own class runs.
    """
    version = names.get("__version__")
    if issubclass(type(version), str):
        return one_line(str.__str__(version))
    return ""


def safe_length(value: object) -> int | None:
    """Return the length of an object; None if only user code could tell it."""
    for base in mro_of(type(value)):
        length = _LENGTHS.get(address_of(base))
        if length is not None:
            return length(value)
    return None


def format_count(number: int, unit: str) -> str:
    """Format a count: ``1,200 items``, ``18.4 M chars``, ``1 item``.

    Args:
        number: The count.
        unit: The noun in the plural.
    """
    if number >= 999_950_000:  # with one digit, this is 1.0 G
        text = "%.1f G" % (number / 1e9)
    elif number >= 1_000_000:
        text = "%.1f M" % (number / 1e6)
    else:
        text = f"{number:,}"
    if number == 1 and unit.endswith("s"):
        unit = unit[:-1]
    return f"{text} {unit}"


def one_line(text: str, width: int = SUMMARY_CHARS) -> str:
    """Return a text without line breaks and control characters, truncated to `width` characters."""
    if len(text) <= width and text.isprintable():
        return text
    printable = "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in text[: width + 1]
    )
    if len(printable) <= width:
        return printable
    return printable[: width - 1] + "…"


# Of the built-in types


def _summarize_int(value: int) -> str:
    if -_BIG_NUMBER < value < _BIG_NUMBER:
        return str(value)
    return format_count(value.bit_length(), "bits")


def _summarize_str(value: str) -> str:
    width = SUMMARY_CHARS - len("''")
    if len(value) <= width:
        return f"'{one_line(value, width)}'"
    return format_count(len(value), "chars")


def _summarize_bytes(value: bytes | bytearray) -> str:
    if len(value) <= _MAX_SHOWN_BYTES:
        return one_line(repr(bytes(value)))
    return format_count(len(value), "bytes")


def _count_items(value: Any) -> str:
    return format_count(len(value), "items")


def _summarize_range(value: range) -> str:
    numbers = (value.start, value.stop, value.step)
    if all(-_BIG_NUMBER < number < _BIG_NUMBER for number in numbers):
        return one_line(repr(value))
    return ""


def _summarize_function(value: object) -> str:
    function = unwrap(value)
    if function is None:
        return ""
    return one_line(f"({', '.join(parameter_names(function))})")


_SUMMARIES_BY_TYPE: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((bool, type(None), type(Ellipsis)), str),
    int: _summarize_int,
    **dict.fromkeys((float, complex), repr),
    str: _summarize_str,
    **dict.fromkeys((bytes, bytearray), _summarize_bytes),
    **dict.fromkeys((list, tuple, set, frozenset, dict), _count_items),
    range: _summarize_range,
    types.FunctionType: _summarize_function,
}
_BUILTIN_SUMMARIES = {address_of(cls): summarize for cls, summarize in _SUMMARIES_BY_TYPE.items()}


# Of the types of libraries


def _summarize_library_object(value: object) -> str | None:
    """Return the summary of an object of a library's own class; None for other objects.

    May raise anything.
    """
    cls = type(value)
    for (module, name), summarize in _LIBRARY_SUMMARIES.items():
        if cls is get_if_loaded(module, name):
            return summarize(value)
    is_numpy_scalar = (
        is_subclass(cls, get_if_loaded("numpy", "generic"))
        and get_if_loaded("numpy", name_of(cls)) is cls
    )
    # A scalar with fields would write the objects in them.
    has_fields = is_numpy_scalar and is_subclass(cls, get_if_loaded("numpy", "void"))
    if is_numpy_scalar and not has_fields:
        return _summarize_by_str(value)
    return None


def _summarize_by_str(value: object) -> str:
    return one_line(str(value))


def _summarize_fraction(value: Any) -> str:
    if abs(value.numerator) < _BIG_NUMBER and value.denominator < _BIG_NUMBER:
        return str(value)
    return ""


def _summarize_datetime(value: Any) -> str:
    # A time zone of the user's would run their code.
    if class_module(type(value.tzinfo)) in _KNOWN_ZONE_MODULES:
        return str(value.isoformat(" "))
    return ""


def _summarize_time(value: Any) -> str:
    if value.tzinfo is None:
        return str(value.isoformat())
    return ""


def _summarize_table(value: Any) -> str:
    """Format the shape of a table or array; empty if it has no dimensions."""
    lengths = [f"{length:,}" if type(length) is int else str(length) for length in value.shape]
    return " × ".join(lengths)


def _summarize_series(value: Any) -> str:
    return one_line(f"{len(value):,} {value.dtype}")


def _summarize_pandas(value: Any) -> str:
    if not all(map(is_own_index, value.axes)):
        return ""
    if value.ndim == 2:
        return _summarize_table(value)
    return _summarize_pandas_column(value)


def _summarize_pandas_column(value: object) -> str:
    if is_own_column(value):
        return _summarize_series(value)
    return ""


def _summarize_array(value: Any) -> str:
    return one_line(f"{_summarize_table(value)} {value.dtype}".lstrip())


def _summarize_tensor(value: Any) -> str:
    return one_line(f"{_summarize_table(value)} {value.dtype} {value.device}".lstrip())


# By name, because these modules are not imported here.
_LIBRARY_SUMMARIES: dict[tuple[str, str], Callable[[Any], str]] = {
    ("pathlib", "PosixPath"): _summarize_by_str,
    ("pathlib", "PurePosixPath"): _summarize_by_str,
    ("pathlib", "PureWindowsPath"): _summarize_by_str,
    ("decimal", "Decimal"): _summarize_by_str,
    ("fractions", "Fraction"): _summarize_fraction,
    ("datetime", "datetime"): _summarize_datetime,
    ("datetime", "date"): _summarize_by_str,
    ("datetime", "time"): _summarize_time,
    ("datetime", "timedelta"): _summarize_by_str,
    ("pandas", "DataFrame"): _summarize_pandas,
    ("pandas", "Series"): _summarize_pandas,
    ("pandas", "Index"): _summarize_pandas_column,
    ("numpy", "ndarray"): _summarize_array,
    ("polars", "DataFrame"): _summarize_table,
    ("polars", "Series"): _summarize_series,
    ("pyarrow", "Table"): _summarize_table,
    ("torch", "Tensor"): _summarize_tensor,
}
