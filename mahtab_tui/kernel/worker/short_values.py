"""Formats values inside a description: simple ones by value, containers by their shape, others by
their type.

No code of the user's classes runs: containers are known by their exact class.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from .inspection.children import key_label, stored
from .secret_names import UNTOLD, hides, looks_secret
from .statics import MISSING, Classes, class_dict, mro_of, named, own_dict
from .summary import WIDTH, counted, kind_of, one_line, summary, type_name

SCALARS = Classes(bool, int, float, complex, str, bytes, type(None))
SEQUENCES = Classes(list, tuple, set, frozenset, collections.deque)
SAMPLE = 100
"""Items of a container whose types are looked at."""

_ITEMS = 8
"""Items of a container that are shown."""
_TEXT, _KEY = 60, 40
"""Characters of a text, and of a key."""
_FIELDS, _FIELD = 6, 24
"""Fields of an object that are shown in a line, and characters of each name and value."""


def short_value(value: Any, name: Any = "") -> str:
    """Format a value. name: its key or attribute, which may be that of a secret."""
    if type(name) is str and looks_secret(name):
        return UNTOLD if hides(name, value) else _kind(value)
    cls = type(value)
    if cls is str:
        return literal(value, _TEXT)
    if cls is dict:
        return _shape(value)
    if cls in SEQUENCES:
        return _short_sequence(value)
    return (cls in SCALARS and summary(value)) or about(value)


def stored_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public attributes of an object, from its ``__dict__`` and ``__slots__``."""
    names = dict.fromkeys(named(own_dict(value)))
    for base in mro_of(type(value)):
        slots = named(class_dict(base)) if "__slots__" in class_dict(base) else {}
        names.update(
            dict.fromkeys(
                label for label, item in slots.items() if type(item) is types.MemberDescriptorType
            )
        )
    for label in names:
        found = MISSING if label.startswith("_") else stored(value, label)
        if found is not MISSING:
            yield label, found


def fields(value: Any) -> str:
    """Format the first fields of an object, as in ``(id=7, total=3.5)``; empty if it has none.

    No value is cut, because a secret is recognised only as a whole.
    """
    words: list[str] = []
    room = WIDTH - len("(…)")
    for label, item in stored_fields(value):
        word = f"{one_line(label, _FIELD)}={_field(item, label)}"
        room -= len(word) + len(", ")
        if room < 0 or len(words) == _FIELDS:
            words.append("…")
            break
        words.append(word)
    return f"({', '.join(words)})" if words else ""


def _field(value: Any, name: str) -> str:
    text = one_line(short_value(value, name), _FIELD + 1)
    if len(text) <= _FIELD:
        return text
    return counted(str.__len__(value), "chars") if type(value) is str else type_name(value)


def literal(text: str, width: int) -> str:
    """Write a text as Python does; of a longer one only the beginning, which ends with a sign that
    it was cut."""
    if len(text) <= width:
        return repr(text)
    written = repr(text[:width])
    return f"{written[:-1]}…{written[-1]}"


def short_key(key: Any) -> str:
    """Format the key of a dict."""
    if type(key) is str:
        return literal(key, _KEY)
    if type(key) is tuple:
        return f"({', '.join(map(short_key, key))})"
    return key_label(key) if type(key) in SCALARS else about(key)


def about(value: Any) -> str:
    """Name the type of an object, with what its metadata tells."""
    kind = kind_of(value)
    if kind != "data":
        return f"<{kind}>"
    words = summary(value)
    return f"<{type_name(value)}{' ' * bool(words)}{words}>"


def kinds_of(sample: Iterable[Any]) -> str:
    """Name the types of some objects, as in ``int or str``."""
    names = list(dict.fromkeys(map(type_name, sample)))
    return " or ".join([*names[:3], *(["others"] if len(names) > 3 else [])])


def _shape(value: dict[Any, Any]) -> str:
    """Format a dict by its keys and the types of their values."""
    words = [f"{short_key(key)}: {_kind(item)}" for key, item in islice(value.items(), _ITEMS)]
    return f"{{{', '.join([*words, *(['...'] if len(value) > _ITEMS else [])])}}}"


def _short_sequence(value: Any) -> str:
    """Format a list by its items, if they are few and simple; otherwise by their types."""
    size, sample = len(value), list(islice(value, SAMPLE))
    if size <= _ITEMS and all(type(item) in SCALARS for item in sample):
        text = ", ".join(map(short_value, sample))
        if len(text) <= _TEXT:
            return f"[{text}]"
    kinds = kinds_of(sample)
    if kinds == "dict" and all(type(item) is dict for item in sample):
        keys = list(
            dict.fromkeys(
                short_key(key) for item in sample[:_ITEMS] for key in islice(item, _ITEMS)
            )
        )
        kinds = f"dict with keys {', '.join([*keys[:_ITEMS], *(['...'] if len(keys) > _ITEMS else [])])}"
    return f"[{kinds}] x {size:,}"


def _kind(value: Any) -> str:
    """Name the type of an object, with the size of a container."""
    cls = type(value)
    if cls is dict or cls in SEQUENCES:
        return f"{type_name(value)} of {len(value):,}"
    return type_name(value) if cls in SCALARS else about(value)
