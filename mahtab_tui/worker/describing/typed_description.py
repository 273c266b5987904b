"""Describes tables of polars and Arrow, whose columns have one type each."""

from __future__ import annotations

from typing import Any

from ..inspection.tables import as_table
from ..values.objects import is_one_of
from ..values.summaries import one_line, type_name
from .arrow_types import arrow_type_text
from .column_reader import ColumnReader, read_columns
from .described_columns import (
    MAX_CELL_CHARS,
    MAX_COLUMNS,
    MAX_HEAD_ROWS,
    DescribedColumn,
    describe_column,
)
from .table_lines import MIN_LINES_LIMIT, DescribedTable, short_table_lines, size_text
from .typed_readers import arrow_reader, polars_reader


def typed_table_lines(name: str, kind: str, value: Any, limit: int) -> list[str]:
    """Describe a table of Arrow, or a DataFrame or Series of polars.

    Args:
        name: The variable.
        kind: The name of its type.
        value: The table.
        limit: Characters of the description.
    """
    is_arrow = is_one_of(value, "pyarrow", "Table")
    library = "pyarrow" if is_arrow else "polars"
    if is_one_of(value, "polars", "Series"):
        value = value.to_frame()
    row_count, column_count = value.shape
    size = f"{size_text(row_count, 'rows')} x {size_text(column_count, 'columns')}"
    with_facts = limit >= MIN_LINES_LIMIT
    if is_arrow:
        columns = _arrow_columns(value, with_facts=with_facts)
    else:
        columns = _polars_columns(value, with_facts=with_facts)
    title = f"{name}: {library} {kind}, {size}"
    return short_table_lines(DescribedTable(name, title, columns, column_count), limit)


def arrow_readers(table: Any) -> list[ColumnReader | None]:
    """Return readers of the first columns; None for those whose type is not Arrow's own."""
    column_count = min(table.num_columns, MAX_COLUMNS)
    return [
        arrow_reader(table.column(index)) if arrow_type_text(table.schema.types[index]) else None
        for index in range(column_count)
    ]


def polars_readers(frame: Any) -> list[ColumnReader | None]:
    """Return readers of the first columns."""
    column_count = min(frame.width, MAX_COLUMNS)
    return [polars_reader(frame.to_series(index)) for index in range(column_count)]


def _arrow_columns(table: Any, *, with_facts: bool) -> list[DescribedColumn]:
    head: Any = as_table(table.slice(0, MAX_HEAD_ROWS))
    column_count = min(table.num_columns, MAX_COLUMNS)
    readers: list[ColumnReader | None] = [None] * column_count
    if with_facts:
        readers = arrow_readers(table)
    facts = read_columns(readers)
    columns: list[DescribedColumn] = []
    for index, dtype in enumerate(table.schema.types[:column_count]):
        type_text = arrow_type_text(dtype)
        columns.append(
            describe_column(
                table.column_names[index],
                type_text or type_name(dtype),
                len(table),
                head=head.column(index) if type_text else None,
                missing_text="null",
                facts=facts[index],
            )
        )
    return columns


def _polars_columns(frame: Any, *, with_facts: bool) -> list[DescribedColumn]:
    head: Any = as_table(frame.slice(0, MAX_HEAD_ROWS))
    column_count = min(frame.width, MAX_COLUMNS)
    readers: list[ColumnReader | None] = [None] * column_count
    if with_facts:
        readers = polars_readers(frame)
    facts = read_columns(readers)
    return [
        describe_column(
            frame.columns[index],
            one_line(str(frame.dtypes[index]), MAX_CELL_CHARS),
            frame.height,
            head=head.column(index),
            missing_text="null",
            facts=facts[index],
        )
        for index in range(column_count)
    ]
