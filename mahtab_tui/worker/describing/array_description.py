"""Describes arrays of numpy."""

from __future__ import annotations

import sys
from typing import Any

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
        return [*lines, f"value: {_item(value.tolist())}"]
    if not value.size:
        return lines
    first_items = value[(0,) * (value.ndim - 1)][:FIRST_ITEMS]
    return [*lines, *first_values_lines(list(map(_item, first_items.tolist())), value.size)]


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


def _item(item: object) -> str:
    if type(item) is float:
        return f"{item:.6g}"
    if type(item) is tuple:
        return f"({', '.join(map(_item, item))})"
    return label_literal(item)
