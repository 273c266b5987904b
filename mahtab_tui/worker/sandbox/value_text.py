"""Values as text, for answers and for the texts of sub-calls."""

from __future__ import annotations

import dataclasses
import json
import pprint
from collections import deque
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

_MAX_LINE_CHARS = 120
"""Data in a longer line is written in several lines."""

_ITEMS = (Iterator, KeysView, ValuesView, ItemsView, deque, range)
"""Types whose values stand for their items, although their repr does not show these."""


def materialize(value: object, max_items: int) -> object:
    """Return the items of a generator, a dict view and the like; other values unchanged. Raises
    ValueError for more than `max_items` items."""
    if not isinstance(value, _ITEMS):
        return value
    items: list[object] = []
    for item in value:
        items.append(item)
        if len(items) > max_items:  # perhaps it is infinite
            raise ValueError(
                f"FINAL: there are more than {max_items:,} items. Give fewer, or what they come to"
            )
    return items


def value_text(value: object) -> str:
    """Return a value as text: strings unchanged, data as JSON if possible, everything else as
    Python shows it."""
    try:
        data = _as_data(value)
        if isinstance(data, (list, tuple, dict)):
            return _as_json(data)
        return str(data)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return pprint.pformat(value, width=_MAX_LINE_CHARS)


def _as_data(value: Any) -> object:
    """Return a value as what JSON has; unchanged if it cannot be. Raises ValueError or TypeError
    for a dict or set that JSON cannot contain."""
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if isinstance(value, dict):
        return _as_json_object(value)
    if isinstance(value, (list, tuple)):
        return [_as_data(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [_as_data(item) for item in sorted(value)]
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return {name: _as_data(getattr(value, name)) for name in names}
    return _as_scalar(value)


def _as_json_object(value: dict[Any, Any]) -> dict[Any, object]:
    """Return a dict with keys and values that JSON has. Raises ValueError if two keys would be the
    same."""
    data = {_as_data(name): _as_data(item) for name, item in value.items()}
    json_keys = {name if isinstance(name, str) else json.dumps(name) for name in data}
    if len(json_keys) < len(value):
        # {1: 2, "1": 3}, {Path("a"): 1, "a": 2}
        raise ValueError("JSON would have a key twice")
    return data


def _as_scalar(value: Any) -> object:
    """Return a date, number, path or member of an enum as JSON has it; other values unchanged."""
    kind = type(value)
    if hasattr(kind, "__members__"):  # an enum
        return _as_data(value.value)
    if hasattr(kind, "isoformat"):
        return value.isoformat()
    if hasattr(kind, "as_integer_ratio") and hasattr(kind, "is_nan"):  # a Decimal
        if str(float(value)) == str(value):
            return float(value)
        return str(value)
    if hasattr(kind, "limit_denominator"):  # a Fraction
        if value.denominator == 1:
            return value.numerator
        return float(value)
    if hasattr(kind, "__fspath__") or hasattr(kind, "urn"):  # a path, a UUID
        return str(value)
    return value


def _as_json(data: Any) -> str:
    """Return JSON in one line; if it is too long, with a line for each item."""
    line = json.dumps(data, ensure_ascii=False)
    if len(line) <= _MAX_LINE_CHARS:
        return line
    if isinstance(data, dict):
        items = [json.dumps({name: item}, ensure_ascii=False)[1:-1] for name, item in data.items()]
    else:
        items = [json.dumps(item, ensure_ascii=False) for item in data]
    separator = ",\n  "
    return f"{line[0]}\n  {separator.join(items)}\n{line[-1]}"
