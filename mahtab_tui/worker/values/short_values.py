"""Short texts of values, as parts of a line. No user code runs: what only code could tell is not
shown."""

from __future__ import annotations

import collections
import types
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from .objects import MISSING, SCALARS, Classes, attribute, copy_text_keys, own_dict, slot_names
from .secret_names import HIDDEN_VALUE, is_hidden, looks_secret
from .summaries import SUMMARY_CHARS, format_count, one_line, summary, type_name, variable_kind

SEQUENCES = Classes(list, tuple, set, frozenset, collections.deque)
"""Containers that are described by a sample of their items."""
_BRACKETS: dict[Any, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
}
"""What Python writes around the items of a sequence."""
_SETS = Classes(set, frozenset)
"""If they are empty, Python writes no brackets."""
SAMPLED_CHILDREN = 100
"""The size of this sample."""
LABEL_CHARS = 80
"""A key or an attribute has at most this many characters."""

_MAX_ITEMS = 8
"""Items of a container, or keys of its dicts, that are written."""
_TEXT_CHARS = 60
_KEY_CHARS = 40
_MAX_TYPES = 3
"""Types of a container's items that are named."""
_MAX_FIELDS = 6
"""Attributes of an object that are written."""
_FIELD_CHARS = 24
"""An attribute's name has at most this many characters, and so has its value."""
_COMPUTED = Classes(property, types.GetSetDescriptorType)
"""Only code can compute their values."""


def short_value(value: Any, name: object = "") -> str:
    """Return a value as Python writes it if it is short, or else what it holds, as in ``[int] x 300``.

    Args:
        value: The value.
        name: Its key or attribute. If this is the name of a secret, the value is not written.
    """
    if type(name) is str and looks_secret(name):
        if is_hidden(name, value):
            return HIDDEN_VALUE
        return _describe_size(value)
    cls = type(value)
    if cls is str:
        return literal(value, _TEXT_CHARS)
    if cls is dict:
        items = islice(value.items(), _MAX_ITEMS)
        words = [f"{short_key(key)}: {_describe_size(item)}" for key, item in items]
        return f"{{{_join_first(words, len(value))}}}"
    if cls in SEQUENCES:
        return _short_sequence(value)
    if cls in SCALARS and (text := summary(value)):
        return text
    return describe_type(value)


def short_key(key: object) -> str:
    """Return a key of a dict as Python writes it if it is short, or else its type."""
    if type(key) is str:
        return literal(key, _KEY_CHARS)
    if type(key) is tuple:
        return f"({', '.join(map(short_key, key))})"
    if type(key) in SCALARS:
        return summary_or_type(key)
    return describe_type(key)


def summary_or_type(value: object) -> str:
    """Return the summary of a value; the name of its type if it has none."""
    return one_line(summary(value) or type_name(value), LABEL_CHARS)


def literal(text: str, width: int) -> str:
    """Return a string as a Python literal. Of a longer one, `width` characters and an ellipsis."""
    if len(text) <= width:
        return repr(text)
    truncated = repr(text[:width])
    closing_quote = truncated[-1]
    return f"{truncated[:-1]}…{closing_quote}"


def scalar_literal(value: object) -> str | None:
    """Return a number, a text or another scalar as Python writes it; None for a number with more digits
    than Python writes."""
    try:
        return repr(value)
    except ValueError:
        return None


def describe_type(value: object) -> str:
    """Return what a value is, as in ``<function>`` and ``<DataFrame 10 × 3>``."""
    kind = variable_kind(value)
    if kind != "data":
        return f"<{kind}>"
    words = summary(value)
    if words:
        return f"<{type_name(value)} {words}>"
    return f"<{type_name(value)}>"


def describe_types(sample: Iterable[object]) -> str:
    """Return the types of some values, as in ``int or str``."""
    names = list(dict.fromkeys(map(type_name, sample)))
    if len(names) > _MAX_TYPES:
        names[_MAX_TYPES:] = ["others"]
    return " or ".join(names)


def fields(value: object) -> str:
    """Return the first attributes of an object, as in ``(id=7, total=3.5)``; empty if it has
    none."""
    words: list[str] = []
    remaining_chars = SUMMARY_CHARS - len("(…)")
    for name, item in stored_fields(value):
        words.append(f"{one_line(name, _FIELD_CHARS)}={_field_value(name, item)}")
        remaining_chars -= len(words[-1]) + len(", ")
        if remaining_chars < 0 or len(words) > _MAX_FIELDS:
            words[-1] = "…"
            break
    if not words:
        return ""
    return f"({', '.join(words)})"


def stored_fields(value: object) -> Iterator[tuple[str, object]]:
    """Yield name and value of each public attribute of an object, from its ``__dict__`` and
    ``__slots__``."""
    names = copy_text_keys(own_dict(value))
    names.update(dict.fromkeys(slot_names(type(value))))
    for name in names:
        if name.startswith("_"):
            continue
        item = stored_attribute(value, name)
        if item is not MISSING:
            yield name, item


def stored_attribute(value: object, name: str) -> object:
    """Return an attribute as it is stored; `MISSING` if only code can compute it."""
    stored_value = attribute(value, name)
    if type(stored_value) in _COMPUTED:
        return MISSING
    return stored_value


def _short_sequence(value: Any) -> str:
    """Return a list, tuple, set or deque with its items if they are few and short, or else with their
    types and their number."""
    size = len(value)
    sample = list(islice(value, SAMPLED_CHILDREN))
    if size <= _MAX_ITEMS and all(type(item) in SCALARS for item in sample):
        items_text = ", ".join(map(short_value, sample))
        if len(items_text) <= _TEXT_CHARS:
            if not size and type(value) in _SETS:
                return f"{type_name(value)}()"
            if size == 1 and type(value) is tuple:
                items_text += ","
            return _in_brackets(value, items_text)
    types_text = describe_types(sample)
    if types_text == "dict" and all(type(item) is dict for item in sample):
        keys = [short_key(key) for item in sample for key in islice(item, _MAX_ITEMS)]
        different_keys = list(dict.fromkeys(keys))
        types_text = f"dict with keys {_join_first(different_keys, len(different_keys))}"
    if size > len(sample):
        # The types of the others are unknown.
        types_text += ", …"
    return f"{_in_brackets(value, types_text)} x {size:,}"


def _in_brackets(value: Any, items_text: str) -> str:
    """Return a text between what Python writes around the items of a sequence."""
    opening, closing = _BRACKETS[type(value)]
    return f"{opening}{items_text}{closing}"


def _join_first(words: Sequence[str], count: int) -> str:
    """Join as many words as are written.

    Args:
        words: The words.
        count: How many there would be, with those that are not in `words`.
    """
    written_words = list(words[:_MAX_ITEMS])
    if count > len(written_words):
        written_words.append("...")
    return ", ".join(written_words)


def _describe_size(value: Any) -> str:
    """Return the type of a value, and its size if it is a container."""
    cls = type(value)
    if cls is dict or cls in SEQUENCES:
        return f"{type_name(value)} of {len(value):,}"
    if cls in SCALARS:
        return type_name(value)
    return describe_type(value)


def _field_value(name: str, value: object) -> str:
    """Return the value of an attribute, or its size or type if the value is too long."""
    text = one_line(short_value(value, name), _FIELD_CHARS + 1)
    if len(text) <= _FIELD_CHARS:
        return text
    if type(value) is str:
        return format_count(len(value), "chars")
    return type_name(value)
