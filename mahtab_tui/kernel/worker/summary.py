"""Short descriptions of objects by their exact type, from metadata only.

No `repr`, `len`, `hasattr`, property or descriptor of a user's class ever runs here. Objects of
unknown types are described only by the name of their type.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Callable

from .library_types import as_library_type, is_own_column, is_own_index
from .statics import (
    VARARGS,
    VARKEYWORDS,
    Classes,
    descends,
    loaded,
    module_of,
    mro_of,
    name_of,
    own_dict,
    unwrapped,
)

WIDTH = 60
"""The most characters of a summary."""

_FUNCTIONS = Classes(
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)
_PLAIN = Classes(
    bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict, type(None)
)
_BIG = 1 << 200


def kind_of(value: object) -> str:
    """Return ``module``, ``function``, ``class`` or ``data``."""
    cls = type(value)
    if cls in _PLAIN:
        return "data"
    if descends(cls, types.ModuleType):
        return "module"
    if cls in _FUNCTIONS or name_of(cls) == "ufunc":
        return "function"
    if descends(cls, type):
        return "class"
    return "data"


def type_name(value: object) -> str:
    """Return the type's name, shortened."""
    return one_line(name_of(type(value)), 40)


def counted(number: int, unit: str) -> str:
    """Format a count: ``1,200 items``, ``18.4 M chars``, ``1 item``."""
    if number >= 1_000_000_000:
        text = "%.1f G" % (number / 1e9)
    elif number >= 1_000_000:
        text = "%.1f M" % (number / 1e6)
    else:
        text = f"{number:,}"
    return f"{text} {unit[:-1] if number == 1 and unit.endswith('s') else unit}"


def one_line(text: str, width: int = WIDTH) -> str:
    """Return a text as one printable line of at most `width` characters."""
    if len(text) <= width and text.isprintable():
        return text
    cut = text[: width + 1]
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut
    )
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _str(value: str) -> str:
    length = str.__len__(value)
    return f"'{one_line(value)}'" if length <= WIDTH - 2 else counted(length, "chars")


def _bytes(value: Any) -> str:
    length = len(value)
    return one_line(repr(bytes(value))) if length <= 20 else counted(length, "bytes")


def _memory(value: memoryview) -> str:
    try:
        return counted(value.nbytes, "bytes")
    except ValueError:
        return "released"


def _int(value: int) -> str:
    if -_BIG < value < _BIG:
        return str(value)
    return counted(value.bit_length(), "bits")


def _sized(value: Any) -> str:
    return counted(len(value), "items")


def version_of(names: dict[str, Any]) -> str:
    """Return a module's version; empty if it has none. torch's version has its own class, whose
    methods are not run."""
    version = names.get("__version__")
    return one_line(str.__str__(version)) if issubclass(type(version), str) else ""


def _function(value: Any) -> str:
    function = unwrapped(value)
    if function is None:
        return ""
    code = function.__code__
    names = list(code.co_varnames)
    positional, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    star = named + bool(code.co_flags & VARARGS)
    shown = names[:positional]
    if star > named:
        shown.append("*" + names[named])
    elif code.co_kwonlyargcount:
        shown.append("*")
    shown += names[positional:named]
    if code.co_flags & VARKEYWORDS:
        shown.append("**" + names[star])
    return one_line(f"({', '.join(shown)})")


_TYPES: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((bool, type(None), type(Ellipsis)), str),
    int: _int,
    **dict.fromkeys((float, complex), repr),
    str: _str,
    **dict.fromkeys((bytes, bytearray), _bytes),
    memoryview: _memory,
    **dict.fromkeys((list, tuple, set, frozenset, dict), _sized),
    range: lambda value: one_line(repr(value)),
    slice: lambda value: "",
    types.FunctionType: _function,
}
_BY_ID = {id(cls): describe for cls, describe in _TYPES.items()}
"""By identity, so that user classes are neither hashed nor compared."""


def _shape(shape: Any) -> str:
    """Format a shape of plain integers, as in ``10000 × 5``."""
    if type(shape) is tuple and all(type(size) is int for size in shape):
        return (
            " × ".join(map(str, shape))
            if len(shape) == 2
            else f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        )
    return ""


def _shaped(value: Any) -> str:
    return _shape(value.shape)


def _series(value: Any) -> str:
    return one_line(f"{value.dtype} ({len(value)},)")


def _pandas_table(value: Any) -> str:
    if not all(map(is_own_index, value.axes)):
        return ""
    return _shaped(value) if value.ndim == 2 else _own_series(value)


def _own_series(value: Any) -> str:
    return _series(value) if is_own_column(value) else ""


def _array(value: Any) -> str:
    shape = value.shape
    return one_line(f"{value.dtype} ({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})")


def _tensor(value: Any) -> str:
    return one_line(f"{value.dtype} ({', '.join(map(str, tuple(value.shape)))}) {value.device}")


def _text(value: Any) -> str:
    return one_line(str(value))


def _fraction(value: Any) -> str:
    return _text(value) if abs(value.numerator) < _BIG and value.denominator < _BIG else ""


def _moment(value: Any) -> str:
    # The user's own time zone would run their code.
    return (
        value.isoformat(" ")
        if module_of(type(value.tzinfo)) in ("builtins", "datetime", "zoneinfo")
        else ""
    )


def _time(value: Any) -> str:
    return value.isoformat() if value.tzinfo is None else ""


# Types by module and name, because these modules are not imported here. If a module is not loaded,
# it has no objects.
_KNOWN: dict[tuple[str, str], Callable[[Any], str]] = {
    **{("pathlib", name): _text for name in ("PosixPath", "PurePosixPath", "PureWindowsPath")},
    ("decimal", "Decimal"): _text,
    ("fractions", "Fraction"): _fraction,
    ("datetime", "datetime"): _moment,
    ("datetime", "date"): _text,
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): _text,
    ("pandas", "DataFrame"): _pandas_table,
    ("pandas", "Series"): _pandas_table,
    ("pandas", "Index"): _own_series,
    ("numpy", "ndarray"): _array,
    ("polars", "DataFrame"): _shaped,
    ("polars", "Series"): _series,
    ("pyarrow", "Table"): _shaped,
    ("torch", "Tensor"): _tensor,
    ("cupy", "ndarray"): _array,
}


def _library(value: object) -> str | None:
    """Describe an object of a known library; None for others."""
    cls = type(value)
    for (module, name), describe in _KNOWN.items():
        found = sys.modules.get(module)
        if found is not None and cls is types.ModuleType.__getattribute__(found, "__dict__").get(
            name
        ):
            return describe(value)
    if (
        descends(cls, loaded("numpy", "generic"))
        and loaded("numpy", name_of(cls)) is cls
        and not descends(cls, loaded("numpy", "void"))
    ):
        return _text(value)  # of a scalar; one with fields would write objects in it
    return None


_BASES: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes)
_LENGTHS: dict[int, Callable[[Any], int]] = {id(base): base.__len__ for base in _BASES}
"""Sizes of subclasses of built-in containers, read by the base's own slot, so that no method of the
subclass runs."""


def size_of(value: object) -> int | None:
    """Return the length if it can be read without running user code; otherwise None."""
    for base in mro_of(type(value)):
        length = _LENGTHS.get(id(base))
        if length is not None:
            return length(value)
    return None


def summary(value: object) -> str:
    """Describe an object in a line: shape, length, or a simple value; empty if nothing can be read
    safely."""
    cls = type(value)
    describe = _BY_ID.get(id(cls))
    if describe is not None:
        return describe(value)
    kind = kind_of(value)
    if kind == "module":
        return version_of(own_dict(value))
    if kind != "data":
        return ""
    try:
        found = _library(as_library_type(value))
    except Exception:  # a library's object in an inconsistent state
        return ""
    if found is not None:
        return found
    size = size_of(value)
    return "" if size is None else counted(size, "chars" if descends(cls, str) else "items")
