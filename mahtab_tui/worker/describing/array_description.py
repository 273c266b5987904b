"""Describes arrays of numpy."""

from __future__ import annotations

import sys
from typing import Any

from ..values.secret_names import HIDDEN_VALUE, looks_secret
from ..values.summaries import one_line
from .column_facts import number_text
from .described_columns import label_literal
from .table_lines import FIRST_ITEMS, MAX_ROW_CHARS, first_values_lines

_MAX_ARRAY_ITEMS = 10_000_000
"""Items of an array whose range is computed."""


def array_lines(name: str, kind: str, value: Any) -> list[str]:
    """Describe an array in lines. kind: the name of its type."""
    dtype = one_line(str(value.dtype), MAX_ROW_CHARS)
    lines = [f"{name}: {kind}, {dtype}, shape {value.shape}{_extent(value)}"]
    if not value.ndim:
        return [*lines, f"value: {_item(value.tolist(), value.dtype)}"]
    if not value.size:
        return lines
    first_items = value[(0,) * (value.ndim - 1)][:FIRST_ITEMS]
    texts = [_item(item, value.dtype) for item in first_items.tolist()]
    return [*lines, *first_values_lines(texts, value.size)]


def _extent(value: Any) -> str:
    """Say what the smallest and the largest number are, and how many are missing; return an empty
    string for other values, and for too many."""
    kind = value.dtype.kind
    if kind not in "iufmM" or not 0 < value.size <= _MAX_ARRAY_ITEMS:
        return ""
    missing = int((value != value).sum())
    if missing == value.size:
        return ", all missing"

    numpy = sys.modules["numpy"]
    low = numpy.fmin.reduce(value, axis=None)
    high = numpy.fmax.reduce(value, axis=None)
    low_text, high_text = (
        one_line(str(end)) if kind in "mM" else number_text(end) for end in (low, high)
    )
    missing_text = f", {missing:,} missing" if missing else ""
    return f", min {low_text}, max {high_text}{missing_text}"


def _item(item: object, dtype: Any) -> str:
    """Return an item as text, without its fields that have the name of a secret."""
    if type(item) is float:
        return f"{item:.6g}"
    if type(item) is not tuple:
        return label_literal(item)
    # An array of any objects may have tuples, too, whose parts have no names.
    names = dtype.names or [""] * len(item)
    parts = [
        HIDDEN_VALUE if looks_secret(name) else _item(part, dtype[name] if name else dtype)
        for name, part in zip(names, item)
    ]
    return f"({', '.join(parts)})"
