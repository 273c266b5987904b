"""A column of a table as a model sees it: its label, type, first values and facts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..inspection.cell_texts import cell_text
from ..inspection.columns import Column
from ..values.objects import SCALARS, is_one_of
from ..values.secret_names import HIDDEN_VALUE, looks_secret
from ..values.short_values import SEQUENCES, describe_type, literal, short_key, short_value
from ..values.summaries import one_line, safe_length, summary
from .column_facts import ColumnFacts

MAX_HEAD_ROWS = 2
"""Maximum first rows of a table that are shown."""
MAX_WHOLE_ROWS = 10
MAX_WHOLE_COLUMNS = 6
"""Maximum rows and columns of a table that is shown whole."""
MAX_COLUMNS = 60
"""Maximum columns of a table that are described, which are the first ones."""
MAX_CELL_CHARS = 40
"""Maximum characters of a value or a label."""

_PANDAS_SCALARS = ("Timestamp", "Timedelta", "Period", "Interval")
"""Classes of pandas whose values have texts that say more than their types."""
_UNREAD_VALUE = "…"
"""Stands for each value of a column that only the user's code could read."""
_READ_AS_CONSTANT = re.compile(r"[-+]?[\d_.]+(?:[eE][-+]?\d+)?|True|False|None|nan|NaN|NaT|")
"""A text that is misread without quotation marks: a number, a constant, or nothing at all."""


class DescribedColumn(NamedTuple):
    """A column as text."""

    label: str
    type: str
    """The name of the type of the values."""
    cells: Sequence[str]
    """The first values, as texts."""
    facts: ColumnFacts | None = None
    """What was read of all values; None if that was not possible, or has no place in the
    description."""


def describe_column(
    label: object,
    dtype: str,
    row_count: int,
    *,
    head: Column | None = None,
    missing_text: str = "",
    facts: ColumnFacts | None = None,
    head_rows: int = MAX_HEAD_ROWS,
) -> DescribedColumn:
    """Describe a column. If its label is the name of a secret, its values are not told.

    Args:
        label: The column's label, which may be any object.
        dtype: The name of the type of the values.
        row_count: The number of all rows.
        head: A column of at least the first rows; None if reading them would run the user's code.
        missing_text: Stands for a missing value.
        facts: What was read of all values; None if nothing was.
        head_rows: The number of first rows that are described.
    """
    name = label_text(label)
    cell_count = min(row_count, head_rows)
    # The name of a long label is cut, and may not look like that of a secret any more.
    whole_name = label if type(label) is str else name
    if looks_secret(whole_name):
        if facts is not None:
            facts = ColumnFacts(facts.rows, facts.is_complete, facts.missing)
        return DescribedColumn(name, dtype, [HIDDEN_VALUE] * cell_count, facts)
    if head is None:
        return DescribedColumn(name, dtype, [_UNREAD_VALUE] * cell_count, facts)
    return DescribedColumn(name, dtype, cell_texts(head, cell_count, missing_text), facts)


def label_text(label: object) -> str:
    """Return a label as it is written before its column.

    It stands in quotation marks if it would be misread without them.
    """
    if type(label) is str:
        has_outer_space = label != label.strip()
        if has_outer_space or _READ_AS_CONSTANT.fullmatch(label):
            return one_line(short_key(label), MAX_CELL_CHARS)
        return one_line(label, MAX_CELL_CHARS)
    if type(label) is tuple:
        return one_line(short_key(label), MAX_CELL_CHARS)
    return _value_text(label)


def label_literal(label: object) -> str:
    """Return a label as it is written in Python code."""
    if type(label) is str:
        return literal(label, MAX_CELL_CHARS)
    return label_text(label)


def cell_texts(column: Column, cell_count: int, missing_text: str) -> list[str]:
    """Return the first values of a column, each as a text in one line.

    Args:
        column: The column, which has at least `cell_count` values.
        cell_count: The number of values.
        missing_text: Stands for a missing value.
    """
    # A subclass of `Column` has values of a single type, which it formats itself.
    if type(column) is Column:
        return [_value_text(column.value(row)) for row in range(cell_count)]
    texts = column.texts(range(cell_count))
    return [missing_text if text is None else one_line(text, MAX_CELL_CHARS) for text in texts]


def _value_text(value: Any) -> str:
    """Return any value as a text in one line, without running the user's code."""
    return one_line(_long_value_text(value), MAX_CELL_CHARS)


def _long_value_text(value: Any) -> str:
    """Return any value as a text, or its type if its text says nothing about it."""
    if value is None or type(value) is str:
        return str(value)
    if type(value) is dict or type(value) in SEQUENCES:
        return short_value(value)
    text = cell_text(value)
    if text is None:
        return "NaN"
    return text if _is_told_by_text(value) else describe_type(value)


def _is_told_by_text(value: Any) -> bool:
    """Return whether the text of a value in a table says more than its type."""
    if type(value) in SCALARS or is_one_of(value, "pandas", *_PANDAS_SCALARS):
        return True
    # The summary of a value with a length says only how long it is.
    return bool(summary(value)) and safe_length(value) is None
