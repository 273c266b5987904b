"""Describes arrays of numpy."""

from __future__ import annotations

import sys
from typing import Any

from ..values.secret_names import HIDDEN_VALUE, looks_secret
from ..values.summaries import one_line
from .described_columns import label_literal
from .number_texts import number_text
from .table_lines import FIRST_ITEMS, MAX_ROW_CHARS, first_values_lines

_MAX_RANGED_ITEMS = 10_000_000
"""Maximum items of an array whose smallest and largest item are looked for."""
_TIME_KINDS = "mM"
_ORDERED_KINDS = f"iuf{_TIME_KINDS}"
"""The kinds of numpy's types with an order: whole numbers, floats, and moments and spans of time."""


def array_lines(name: str, kind: str, array: Any) -> list[str]:
    """Return the lines that describe an array.

    Args:
        name: The name of the variable.
        kind: The name of the array's class.
        array: The array.
    """
    dtype = one_line(str(array.dtype), MAX_ROW_CHARS)
    lines = [f"{name}: {kind}, {dtype}, shape {array.shape}{_describe_range(array)}"]
    is_scalar = not array.ndim
    if is_scalar:
        lines.append(f"value: {_item_text(array.tolist(), array.dtype)}")
    elif array.size:
        first_row = array[(0,) * (array.ndim - 1)]
        first_items = first_row[:FIRST_ITEMS].tolist()
        texts = [_item_text(item, array.dtype) for item in first_items]
        lines.extend(first_values_lines(texts, array.size))
    return lines


def _describe_range(array: Any) -> str:
    """Return the smallest and the largest item, and how many are missing, such as ", min 1, max 9, 2
    missing", or ", all missing"; an empty string for an array of other items, and for a very large
    one."""
    kind = array.dtype.kind
    if kind not in _ORDERED_KINDS or not 0 < array.size <= _MAX_RANGED_ITEMS:
        return ""
    # A missing item, NaN or NaT, is the only one that is not equal to itself.
    missing_count = int((array != array).sum())
    if missing_count == array.size:
        return ", all missing"

    numpy = sys.modules["numpy"]
    smallest = numpy.fmin.reduce(array, axis=None)
    largest = numpy.fmax.reduce(array, axis=None)
    if kind in _TIME_KINDS:
        text = f", min {one_line(str(smallest))}, max {one_line(str(largest))}"
    else:
        text = f", min {number_text(smallest)}, max {number_text(largest)}"
    if missing_count:
        text += f", {missing_count:,} missing"
    return text


def _item_text(item: object, dtype: Any) -> str:
    """Return an item as text. The fields of a record that have the name of a secret are hidden.

    Args:
        item: The item as an object of Python's, which is a tuple for a record.
        dtype: Its type in numpy, which has the names of the fields.
    """
    if type(item) is float:
        return f"{item:.6g}"
    if type(item) is not tuple:
        return label_literal(item)
    if dtype.names is None:
        # An array of any objects may have tuples, too, whose parts have no names.
        parts = [_item_text(part, dtype) for part in item]
    else:
        parts = [
            HIDDEN_VALUE if looks_secret(name) else _item_text(part, dtype[name])
            for name, part in zip(dtype.names, item)
        ]
    return f"({', '.join(parts)})"
