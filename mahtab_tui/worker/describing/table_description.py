"""Describes tables and arrays for a model, similar to ``df.describe()`` and ``df.head(2)``.

The modules for the libraries (`pandas_description.py`, `typed_description.py`,
`array_description.py`) describe the columns, of which readers (`column_reader.py`) read the values
for a limited time; `table_lines.py` lays them out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..values.objects import as_library_type, is_one_of, is_own_index
from ..values.secret_names import looks_secret
from ..values.summaries import type_name
from .array_description import array_lines
from .column_reader import ColumnReader, read_columns
from .pandas_description import frame_lines, frame_readers, index_lines, series_lines
from .typed_description import arrow_readers, polars_readers, typed_table_lines


def describe_table(name: str, value: Any, limit: int) -> list[str] | None:
    """Describe an object of a known library. May raise anything.

    Args:
        name: The variable.
        value: Any object.
        limit: Characters into which as many details go as fit.

    Returns:
        The lines; None for other objects.
    """
    kind = type_name(value)
    value = as_library_type(value)
    if _is_own_pandas(value, "DataFrame"):
        return frame_lines(name, kind, value, limit)
    if _is_own_pandas(value, "Series"):
        return series_lines(name, kind, value, limit)
    if is_own_index(value):
        return index_lines(name, kind, value)
    if is_one_of(value, "polars", "DataFrame", "Series") or is_one_of(value, "pyarrow", "Table"):
        return typed_table_lines(name, kind, value, limit)
    if is_one_of(value, "numpy", "ndarray"):
        return array_lines(name, kind, value)
    return None


def text_columns(value: Any, *, whole_only: bool = False) -> dict[str, Collection[str]]:
    """Return the different texts of the columns of a table, by label; empty for other objects, and
    without columns whose labels are not texts or look like those of secrets. May raise anything.

    Args:
        value: Any object.
        whole_only: Whether to leave out columns that cannot be read to their end in time.
    """
    value = as_library_type(value)
    labels: Sequence[Any] = ()
    readers: list[ColumnReader | None] = []
    if _is_own_pandas(value, "DataFrame"):
        labels, readers = frame_readers(value)
    elif is_one_of(value, "polars", "DataFrame"):
        labels = value.columns
        readers = polars_readers(value)
    elif is_one_of(value, "pyarrow", "Table"):
        labels = value.column_names
        readers = arrow_readers(value)
    columns: dict[str, Collection[str]] = {}
    for label, reader, facts in zip(labels, readers, read_columns(readers)):
        if reader is None or type(label) is not str or looks_secret(label):
            continue
        if not whole_only or (facts is not None and facts.is_complete):
            columns[label] = reader.texts
    return columns


def _is_own_pandas(value: Any, kind: str) -> bool:
    """Return whether an object is one of pandas, with indexes that are pandas' own."""
    return is_one_of(value, "pandas", kind) and all(map(is_own_index, value.axes))
