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
"""First rows that are shown, at most."""
MAX_WHOLE_ROWS = 10
"""Rows of a table all of which may be shown."""
MAX_WHOLE_COLUMNS = 6
"""Columns of such a table."""
MAX_CELL_CHARS = 40
MAX_COLUMNS = 60
"""Columns of a table that are described, the first ones."""


_LITERAL = re.compile(r"[-+]?[\d_.]+(?:[eE][-+]?\d+)?|True|False|None|nan|NaN|NaT|")
"""A text that code would read as a number or a constant, or nothing."""


class DescribedColumn(NamedTuple):
    """A column as text."""

    label: str
    type: str
    cells: Sequence[str]
    """The first values."""
    facts: ColumnFacts | None = None
    """What was read of all values; None if that was not possible, or there is no place for it."""


def describe_column(
    label: object,
    dtype: str,
    rows: int,
    *,
    head: Column | None = None,
    missing_text: str = "",
    facts: ColumnFacts | None = None,
    head_rows: int = MAX_HEAD_ROWS,
) -> DescribedColumn:
    """Describe a column, without its values if its name is that of a secret.

    Args:
        label: The column's name.
        dtype: The type of its values.
        rows: The number of all rows.
        head: Reads the first rows; None if that would run the user's code.
        missing_text: Stands for a missing value.
        facts: What is known about all rows.
        head_rows: First rows that are read.
    """
    name = label_text(label)
    visible_rows = min(rows, head_rows)
    # The label itself, because the name of a long one is cut.
    if looks_secret(label if type(label) is str else name):
        if facts is not None:
            facts = ColumnFacts(facts.rows, facts.is_complete, facts.missing)
        return DescribedColumn(name, dtype, [HIDDEN_VALUE] * visible_rows, facts)
    if head is None:
        return DescribedColumn(name, dtype, ["…"] * visible_rows, facts)
    return DescribedColumn(name, dtype, cell_texts(head, visible_rows, missing_text), facts)


def label_text(label: object) -> str:
    """Return a label as it is written before its column; quoted if it would be misread otherwise."""
    if type(label) is str and label == label.strip() and not _LITERAL.fullmatch(label):
        return one_line(label, MAX_CELL_CHARS)
    if type(label) is str or type(label) is tuple:
        return one_line(short_key(label), MAX_CELL_CHARS)
    return _cell_text(label)


def label_literal(label: object) -> str:
    """Return a label as Python code would have it."""
    if type(label) is str:
        return literal(label, MAX_CELL_CHARS)
    return label_text(label)


def cell_texts(column: Column, rows: int, missing_text: str) -> list[str]:
    """Return the texts of a column's first values."""
    if type(column) is Column:  # of any objects
        return [_cell_text(column.value(row)) for row in range(rows)]
    texts = column.texts(range(rows))
    return [missing_text if text is None else one_line(text, MAX_CELL_CHARS) for text in texts]


def _cell_text(value: Any) -> str:
    """Return a value as text, or its type if the text would say nothing or run the user's code."""
    text = cell_text(value)
    if value is None or type(value) is str:
        text = str(value)
    elif type(value) is dict or type(value) in SEQUENCES:
        text = short_value(value)
    elif text is None:
        return "NaN"
    elif is_one_of(value, "pandas", "Interval"):
        # Its time zone may be the user's.
        if is_one_of(value.left, "pandas", "Timestamp"):
            text = describe_type(value)
    elif type(value) not in SCALARS and (not summary(value) or safe_length(value) is not None):
        is_moment = is_one_of(value, "pandas", "Timestamp", "Timedelta", "Period")
        text = text if is_moment else describe_type(value)
    return one_line(text, MAX_CELL_CHARS)
