"""Tells whether the description of a small table shows its values and labels exactly, so that a model may
take it for the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..inspection.library_columns import has_foreign_zone
from ..values.objects import address_of, is_one_of
from .described_columns import DescribedColumn
from .pandas_labels import LEVEL_SEPARATOR, is_readable, row_labels

_MISSING_TEXTS = frozenset(("NaN", "NaT", "None", "<NA>"))
"""Texts that stand for a missing value."""


def shows_exact_values(frame: Any, columns: Sequence[DescribedColumn]) -> bool:
    """Return whether all columns of a small table could be read, no number or time in it or its labels
    was rounded, and no text in it looks like a missing value."""
    for position, column in enumerate(columns):
        if column.facts is None:
            return False
        series = frame.iloc[:, position]
        # Its values would run the zone's code.
        if has_foreign_zone(series.dtype) or not _are_exact(column.cells, series.tolist()):
            return False
    is_nested = is_one_of(frame.columns, "pandas", "MultiIndex")
    labels = [column.label for column in columns]
    if not is_nested and not _are_exact(labels, frame.columns.tolist()):
        return False
    return _shows_exact_labels(frame.index)


def _shows_exact_labels(index: Any) -> bool:
    """Return whether the labels of rows are shown as they are, and those of each level are told
    apart."""
    if is_one_of(index, "pandas", "MultiIndex"):
        levels = [index.get_level_values(number) for number in range(index.nlevels)]
        has_separator = any(
            LEVEL_SEPARATOR in text for level in levels for text in row_labels(level)
        )
        return not has_separator and all(map(_shows_exact_labels, levels))
    if not is_readable(index) or has_foreign_zone(index.dtype):
        return False
    texts = row_labels(index)
    labels = index.tolist()
    visible_types = {
        address_of(type(label)) for text, label in zip(texts, labels) if text not in _MISSING_TEXTS
    }
    return len(visible_types) <= 1 and _are_exact(texts, labels)


def _are_exact(texts: Sequence[str], values: Sequence[Any]) -> bool:
    return all(map(_is_exact, texts, values))


def _is_exact(text: str, value: Any) -> bool:
    """Return whether the text of a value that may be missing was not rounded, and does not look like
    another value."""
    if type(value) is str:
        return text not in _MISSING_TEXTS
    if text in _MISSING_TEXTS:
        return True
    if is_one_of(value, "pandas", "Timedelta"):
        return not value.nanoseconds or text == str(value)
    if type(value) is not float:
        return True
    try:
        return float(text) == value
    except ValueError:
        return False
