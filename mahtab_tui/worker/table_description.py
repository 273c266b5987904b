"""Describes tables, arrays and tensors for a model, similar to ``df.dtypes`` and ``df.head(3)``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from .column_facts import (
    COMMONEST_VALUES,
    MAX_LISTED_VALUES,
    ColumnFacts,
    facts_text,
    number_text,
)
from .column_readers import ColumnReader, arrow_reader, pandas_reader, polars_reader, read_columns
from .inspection.children import (
    SEQUENCES,
    describe_type,
    literal,
    short_key,
    short_value,
)
from .inspection.columns import Column, cell_text
from .inspection.library_columns import column_of, dtype_text, has_foreign_zone
from .inspection.tables import as_table
from .objects import (
    SCALARS,
    as_library_type,
    is_from,
    is_one_of,
    is_own_column,
    is_own_index,
    is_own_type,
)
from .variables import HIDDEN_VALUE, looks_secret, one_line, safe_length, summary, type_name

_ROWS = 2
_ROW_WIDTH = 200
_SHORT_ROW_WIDTH = 100
_SHORTEST_ROW_WIDTH = 60
"""For tables with many columns, whose facts say more than their first rows."""
_CELL_WIDTH = 40
_MAX_COLUMNS = 60
_MAX_TABLE_CHARS = 950
"""Characters of a description with details of the values, about 280 tokens."""
_MIN_LINES_LIMIT = 400
"""Below this limit of characters, a table is described in one line."""
_MAX_ARRAY_ITEMS = 10_000_000
"""Items of an array whose range is computed."""
_FIRST_ITEMS = 10
_GAP = "  "
"""Between the columns of the first rows."""
_KEY_NAME = re.compile(r"(?:^|[_\W])(?i:id|key|code|number|no|nr)$|[a-z]I[Dd]$")


def describe_table(name: str, value: Any, limit: int) -> list[str] | None:
    """Describe an object of a known library in lines, with as many details as fit in `limit`
    characters; None for other objects. May raise anything."""
    kind = type_name(value)
    value = as_library_type(value)
    if is_one_of(value, "pandas", "DataFrame", "Series") and all(map(is_own_index, value.axes)):
        if value.ndim == 2:
            return _frame_lines(name, kind, value, limit)
        return _series_lines(name, kind, value, limit)
    if is_own_index(value):
        title = f"{name}: {kind}, {_many(len(value), 'items')}{_index_words(value)}"
        return [title, *_first_line(_row_labels(value[:_FIRST_ITEMS]), len(value))]
    if is_one_of(value, "polars", "DataFrame", "Series") or is_one_of(value, "pyarrow", "Table"):
        return _typed_lines(name, kind, value, limit)
    return _array_lines(name, kind, value) if is_one_of(value, "numpy", "ndarray") else None


# Tables of any library


class _Column(NamedTuple):
    label: str
    type: str
    cells: Sequence[str]
    """The texts of its first values."""
    facts: ColumnFacts | None = None


class _Detail(NamedTuple):
    """How much is said about a table."""

    row_width: int
    """Characters of a row of its head."""
    max_values: int
    """Different values of a column up to which all are listed."""
    values_width: int
    """Characters of that list."""
    commonest_width: int
    """Characters of the commonest values, if not all are listed."""

    def facts_text(self, column: _Column) -> str:
        if column.facts is None:
            return ""
        return facts_text(column.facts, self.max_values, self.values_width, self.commonest_width)


_DETAILS = (
    _Detail(_ROW_WIDTH, MAX_LISTED_VALUES, 400, 70),
    _Detail(_SHORT_ROW_WIDTH, MAX_LISTED_VALUES, 400, 70),
    _Detail(_SHORT_ROW_WIDTH, MAX_LISTED_VALUES, 150, 40),
    _Detail(_SHORTEST_ROW_WIDTH, MAX_LISTED_VALUES, 90, 0),
    _Detail(_SHORTEST_ROW_WIDTH, COMMONEST_VALUES, 50, 0),
    _Detail(_SHORTEST_ROW_WIDTH, 0, 0, 0),
)
"""The most detailed first."""


def _table_lines(
    title: str,
    head: str,
    columns: Sequence[_Column],
    column_count: int,
    limit: int,
    row_labels: Sequence[str] = (),
) -> list[str]:
    """Describe a table with as many details as fit in `limit` characters.

    Args:
        title: The first line.
        head: The line above the first rows.
        columns: The first columns.
        column_count: The number of all columns.
        limit: Characters of the description; if few, it is one line.
        row_labels: The labels of the first rows.
    """
    if limit < _MIN_LINES_LIMIT:
        return [_table_line(title, columns, column_count)]

    more_columns = _more_columns(columns, column_count)
    rows: list[str] = []
    for detail in _DETAILS:
        rows = _head_lines(head, columns, column_count, row_labels, detail.row_width)
        lines = [title, *_column_lines(columns, detail), *more_columns, *rows]
        if _count_chars(lines) <= min(limit, _MAX_TABLE_CHARS):
            return lines
    names = _wrap_names([f"{column.label} {column.type}" for column in columns])
    return [title, *names, *more_columns, *rows]


def _count_chars(lines: Sequence[str]) -> int:
    newlines = len(lines) - 1
    return sum(map(len, lines)) + newlines


def _table_line(title: str, columns: Sequence[_Column], column_count: int) -> str:
    if not columns:
        return title
    words = [f"{column.label} {column.type}" for column in columns]
    words += _more_columns(columns, column_count)
    return f"{title}: {', '.join(words)}"


def _more_columns(columns: Sequence[_Column], column_count: int) -> list[str]:
    """Return a line about the columns that are not described; none if all are."""
    more = column_count - len(columns)
    return [f"... and {more:,} more columns"] if more > 0 else []


def _column_lines(columns: Sequence[_Column], detail: _Detail) -> list[str]:
    label_width = max((len(column.label) for column in columns), default=0)
    type_width = max((len(column.type) for column in columns), default=0)
    lines = []
    for column in columns:
        text = detail.facts_text(column)
        line = f"{column.label:<{label_width}}    {column.type:>{type_width}}"
        lines.append(f"{line}  {text}" if text else line)
    return lines


def _head_lines(
    head: str, columns: Sequence[_Column], column_count: int, row_labels: Sequence[str], width: int
) -> list[str]:
    """Write the first rows, with as many columns as fit next to each other."""
    if not columns or not columns[0].cells:
        return []

    available_width = width - max(map(len, row_labels), default=0)
    blocks = [[column.label, *column.cells] for column in columns]
    ends = accumulate(max(map(len, block)) + len(_GAP) for block in blocks)
    visible_columns = max(1, sum(end <= available_width for end in ends))
    blocks = blocks[:visible_columns]
    if visible_columns < column_count:
        blocks.append(["..."] * len(blocks[0]))
    if row_labels:
        blocks.insert(0, ["", *row_labels])
    return [head, *_align(blocks, left=bool(row_labels))]


def _wrap_names(words: Sequence[str]) -> list[str]:
    """Write the names and types of columns next to each other."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 2 <= _ROW_WIDTH:
            lines[-1] += f", {word}"
        else:
            lines.append(f"{'  ' if lines else 'Columns: '}{word}")
    return lines


def _align(blocks: Sequence[Sequence[str]], *, left: bool) -> list[str]:
    """Write columns of equal length next to each other, to the right; left: not the first."""
    specs = [f">{max(map(len, block))}" for block in blocks]
    if left:
        specs[0] = specs[0].replace(">", "<")
    return [_GAP.join(map(format, row, specs)).rstrip() for row in zip(*blocks)]


def _many(count: int, unit: str) -> str:
    return f"{count:,} {unit[:-1] if count == 1 else unit}"


def _literal(label: Any) -> str:
    return literal(label, _CELL_WIDTH) if type(label) is str else _label(label)


def _column(
    label: Any,
    dtype: str,
    rows: int,
    column: Column | None = None,
    missing_text: str = "",
    facts: ColumnFacts | None = None,
) -> _Column:
    """Describe a column, without its values if its name is that of a secret.

    Args:
        rows: The number of all rows.
        column: Reads the first rows; None if that would run the user's code.
        missing_text: Stands for a missing value.
        facts: What is known about all rows.
    """
    name = _label(label)
    visible_rows = min(rows, _ROWS)
    if column is None:
        return _Column(name, dtype, ["…"] * visible_rows, facts)
    is_number = column.right
    if looks_secret(name) and not is_number:
        if facts is not None:
            facts = ColumnFacts(facts.rows, facts.is_complete, facts.missing)
        return _Column(name, dtype, [HIDDEN_VALUE] * visible_rows, facts)
    return _Column(name, dtype, _cells(column, visible_rows, missing_text), facts)


def _cells(column: Column, rows: int, missing_text: str) -> list[str]:
    if type(column) is Column:
        return [_cell(column.value(row)) for row in range(rows)]
    texts = column.texts(range(rows))
    return [missing_text if text is None else one_line(text, _CELL_WIDTH) for text in texts]


def _cell(value: Any) -> str:
    text = cell_text(value)
    if value is None or type(value) is str:
        text = str(value)
    elif type(value) is dict or type(value) in SEQUENCES:
        text = short_value(value)
    elif text is None:
        return "NaN"
    elif is_one_of(value, "pandas", "Interval"):
        # Its time zone may be the user's.
        text = describe_type(value) if is_one_of(value.left, "pandas", "Timestamp") else text
    elif type(value) not in SCALARS and (not summary(value) or safe_length(value) is not None):
        is_moment = is_one_of(value, "pandas", "Timestamp", "Timedelta", "Period")
        text = text if is_moment else describe_type(value)
    return one_line(text, _CELL_WIDTH)


def _label(label: Any) -> str:
    if type(label) is str and label and label == label.strip():
        return one_line(label, _CELL_WIDTH)
    written = short_key(label) if type(label) is str or type(label) is tuple else _cell(label)
    return one_line(written, _CELL_WIDTH)


def _first_line(texts: Sequence[str], size: int) -> list[str]:
    more = ", ..." if size > len(texts) else ""
    return [f"first values: {', '.join(texts)}{more}"] if texts else []


# pandas


def _frame_lines(name: str, kind: str, value: Any, limit: int) -> list[str]:
    rows, column_count = value.shape
    is_nested = is_one_of(value.columns, "pandas", "MultiIndex")
    levels = value.columns.levels if is_nested else [value.columns]
    labels: list[Any] = []
    # A label with a time zone of the user's would run its code.
    if not any(has_foreign_zone(level.dtype) for level in levels):
        labels = value.columns[:_MAX_COLUMNS].tolist()

    index_words = _index_words(value.index)
    if is_nested:
        index_words += f", columns: MultiIndex of {len(levels)} levels"
    elif labels and type(labels[0]) is not str:
        index_words += f", column labels: {type_name(labels[0])}"
    size = f"{_many(rows, 'rows')} x {_many(column_count, 'columns')}"
    return _table_lines(
        f"{name}: {kind}, {size}{index_words}",
        f"{name}.head({_ROWS}):",
        _frame_columns(value, labels, limit),
        column_count,
        limit,
        _row_labels(value.index[:_ROWS]),
    )


def _frame_columns(value: Any, labels: Sequence[Any], limit: int) -> list[_Column]:
    arrays = [value._mgr.blocks[value._mgr.blknos[at]].values for at in range(len(labels))]
    # Not even a Series of the user's own array can be created without running its code.
    columns = [
        value.iloc[:, at] if is_from(array, "numpy", "pandas") else None
        for at, array in enumerate(arrays)
    ]
    all_facts = _read_facts(columns, limit)
    return [
        _column(label, f"<{type_name(array)}>", len(value))
        if series is None
        else _pandas_column(label, series, facts)
        for label, array, series, facts in zip(labels, arrays, columns, all_facts)
    ]


def _read_facts(columns: Sequence[Any], limit: int) -> list[ColumnFacts | None]:
    """Read Series of pandas; None for what is not one, and for all if the description is a line,
    which has no place for facts."""
    if limit < _MIN_LINES_LIMIT:
        return [None] * len(columns)
    readers = [
        pandas_reader(series, is_key=_is_key_name(series.name))
        if series is not None and _is_readable(series)
        else None
        for series in columns
    ]
    return read_columns(readers)


def _is_key_name(label: Any) -> bool:
    if type(label) is not str:
        return False
    return _KEY_NAME.search(label[-_CELL_WIDTH:]) is not None


def _pandas_column(label: Any, series: Any, facts: ColumnFacts | None) -> _Column:
    dtype = _pandas_type(series)
    rows = len(series)
    if not _is_readable(series):
        return _column(label, dtype, rows)
    missing_text = "NaT" if dtype.startswith(("datetime64", "timedelta64", "period")) else "NaN"
    return _column(label, dtype, rows, column_of(series.iloc[:_ROWS]), missing_text, facts)


def _is_readable(series: Any) -> bool:
    """Return whether reading the values runs no user code."""
    if not is_own_column(series):
        return False
    dtype = series.dtype
    if is_one_of(dtype, "pandas", "ArrowDtype"):
        return bool(_arrow_type(dtype.pyarrow_dtype))
    if is_one_of(dtype, "pandas", "CategoricalDtype"):
        index = dtype.categories
        return is_own_index(index) and _is_readable(index) and not has_foreign_zone(index.dtype)
    if is_one_of(dtype, "pandas", "IntervalDtype"):
        return is_own_type(dtype.subtype) and not has_foreign_zone(dtype.subtype)
    return not is_one_of(dtype, "pandas", "SparseDtype")


def _pandas_type(series: Any) -> str:
    if not is_own_column(series):
        return f"<{type_name(series._values)}>"
    if is_one_of(series.dtype, "pandas", "ArrowDtype"):
        inner = series.dtype.pyarrow_dtype
        return f"{_arrow_type(inner) or f'<{type_name(inner)}>'}[pyarrow]"
    return one_line(dtype_text(series.dtype), _CELL_WIDTH)


def _row_labels(index: Any) -> list[str]:
    if is_one_of(index, "pandas", "MultiIndex"):
        levels = [_row_labels(index.get_level_values(at)) for at in range(index.nlevels)]
        return [", ".join(texts) for texts in zip(*levels)]
    if not _is_readable(index):
        return ["…"] * len(index)
    if type(index.name) is str and looks_secret(index.name):
        return [HIDDEN_VALUE] * len(index)
    return _cells(column_of(index), len(index), "NaN")


def _index_words(index: Any) -> str:
    if is_one_of(index, "pandas", "MultiIndex"):
        words = ("None" if name is None else _literal(name) for name in index.names)
        return f", MultiIndex ({', '.join(words)})"
    names = [_label(name) for name in index.names if name is not None]
    if is_one_of(index, "pandas", "RangeIndex") and not names:
        return ""
    return f", index: {' '.join([*names, dtype_text(index.dtype)])}"


def _series_lines(name: str, kind: str, value: Any, limit: int) -> list[str]:
    [facts] = _read_facts([value], limit)
    column = _pandas_column(value.name, value, facts)
    label = "" if value.name is None else f", name {_literal(value.name)}"
    words = f"{column.type}{label}{_index_words(value.index)}"
    lines = [f"{name}: {kind}, {_many(len(value), 'rows')}, {words}"]
    if not len(value) or limit < _MIN_LINES_LIMIT:
        return lines
    if text := _DETAILS[0].facts_text(column):
        lines.append(text)
    head = _align([_row_labels(value.index[:_ROWS]), column.cells], left=True)
    return [*lines, f"{name}.head({_ROWS}):", *head]


# polars and Arrow


def _typed_lines(name: str, kind: str, value: Any, limit: int) -> list[str]:
    is_arrow = is_one_of(value, "pyarrow", "Table")
    library = "pyarrow" if is_arrow else "polars"
    if is_one_of(value, "polars", "Series"):
        value = value.to_frame()
    rows, width = value.shape
    title = f"{name}: {library} {kind}, {_many(rows, 'rows')} x {_many(width, 'columns')}"
    columns = _arrow_columns(value, limit) if is_arrow else _polars_columns(value, limit)
    if limit < _MIN_LINES_LIMIT:
        return [_table_line(title, columns, width)]

    more_columns = _more_columns(columns, width)
    lines: list[str] = []
    for detail in _DETAILS:
        lines = [title, *(_typed_line(column, detail) for column in columns), *more_columns]
        if _count_chars(lines) <= min(limit, _MAX_TABLE_CHARS):
            break
    return lines


def _typed_line(column: _Column, detail: _Detail) -> str:
    text = detail.facts_text(column)
    line = f"{column.label} {column.type}: {', '.join(column.cells)}"
    return f"{line}  {text}" if text else line


def _arrow_columns(value: Any, limit: int) -> list[_Column]:
    head: Any = as_table(value.slice(0, _ROWS))
    width = min(value.num_columns, _MAX_COLUMNS)
    types = value.schema.types[:width]
    type_texts = [_arrow_type(dtype) for dtype in types]
    readers: list[ColumnReader | None] = [None] * width
    if limit >= _MIN_LINES_LIMIT:
        readers = [
            arrow_reader(value.column(at)) if text else None for at, text in enumerate(type_texts)
        ]
    facts = read_columns(readers)
    return [
        _column(
            value.column_names[at],
            text or type_name(types[at]),
            len(value),
            head.column(at) if text else None,
            "null",
            facts[at],
        )
        for at, text in enumerate(type_texts)
    ]


def _polars_columns(value: Any, limit: int) -> list[_Column]:
    head: Any = as_table(value.slice(0, _ROWS))
    width = min(value.width, _MAX_COLUMNS)
    readers: list[ColumnReader | None] = [None] * width
    if limit >= _MIN_LINES_LIMIT:
        readers = [polars_reader(value.to_series(at)) for at in range(width)]
    facts = read_columns(readers)
    return [
        _column(
            value.columns[at],
            one_line(str(value.dtypes[at]), _CELL_WIDTH),
            value.height,
            head.column(at),
            "null",
            facts[at],
        )
        for at in range(width)
    ]


def _arrow_type(dtype: Any) -> str:
    """Format a type of Arrow; empty if it, or a type in it, is not the library's own."""
    if not is_from(dtype, "pyarrow"):
        return ""
    is_own = all(_arrow_type(dtype.field(at).type) for at in range(dtype.num_fields))
    return one_line(str(dtype), _CELL_WIDTH) if is_own else ""


# Arrays


def _array_lines(name: str, kind: str, value: Any) -> list[str]:
    dtype = one_line(str(value.dtype), _ROW_WIDTH)
    lines = [f"{name}: {kind}, {dtype}, shape {value.shape}{_extent(value)}"]
    if not value.ndim:
        return [*lines, f"value: {_item(value.tolist())}"]
    if not value.size:
        return lines
    first = value[(0,) * (value.ndim - 1)][:_FIRST_ITEMS]
    return [*lines, *_first_line(list(map(_item, first.tolist())), value.size)]


def _extent(value: Any) -> str:
    """Say what the smallest and the largest number are, and how many are missing."""
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


def _item(item: Any) -> str:
    if type(item) is float:
        return f"{item:.6g}"
    return f"({', '.join(map(_item, item))})" if type(item) is tuple else _literal(item)
