"""Tells where the values of private variables are: under which other names, in which code, as which
texts. The host hides all of this from models.

Objects are followed as the garbage collector sees them, for a short time and up to a number, so that
no user code runs.
"""

from __future__ import annotations

import builtins
import gc
import itertools
import re
import sys
import time
import types
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..cells.reached_names import names_in
from ..magic.syntax import Aliases, Macro
from ..values.objects import (
    Classes,
    as_library_type,
    has_own_indexes,
    is_one_of,
    is_own_type,
    is_subclass,
)
from .mentioned_names import (
    EVERYTHING,
    REACHING_COMMANDS,
    mentioned_names,
    reaches_everything,
    words_in,
)

MIN_TEXT_CHARS = 8
"""Shorter texts are not sent, because they would be found everywhere."""
_MAX_TOTAL_CHARS = 500_000
"""Characters of all texts together."""
_MAX_NUMBER_BITS = 1_000
"""Bits of a whole number that is sent as a text."""
_MAX_OBJECTS = 20_000
"""Objects that are looked at, from one variable or for the texts of all; also items of a container."""
_TIMEOUT_S = 0.1
"""Seconds for which objects are looked at."""
_MAX_ROWS = 1_000
_MAX_COLUMNS = 200
_MAX_ARRAY_ITEMS = 10_000

_SINGLE_WORD = re.compile(r"[A-Za-z]?[a-z_]{0,14}")
"""A text that is not sent although it is long enough, because it may be a word of anybody's."""
_TEXTLESS_KINDS = "bifcmM"
"""The kinds of NumPy's types whose values are numbers, truth values or times."""

_SHARED = Classes(type(None), bool, int, float, complex, type(Ellipsis), type(NotImplemented))
"""Classes of objects that Python shares, so that the same one is not the same variable's value."""
_SHARED_IF_SHORT = Classes(str, bytes, tuple, frozenset)
_NUMBERS = Classes(int, float, complex)
_BYTES = Classes(bytes, bytearray)
_CONTAINERS = (list, tuple, set, frozenset, dict)
_NOT_FOLLOWED = (type, types.ModuleType)
"""Classes of objects that lead to everything."""
_WITHOUT_TEXTS = (*_NOT_FOLLOWED, types.FunctionType, types.CodeType)
"""Classes of objects whose texts are code, and not the user's data."""


def private_use(
    namespace: dict[str, Any], names: Sequence[str], codes: Sequence[str]
) -> dict[str, Any]:
    """Describe where the values of private variables are.

    Args:
        namespace: The user's namespace.
        names: The private variables.
        codes: Code that may use them.

    Returns:
        `aliases`: other names of their objects. `texts`: the texts in them. `used`: for each code, the
        private variables that it can reach.
    """
    values = {name: namespace[name] for name in names if name in namespace}
    private_objects = _PrivateObjects(namespace, values)
    return {
        "aliases": [name for name in private_objects.find_names() if name not in names],
        "texts": _texts_in(values.values()),
        "used": [_used_names(code, names, namespace, private_objects) for code in codes],
    }


class _PrivateObjects:
    """The values of private variables, and what leads to them."""

    def __init__(self, namespace: dict[str, Any], values: dict[str, Any]) -> None:
        """
        Args:
            namespace: The user's namespace.
            values: The values of the private variables by name. They must be kept alive.
        """
        self._namespace = namespace
        self._names_by_id = {
            id(value): name for name, value in values.items() if not _is_shared(value)
        }
        self._reached_names: dict[str, frozenset[str]] = {}
        """What `names_reached_from` has returned: many codes have the same names."""

    def find_names(self) -> Iterator[str]:
        """Yield all variables that are one of these objects."""
        for name, value in list(self._namespace.items()):
            if type(name) is str and id(value) in self._names_by_id:
                yield name

    def names_reached_from(self, name: str) -> frozenset[str]:
        """Return the private variables whose objects are reached from a variable."""
        if name not in self._namespace:
            return frozenset()
        if name not in self._reached_names:
            reached_ids = map(id, _walk(self._namespace[name], self._namespace))
            self._reached_names[name] = frozenset(
                self._names_by_id[reached_id]
                for reached_id in reached_ids
                if reached_id in self._names_by_id
            )
        return self._reached_names[name]


def _is_shared(value: Any) -> bool:
    """Return whether Python may use an object for several equal values."""
    if type(value) in _SHARED:
        return True
    return type(value) in _SHARED_IF_SHORT and len(value) < MIN_TEXT_CHARS


# What code uses


def _used_names(
    code: str, names: Sequence[str], namespace: dict[str, Any], private_objects: _PrivateObjects
) -> list[str]:
    """Return the private variables that code can reach.

    Args:
        code: The code.
        names: All private variables.
        namespace: The user's namespace.
        private_objects: Their objects.
    """
    mentioned = mentioned_names(code)
    names_in_code = mentioned.union(*(_names_behind(name, namespace) for name in mentioned))
    if reaches_everything(names_in_code):
        return list(names)
    used_names = names_in_code.intersection(names)
    other_names = names_in_code - used_names
    return sorted(used_names.union(*map(private_objects.names_reached_from, other_names)))


def _names_behind(name: str, namespace: dict[str, Any]) -> Iterator[str]:
    """Yield the names in the code that a name stands for: that of a macro, an alias or a function."""
    value = namespace.get(name)
    if type(value) is Macro:
        yield from mentioned_names(value.value)
    yield from words_in(Aliases.commands.get(name, ""))
    if Aliases.magics.get(name) in REACHING_COMMANDS:
        yield EVERYTHING
    if type(value) is types.FunctionType and value.__globals__ is namespace:
        yield from names_in((value.__code__,), namespace)
        yield from _words_of_strings(value.__code__)


def _words_of_strings(code: types.CodeType) -> Iterator[str]:
    """Yield the words of the strings in code and in the functions that it defines."""
    for constant in code.co_consts:
        if type(constant) is str:
            yield from words_in(constant)
        elif type(constant) is types.CodeType:
            yield from _words_of_strings(constant)


# What objects lead to


def _walk(root: Any, namespace: dict[str, Any]) -> Iterator[Any]:
    """Yield an object and those that it leads to, nearest first, but not through the namespace."""
    visited_ids = {id(namespace), id(builtins.__dict__), id(sys.modules)}
    pending = deque([root])
    deadline = time.monotonic() + _TIMEOUT_S
    while pending and len(visited_ids) < _MAX_OBJECTS and time.monotonic() < deadline:
        value = pending.popleft()
        if id(value) in visited_ids:
            continue
        visited_ids.add(id(value))
        yield value
        if not _is_derived_from(type(value), _NOT_FOLLOWED):
            pending.extend(_contained(value))


def _contained(value: Any) -> list[Any]:
    """Return the objects to which an object refers; of a long container, the first ones."""
    container: Any = next((kind for kind in _CONTAINERS if is_subclass(type(value), kind)), None)
    if container is None:
        return gc.get_referents(value)
    # The methods of the builtin class: those of a derived one may be the user's code.
    try:
        items = list(itertools.islice(container.__iter__(value), _MAX_OBJECTS))
        if container is dict:
            items += itertools.islice(dict.values(value), _MAX_OBJECTS)
    except RuntimeError:  # another thread changes it
        return []
    has_attributes = type(value) is not container
    if has_attributes and container.__len__(value) <= _MAX_OBJECTS:
        items += gc.get_referents(value)
    return items


def _is_derived_from(cls: type, bases: Iterable[type]) -> bool:
    return any(is_subclass(cls, base) for base in bases)


# Texts


def _texts_in(values: Iterable[Any]) -> list[str]:
    """Return the different texts in values, and bytes and numbers as texts, nearest first."""
    texts: dict[str, None] = {}
    remaining_chars = _MAX_TOTAL_CHARS
    visited_ids: set[int] = set()
    pending: deque[Any] = deque(values)
    deadline = time.monotonic() + _TIMEOUT_S
    while pending and remaining_chars > 0 and len(visited_ids) < _MAX_OBJECTS:
        if time.monotonic() >= deadline:
            break
        value = pending.popleft()
        text = _as_text(value, remaining_chars)
        if text is None:
            if id(value) not in visited_ids and not _is_derived_from(type(value), _WITHOUT_TEXTS):
                visited_ids.add(id(value))
                pending.extend(_table_values(value) or _contained(value))
        elif _is_telling(text) and text not in texts:
            texts[text] = None
            remaining_chars -= len(text)
    return list(texts)


def _as_text(value: Any, max_chars: int) -> str | None:
    """Return a text, bytes or a number as a text, cut to a length; None for other objects."""
    cls = type(value)
    if is_subclass(cls, str):
        return str.__str__(value)[:max_chars]
    if cls in _BYTES:
        return bytes(value[:max_chars]).decode("utf-8", "replace")
    if cls not in _NUMBERS:
        return None
    # Python refuses to write much longer ones.
    if cls is int and value.bit_length() > _MAX_NUMBER_BITS:
        return ""
    return repr(value)[:max_chars]


def _is_telling(text: str) -> bool:
    """Return whether a text would not be found everywhere."""
    return len(text) >= MIN_TEXT_CHARS and _SINGLE_WORD.fullmatch(text) is None


def _table_values(value: Any) -> list[Any]:
    """Return the labels and the first values of a table, or the first values of an array; nothing for
    other objects, and for those that cannot be read without user code."""
    try:
        return _read_table(as_library_type(value))
    except Exception:  # a library's object in an unforeseen state
        return []


def _read_table(value: Any) -> list[Any]:
    if is_one_of(value, "pandas", "DataFrame", "Series") and has_own_indexes(value):
        return _read_pandas(value)
    if is_one_of(value, "polars", "Series"):
        return _read_columns(value.to_frame().slice(0, _MAX_ROWS).to_dict(as_series=False))
    if is_one_of(value, "polars", "DataFrame"):
        return _read_columns(value.slice(0, _MAX_ROWS).to_dict(as_series=False))
    if is_one_of(value, "pyarrow", "Table"):
        return _read_columns(value.slice(0, _MAX_ROWS).to_pydict())
    if is_one_of(value, "numpy", "ndarray") and value.dtype.kind in "OUS":
        return list(value.flat[:_MAX_ARRAY_ITEMS].tolist())
    return []


def _read_pandas(value: Any) -> list[Any]:
    head = value.iloc[:_MAX_ROWS]
    table = head if head.ndim == 2 else head.to_frame()
    columns = [table.iloc[:, position] for position in range(min(table.shape[1], _MAX_COLUMNS))]
    text_columns = [
        column
        for column in columns
        if is_own_type(column.dtype) and column.dtype.kind not in _TEXTLESS_KINDS
    ]
    values = itertools.chain.from_iterable(column.tolist() for column in text_columns)
    return [*table.columns[:_MAX_COLUMNS].tolist(), *table.index.tolist(), *values]


def _read_columns(columns: dict[str, list[Any]]) -> list[Any]:
    """Return the names of columns and, of the first ones, the values."""
    return [*columns, *itertools.chain.from_iterable(list(columns.values())[:_MAX_COLUMNS])]
