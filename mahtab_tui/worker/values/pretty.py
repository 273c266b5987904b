"""Lays out the repr of a value for the width of the screen, as pprint and IPython do: one entry a
line, in the value's own order."""

from __future__ import annotations

import os
import re
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from .objects import (
    BRACKETS_BY_CLASS,
    Classes,
    class_module,
    find_in_class,
    get_if_loaded,
    mro_of,
    name_of,
    own_dict,
)

DEFAULT_WIDTH_CELLS = 80
MIN_WIDTH_CELLS = 20
MAX_WIDTH_CELLS = 500

MAX_ENTRIES = 1_000
"""Entries of one container that are written; the others are counted."""
MAX_NODES = 20_000
"""Objects that are written in all, because containers that share their parts can be endless."""
MAX_DEPTH = 50
MAX_WRAPPED_CHARS = 2_000
"""Characters of a string inside a container up to which it is wrapped."""
HANGING_INDENT = 2

_BRACKETS_BY_CLASS: dict[type, tuple[str, str]] = {
    **BRACKETS_BY_CLASS,
    types.MappingProxyType: ("mappingproxy({", "})"),
    type({}.keys()): ("dict_keys([", "])"),
    type({}.values()): ("dict_values([", "])"),
    type({}.items()): ("dict_items([", "])"),
}
_CONTAINERS = Classes(*_BRACKETS_BY_CLASS)
_COLLECTIONS = Classes(OrderedDict, defaultdict, Counter, deque)
_MAPPINGS = Classes(dict, types.MappingProxyType)
_NUMBERS = Classes(int, float, complex, bool, type(None))
_WORDS = re.compile(r"\S+\s*|\s+")


class FloatFormat:
    """How `%precision` says that floats are written."""

    pattern: ClassVar[str] = ""
    """The format for `%`; empty for Python's repr."""


class _Node(NamedTuple):
    """A value that can be written on one line, or with an entry on each line."""

    flat: str | None
    """The repr on one line; None if it is longer than the width."""
    opening: str = ""
    closing: str = ""
    entries: tuple[tuple[str, _Node], ...] = ()
    """Each with what is before its value: a key or the name of a field."""
    is_filled: bool = False
    """Whether the entries are numbers, so that many stand on a line."""
    string: str | None = None
    """The string itself, if it may be wrapped."""


class _Parts(NamedTuple):
    """What the repr of a container consists of."""

    opening: str
    closing: str
    entries: Iterable[tuple[str, Any]]
    """Each with what is before its value."""
    entry_count: int
    """Number of all entries."""


def screen_width() -> int:
    """Return the width of the pane, in cells, which the host keeps in the environment."""
    columns = os.environ.get("COLUMNS", "")
    if not columns.isdecimal() or len(columns) > 6:
        return DEFAULT_WIDTH_CELLS
    return max(MIN_WIDTH_CELLS, min(int(columns), MAX_WIDTH_CELLS))


def pretty_repr(value: object, width: int | None = None) -> str:
    """Return the repr of a value, with an entry a line if it is longer than one line. Raises any
    exception of a `__repr__`.

    Args:
        value: Any object; of objects whose repr is not known, `repr` is returned.
        width: In cells; None for that of the screen.
    """
    if type(value) in (str, bytes):  # stays one line that can be copied
        return repr(value)
    layout = _Layout(screen_width() if width is None else width)
    return layout.write(layout.read(value, ()))


class _Layout:
    """Reads a value to nodes, then writes these as lines."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._node_count = 0
        self._lines = [""]

    # Every repr is read only once, so that the time grows with the size of the value.

    def read(self, value: Any, above: tuple[Any, ...]) -> _Node:
        """Read a value.

        Args:
            value: The value.
            above: The containers that it is in, from the outermost.
        """
        self._node_count += 1
        cls = type(value)
        if cls is str and len(value) <= MAX_WRAPPED_CHARS:
            return _Node(repr(value) if len(value) <= self._width else None, string=value)
        is_too_deep = len(above) > MAX_DEPTH and cls in _CONTAINERS
        if is_too_deep or any(container is value for container in above):
            return _Node(_elided(cls))

        parts = _container_parts(value)
        if parts is None:
            return _leaf(value)

        entries: list[tuple[str, _Node]] = []
        for prefix, item in islice(parts.entries, MAX_ENTRIES):
            if self._node_count > MAX_NODES:
                break
            entries.append((prefix, self.read(item, (*above, value))))

        closing = parts.closing
        if parts.entry_count > len(entries):
            entries.append(("", _Node(f"… {parts.entry_count - len(entries):,} more")))
        elif cls is tuple and parts.entry_count == 1:
            closing = ",)"
        flat = self._flat(parts.opening, closing, entries)
        is_filled = not any(prefix for prefix, _ in entries) and _holds_numbers(value)
        return _Node(flat, parts.opening, closing, tuple(entries), is_filled)

    def _flat(self, opening: str, closing: str, entries: list[tuple[str, _Node]]) -> str | None:
        """Return the repr on one line; None if it is longer than the width."""
        size = len(opening) + len(closing)
        texts: list[str] = []
        for prefix, node in entries:
            if node.flat is None or "\n" in node.flat:
                return None
            size += len(prefix) + len(node.flat) + 2
            if size > self._width + 2:
                return None
            texts.append(prefix + node.flat)
        return f"{opening}{', '.join(texts)}{closing}"

    def write(self, node: _Node) -> str:
        """Return the repr of a value that was read."""
        self._write(node, 0)
        return "\n".join(self._lines)

    @property
    def _column(self) -> int:
        """Where the last line ends so far."""
        return len(self._lines[-1])

    def _write(self, node: _Node, chars_after: int) -> None:
        """Write a value.

        Args:
            node: The value, as `read` returned it.
            chars_after: Characters that follow it on its last line.
        """
        if node.string is not None:
            self._write_string(node.string, chars_after)
        elif not node.entries:
            first_line, *other_lines = (node.flat or "").split("\n")
            indent = " " * self._column
            self._lines[-1] += first_line
            self._lines += [indent + line for line in other_lines]
        elif node.flat is not None and self._column + len(node.flat) + chars_after <= self._width:
            self._lines[-1] += node.flat
        else:
            self._write_entries(node, chars_after)

    def _write_entries(self, node: _Node, chars_after: int) -> None:
        """Write a container with an entry on each line, or as many numbers as a line has room for.

        Args:
            node: The container.
            chars_after: Characters that follow it on its last line.
        """
        line = self._lines[-1]
        indent = len(line) + len(node.opening)
        hanging_indent = len(line) - len(line.lstrip()) + HANGING_INDENT
        self._lines[-1] += node.opening
        has_little_room = indent > max(hanging_indent, self._width // 2)
        if has_little_room:  # beside the bracket
            indent = hanging_indent
            self._lines.append(" " * indent)

        last_index = len(node.entries) - 1
        for index, (prefix, entry) in enumerate(node.entries):
            if index == last_index:
                separator = ""
                after_entry = len(node.closing) + chars_after
            else:
                separator = ","
                after_entry = len(separator)
            if index:
                self._start_entry(node, entry, indent, after_entry)
            self._lines[-1] += prefix
            self._write(entry, after_entry)
            self._lines[-1] += separator
        self._lines[-1] += node.closing

    def _start_entry(self, node: _Node, entry: _Node, indent: int, chars_after: int) -> None:
        """Continue the line if it has room for another number; begin a new one otherwise.

        Args:
            node: The container.
            entry: The entry that comes next.
            indent: Where entries begin on their lines.
            chars_after: Characters that follow the entry on its last line.
        """
        if node.is_filled and self._column + 1 + len(entry.flat or "") + chars_after <= self._width:
            self._lines[-1] += " "
        else:
            self._lines.append(" " * indent)

    def _write_string(self, text: str, chars_after: int) -> None:
        """Write a string as one literal, or as adjacent literals that end between words."""
        column = self._column
        literal = repr(text)
        if column + len(literal) + chars_after <= self._width:
            self._lines[-1] += literal
            return
        max_chars = max(MIN_WIDTH_CELLS, self._width - column - chars_after)
        first_part, *other_parts = _split_between_words(text, max_chars)
        self._lines[-1] += repr(first_part)
        self._lines += [" " * column + repr(part) for part in other_parts]


def _elided(cls: type) -> str:
    """Return what stands for a container inside itself, as `[...]`."""
    opening, closing = _BRACKETS_BY_CLASS[cls] if cls in _CONTAINERS else ("", "")
    return f"{opening}...{closing}"


def _leaf(value: object) -> _Node:
    if FloatFormat.pattern and type(value) is float:
        return _Node(FloatFormat.pattern % value)
    return _Node(str.__str__(repr(value)))


def _split_between_words(text: str, max_chars: int) -> Iterator[str]:
    """Split a text into parts whose reprs have at most `max_chars` characters, unless a word is
    longer."""
    part = ""
    for word in _WORDS.findall(text):
        if part and len(repr(part + word)) > max_chars:
            yield part
            part = ""
        part += word
    yield part


def _holds_numbers(value: Any) -> bool:
    """Return whether a container has only numbers, as far as it is written."""
    try:
        return all(type(item) in _NUMBERS for item in islice(value, MAX_ENTRIES))
    except TypeError:  # an object with fields
        return False


def _container_parts(value: Any) -> _Parts | None:
    """Return the parts of a container or of an object with fields; None for other objects, whose
    class writes its own repr."""
    cls = type(value)
    if cls in _CONTAINERS:
        if not value:
            return None
        opening, closing = _BRACKETS_BY_CLASS[cls]
        if cls in _MAPPINGS:
            entries = _keyed(value.items())
        else:
            entries = _unnamed(value)
        return _Parts(opening, closing, entries, len(value))
    if cls in _COLLECTIONS:
        if value:
            return _collection_parts(value)
        return None
    fields = _fields(value)
    if not fields:
        return None
    arguments = [(f"{name}=" if name else "", item) for name, item in fields]
    if cls is types.SimpleNamespace:
        label = "namespace"
    else:
        label = _class_label(cls)
    return _Parts(f"{label}(", ")", arguments, len(arguments))


def _keyed(pairs: Iterable[tuple[object, object]]) -> Iterator[tuple[str, object]]:
    return ((f"{key!r}: ", item) for key, item in list(islice(pairs, MAX_ENTRIES)))


def _collection_parts(value: Any) -> _Parts:
    """Return the parts of a container of `collections`."""
    cls = type(value)
    if cls is deque:
        if value.maxlen is None:
            max_length = ""
        else:
            max_length = f", maxlen={value.maxlen}"
        return _Parts("deque([", f"]{max_length})", _unnamed(value), len(value))
    if cls is OrderedDict and sys.version_info < (3, 12):
        return _Parts("OrderedDict([", "])", _unnamed(value.items()), len(value))

    pairs = _most_common(value) if cls is Counter else value.items()
    factory = ""
    if cls is defaultdict:
        factory = f"{value.default_factory!r}, "
    return _Parts(f"{name_of(cls)}({factory}{{", "})", _keyed(pairs), len(value))


def _most_common(counter: Counter[object]) -> Iterable[tuple[object, object]]:
    try:
        return counter.most_common(MAX_ENTRIES)
    except TypeError:  # counts that cannot be compared stay in their order, as in the repr
        return counter.items()


def _unnamed(value: Iterable[object]) -> Iterator[tuple[str, object]]:
    return (("", item) for item in list(islice(value, MAX_ENTRIES)))


def _fields(value: Any) -> list[tuple[str, Any]]:
    """Return the fields that the repr of a class shows if Python or pydantic wrote that repr."""
    cls = type(value)
    if cls is types.SimpleNamespace:
        return list(own_dict(value).items())
    repr_method = find_in_class(cls, "__repr__")
    if _is_namedtuple(cls, repr_method):
        return list(zip(cls._fields, tuple(value)))
    if _is_dataclass(cls, repr_method):
        fields = [field for field in cls.__dataclass_fields__.values() if field.repr]
        return [(field.name, getattr(value, field.name)) for field in fields if _is_field(field)]
    model = get_if_loaded("pydantic.main", "BaseModel")
    is_model = any(base is model for base in mro_of(cls))
    if is_model and repr_method is find_in_class(model, "__repr__"):
        return [(name or "", item) for name, item in value.__repr_args__()]
    return []


def _is_namedtuple(cls: type, repr_method: object) -> bool:
    """Return whether `collections.namedtuple` wrote the class and its repr."""
    is_tuple = any(base is tuple for base in mro_of(cls))
    is_generated = getattr(repr_method, "__module__", "") == "collections"
    return is_tuple and is_generated and hasattr(cls, "_fields")


def _is_dataclass(cls: type, repr_method: object) -> bool:
    """Return whether `dataclasses` wrote the repr of the class."""
    wrapped = getattr(repr_method, "__wrapped__", None)
    is_generated = "__create_fn__" in getattr(wrapped, "__qualname__", "")
    return is_generated and hasattr(cls, "__dataclass_fields__")


def _is_field(field: Any) -> bool:
    """Leave out class variables and `InitVar`, which the repr does not show."""
    return getattr(field._field_type, "name", "") == "_FIELD"


def _class_label(cls: type) -> str:
    """Return the name with which a generated repr begins."""
    if class_module(cls):
        return cls.__qualname__
    return name_of(cls)
