"""Describes tables, Series and indexes of pandas, without running code of the user's: columns and
labels whose types are not pandas' own are only named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..inspection.library_columns import column_of, dtype_text, has_foreign_zone
from ..values.objects import (
    is_from,
    is_one_of,
    is_own_column,
)
from ..values.summaries import one_line, type_name
from .arrow_types import arrow_type_text
from .column_facts import ColumnFacts
from .column_reader import ColumnReader, read_columns
from .described_columns import (
    MAX_CELL_CHARS,
    MAX_COLUMNS,
    MAX_HEAD_ROWS,
    MAX_WHOLE_COLUMNS,
    MAX_WHOLE_ROWS,
    DescribedColumn,
    describe_column,
    label_literal,
)
from .pandas_exactness import shows_exact_values
from .pandas_labels import describe_index, is_readable, row_labels
from .pandas_readers import pandas_reader
from .table_lines import (
    DETAILS,
    FIRST_ITEMS,
    MIN_LINES_LIMIT,
    DescribedTable,
    first_values_lines,
    head_lines,
    size_text,
    table_lines,
)

_KEY_NAME = re.compile(r"(?:^|[_\W])(?i:id|key|code|number|no|nr)$|[a-z]I[Dd]$")
"""The end of a column's name that says that its values are keys."""


def frame_lines(name: str, kind: str, frame: Any, limit: int) -> list[str]:
    """Describe a DataFrame whose indexes are pandas' own.

    Args:
        name: The variable.
        kind: The name of its type.
        frame: The table.
        limit: Characters of the description.
    """
    row_count, column_count = frame.shape
    size = f"{size_text(row_count, 'rows')} x {size_text(column_count, 'columns')}"
    labels = _column_labels(frame)
    index_words = describe_index(frame.index) + _describe_column_labels(frame, labels)
    is_small = row_count <= MAX_WHOLE_ROWS and len(labels) == column_count <= MAX_WHOLE_COLUMNS
    head_rows = row_count if is_small else MAX_HEAD_ROWS
    columns = _frame_columns(frame, labels, limit, head_rows)
    table = DescribedTable(
        name,
        f"{name}: {kind}, {size}{index_words}",
        columns,
        column_count,
        row_labels(frame.index[:head_rows]),
        is_whole=is_small and shows_exact_values(frame, columns),
    )
    return table_lines(table, limit)


def series_lines(name: str, kind: str, series: Any, limit: int) -> list[str]:
    """Describe a Series whose index is pandas' own. The parameters are those of `frame_lines`."""
    [facts] = _read_facts([series], limit)
    column = _describe_series(series.name, series, facts)
    if series.name is None:
        label = ""
    else:
        label = f", name {label_literal(series.name)}"
    words = f"{column.type}{label}{describe_index(series.index)}"
    title = f"{name}: {kind}, {size_text(len(series), 'rows')}, {words}"
    if not len(series) or limit < MIN_LINES_LIMIT:
        return [title]

    lines = [title]
    detail = DETAILS[0]
    if text := detail.facts_text(column):
        lines.append(text)
    first_labels = row_labels(series.index[:MAX_HEAD_ROWS])
    return [*lines, *head_lines(DescribedTable(name, title, [column], 1, first_labels), detail)]


def index_lines(name: str, kind: str, index: Any) -> list[str]:
    """Describe an index that is a variable itself. The parameters are those of `frame_lines`."""
    title = f"{name}: {kind}, {size_text(len(index), 'items')}{describe_index(index)}"
    return [title, *first_values_lines(row_labels(index[:FIRST_ITEMS]), len(index))]


def frame_readers(frame: Any) -> tuple[list[Any], list[ColumnReader | None]]:
    """Return the labels of the first columns and readers of these columns, or None for one that cannot
    be read. There are none if the labels have several levels, or a time zone of the user's."""
    if is_one_of(frame.columns, "pandas", "MultiIndex"):
        return [], []
    labels = _column_labels(frame)
    return labels, _readers(_own_columns(frame, len(labels)))


# Columns


def _column_labels(frame: Any) -> list[Any]:
    """Return the labels of the first columns; none if one has a time zone of the user's, whose code
    would run."""
    is_nested = is_one_of(frame.columns, "pandas", "MultiIndex")
    levels = frame.columns.levels if is_nested else [frame.columns]
    if any(has_foreign_zone(level.dtype) for level in levels):
        return []
    labels: list[Any] = frame.columns[:MAX_COLUMNS].tolist()
    return labels


def _frame_columns(
    frame: Any, labels: Sequence[object], limit: int, head_rows: int
) -> list[DescribedColumn]:
    """Describe the first columns.

    Args:
        head_rows: First rows that are read.
    """
    all_series = _own_columns(frame, len(labels))
    all_facts = _read_facts(all_series, limit)
    columns: list[DescribedColumn] = []
    for position, label in enumerate(labels):
        series = all_series[position]
        if series is None:
            dtype = f"<{type_name(_column_array(frame, position))}>"
            columns.append(describe_column(label, dtype, len(frame)))
        else:
            columns.append(_describe_series(label, series, all_facts[position], head_rows))
    return columns


def _own_columns(frame: Any, count: int) -> list[Any]:
    """Return the first columns of a table of pandas; None for those whose array is the user's own:
    not even a Series of it can be created without running its code."""
    return [
        frame.iloc[:, position]
        if is_from(_column_array(frame, position), "numpy", "pandas")
        else None
        for position in range(count)
    ]


def _column_array(frame: Any, position: int) -> Any:
    """Return the array with a column's values. It may also contain those of other columns."""
    return frame._mgr.blocks[frame._mgr.blknos[position]].values


def _describe_series(
    label: Any, series: Any, facts: ColumnFacts | None, head_rows: int = MAX_HEAD_ROWS
) -> DescribedColumn:
    dtype = _type_text(series)
    if not is_readable(series):
        return describe_column(label, dtype, len(series))
    missing_text = "NaN"
    if dtype.startswith(("datetime64", "timedelta64", "period")):
        missing_text = "NaT"
    head = column_of(series.iloc[:head_rows])
    return describe_column(
        label,
        dtype,
        len(series),
        head=head,
        missing_text=missing_text,
        facts=facts,
        head_rows=head_rows,
    )


def _type_text(series: Any) -> str:
    if not is_own_column(series):
        return f"<{type_name(series._values)}>"
    if is_one_of(series.dtype, "pandas", "ArrowDtype"):
        arrow_type = series.dtype.pyarrow_dtype
        return f"{arrow_type_text(arrow_type) or f'<{type_name(arrow_type)}>'}[pyarrow]"
    return one_line(dtype_text(series.dtype), MAX_CELL_CHARS)


# Reading


def _read_facts(columns: Sequence[object], limit: int) -> list[ColumnFacts | None]:
    """Read Series of pandas; None for what is not one, and for all if the description is a line,
    which has no place for facts."""
    if limit < MIN_LINES_LIMIT:
        return [None] * len(columns)
    return read_columns(_readers(columns))


def _readers(columns: Sequence[Any]) -> list[ColumnReader | None]:
    """Return readers of Series; None for what is not one, and what cannot be read."""
    return [
        pandas_reader(series, is_key=_is_key_name(series.name))
        if series is not None and is_readable(series)
        else None
        for series in columns
    ]


def _is_key_name(label: object) -> bool:
    if type(label) is not str:
        return False
    return _KEY_NAME.search(label[-MAX_CELL_CHARS:]) is not None


def _describe_column_labels(frame: Any, labels: Sequence[object]) -> str:
    """Return what is special about the labels of columns, with a comma before it; nothing if they are
    texts."""
    if is_one_of(frame.columns, "pandas", "MultiIndex"):
        return f", columns: MultiIndex of {len(frame.columns.levels):,} levels"
    if labels and type(labels[0]) is not str:
        return f", column labels: {type_name(labels[0])}"
    return ""
