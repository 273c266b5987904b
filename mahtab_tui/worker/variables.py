"""Describes the namespace as a list of names, and the changes made by a cell. No user code runs:
objects of unknown types are described only by the name of their type."""

from __future__ import annotations

import ast
import os
import re
import sys
import types
from typing import TYPE_CHECKING, Any, Callable

from .compiling import can_change_objects, names_in
from .objects import (
    FUNCTIONS,
    Classes,
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
from .stdlib import own_module

if TYPE_CHECKING:
    from .lost_state import StateRecorder
    from .undo.graph import Kinds
    from .undo.history import UndoHistory
    from .undo.mutations import MutationDetector

    Seen = tuple[int, type, int | None, str, tuple[str, ...]]

WIDTH = 60

LARGE_BYTES = 100_000
"""Sizes from here on are worth telling."""
MAX_COLUMNS = 200
"""Columns of a table whose names are compared, and whose sizes are added."""
NAMED_COLUMNS = 3
"""Names to show of columns that came or went."""

PLAIN = Classes(
    *(bool, int, float, complex, str, bytes, bytearray, type(None)),
    *(list, tuple, set, frozenset, dict),
)
"""Built-in classes whose `repr` only contains the objects inside them."""
_TEXTS = Classes(str, bytes, bytearray)
_BIG = 1 << 200


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


def one_line(text: str, width: int = WIDTH) -> str:
    if len(text) <= width and text.isprintable():
        return text
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: width + 1])
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def module_version(names: dict[str, Any]) -> str:
    """Return a module's version; empty if it has none. No method of torch's own class runs."""
    version = names.get("__version__")
    return one_line(str.__str__(version)) if issubclass(type(version), str) else ""


def _function(value: Any) -> str:
    function = unwrap(value)
    return "" if function is None else one_line(f"({', '.join(parameter_names(function))})")


_TYPES: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((bool, type(None), type(Ellipsis)), str),
    int: lambda value: (
        str(value) if -_BIG < value < _BIG else format_count(value.bit_length(), "bits")
    ),
    **dict.fromkeys((float, complex), repr),
    str: lambda value: (
        f"'{one_line(value)}'" if len(value) <= WIDTH - 2 else format_count(len(value), "chars")
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
_BY_ID = {id(cls): describe for cls, describe in _TYPES.items()}
"""By identity, so that user classes are neither hashed nor compared."""


def _table(value: Any) -> str:
    return " × ".join(map(str, value.shape))


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
    known = class_module(type(value.tzinfo)) in ("builtins", "datetime", "zoneinfo")
    return value.isoformat(" ") if known else ""


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
        return None if is_subclass(cls, get_if_loaded("numpy", "void")) else _text(value)
    return None


_BASES: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes)
_LENGTHS: dict[int, Callable[[Any], int]] = {id(base): base.__len__ for base in _BASES}


def safe_length(value: object) -> int | None:
    """Return the length if it can be read without running user code."""
    for base in mro_of(type(value)):
        length = _LENGTHS.get(id(base))
        if length is not None:
            return length(value)
    return None


def summary(value: object) -> str:
    """Describe an object in one line; empty if nothing can be read safely."""
    cls = type(value)
    describe = _BY_ID.get(id(cls))
    if describe is not None:
        return describe(value)
    kind = variable_kind(value)
    if kind == "module":
        return module_version(own_dict(value))
    if kind != "data":
        return ""
    try:
        found = _library(as_library_type(value))
    except Exception:  # a library's object in an inconsistent state
        return ""
    if found is not None:
        return found
    size = safe_length(value)
    return "" if size is None else format_count(size, "chars" if is_subclass(cls, str) else "items")


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


def looks_secret(name: str) -> bool:
    """Return whether a name contains a word such as ``password`` or ``apiKey``."""
    if _HINT.search(name) is None:
        return False
    words = [word.lower() for word in _WORD.findall(name[:200])]
    if not words or words[-1] in _ABOUT:
        return False
    return not _SECRET.isdisjoint(words) or any(
        one in _KEYS and other in ("key", "keys") for one, other in zip(words, words[1:])
    )


def is_hidden(name: str, value: object) -> bool:
    """Return whether the value of a name is hidden; containers are not searched."""
    cls = type(value)
    return (
        looks_secret(name) and cls is not bool and any(is_subclass(cls, base) for base in _VALUES)
    )


def masked_summary(name: str, value: object) -> str:
    return HIDDEN_VALUE if is_hidden(name, value) else summary(value)


HIDDEN = frozenset(
    "__name__ __builtins__ __doc__ __file__ __loader__ __package__ __spec__ __cached__ __annotations__ __warningregistry__ _".split()
)

_LIBRARY = os.path.dirname(types.__file__)


def describe_variable(name: str, value: object) -> dict[str, Any]:
    kind, summary = variable_kind(value), masked_summary(name, value)
    if not summary and kind == "data" and not _is_of_library(type(value)):
        summary = own_module("inspection.children").fields(value)
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
    file = own_dict(module).get("__file__") if type(module) is types.ModuleType else None
    return type(file) is str and (
        "site-packages" in file or "dist-packages" in file or file.startswith(_LIBRARY)
    )


_IMMUTABLE = Classes(int, float, complex, bool, str, bytes, frozenset, type(None), range)


class NamespaceTracker:
    """Tracks the changes of a namespace, without running user code."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self.version = 0
        """Increases whenever objects may have changed."""
        self._seen = self._take_snapshot()
        self._before: MutationDetector | None = None
        self._kinds: Kinds | None = None

    def listing(self) -> list[dict[str, Any]]:
        return [describe_variable(name, value) for name, value in self._items()]

    def before_cell(
        self,
        tree: ast.Module,
        codes: tuple[types.CodeType, ...],
        steps: UndoHistory | StateRecorder | None = None,
    ) -> None:
        self._before = None
        if not can_change_objects(tree, self._namespace):
            return
        if self._kinds is None:
            self._kinds = own_module("undo.graph").Kinds(self._namespace)
        self._kinds = self._kinds.current()
        self._before = own_module("undo.mutations").MutationDetector(
            self._namespace,
            self._kinds,
            names_in(codes, self._namespace),
            (lambda mentioned: None) if steps is None else steps.take_checkpoint,
        )

    def changes(self, tree: ast.Module | None) -> list[dict[str, Any]]:
        """Return the changes since the last call. tree: the source that ran, if any."""
        self.version += 1
        before, now = self._seen, self._take_snapshot()
        self._seen = now
        bound = bound_names(tree, imports=False) if tree is not None else frozenset()
        inside, unknown = self._find_mutations()
        deleted = [name for name in before if name not in now]
        result: list[dict[str, Any]] = [
            {"name": name, "change": "deleted", "variable": None} for name in deleted
        ]
        for name, seen in now.items():
            old = before.get(name)
            if old is None:
                change = "added"
            elif old[:2] != seen[:2] or name in bound:
                change = "rebound"
            elif old != seen or name in inside:
                change = "changed"
            elif name in unknown:
                change = "perhaps"
            else:
                continue
            variable = describe_variable(name, self._namespace.get(name))
            columns = "" if old is None else _describe_columns(old[4], seen[4])
            row = {"name": name, "change": change, "variable": variable, "columns": columns}
            result.append(row)
        return result

    def _find_mutations(self) -> tuple[frozenset[str], frozenset[str]]:
        before, self._before = self._before, None
        if before is None:
            return frozenset(), frozenset()
        try:
            return before.compare()
        except Exception:  # a library's object in an unforeseen state
            return frozenset(), frozenset(before.mentioned)

    def _items(self) -> list[tuple[str, Any]]:
        # In one step, because other threads may change the namespace meanwhile.
        return [
            (name, value)
            for name, value in list(self._namespace.items())
            if type(name) is str and name not in HIDDEN
        ]

    def _take_snapshot(self) -> dict[str, Seen]:
        return {
            name: (
                *(id(value), type(value), safe_length(value), _visible(value)),
                _column_names(value),
            )
            for name, value in self._items()
        }


def _column_names(value: Any) -> tuple[str, ...]:
    """Return the names of a table's columns; empty for other objects, and for too many columns."""
    try:
        if type(value) is get_if_loaded("pandas", "DataFrame"):
            labels = value.columns
            is_small = is_own_index(labels) and len(labels) <= MAX_COLUMNS
            names = labels.tolist() if is_small else []
        elif type(value) is get_if_loaded("polars", "DataFrame"):
            names = value.columns if value.width <= MAX_COLUMNS else []
        else:
            return ()
    except Exception:  # a library's object in an inconsistent state
        return ()
    return tuple(name for name in names if type(name) is str)


def _describe_columns(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    """Describe the columns that came or went: ``+ column `z`, − columns `a`, `b` ``."""
    if not before or not now:
        return ""
    added = [name for name in now if name not in before]
    removed = [name for name in before if name not in now]
    parts = [
        f"{sign} {_name_columns(names)}" for sign, names in (("+", added), ("−", removed)) if names
    ]
    return ", ".join(parts)


def _name_columns(names: list[str]) -> str:
    word = "column" if len(names) == 1 else "columns"
    text = f"{word} " + ", ".join(f"`{one_line(name, 30)}`" for name in names[:NAMED_COLUMNS])
    unnamed_count = len(names) - NAMED_COLUMNS
    return f"{text} and {unnamed_count} more" if unnamed_count > 0 else text


def merge_changes(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for change in changes:
        before = merged.get(change["name"])
        if before is not None and (
            change["change"] == "perhaps"
            or (before["change"] == "added" and change["change"] != "deleted")
        ):
            change = {**change, "change": before["change"]}
        merged[change["name"]] = change
    return list(merged.values())


def _visible(value: object) -> str:
    return "" if safe_length(value) is not None or type(value) in _IMMUTABLE else summary(value)


def bound_names(tree: ast.Module, *, imports: bool = True) -> frozenset[str]:
    """Return the names that a cell binds at its top level."""
    names: set[str] = set()
    pending: list[ast.AST] = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.comprehension):  # its target is local to it
            pending.extend((node.iter, *node.ifs))
            continue
        if isinstance(node, ast.Name):
            names.update([node.id] if isinstance(node.ctx, ast.Store) else [])
        elif isinstance(node, ast.alias):
            names.update([node.asname or node.name.split(".")[0]] if imports else [])
        else:
            # A definition, except … as name, case … as name, case [*name], case {**name}
            found = (getattr(node, field, None) for field in ("name", "rest"))
            names.update(name for name in found if isinstance(name, str))
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))
    return frozenset(names)
