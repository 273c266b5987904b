"""Describes variables in a line each. No user code runs: objects of unknown types are described only
by the name of their type."""

from __future__ import annotations

import os
import re
import sys
import types
from typing import Any, Callable

from ..stdlib import own_module
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

LARGE_BYTES = 100_000
"""Sizes from here on are worth telling."""
MAX_COLUMNS = 200
"""Columns of a table of which sizes are added and names are compared."""

PLAIN = Classes(
    *(bool, int, float, complex, str, bytes, bytearray, type(None)),
    *(list, tuple, set, frozenset, dict),
)
"""Built-in classes whose `repr` only contains the objects inside them."""
_TEXTS = Classes(str, bytes, bytearray)
_BIG = 1 << 200

_BASES: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes)
_LENGTHS: dict[int, Callable[[Any], int]] = {address_of(base): base.__len__ for base in _BASES}

HIDDEN_VALUE = "••••••••"

_HINT = re.compile("pass|pw|secret|token|key|cred|bearer|auth", re.IGNORECASE)
"""A quick test that most names fail."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET = frozenset(
    (
        "password passwords passwd passphrase passcode pwd pw secret secrets token apikey apikeys credential credentials bearer "
        "authorization privatekey accesskey secretkey authtoken accesstoken"
    ).split()
)
_KEYS = frozenset(
    "api access private secret auth signing encryption ssh master session service account".split()
)
"""Words before ``key`` or ``keys`` that make it a secret; ``key`` alone is usually a dict's."""
_ABOUT = frozenset(
    "count counts length lengths len size sizes limit limits id ids index type types name names url path file budget rate usage policy field".split()
)
"""Last words of names that mean something about a secret."""
_VALUES = (str, bytes, bytearray, int, float, complex)

HIDDEN = frozenset(
    "__name__ __builtins__ __doc__ __file__ __loader__ __package__ __spec__ __cached__ __annotations__ __warningregistry__ _".split()
)

_LIBRARY = os.path.dirname(types.__file__)


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
    return one_line(name_of(type(value)), 40)


def format_count(number: int, unit: str) -> str:
    """Format a count: ``1,200 items``, ``18.4 M chars``, ``1 item``."""
    if number >= 1_000_000_000:
        text = "%.1f G" % (number / 1e9)
    elif number >= 1_000_000:
        text = "%.1f M" % (number / 1e6)
    else:
        text = f"{number:,}"
    return f"{text} {unit[:-1] if number == 1 and unit.endswith('s') else unit}"


def one_line(text: str, width: int = SUMMARY_CHARS) -> str:
    if len(text) <= width and text.isprintable():
        return text
    printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: width + 1])
    if len(printable) <= width:
        return printable
    return printable[: width - 1] + "…"


def module_version(names: dict[str, Any]) -> str:
    """Return a module's version; empty if it has none. No method of torch's own class runs."""
    version = names.get("__version__")
    if issubclass(type(version), str):
        return one_line(str.__str__(version))
    return ""


def _function(value: Any) -> str:
    function = unwrap(value)
    if function is None:
        return ""
    return one_line(f"({', '.join(parameter_names(function))})")


_TYPES: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((bool, type(None), type(Ellipsis)), str),
    int: lambda value: (
        str(value) if -_BIG < value < _BIG else format_count(value.bit_length(), "bits")
    ),
    **dict.fromkeys((float, complex), repr),
    str: lambda value: (
        f"'{one_line(value)}'"
        if len(value) <= SUMMARY_CHARS - 2
        else format_count(len(value), "chars")
    ),
    **dict.fromkeys(
        (bytes, bytearray),
        lambda value: (
            one_line(repr(bytes(value))) if len(value) <= 20 else format_count(len(value), "bytes")
        ),
    ),
    **dict.fromkeys(
        (list, tuple, set, frozenset, dict), lambda value: format_count(len(value), "items")
    ),
    range: lambda value: one_line(repr(value)),
    types.FunctionType: _function,
}
_BY_ADDRESS = {address_of(cls): describe for cls, describe in _TYPES.items()}
"""By identity, so that user classes are neither hashed nor compared."""


def _table(value: Any) -> str:
    return " × ".join(
        f"{length:,}" if type(length) is int else str(length) for length in value.shape
    )


def _series(value: Any) -> str:
    return one_line(f"{value.dtype} ({len(value)},)")


def _pandas(value: Any) -> str:
    if not all(map(is_own_index, value.axes)):
        return ""
    if value.ndim == 2:
        return _table(value)
    return _series(value) if is_own_column(value) else ""


def _array(value: Any) -> str:
    return one_line(f"{value.dtype} {value.shape}")


def _tensor(value: Any) -> str:
    return one_line(f"{value.dtype} ({', '.join(map(str, tuple(value.shape)))}) {value.device}")


def _text(value: Any) -> str:
    return one_line(str(value))


def _moment(value: Any) -> str:
    # A time zone of the user's would run their code.
    has_known_zone = class_module(type(value.tzinfo)) in ("builtins", "datetime", "zoneinfo")
    return value.isoformat(" ") if has_known_zone else ""


def _time(value: Any) -> str:
    return value.isoformat() if value.tzinfo is None else ""


# By name, because these modules are not imported here.
_KNOWN: dict[tuple[str, str], Callable[[Any], str]] = {
    **{("pathlib", name): _text for name in ("PosixPath", "PurePosixPath", "PureWindowsPath")},
    ("decimal", "Decimal"): _text,
    ("fractions", "Fraction"): lambda value: (
        str(value) if abs(value.numerator) < _BIG and value.denominator < _BIG else ""
    ),
    ("datetime", "datetime"): _moment,
    ("datetime", "date"): _text,
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): _text,
    **{("pandas", name): _pandas for name in ("DataFrame", "Series")},
    ("pandas", "Index"): lambda value: _series(value) if is_own_column(value) else "",
    ("numpy", "ndarray"): _array,
    ("polars", "DataFrame"): _table,
    ("polars", "Series"): _series,
    ("pyarrow", "Table"): _table,
    ("torch", "Tensor"): _tensor,
}


def _library(value: object) -> str | None:
    cls = type(value)
    for (module, name), describe in _KNOWN.items():
        if cls is get_if_loaded(module, name):
            return describe(value)
    is_scalar = is_subclass(cls, get_if_loaded("numpy", "generic"))
    if is_scalar and get_if_loaded("numpy", name_of(cls)) is cls:
        # One with fields would write the objects in it.
        if is_subclass(cls, get_if_loaded("numpy", "void")):
            return None
        return _text(value)
    return None


def safe_length(value: object) -> int | None:
    """Return the length if it can be read without running user code."""
    for base in mro_of(type(value)):
        length = _LENGTHS.get(address_of(base))
        if length is not None:
            return length(value)
    return None


def summary(value: object) -> str:
    """Describe an object in one line; empty if nothing can be read safely."""
    cls = type(value)
    describe = _BY_ADDRESS.get(address_of(cls))
    if describe is not None:
        return describe(value)
    kind = variable_kind(value)
    if kind == "module":
        return module_version(own_dict(value))
    if kind != "data":
        return ""
    try:
        library_summary = _library(as_library_type(value))
    except Exception:  # a library's object in an inconsistent state
        return ""
    if library_summary is not None:
        return library_summary
    size = safe_length(value)
    if size is None:
        return ""
    return format_count(size, "chars" if is_subclass(cls, str) else "items")


def looks_secret(name: str) -> bool:
    """Return whether a name contains a word such as ``password`` or ``apiKey``."""
    if _HINT.search(name) is None:
        return False
    words = [word.lower() for word in _WORD.findall(name[:200])]
    if not words or words[-1] in _ABOUT:
        return False
    return not _SECRET.isdisjoint(words) or any(
        one in _KEYS and next_word in ("key", "keys") for one, next_word in zip(words, words[1:])
    )


def is_hidden(name: str, value: object) -> bool:
    """Return whether the value of a name is hidden; containers are not searched."""
    cls = type(value)
    return (
        looks_secret(name) and cls is not bool and any(is_subclass(cls, base) for base in _VALUES)
    )


def masked_summary(name: str, value: object) -> str:
    if is_hidden(name, value):
        return HIDDEN_VALUE
    return summary(value)


def describe_variable(name: str, value: object) -> dict[str, Any]:
    kind = variable_kind(value)
    summary = masked_summary(name, value)
    if not summary and kind == "data" and not _is_of_library(type(value)):
        summary = own_module("values.short_values").fields(value)
    return {
        "name": name,
        "type": type_name(value),
        "summary": summary,
        "kind": kind,
        "size": _large_size(value),
    }


def _large_size(value: Any) -> int:
    """Return the bytes of an array, a table or a text, without running code of the user's classes; 0
    for small and other objects."""
    try:
        size = _stored_bytes(value)
    except Exception:  # a library's object in an inconsistent state
        return 0
    return size if size >= LARGE_BYTES else 0


def _stored_bytes(value: Any) -> int:
    """Return the bytes of a value of a known type; 0 for other types. May raise anything."""
    cls = type(value)
    if cls in _TEXTS:
        return sys.getsizeof(value)
    # Most variables need no look at libraries.
    if class_module(cls) == "builtins":
        return 0
    if cls is get_if_loaded("numpy", "ndarray"):
        return int(value.nbytes)
    if cls is get_if_loaded("pandas", "DataFrame") and all(map(is_own_index, value.axes)):
        width = len(value.columns)
        if width > MAX_COLUMNS:
            return 0
        columns = [value.iloc[:, position] for position in range(width)]
        return sum(int(column._values.nbytes) for column in columns if is_own_column(column))
    if cls is get_if_loaded("pandas", "Series") and is_own_column(value):
        return int(value._values.nbytes)
    if cls is get_if_loaded("polars", "DataFrame"):
        return int(value.estimated_size())
    return 0


def _is_of_library(cls: type) -> bool:
    module = sys.modules.get(class_module(cls))
    file = None
    if type(module) is types.ModuleType:
        file = own_dict(module).get("__file__")
    return type(file) is str and (
        "site-packages" in file or "dist-packages" in file or file.startswith(_LIBRARY)
    )
