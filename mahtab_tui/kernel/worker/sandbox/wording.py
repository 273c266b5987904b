"""Converts values to text for FINAL and sub-calls."""

from __future__ import annotations

import json
import pprint
from collections import deque
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

ANSWER_LIMIT = 40_000
"""The most characters that the answer of a sub-call may have."""

_ONE_LINE = 120
_ITEMS = (Iterator, KeysView, ValuesView, ItemsView, deque, range)
"""Types whose values mean their items, though Python does not show them."""


def with_items(value: object, most: int) -> object:
    """Return the items of a generator, of a view of a dict, and of others whose value says nothing;
    all else as it is.

    most: how many characters an answer may have. Raises ValueError if there are more items than
    would fit.
    """
    if not isinstance(value, _ITEMS):
        return value
    items: list[object] = []
    for item in value:
        items.append(item)
        if len(items) > most:  # perhaps it has no end
            raise ValueError(
                f"FINAL: there are more than {most:,} items. Give fewer, or what they come to"
            )
    return items


def readable(value: object) -> str:
    """Return a value as text: strings as they are, lists, dicts, sets, arrays and dataclasses as
    JSON if possible, all else as Python shows it."""
    try:
        data = _as_data(value)
        return _as_json(data, "\n") if isinstance(data, (list, tuple, dict)) else str(data)
    except (TypeError, ValueError, RecursionError):
        return pprint.pformat(value, width=_ONE_LINE)


def _as_data(value: Any) -> Any:
    """Return a value as lists, dicts and what JSON has otherwise, as far as it can be."""
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if isinstance(value, dict):
        data = {_as_data(name): _as_data(each) for name, each in value.items()}
        if len({name if isinstance(name, str) else json.dumps(name) for name in data}) < len(data):
            raise ValueError("JSON would have a key twice")  # {1: 2, "1": 3}
        return data
    if isinstance(value, (list, tuple)):
        return [_as_data(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return [_as_data(each) for each in sorted(value)]
    if hasattr(kind, "__dataclass_fields__"):
        return {name: _as_data(getattr(value, name)) for name in kind.__dataclass_fields__}
    if hasattr(kind, "__members__"):  # an enum
        return _as_data(value.value)
    if hasattr(kind, "tolist"):  # NumPy
        return _as_data(value.tolist())
    if hasattr(kind, "isoformat"):
        return value.isoformat()
    if hasattr(kind, "as_integer_ratio") and hasattr(kind, "is_nan"):  # a Decimal
        return float(value) if str(float(value)) == str(value) else str(value)
    if hasattr(kind, "__fspath__") or hasattr(kind, "urn"):  # a path, a UUID
        return str(value)
    return value


def _as_json(value: object, line_break: str) -> str:
    """Return a value as JSON: what fits into a line in one line, such as each pair of a long list.
    line_break: with the indentation."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= _ONE_LINE or not isinstance(value, (list, tuple, dict)):
        return line
    deeper = f"{line_break}  "
    items = [
        _as_json(item, deeper) for item in (value.values() if isinstance(value, dict) else value)
    ]
    if isinstance(value, dict):
        items = [
            json.dumps({name: 0}, ensure_ascii=False)[1:-2] + item
            for name, item in zip(value, items)
        ]
    inside = deeper + f",{deeper}".join(items) + line_break
    return f"{{{inside}}}" if isinstance(value, dict) else f"[{inside}]"


def subset_text(name: str, value: object) -> str:
    """Return the text for a sub-call: a str as it is, a list of strings as lines, other lists,
    dicts and numbers as `readable` does.

    name: the function that was called, for the error. Raises TypeError for other types (a function,
    an iterator, None).
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "\n".join(item.rstrip("\n") for item in value)
    if isinstance(value, (list, tuple, dict, set, frozenset, int, float)):
        return readable(value)
    raise TypeError(
        f"{name} reads a text: give a str (a part of context, or text of your own), not {_kind(value)}"
    )


def wrong_type(name: str, argument: str, wanted: str, value: Any) -> TypeError:
    """Make the error for an argument of a wrong type."""
    return TypeError(f"{name}: {argument} must be {wanted}, not {_kind(value)}")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
