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
from typing import Any, NamedTuple

from .objects import Classes, class_module, find_in_class, get_if_loaded, mro_of, name_of, own_dict

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

_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
    types.MappingProxyType: ("mappingproxy({", "})"),
    type({}.keys()): ("dict_keys([", "])"),
    type({}.values()): ("dict_values([", "])"),
    type({}.items()): ("dict_items([", "])"),
}
_MAPPINGS = Classes(dict, types.MappingProxyType)
_NUMBERS = Classes(int, float, complex, bool, type(None))
_WORDS = re.compile(r"\S+\s*|\s+")


class _Node(NamedTuple):
    """A value that can be written on one line, or with an entry on each line."""

    flat: str | None
    """The repr on one line; None if it is longer than the width."""
    opening: str = ""
    closing: str = ""
    entries: tuple[tuple[str, _Node], ...] = ()
    """Each with what is before its value: a key or the name of a field."""
    is_filled: bool = False
    """Whether the entries are numbers, of which a line holds many."""
    string: str | None = None
    """The string itself, if it may be wrapped."""


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
    def __init__(self, width: int) -> None:
        self._width = width
        self._nodes = 0
        self._lines = [""]

    # Reading: every object once, so that the time is linear

    def read(self, value: Any, above: tuple[Any, ...]) -> _Node:
        self._nodes += 1
        cls = type(value)
        if cls is str and len(value) <= MAX_WRAPPED_CHARS:
            return _Node(repr(value) if len(value) <= self._width else None, string=value)
        is_too_deep = len(above) > MAX_DEPTH and cls in _BRACKETS
        if is_too_deep or any(container is value for container in above):
            opening, closing = _BRACKETS.get(cls, ("", ""))
            return _Node(f"{opening}...{closing}")
        parts = _container_parts(value)
        if parts is None:
            return _leaf(value)
        opening, closing, items, count = parts
        entries: list[tuple[str, _Node]] = []
        for prefix, item in islice(items, MAX_ENTRIES):
            if self._nodes > MAX_NODES:
                break
            entries.append((prefix, self.read(item, (*above, value))))
        if count > len(entries):
            entries.append(("", _Node(f"… {count - len(entries):,} more")))
        elif cls is tuple and count == 1:
            closing = ",)"
        flat = self._flat(opening, closing, entries)
        is_filled = not any(prefix for prefix, _ in entries) and _holds_numbers(value)
        return _Node(flat, opening, closing, tuple(entries), is_filled)

    def _flat(self, opening: str, closing: str, entries: list[tuple[str, _Node]]) -> str | None:
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

    # Writing

    def write(self, node: _Node) -> str:
        self._write(node, 0)
        return "\n".join(self._lines)

    @property
    def _column(self) -> int:
        return len(self._lines[-1])

    def _write(self, node: _Node, after: int) -> None:
        """after: characters that follow the value on its last line."""
        if node.string is not None:
            self._write_string(node.string, after)
        elif not node.entries:
            first, *others = (node.flat or "").split("\n")
            indent = " " * self._column
            self._lines[-1] += first
            self._lines += [indent + line for line in others]
        elif node.flat is not None and self._column + len(node.flat) + after <= self._width:
            self._lines[-1] += node.flat
        else:
            self._write_entries(node, after)

    def _write_entries(self, node: _Node, after: int) -> None:
        line = self._lines[-1]
        indent = len(line) + len(node.opening)
        hanging = len(line) - len(line.lstrip()) + HANGING_INDENT
        self._lines[-1] += node.opening
        if indent > max(hanging, self._width // 2):  # little would fit to the right of it
            indent = hanging
            self._lines.append(" " * indent)
        last = len(node.entries) - 1
        for number, (prefix, entry) in enumerate(node.entries):
            after_entry = after + len(node.closing) if number == last else 1
            if number:
                self._start_entry(node, entry, indent, after_entry)
            self._lines[-1] += prefix
            self._write(entry, after_entry)
            self._lines[-1] += "" if number == last else ","
        self._lines[-1] += node.closing

    def _start_entry(self, node: _Node, entry: _Node, indent: int, after: int) -> None:
        if node.is_filled and self._column + 1 + len(entry.flat or "") + after <= self._width:
            self._lines[-1] += " "
        else:
            self._lines.append(" " * indent)

    def _write_string(self, text: str, after: int) -> None:
        """Write adjacent literals that end between words."""
        column = self._column
        if column + len(text) + 2 + after <= self._width:
            self._lines[-1] += repr(text)
            return
        limit = max(MIN_WIDTH_CELLS, self._width - column - after)
        parts = list(_split_between_words(text, limit))
        self._lines[-1] += repr(parts[0])
        self._lines += [" " * column + repr(part) for part in parts[1:]]


def _leaf(value: object) -> _Node:
    return _Node(str.__str__(repr(value)))


def _split_between_words(text: str, limit: int) -> Iterator[str]:
    """Split a text to parts whose reprs have at most `limit` characters, if words allow it."""
    part = ""
    for word in _WORDS.findall(text):
        if part and len(repr(part + word)) > limit:
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


_Parts = tuple[str, str, Iterable[tuple[str, Any]], int]
"""What is before and after the entries, the entries with their prefixes, and their number."""


def _container_parts(value: Any) -> _Parts | None:
    """Return the parts of a container or of an object with fields; None for other objects, whose
    class writes its own repr."""
    cls = type(value)
    if cls in _BRACKETS:
        if not value:
            return None
        opening, closing = _BRACKETS[cls]
        items = _keyed(value.items()) if cls in _MAPPINGS else _unnamed(value)
        return opening, closing, items, len(value)
    collection = _collection_parts(value)
    if collection is not None:
        return collection
    fields = _fields(value)
    if not fields:
        return None
    entries = [(f"{name}=" if name else "", item) for name, item in fields]
    name = "namespace" if cls is types.SimpleNamespace else _class_label(cls)
    return f"{name}(", ")", entries, len(entries)


def _keyed(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    return ((f"{key!r}: ", item) for key, item in list(islice(pairs, MAX_ENTRIES)))


def _collection_parts(value: Any) -> _Parts | None:
    """Return the parts of the containers of `collections`."""
    cls = type(value)
    if cls not in (OrderedDict, defaultdict, Counter, deque) or not value:
        return None
    if cls is deque:
        limit = "" if value.maxlen is None else f", maxlen={value.maxlen}"
        return "deque([", f"]{limit})", _unnamed(value), len(value)
    if cls is OrderedDict and sys.version_info < (3, 12):
        return "OrderedDict([", "])", _unnamed(value.items()), len(value)
    first = f"{value.default_factory!r}, " if cls is defaultdict else ""
    pairs = value.most_common(MAX_ENTRIES) if cls is Counter else value.items()
    return f"{name_of(cls)}({first}{{", "})", _keyed(pairs), len(value)


def _unnamed(value: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return (("", item) for item in list(islice(value, MAX_ENTRIES)))


def _fields(value: Any) -> list[tuple[str, Any]]:
    """Return the fields that the repr of a class shows if Python or pydantic wrote that repr."""
    cls = type(value)
    if cls is types.SimpleNamespace:
        return list(own_dict(value).items())
    writes = find_in_class(cls, "__repr__")
    if _is_namedtuple(cls, writes):
        return list(zip(cls._fields, tuple(value)))
    if _is_dataclass(cls, writes):
        fields = [field for field in cls.__dataclass_fields__.values() if field.repr]
        return [(field.name, getattr(value, field.name)) for field in fields if _is_field(field)]
    model = get_if_loaded("pydantic.main", "BaseModel")
    if any(base is model for base in mro_of(cls)) and writes is find_in_class(model, "__repr__"):
        return [(name or "", item) for name, item in value.__repr_args__()]
    return []


def _is_namedtuple(cls: type, writes: Any) -> bool:
    is_tuple = any(base is tuple for base in mro_of(cls))
    return (
        is_tuple and hasattr(cls, "_fields") and getattr(writes, "__module__", "") == "collections"
    )


def _is_dataclass(cls: type, writes: Any) -> bool:
    made = getattr(writes, "__wrapped__", None)
    return "__create_fn__" in getattr(made, "__qualname__", "") and hasattr(
        cls, "__dataclass_fields__"
    )


def _is_field(field: Any) -> bool:
    """Leave out class variables and `InitVar`, which the repr does not show."""
    return getattr(field._field_type, "name", "") == "_FIELD"


def _class_label(cls: type) -> str:
    """Return the name with which a generated repr begins."""
    return cls.__qualname__ if class_module(cls) else name_of(cls)
